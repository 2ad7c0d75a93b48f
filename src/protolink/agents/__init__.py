"""Agents: a model, tools and a policy, with ways to give them work."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._lazy import by_name, loader

_HOMES = {
    "..runtime.request_context": (
        "current_request_context",
        "request_context",
    ),
    "agent": ("Agent",),
    "answers": ("AnswerEvent",),
    "handle": ("RunHandle",),
    "limits": ("SubagentLimits",),
    "presentation": ("PresentationEvent",),
    "result": ("RunResult",),
    "roster": ("WorkerTool",),
    "spawned": ("SubagentHandle",),
}

__all__ = [
    "Agent",
    "AnswerEvent",
    "PresentationEvent",
    "RunHandle",
    "RunResult",
    "SubagentHandle",
    "SubagentLimits",
    "WorkerTool",
    "current_request_context",
    "request_context",
]

if TYPE_CHECKING:
    from ..runtime.request_context import current_request_context, request_context
    from .agent import Agent
    from .answers import AnswerEvent
    from .handle import RunHandle
    from .limits import SubagentLimits
    from .presentation import PresentationEvent
    from .result import RunResult
    from .roster import WorkerTool
    from .spawned import SubagentHandle

__getattr__, __dir__ = loader(__name__, by_name(_HOMES), globals())
