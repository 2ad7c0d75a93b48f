"""Where a run handle's task is done: by an agent of this process, or by one at another address."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Protocol

from ..engine.project import Event
from ..errors import TaskNotCancelableError, TaskNotFoundError
from ..models import Task

if TYPE_CHECKING:
    from .agent import Agent


class Target(Protocol):
    """``native``: whether its model's text is the answer itself; None when that is not known.

    ``own_events``: its events are made by the engine, for this stream alone.
    """

    @property
    def name(self) -> str: ...
    @property
    def native(self) -> bool | None: ...
    @property
    def own_events(self) -> bool: ...
    @property
    def run_store(self) -> Any: ...

    def events(self, task: Task, number: int = 1) -> AsyncGenerator[Event, None]:
        """Do the task, once, and bring it to its end; yields what happens, the final status last.

        ``number``: that of the first event, where the target numbers its own.
        """

    def runs(self, task: Task) -> bool:
        """Whether the task is running there already, or about to."""

    def inside(self, task: Task) -> bool:
        """Whether the caller is code of that very task, which cannot wait for its own end."""

    def park(self, task: Task) -> None:
        """Have it pause where it can be resumed, if it can."""

    async def cancel(self, task: Task, reason: str) -> bool:
        """Cancel the task where it runs, and wait for that. False when it does not run."""


class LocalTarget:
    """An agent of this process."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent

    @property
    def name(self) -> str:
        return self._agent.name

    @property
    def native(self) -> bool | None:
        llm = self._agent.llm
        return None if llm is None else llm.resolve_tool_calling() == "native"

    @property
    def own_events(self) -> bool:
        return not (self._agent.handles_itself or self._agent.streams_itself)

    @property
    def run_store(self) -> Any:
        return self._agent.run_store

    async def events(self, task: Task, number: int = 1) -> AsyncGenerator[Event, None]:
        with self._agent._active.numbered(task.id, number):
            async with aclosing(self._agent.handle_task_streaming(task)) as events:
                async for event in events:
                    yield event

    def runs(self, task: Task) -> bool:
        return self._agent._active.taken(task.id)

    def inside(self, task: Task) -> bool:
        return self._agent._active.inside(task.id)

    def park(self, task: Task) -> None:
        active = self._agent._active.get(task.id)
        if active is not None and active.driver is not None:
            active.driver.park()

    async def cancel(self, task: Task, reason: str) -> bool:
        if task.id not in self._agent.active_task_ids:
            return False
        try:
            await self._agent.cancel_task(task.id, reason)
        except (TaskNotFoundError, TaskNotCancelableError):
            pass  # it has ended meanwhile
        return True
