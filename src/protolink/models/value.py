"""Values of the hot path: frozen for readers and type checkers, cheap to make.

``@dataclass(frozen=True)`` sets every field through ``object.__setattr__``, which costs some microseconds for each of
the dozens of facts and commands of a turn. These values are never changed either, and the type checker says so; only
the interpreter does not enforce it. Public values that applications hold stay really frozen.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar, dataclass_transform

T = TypeVar("T")


@dataclass_transform(frozen_default=True)
def value(cls: type[T]) -> type[T]:
    """A dataclass with slots, equality and a hash by its fields, not to be changed."""
    return dataclass(slots=True, unsafe_hash=True)(cls)
