"""How one member of a record is normalized, and how records are made of such members.

A rule turns a value into what is compared. Nothing is changed in place: records share what no rule touches with the
report they come from.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .identity import Identities, Sequence

Rule = Callable[[Identities, Any], Any]
Shape = dict[str, Rule]

TIME = "<time>"
RUNTIME_LIMIT = "max_runtime_seconds"
_TIMED_TEXTS = (f"Run budget exceeded: {RUNTIME_LIMIT}", f"Run budget nearly used up: {RUNTIME_LIMIT}")


def walk(shape: Shape, ids: Identities, record: Any) -> Any:
    """The record with its listed members normalized; the record itself when that changes nothing.

    Members are taken in the order of the shape, never of the data, so that identities are numbered alike however a
    record was sorted.
    """
    if type(record) is not dict:
        return record
    found = record
    for key, rule in shape.items():
        if key in record:
            before = record[key]
            after = rule(ids, before)
            if after is not before:
                if found is record:
                    found = record.copy()
                found[key] = after
    return found


def identity(kind: str) -> Rule:
    """An id of the runtime."""

    def rule(ids: Identities, value: Any) -> Any:
        return ids.of(kind, value)

    return rule


def record(shape: Shape) -> Rule:
    """A record of this shape."""

    def rule(ids: Identities, value: Any) -> Any:
        return walk(shape, ids, value)

    return rule


def each(inner: Rule) -> Rule:
    """A list of fixed order."""

    def rule(ids: Identities, value: Any) -> Any:
        return [inner(ids, item) for item in value] if type(value) is list else value

    return rule


def story(inner: Rule) -> Rule:
    """A list that is aligned by content."""

    def rule(ids: Identities, value: Any) -> Any:
        return Sequence([inner(ids, item) for item in value]) if type(value) is list else value

    return rule


def time(ids: Identities, value: Any) -> Any:
    """A moment. None stays: that there is none tells something."""
    return value if value is None else TIME


def counter(ids: Identities, value: Any) -> Any:
    """A number that a sink gave, or has not given yet."""
    return None


def timing(ids: Identities, value: Any) -> Any:
    """How long something took."""
    return 0 if type(value) in (int, float) else value


def message(ids: Identities, value: Any) -> Any:
    """A text that may be about the time limit, and then shows how long the run took."""
    if type(value) is str:
        for known in _TIMED_TEXTS:
            if value.startswith(known):
                return known
    return value
