"""Differences as text, and with their secrets masked."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from protolink.models import RedactionPolicy

_LONGEST = 200
_SIDES = ("baseline", "candidate")


def masked(difference: dict[str, Any], policy: RedactionPolicy | None) -> dict[str, Any]:
    """The difference with masked values. What its path leads through counts: it names the value."""
    if policy is None:
        return difference
    names = [part.replace("~1", "/").replace("~0", "~") for part in difference["path"].split("/")[1:]]
    found = {**difference, "path": policy.redact(difference["path"])}
    return found | {side: _masked_value(difference[side], names, policy) for side in _SIDES if side in difference}


def _masked_value(value: Any, names: list[str], policy: RedactionPolicy) -> Any:
    """Redact the value where it stands: inside the names above it, but without its neighbours."""
    nested = value
    for name in reversed(names):
        nested = {name: nested}
    found = policy.redact(nested)
    for _ in names:
        if not isinstance(found, dict):
            return found  # a name above masks everything below
        found = next(iter(found.values()))  # a policy may mask names as well
    return found


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
