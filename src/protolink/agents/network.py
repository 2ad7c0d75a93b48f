"""An agent's place among others: the server that answers for it, and the registry that tells it of its peers."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Container, Mapping
from contextlib import aclosing
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from .. import client, discovery, server, transport
from .._lazy import Later
from ..errors import AgentNotFoundError, ProtolinkError
from ..models import AgentCard, Task
from ..transport.loops import call_in

if TYPE_CHECKING:
    from ..client import AgentPeer
    from ..runtime import EventSink
    from . import peers, remote
    from .agent import Agent
    from .peers import RemotePeer
else:
    peers = Later(".peers", __package__)
    remote = Later(".remote", __package__)

_log = logging.getLogger("protolink.network")

#: Seconds for which a stopping agent waits for peers that it has asked to cancel.
SETTLE_SECONDS = 5.0


class Network:
    """Nothing is started before ``start``; without a transport there is nothing to start.

    ``discovery_ttl``: seconds for which an answer of the registry is used again. ``registry_heartbeat_interval``:
    seconds between two signs of life to the registry; None sends none.
    """

    def __init__(
        self,
        agent: Agent,
        place: Any,
        registry: Any,
        registry_url: str | None,
        *,
        discovery_ttl: float,
        registry_heartbeat_interval: float | None,
    ) -> None:
        self._agent = agent
        self.transport = None if place is None else transport.transport_for(place, agent.card.url, serves=True)
        self.registry: discovery.Registry | discovery.RegistryClient | None = _registry(registry, registry_url)
        self.discovery_ttl = discovery_ttl
        self.registry_heartbeat_interval = registry_heartbeat_interval
        self._server: server.AgentServer | None = None
        self._clients: dict[str, client.AgentClient] = {}
        self._known: dict[str, AgentCard] = {}
        self._known_until = 0.0
        self._beating: asyncio.Task[None] | None = None
        self._later: set[asyncio.Task[Any]] = set()

    # ------------------------------------------------------------------------------------------------ being reached

    @property
    def started(self) -> bool:
        return self._server is not None and self._server.running

    async def start(self, register: bool = True) -> None:
        """Serve, wait until the card can be had, and register it. All or nothing. Harmless again."""
        if self.transport is None or self.started:
            return
        await self.stop()  # of an event loop that has ended meanwhile
        self._server = server.AgentServer(self._agent, self.transport)
        try:
            await self._server.start()
            await self.client_at(self._agent.card.url).get_agent_card(self._agent.card.url)
            if register and self.registry is not None:
                await self.register()
        except BaseException:
            await self.stop()
            raise

    async def stop(self) -> None:
        """Leave the registry, end what runs here and stop serving. Harmless again."""
        try:
            if self._beating is not None:
                await self._unregistered()
        finally:
            serving, self._server = self._server, None
            if serving is not None:
                await serving.stop()
        await self._settle()

    async def register(self) -> None:
        """Tell the registry the card, and from then on that the agent lives. RuntimeError without a registry."""
        await self._asked().register(self._agent.card)
        if self._beating is None or self._beating.done():
            self._beating = asyncio.get_running_loop().create_task(self._beat())

    async def unregister(self) -> None:
        """Take the card back. RuntimeError without a registry."""
        self._beat_no_more()
        await self._asked().unregister(self._agent.card.url)

    async def _unregistered(self) -> None:
        try:
            await self.unregister()
        except ProtolinkError as error:  # the agent stops all the same; the registry forgets it by its age
            _log.warning("'%s' could not leave its registry: %s", self._agent.name, error)

    def _beat_no_more(self) -> None:
        beating, self._beating = self._beating, None
        if beating is None:
            return
        if beating.get_loop() is asyncio.get_running_loop():
            beating.cancel()
        else:
            call_in(beating.get_loop(), beating.cancel)

    async def _beat(self) -> None:
        """Signs of life. A registry that has forgotten the agent is told its card again."""
        clock, registry, card = self._agent.clock, self._asked(), self._agent.card
        while self.registry_heartbeat_interval is not None:
            await clock.sleep_until(clock.now() + self.registry_heartbeat_interval)
            try:
                try:
                    await registry.heartbeat(card.url)
                except AgentNotFoundError:
                    await registry.register(card)
            except Exception as error:  # the registry is away or broken; the next sign may reach it
                _log.warning("'%s' could not reach its registry: %s", self._agent.name, error)

    # ------------------------------------------------------------------------------------------------ reaching others

    @property
    def discovers(self) -> bool:
        """Whether there is a registry to ask."""
        return self.registry is not None

    def client_at(self, url: str) -> client.AgentClient:
        """A client for that address: on the agent's own transport where it speaks the scheme, else on another."""
        scheme = urlsplit(url).scheme
        found = self._clients.get(scheme)
        if found is None:
            own = self.transport
            way = own if own is not None and scheme in own.schemes else transport.transport_name(url)
            found = self._clients[scheme] = client.AgentClient(way)
        return found

    def peer(self, target: str | AgentCard) -> AgentPeer:
        return client.AgentPeer(self.client_at, target, self.registry)

    async def call(self, url: str, task: Task, sink: EventSink | None) -> Task:
        """Have the agent at ``url`` do the task."""
        peer = remote.RemoteAgent(self.client_at(url), url, self._known.get(url))
        async with aclosing(peer.events(task)) as events:
            async for event in events:
                if sink is not None:
                    await sink.emit(event)
        return task

    def cancel_later(self, url: str, task: Task, reason: str) -> None:
        """Ask the agent at ``url`` to cancel the task, without waiting for it; that it fails changes nothing here."""
        asking = asyncio.get_running_loop().create_task(self._cancel(url, task, reason))
        self._later.add(asking)
        asking.add_done_callback(self._later.discard)

    async def _cancel(self, url: str, task: Task, reason: str) -> None:
        try:
            await remote.RemoteAgent(self.client_at(url), url).cancel_now(task, reason)
        except Exception as error:  # the caller has ended; the peer goes on and its end is its own
            _log.warning("Task '%s' could not be canceled at %s: %s", task.id, url, error)

    async def discover(self, *wanted: Any, **named: Any) -> list[AgentCard]:
        """The cards that the registry knows. RuntimeError without a registry."""
        return await self._asked().discover(*wanted, **named)

    async def peers(self, taken: Container[str]) -> Mapping[str, RemotePeer]:
        """The agents that the registry knows now, by name, without this one and the names that are ``taken``.

        Of two with one name it is the first that registered; a name that cannot be printed is nobody's. A registry that
        is away, or silent for its ``discovery_timeout``, is logged: whoever does not delegate needs none.
        """
        await self._refresh()
        found: dict[str, RemotePeer] = {}
        for card in self._known.values():
            known = card.name in found or card.name in taken or self._is_own(card.url)
            if not known and card.name.isprintable() and self._reaches(card):
                found[card.name] = peers.RemotePeer(card, self._agent)
        return found

    def _is_own(self, url: str) -> bool:
        return url.rstrip("/") == self._agent.card.url.rstrip("/")

    def _reaches(self, card: AgentCard) -> bool:
        try:
            self.client_at(card.url)
        except (ValueError, NotImplementedError) as error:
            _log.info("'%s' cannot reach its peer '%s': %s", self._agent.name, card.name, error)
            return False
        return True

    async def _refresh(self) -> None:
        now = self._agent.clock.now()
        if now < self._known_until:
            return
        registry = self._asked()
        seconds = registry.discovery_timeout
        try:
            async with asyncio.timeout(seconds):
                self._known = {card.url: card for card in await registry.discover()}
        except (ProtolinkError, TimeoutError) as error:
            why = str(error) or f"no answer within {seconds} seconds"
            text = "'%s' could not ask its registry for peers, and goes on without them: %s"
            _log.warning(text, self._agent.name, why)
            self._known = {}
        self._known_until = now + self.discovery_ttl

    async def _settle(self) -> None:
        """Wait for the cancellations that were asked for in this loop; what is late is dropped."""
        asked = [task for task in list(self._later) if task.get_loop() is asyncio.get_running_loop()]
        if asked:
            await asyncio.wait(asked, timeout=SETTLE_SECONDS)
        for task in asked:
            task.cancel()

    def _asked(self) -> discovery.Registry | discovery.RegistryClient:
        if self.registry is None:
            raise RuntimeError(f"Agent '{self._agent.name}' has no registry; give one with registry=")
        return self.registry


def _registry(registry: Any, url: str | None) -> Any:
    """A Registry or RegistryClient as it is; the name of a transport makes a client of the registry at ``url``."""
    if registry is None and url is None:
        return None
    if isinstance(registry, (discovery.Registry, discovery.RegistryClient)):
        if url is not None:
            raise ValueError("registry_url goes with the name of a transport: registry='http', registry_url=...")
        return registry
    if not isinstance(registry, str):
        raise TypeError(f"registry must be a Registry, a RegistryClient or a name, not {type(registry).__name__}")
    if url is None:
        raise ValueError(f"registry={registry!r} needs the address of the registry as registry_url")
    return discovery.RegistryClient(transport.transport_for(registry, url))
