"""Serving agents to others."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._lazy import by_name, loader

_HOMES = {
    "agent_server": ("AgentServer",),
    "served": ("Served",),
}

__all__ = [
    "AgentServer",
    "Served",
]

if TYPE_CHECKING:
    from .agent_server import AgentServer
    from .served import Served

__getattr__, __dir__ = loader(__name__, by_name(_HOMES), globals())
