"""Storage: one JSON value under one name."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any


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

    @abstractmethod
    def delete(self) -> None:
        """Forget the value. Harmless when there is none."""
