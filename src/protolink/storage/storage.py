"""Storage: one JSON value under one name, and parts of it with values of their own."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any

#: Several objects may stand for one stored value, so a change by ``load`` and ``save`` has to be the only one.
_CHANGING = threading.RLock()


class Storage(ABC):
    """A value for one namespace. Blocking. What is loaded is detached: changing it changes nothing that is stored."""

    @abstractmethod
    def load(self) -> Any:
        """The stored value; None when there is none."""

    @abstractmethod
    def save(self, data: Any) -> None:
        """Store a value in place of the earlier one. TypeError when it has no JSON form; then nothing changes."""

    def update(self, data: Any) -> None:
        """The same as ``save``: the value is replaced, not merged."""
        self.save(data)

    def change(self, change: Callable[[Any], Any]) -> Any:
        """Store ``change(value)`` in place of the value, with nobody in between, and return it. None forgets the value.

        ``change`` gets None when there is no value; what it raises leaves the value as it was. Here nobody means nobody
        in this process. A storage that several processes write has to do better.
        """
        with _CHANGING:
            data = change(self.load())
            if data is None:
                self.delete()
            else:
                self.save(data)
            return data

    @abstractmethod
    def delete(self) -> None:
        """Forget the value. Harmless when there is none."""

    def part(self, name: str) -> Storage:
        """A storage of its own in this one; the same name finds the same value again.

        Here parts are the members of the value, so each change writes all of them. A storage with many parts has to do
        better.
        """
        return _Member(self, name)

    def parts(self) -> list[str]:
        """The names of the parts that have a value, the one that was written last at the end."""
        return list(_members(self.load()))


class _Member(Storage):
    """A part that is a member of a JSON object. ValueError when the whole is something else."""

    def __init__(self, whole: Storage, name: str) -> None:
        self._whole = whole
        self._name = name

    def load(self) -> Any:
        return _members(self._whole.load()).get(self._name)

    def save(self, data: Any) -> None:
        self.change(lambda value: data)

    def delete(self) -> None:
        self.change(lambda value: None)

    def change(self, change: Callable[[Any], Any]) -> Any:
        changed: list[Any] = []

        def change_whole(value: Any) -> dict[str, Any]:
            found = _members(value)
            data = change(found.pop(self._name, None))
            changed.append(data)
            return found if data is None else {**found, self._name: data}

        self._whole.change(change_whole)
        return changed[-1]


def _members(value: Any) -> dict[str, Any]:
    if value is not None and not isinstance(value, Mapping):
        raise ValueError(f"the storage holds {type(value).__name__} and has no parts")
    return dict(value or {})
