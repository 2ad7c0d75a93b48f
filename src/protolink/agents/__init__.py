"""Agents: a model, tools and a policy, with ways to give them work."""

from __future__ import annotations

from .agent import Agent
from .handle import RunHandle, RunResult
from .limits import SubagentLimits
from .roster import WorkerTool

__all__ = ["Agent", "RunHandle", "RunResult", "SubagentLimits", "WorkerTool"]
