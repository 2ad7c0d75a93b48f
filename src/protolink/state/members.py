"""Checks that the JSON forms of this package share."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from ..models.shape import mapping


def members(data: Any, cls: type[Any], what: str) -> dict[str, Any]:
    """The members of a JSON object, all of them fields of ``cls``. ValueError names what is not."""
    found = dict(mapping(data, what))
    if unknown := sorted(map(str, found.keys() - {item.name for item in fields(cls)})):
        raise ValueError(f"{what} has no member {', '.join(unknown)}")
    return found


def check_session(session_id: Any) -> None:
    """ValueError for what cannot be a session's id; None is allowed."""
    if session_id is not None and (not isinstance(session_id, str) or not session_id.strip()):
        raise ValueError("session_id must be nonblank text, or None")


def check_count(name: str, value: Any) -> None:
    """ValueError for what is no whole number of at least 0."""
    if type(value) is not int or value < 0:
        raise ValueError(f"{name} must be a whole number of 0 or more")
