"""Registry: agents announce themselves, others find them by name, role or tags."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from ..drive.clock import SystemClock
from ..drive.ports import Clock
from ..models import AgentCard
from ..models.shape import mapping, required_text
from ..storage import Storage
from ..transport import RouteCall, Routes, Transport, transport_for
from ..transport.faults import bad_request
from ..transport.request import AGENT_HEARTBEAT, LIST_AGENTS, REGISTER_AGENT, UNREGISTER_AGENT
from .entries import Entries, RegistryEntry
from .filters import Filter

T = TypeVar("T")

DEFAULT_URL = "runtime://registry"


class Registry:
    """Usable as it is in one process; after ``start`` also through a RegistryClient at ``url``.

    ``entry_ttl_seconds``: an agent that neither registers nor sends a heartbeat for so long is forgotten; None keeps
    all. ``storage``: where the entries outlive the process.
    ``url`` None is ``runtime://registry`` for the runtime transport. There is no registry but those that you make.
    ValueError for a storage that holds something else.
    """

    #: Seconds that the start of an agent's run waits to be told of its peers, as with a RegistryClient.
    discovery_timeout: float | None = 5.0

    def __init__(
        self,
        transport: Transport | str = "runtime",
        url: str | None = None,
        *,
        entry_ttl_seconds: float | None = None,
        storage: Storage | None = None,
        clock: Clock | None = None,
    ) -> None:
        if transport == "runtime" and url is None:
            url = DEFAULT_URL
        self.transport = transport_for(transport, url, serves=True)
        self._entries = Entries(entry_ttl_seconds, storage, clock or SystemClock())
        self.routes = Routes()
        self.routes.add(REGISTER_AGENT, self._register)
        self.routes.add(LIST_AGENTS, self._list)
        self.routes.add(AGENT_HEARTBEAT, self._heartbeat)
        self.routes.add(UNREGISTER_AGENT, self._unregister)
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def url(self) -> str:
        """Where clients find it."""
        assert self.transport.url is not None
        return self.transport.url

    async def start(self) -> None:
        """Serve in the running loop. Harmless again. TransportConnectionError when the address is taken."""
        if self._loop is not None and self._loop.is_running():
            return
        await self.stop()  # of an event loop that has ended meanwhile
        self.transport.setup_routes(self.routes)
        await self.transport.start()
        self._loop = asyncio.get_running_loop()

    async def stop(self) -> None:
        """Serve no more; the entries stay. Harmless again."""
        if self._loop is not None:
            self._loop = None
            await self.transport.stop()

    # ------------------------------------------------------------------------------------------------ entries

    async def register(self, card: AgentCard) -> None:
        """Announce an agent, or renew what is known of the one at this url."""
        if not isinstance(card, AgentCard):
            raise TypeError(f"an agent registers its AgentCard, not {type(card).__name__}")
        self._entries.put(AgentCard.from_dict(card.to_dict()))  # a copy: what the agent changes later is its own

    async def unregister(self, url: str) -> None:
        """Take an agent off. Harmless when it is not there."""
        self._entries.remove(url)

    async def heartbeat(self, url: str) -> None:
        """The agent lives. AgentNotFoundError when it has to register (again)."""
        self._entries.seen(url)

    async def discover(
        self,
        filter_by: Mapping[str, Any] | None = None,
        *,
        name: str | None = None,
        role: str | None = None,
        tags: Sequence[str] | str | None = None,
    ) -> list[AgentCard]:
        """Cards with this name, this role and all of these tags, the first registered first; all cards without any.

        ``filter_by`` is a mapping of the same three names. ValueError for other names and shapes.
        """
        return self._found(Filter.of(filter_by, name, role, tags))

    def count(self) -> int:
        """How many agents are registered."""
        return len(self._entries.living())

    def list_urls(self) -> list[str]:
        """Their addresses, the first registered first."""
        return [entry.card.url for entry in self._entries.living()]

    def get_entry(self, url: str) -> RegistryEntry | None:
        """What is known of the agent at this address; None when nothing is."""
        return self._entries.get(url)

    def clear(self) -> None:
        """Forget all agents."""
        self._entries.clear()

    # ------------------------------------------------------------------------------------------------ inside

    def _found(self, wanted: Filter) -> list[AgentCard]:
        cards = [entry.card for entry in self._entries.living()]
        return [AgentCard.from_dict(card.to_dict()) for card in cards if wanted.matches(card)]

    async def _register(self, call: RouteCall) -> Any:
        self._entries.put(_read(AgentCard.from_dict, call.body))
        return {"status": "agent registered successfully"}

    async def _list(self, call: RouteCall) -> Any:
        return [card.to_dict() for card in self._found(_read(Filter.from_params, call.params))]

    async def _heartbeat(self, call: RouteCall) -> Any:
        self._entries.seen(_read(_agent_url, call.body))
        return {"status": "heartbeat recorded"}

    async def _unregister(self, call: RouteCall) -> Any:
        self._entries.remove(_read(_agent_url, call.body))
        return {"status": "agent unregistered successfully"}


def _agent_url(body: Any) -> str:
    return required_text(mapping(body, "request"), "agent_url", "request")


def _read(read: Callable[[Any], T], value: Any) -> T:
    try:
        return read(value)
    except (ValueError, TypeError) as error:
        raise bad_request(str(error)) from None
