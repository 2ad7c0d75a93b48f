"""The table of what a server answers."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping
from typing import Any, TypeAlias

from ..models.value import dataclass
from .faults import Fault
from .request import RequestSpec


@dataclass(frozen=True, slots=True)
class RouteCall:
    """A request that has been read. ``body`` is a JSON value, None when there was none; ``caller`` as in Request."""

    body: Any
    params: Mapping[str, list[str]]
    request_id: str | None = None
    idempotency_key: str | None = None
    caller: str | None = None

    @property
    def key(self) -> tuple[str | None, str] | None:
        """The idempotency key as this caller's own: others may use the same one for their work."""
        return None if self.idempotency_key is None else (self.caller, self.idempotency_key)


#: Answers with a JSON value, or raises a Fault or an error of ``protolink.errors``.
Handler: TypeAlias = Callable[[RouteCall], Awaitable[Any]]
#: Yields ``(event, final)``, events being JSON objects; the one with ``final`` comes last.
StreamHandler: TypeAlias = Callable[[RouteCall], AsyncGenerator[tuple[Any, bool], None]]


@dataclass(frozen=True, slots=True)
class Route:
    spec: RequestSpec
    handler: Handler | StreamHandler


class Routes:
    """Handlers by method and path. A slash at the end of a path makes no difference."""

    def __init__(self) -> None:
        self._routes: dict[str, dict[str, Route]] = {}

    def add(self, spec: RequestSpec, handler: Handler) -> None:
        """Answer ``spec`` with one value. ValueError when it is answered already."""
        if spec.streaming:
            raise ValueError(f"{spec.method} {spec.path} is streaming: use add_stream()")
        self._put(spec, handler)

    def add_stream(self, spec: RequestSpec, handler: StreamHandler) -> None:
        """Answer ``spec`` with events. ValueError when it is answered already."""
        if not spec.streaming:
            raise ValueError(f"{spec.method} {spec.path} is not streaming: use add()")
        self._put(spec, handler)

    def __iter__(self) -> Iterator[Route]:
        return iter([route for by_method in self._routes.values() for route in by_method.values()])

    def find(self, method: str, path: str) -> Route:
        """The route of a request. Fault ``not_found`` or ``method_not_allowed`` without one."""
        by_method = self._routes.get(_key(path))
        if by_method is None:
            raise Fault("not_found", "Nothing is served under this path")
        found = by_method.get(method)
        if found is None:
            raise Fault("method_not_allowed", f"This path takes {', '.join(sorted(by_method))} only")
        return found

    def _put(self, spec: RequestSpec, handler: Handler | StreamHandler) -> None:
        by_method = self._routes.setdefault(_key(spec.path), {})
        if spec.method in by_method:
            raise ValueError(f"{spec.method} {spec.path} is answered already")
        by_method[spec.method] = Route(spec, handler)


def _key(path: str) -> str:
    return path.rstrip("/")
