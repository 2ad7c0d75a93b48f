"""Agents: a model, tools and a policy, with ways to give them work."""

from __future__ import annotations

from .agent import Agent
from .limits import SubagentLimits
from .roster import WorkerTool

__all__ = ["Agent", "SubagentLimits", "WorkerTool"]
