"""The tasks that an agent is running now, and how they are canceled. It knows nothing of tasks that have ended."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from ..drive.driver import Driver
from ..errors import TaskAlreadyRunningError, TaskNotCancelableError, TaskNotFoundError
from ..models import Task
from ..runtime import CancellationToken


@dataclass
class Active:
    """One running task: its token, the asyncio task that owns it, and its driver once there is one."""

    task: Task
    owner: asyncio.Task[object] | None
    loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.get_running_loop)
    token: CancellationToken = field(default_factory=CancellationToken)
    done: asyncio.Event = field(default_factory=asyncio.Event)
    driver: Driver | None = None
    depth: int = 0


class ActiveTasks:
    """By task id."""

    def __init__(self) -> None:
        self._tasks: dict[str, Active] = {}

    @property
    def ids(self) -> tuple[str, ...]:
        return tuple(self._tasks)

    def get(self, task_id: str) -> Active | None:
        return self._tasks.get(task_id)

    @contextmanager
    def register(self, task: Task) -> Iterator[Active]:
        """The owning coroutine may register its task again; anybody else gets TaskAlreadyRunningError."""
        owner = asyncio.current_task()
        found = self._tasks.get(task.id)
        if found is None:
            found = self._tasks[task.id] = Active(task, owner)
        elif found.owner is not owner:
            raise TaskAlreadyRunningError(f"Task '{task.id}' is running already")
        found.depth += 1
        try:
            yield found
        finally:
            found.depth -= 1
            if found.depth == 0:
                del self._tasks[task.id]
                found.done.set()

    async def cancel(self, task_id: str, reason: str | None) -> Task:
        """Signal the task and wait until it has ended, except when it is canceled from inside itself."""
        found = self._tasks.get(task_id) if isinstance(task_id, str) else None
        if found is None:
            raise TaskNotFoundError(f"No task '{task_id}' is running here: it has not started, or has ended")
        if found.loop is not asyncio.get_running_loop():
            elsewhere = asyncio.run_coroutine_threadsafe(self.cancel(task_id, reason), found.loop)
            return await asyncio.wrap_future(elsewhere)
        if found.task.is_terminal:
            raise TaskNotCancelableError(f"Task '{task_id}' has ended already: {found.task.state.value}")
        found.token.cancel(reason)
        if found.driver is not None:
            found.driver.cancel(reason)
        elif found.owner is not None and found.owner is not asyncio.current_task():
            found.owner.cancel()
        if not self._from_inside(found):
            await found.done.wait()
        return found.task

    def within(self) -> bool:
        """True in the code of one of these tasks: its handler, or a tool that it runs."""
        return any(self._from_inside(found) for found in self._tasks.values())

    def _from_inside(self, found: Active) -> bool:
        current = asyncio.current_task()
        return current is found.owner or (found.driver is not None and found.driver.runs(current))
