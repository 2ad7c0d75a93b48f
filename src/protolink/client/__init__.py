"""Giving work to agents at other addresses."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._lazy import by_name, loader

_HOMES = {
    "agent_client": ("AgentClient",),
    "peer": ("AgentPeer",),
    "sync": ("SyncAgentClient",),
}

__all__ = [
    "AgentClient",
    "AgentPeer",
    "SyncAgentClient",
]

if TYPE_CHECKING:
    from .agent_client import AgentClient
    from .peer import AgentPeer
    from .sync import SyncAgentClient

__getattr__, __dir__ = loader(__name__, by_name(_HOMES), globals())
