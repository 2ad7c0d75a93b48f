"""Telemetry: what a backend is told of a run."""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextvars import ContextVar
from typing import Any

from ..models import Part, Task
from ..models.value import dataclass


class Telemetry(ABC):
    """Hooks, called in the order of the run's events and in one asyncio task a run, so context variables hold.

    What a hook raises is logged and forgotten. ``SCOPE`` tells what a call is about beyond its arguments.
    """

    @abstractmethod
    async def on_task_start(self, task: Task, agent_name: str) -> None:
        """A run begins, or goes on."""

    @abstractmethod
    async def on_task_end(self, task: Task, result: Any, agent_name: str) -> None:
        """It has ended or waits. ``result`` is the task as it is now, or the exception that ended it."""

    @abstractmethod
    async def on_llm_start(self, prompt: Any, model: str | None = None, metadata: dict[str, Any] | None = None) -> None:
        """A model is called, each attempt by itself."""

    @abstractmethod
    async def on_llm_end(self, response: Part) -> None:
        """It has replied: an ``infer_output`` part with the actions that it chose, or an ``error`` part."""

    @abstractmethod
    async def on_tool_start(self, tool_name: str, args: dict[str, Any]) -> None:
        """An action runs. A delegation has the name ``agent_call``."""

    @abstractmethod
    async def on_tool_end(self, tool_name: str, result: Any, error: Any = None) -> None:
        """It has ended."""

    async def on_llm_event(self, event: dict[str, Any]) -> None:
        """Every event of a model's loop: ``{"type", "timestamp", "step", "agent_name", "payload"}``."""
        return


@dataclass(frozen=True, slots=True)
class Scope:
    """What a hook is about: the run, a child's or the root's, and the action where there is one."""

    run_id: str | None = None
    agent_name: str | None = None
    action_id: str | None = None
    parent_action_id: str | None = None


NOWHERE = Scope()
SCOPE: ContextVar[Scope] = ContextVar("protolink_telemetry_scope", default=NOWHERE)
