"""The tasks that an agent is running now, and how they are canceled. It knows nothing of tasks that have ended."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import field
from typing import TYPE_CHECKING

from ..errors import TaskAlreadyRunningError, TaskNotCancelableError, TaskNotFoundError
from ..models import Task
from ..models.value import dataclass
from ..runtime import CancellationToken, RunContext

if TYPE_CHECKING:
    from ..drive.driver import Driver


@dataclass(slots=True)
class Active:
    """One running task: its token, the asyncio task that owns it, and its driver once there is one.

    ``number``: that of its first event.
    """

    task: Task
    owner: asyncio.Task[object] | None
    loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.get_running_loop)
    token: CancellationToken = field(default_factory=CancellationToken)
    done: asyncio.Event = field(default_factory=asyncio.Event)
    driver: Driver | None = None
    depth: int = 0
    number: int = 1


class ActiveTasks:
    """By task id."""

    def __init__(self) -> None:
        self._tasks: dict[str, Active] = {}
        self._numbers: dict[str, int] = {}

    @property
    def ids(self) -> tuple[str, ...]:
        return tuple(self._tasks)

    def get(self, task_id: str) -> Active | None:
        return self._tasks.get(task_id) if isinstance(task_id, str) else None

    @contextmanager
    def register(self, task: Task) -> Iterator[Active]:
        """The owning coroutine may register its task again; anybody else gets TaskAlreadyRunningError.

        TypeError for anything but a Task.
        """
        if not isinstance(task, Task):
            raise TypeError(f"an agent runs a Task, not {type(task).__name__}; Task.create_infer() makes one")
        owner = asyncio.current_task()
        found = self._tasks.get(task.id)
        if found is None:
            # Another thread may have entered it since: then that entry stands, and this one is refused.
            found = self._tasks.setdefault(task.id, Active(task, owner, number=self._numbers.get(task.id, 1)))
        if found.owner is not owner:
            raise TaskAlreadyRunningError(f"Task '{task.id}' is running already")
        found.depth += 1
        try:
            yield found
        finally:
            found.depth -= 1
            if found.depth == 0:
                del self._tasks[task.id]
                found.done.set()

    def taken(self, task_id: str) -> bool:
        """True for a task that is running, or that a handle is about to run."""
        return task_id in self._tasks or task_id in self._numbers

    @contextmanager
    def numbered(self, task_id: str, number: int) -> Iterator[None]:
        """Number the events of a task that is registered meanwhile from ``number`` on; lower ones are taken."""
        self._numbers[task_id] = number
        try:
            yield
        finally:
            del self._numbers[task_id]

    async def cancel(self, task_id: str, reason: str | None) -> Task:
        """Signal the task and wait until it has ended, except when it is canceled from inside itself."""
        found = self.get(task_id)
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

    def inside(self, task_id: str) -> bool:
        """True in the code of that task: its handler, or a tool that it runs."""
        found = self._tasks.get(task_id)
        return found is not None and self._from_inside(found)

    def within(self) -> bool:
        """True in the code of one of these tasks: its handler, or a tool that it runs."""
        return any(self._from_inside(found) for found in self._tasks.values())

    def _from_inside(self, found: Active) -> bool:
        current = asyncio.current_task()
        return current is found.owner or (found.driver is not None and found.driver.runs(current))


def is_stored(task: Task) -> bool:
    """Whether a stored run waits with this task: it waits on when only this submission was canceled."""
    return task.state.value == "input-required"


def ends_canceled(task: Task, token: CancellationToken) -> bool:
    """End a task whose owner was canceled while no driver had it. True when somebody asked for that by its id.

    Then the owner goes on with the canceled task; otherwise its own cancellation has to be raised again.
    """
    if not task.is_terminal:
        reason = token.reason or "execution was canceled"
        task.cancel(reason)
        RunContext.from_task(task).cancel(reason).attach_to_task(task)
    if not token.is_cancelled:
        return False
    current = asyncio.current_task()
    if current is not None:
        current.uncancel()
    return True
