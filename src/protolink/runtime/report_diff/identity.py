"""Identifiers that differ from run to run, and lists whose order is a story.

The value of a runtime id says nothing; which places share it says much: which action an event belongs to, which run is
whose child. So an id is replaced by an ``Identity``, the same one wherever the id occurs. As text all identities of a
kind are alike, so records of two runs can be recognised as the same by their text; the comparison then checks that
identities correspond one to one. Numbers would not do: one more action early in a run would renumber all later ones.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any


class Identity(str):
    """Stands for one id of one report. Its text is the kind, ``<action>``; people see its ``name``, ``<action:2>``."""

    __slots__ = ("name",)

    name: str


class Sequence(list[Any]):
    """A list of records that are compared by what they say, not by their position."""

    __slots__ = ()


class Identities:
    """The identities of one report. ``met`` has one for every id that was replaced, in the order of reading."""

    __slots__ = ("_known", "met")

    def __init__(self) -> None:
        self.met: list[Identity] = []
        self._known: defaultdict[str, dict[str, Identity]] = defaultdict(dict)

    def of(self, kind: str, value: Any) -> Any:
        """The identity of an id, numbered by first appearance in its kind. What is no nonempty text has none."""
        if type(value) is not str or not value:
            return value
        known = self._known[kind]
        found = known.get(value)
        if found is None:
            found = known[value] = Identity(f"<{kind}>")
            found.name = f"<{kind}:{len(known)}>"
        self.met.append(found)
        return found


def shown(value: Any) -> Any:
    """A value as people see it: detached JSON with the names of identities."""
    if isinstance(value, Identity):
        return value.name
    if isinstance(value, dict):
        return {key: shown(item) for key, item in value.items()}
    if isinstance(value, list):
        return [shown(item) for item in value]
    return value
