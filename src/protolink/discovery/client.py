"""RegistryClient: a registry at another address."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..errors import TransportProtocolError
from ..models import AgentCard
from ..transport import Transport, transport_for
from ..transport.config import checked_timeout
from ..transport.request import AGENT_HEARTBEAT, LIST_AGENTS, REGISTER_AGENT, UNREGISTER_AGENT
from .filters import Filter


class RegistryClient:
    """``transport``: a Transport or its name, with the registry's ``url``. The methods are those of a Registry.

    ``timeout``: seconds for an answer. ``discovery_timeout``: seconds that the start of an agent's run waits to be told
    of its peers, None for as long as ``timeout``; it begins without them then. Repetition follows the transport's
    RetryPolicy. Raises TransportError where the exchange fails.
    """

    def __init__(
        self,
        transport: Transport | str,
        url: str | None = None,
        *,
        timeout: float | None = 30.0,
        discovery_timeout: float | None = 5.0,
    ) -> None:
        self.transport = transport_for(transport, url)
        found = url or self.transport.url
        if found is None:
            raise ValueError("RegistryClient needs the url of the registry")
        self.url = found
        self.timeout = checked_timeout("RegistryClient timeout", timeout)
        self.discovery_timeout = checked_timeout("RegistryClient discovery_timeout", discovery_timeout)

    async def register(self, card: AgentCard) -> None:
        """Announce an agent, or renew what is known of the one at this url."""
        if not isinstance(card, AgentCard):
            raise TypeError(f"an agent registers its AgentCard, not {type(card).__name__}")
        await self.transport.send(REGISTER_AGENT, self.url, card, timeout=self.timeout)

    async def unregister(self, url: str) -> None:
        """Take an agent off. Harmless when it is not there."""
        await self.transport.send(UNREGISTER_AGENT, self.url, {"agent_url": url}, timeout=self.timeout)

    async def heartbeat(self, url: str) -> None:
        """The agent lives. AgentNotFoundError when it has to register (again)."""
        await self.transport.send(AGENT_HEARTBEAT, self.url, {"agent_url": url}, timeout=self.timeout)

    async def discover(
        self,
        filter_by: Mapping[str, Any] | None = None,
        *,
        name: str | None = None,
        role: str | None = None,
        tags: Sequence[str] | str | None = None,
    ) -> list[AgentCard]:
        """Cards with this name, this role and all of these tags, as ``Registry.discover``."""
        params = Filter.of(filter_by, name, role, tags).to_params()
        found = await self.transport.send(LIST_AGENTS, self.url, params=params, timeout=self.timeout)
        try:
            if not isinstance(found, list):
                raise ValueError("it is no list")
            return [AgentCard.from_dict(card) for card in found]
        except (ValueError, TypeError) as error:
            raise TransportProtocolError(f"The registry's answer cannot be read: {error}", url=self.url) from None
