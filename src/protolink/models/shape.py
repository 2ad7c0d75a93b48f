"""Checks of JSON that came from outside. Every failure is a ValueError that names the record and the member.

Values are never part of the text: what arrives may be private.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def mapping(value: Any, what: str) -> Mapping[str, Any]:
    """``value`` when it is a JSON object."""
    if not isinstance(value, Mapping):
        raise ValueError(f"{what} must be a JSON object, not {type(value).__name__}")
    return value


def required_text(data: Mapping[str, Any], key: str, what: str) -> str:
    """A member that must be there and must not be blank."""
    if key not in data:
        raise ValueError(f"{what} needs the member '{key}'")
    found = optional_text(data, key, what)
    if found is None or not found.strip():
        raise ValueError(f"{what} member '{key}' must be nonblank text")
    return found


def optional_text(data: Mapping[str, Any], key: str, what: str) -> str | None:
    """A text member; None when it is absent or null."""
    found = data.get(key)
    if found is not None and not isinstance(found, str):
        raise ValueError(f"{what} member '{key}' must be text, not {type(found).__name__}")
    return found


def items(data: Mapping[str, Any], key: str, what: str) -> list[Any]:
    """A list member, copied; empty when it is absent or null."""
    found = data.get(key)
    if found is None:
        return []
    if not isinstance(found, (list, tuple)):
        raise ValueError(f"{what} member '{key}' must be a list, not {type(found).__name__}")
    return list(found)


def texts(data: Mapping[str, Any], key: str, what: str) -> list[str]:
    """A list of texts; empty when it is absent or null."""
    found = items(data, key, what)
    if not all(isinstance(item, str) for item in found):
        raise ValueError(f"{what} member '{key}' must be a list of texts")
    return found


def table(data: Mapping[str, Any], key: str, what: str) -> dict[str, Any]:
    """An object member, copied at its top level; empty when it is absent or null."""
    found = data.get(key)
    if found is None:
        return {}
    return dict(mapping(found, f"{what} member '{key}'"))
