"""Identifiers that differ from run to run, and lists whose order is a story.

The value of a runtime id says nothing; which places share it says much: which action an event belongs to, which run is
whose child. So an id is replaced by an ``Identity``, the same one wherever the id occurs. As text all identities of a
kind are alike, so records of two runs can be recognised as the same by their text; the comparison then checks that
identities correspond one to one. Numbers would not do: one more action early in a run would renumber all later ones.
"""

from __future__ import annotations

from typing import Any


class Identity(str):
    """Stands for one id of one report. Its text is the kind, ``<action>``; people see its ``name``, ``<action:2>``."""

    __slots__ = ("name",)

    name: str


class Sequence(list[Any]):
    """A list of records that are compared by what they say, not by their position."""

    __slots__ = ()


class Identities:
    """The identities of one report, numbered by first appearance within their kind, and every place they stand at."""

    def __init__(self) -> None:
        self.places: list[tuple[dict[str, Any] | list[Any], Any]] = []
        self._known: dict[tuple[str, str], Identity] = {}
        self._count: dict[str, int] = {}

    def put(self, kind: str, container: dict[str, Any] | list[Any], key: Any) -> None:
        """Replace the id at this place. What is no nonempty text stays: there is no identity in it."""
        value = container[key]
        if type(value) is not str or not value:
            return
        found = self._known.get((kind, value))
        if found is None:
            found = Identity(f"<{kind}>")
            self._count[kind] = number = self._count.get(kind, 0) + 1
            found.name = f"<{kind}:{number}>"
            self._known[kind, value] = found
        container[key] = found
        self.places.append((container, key))

    def named(self) -> None:
        """Put the visible names in place of all identities."""
        for container, key in self.places:
            container[key] = container[key].name
