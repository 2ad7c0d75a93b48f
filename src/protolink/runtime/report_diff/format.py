"""Differences as text, and with their secrets masked."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from protolink.models import RedactionPolicy

_LONGEST = 200
_SIDES = ("baseline", "candidate")

#: Members whose neighbours may name them: ``{"name": "Authorization", "value": "..."}``.
_NAMED_BESIDE = frozenset({"value", "values"})

#: From the root to a value: the containers on the way, and the key that leads on in each. None: only the key is known.
Way = tuple[tuple[Any, Any], ...]


def masked(difference: dict[str, Any], ways: tuple[Way, Way] | None, policy: RedactionPolicy | None) -> dict[str, Any]:
    """The difference with masked values. What its path leads through counts, and what stands beside it there."""
    if policy is None:
        return difference
    found = {**difference, "path": policy.redact(difference["path"])}
    for side, way in zip(_SIDES, ways or (_named(difference["path"]),) * 2, strict=True):
        if side in difference:
            found[side] = _masked_value(difference[side], way, policy)
    return found


def _named(path: str) -> Way:
    return tuple((None, part.replace("~1", "/").replace("~0", "~")) for part in path.split("/")[1:])


def _masked_value(value: Any, way: Way, policy: RedactionPolicy) -> Any:
    """Redact the value where it stands: inside the names above it, among the texts beside it."""
    nested, steps = value, []
    for container, key in reversed(way):
        nested, position = _among(container, key, nested)
        steps.append((position, len(nested)))
    found = policy.redact(nested)
    for position, size in reversed(steps):
        if not isinstance(found, (dict, list)):
            return found  # a name above masks everything below
        if len(found) != size:
            return policy.replacement  # names were masked too, and are alike now
        found = (list(found.values()) if isinstance(found, dict) else found)[position]
    return found


def _among(container: Any, key: Any, value: Any) -> tuple[Any, int]:
    """A container of the value with the texts that may tell what it is, and the value's position in it."""
    if not isinstance(container, list):
        named = container if container and str(key).lower() in _NAMED_BESIDE else {}
        texts = {name: text for name, text in named.items() if name != key and isinstance(text, str)}
        return {**texts, key: value}, len(texts)
    if len(container) == 2:  # perhaps a name and what it names
        return [value if index == key else _text(item) for index, item in enumerate(container)], key
    return [_text(container[key - 1]) if key else None, value, None], 1  # perhaps behind a flag


def _text(item: Any) -> Any:
    return item if isinstance(item, str) else None


def render(shown: list[dict[str, Any]], total: int, changed: Sequence[str], compared: Sequence[str]) -> str:
    """A headline and a line or two for each difference."""
    if not total:
        return f"Run reports match ({_count(len(compared), 'section')} compared)"
    lines = [f"Run reports differ: {_count(total, 'difference')} in {', '.join(changed)}"]
    for difference in shown:
        lines += _lines(difference)
    if total > len(shown):
        lines.append(f"  ... and {total - len(shown)} more")
    return "\n".join(lines)


def _lines(difference: dict[str, Any]) -> list[str]:
    path = difference["path"] if difference["path"].isprintable() else json.dumps(difference["path"])
    found = [f"  {difference['kind']} {path}"]
    return found + [f"    {side}: {_short(difference[side])}" for side in _SIDES if side in difference]


def _short(value: Any) -> str:
    text = json.dumps(value, sort_keys=True, default=repr)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}... ({len(text)} characters)"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
