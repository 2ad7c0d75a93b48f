"""The state operations of a server: what an agent remembers, described, reset and compacted from elsewhere.

They show and delete conversations, so a server that others can reach over a network does them only for callers whom
its transport has made sure of. Code of the same process is trusted: it can reach the agent's memory anyway.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol, runtime_checkable

from ..transport import Routes
from ..transport.faults import Fault, bad_request
from ..transport.request import COMPACT_HISTORY, COMPACT_STATE, DESCRIBE_STATE, RESET_STATE
from ..transport.routes import Handler, RouteCall


@runtime_checkable
class Remembering(Protocol):
    """An agent with state operations. Each takes a request as a mapping and returns what has ``to_dict()``."""

    async def describe_state(self, request: Mapping[str, Any], /) -> Any: ...
    async def reset_state(self, request: Mapping[str, Any], /) -> Any: ...
    async def compact_state(self, request: Mapping[str, Any], /) -> Any: ...
    async def compact_history(self, request: Mapping[str, Any], /) -> Any: ...


def add_state_routes(routes: Routes, agent: Remembering, *, network: bool) -> None:
    """Serve the operations of an agent that has them. ``network``: callers that nobody knows are refused."""
    routes.add(DESCRIBE_STATE, _handler(agent.describe_state, network))
    routes.add(RESET_STATE, _handler(agent.reset_state, network))
    routes.add(COMPACT_STATE, _handler(agent.compact_state, network))
    routes.add(COMPACT_HISTORY, _handler(agent.compact_history, network))


def _handler(operation: Callable[[Mapping[str, Any]], Awaitable[Any]], network: bool) -> Handler:
    async def handle(call: RouteCall) -> Any:
        if network and call.caller is None:
            raise Fault("unauthenticated", "What an agent remembers is only for callers whom this server knows")
        try:
            found = await operation(_request(call.body))
        except (ValueError, TypeError) as error:
            raise bad_request(str(error)) from None
        return found.to_dict()

    return handle


def _request(body: Any) -> Mapping[str, Any]:
    if not isinstance(body, Mapping):
        raise ValueError("a state operation takes an object, as StateOperationRequest.to_dict() makes it")
    return body
