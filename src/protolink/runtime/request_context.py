"""Request context: what an application hands to its own code for one request, beside the run and never in it.

It is a context variable, so it follows the request's own coroutines and threads and nobody else's. No fact, event or
task refers to it: a run that is resumed needs a new one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NoReturn

from ..models.value import dataclass


class RequestValues(Mapping[str, Any]):
    """The values as code may read them. It tells its names and not its values, and cannot be pickled or copied."""

    __slots__ = ("_values",)

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = dict(values)

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return f"<request context: {', '.join(self._values) or 'empty'}>"

    def __reduce__(self) -> NoReturn:
        raise TypeError("a request context is private to its request and cannot be copied or stored")


@dataclass(frozen=True, slots=True)
class RequestScope:
    """What is visible now, and which names of it stay visible below."""

    values: RequestValues
    inherit: frozenset[str]

    def below(self) -> RequestScope:
        """What a child agent sees, and its own children too."""
        kept = {name: item for name, item in self.values.items() if name in self.inherit}
        return RequestScope(RequestValues(kept), self.inherit)


_EMPTY = RequestValues({})
_CURRENT: ContextVar[RequestScope | None] = ContextVar("protolink_request_context", default=None)


@contextmanager
def request_context(values: Mapping[str, Any], *, inherit: Iterable[str] = ()) -> Iterator[Mapping[str, Any]]:
    """Make ``values`` visible to everything that the runs started inside call: tools, policies, factories, handlers.

    A run keeps what it was started with, also when it outlives the block. Child agents see the names in ``inherit``
    alone. A context inside another one replaces it. TypeError for anything but a mapping with text names, ValueError
    for an ``inherit`` that names nothing.
    """
    token = _CURRENT.set(_checked(values, inherit))
    try:
        yield current_request_context()
    finally:
        _CURRENT.reset(token)


def current_request_context() -> Mapping[str, Any]:
    """The values that are visible here, read only; empty outside a request."""
    found = _CURRENT.get()
    return _EMPTY if found is None else found.values


def current_scope() -> RequestScope | None:
    """What is visible here, to be given to ``below`` elsewhere."""
    return _CURRENT.get()


@contextmanager
def below(scope: RequestScope | None) -> Iterator[None]:
    """Inside, only what child agents may see of that scope is visible."""
    token = _CURRENT.set(None if scope is None else scope.below())
    try:
        yield
    finally:
        _CURRENT.reset(token)


def _checked(values: Mapping[str, Any], inherit: Iterable[str]) -> RequestScope:
    if not isinstance(values, Mapping):
        raise TypeError(f"a request context is a mapping, not {type(values).__name__}")
    if strange := [type(name).__name__ for name in values if not isinstance(name, str)]:
        raise TypeError(f"names in a request context must be text, not {strange[0]}")
    if isinstance(inherit, str):
        raise TypeError("inherit takes several names; put the one name into a list")
    names = list(inherit)
    if unknown := [name for name in names if not isinstance(name, str) or name not in values]:
        raise ValueError(f"inherit names what is not in the request context: {', '.join(map(repr, unknown))}")
    return RequestScope(RequestValues(values), frozenset(names))
