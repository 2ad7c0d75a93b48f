"""Differences as text."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from .masking import SIDES

_LONGEST = 200


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
    return found + [f"    {side}: {_short(difference[side])}" for side in SIDES if side in difference]


def _short(value: Any) -> str:
    text = json.dumps(value, sort_keys=True, default=repr)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}... ({len(text)} characters)"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
