"""Agents: a model, tools and a policy, with ways to give them work."""

from __future__ import annotations

from .agent import Agent
from .answers import AnswerEvent
from .handle import RunHandle
from .limits import SubagentLimits
from .presentation import PresentationEvent
from .result import RunResult
from .roster import WorkerTool
from .spawned import SubagentHandle

__all__ = [
    "Agent",
    "AnswerEvent",
    "PresentationEvent",
    "RunHandle",
    "RunResult",
    "SubagentHandle",
    "SubagentLimits",
    "WorkerTool",
]
