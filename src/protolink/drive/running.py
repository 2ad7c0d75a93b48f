"""The work of one drive that is under way: one asyncio task for each command."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Coroutine
from typing import Any

from ..engine.commands import Command
from .outcome import Brought, never_began


class Running:
    """``arrived`` takes what a performer brings, ``broken`` says what an exception of it means.

    ``arrived`` is called by the task's own last step: a callback of the task would come one turn of the event loop
    later, for every model call and every slow tool.
    """

    def __init__(
        self, arrived: Callable[[Command, Brought], None], broken: Callable[[Command, BaseException], Brought]
    ) -> None:
        self._arrived = arrived
        self._broken = broken
        self.tasks: dict[Command, asyncio.Task[Brought]] = {}

    def has(self, task: asyncio.Task[Any] | None) -> bool:
        """True for the task of one of these performers."""
        return any(task is running for running in self.tasks.values())

    def start(self, command: Command, work: Coroutine[Any, Any, Brought]) -> asyncio.Task[Brought]:
        task = asyncio.get_running_loop().create_task(self._perform(command, work))
        self.tasks[command] = task
        task.add_done_callback(lambda task: self._ended(command, task, work))
        return task

    def cancel(self, wanted: Callable[[Command], bool] | None = None) -> None:
        """Cancel everything, or once what is not ``wanted``."""
        for command, task in list(self.tasks.items()):
            if wanted is None or not (task.cancelling() or wanted(command)):
                task.cancel()

    def give_up(self) -> list[Command]:
        """Wait for nothing any more; returns what did not react to its cancellation."""
        left = list(self.tasks)
        self.tasks.clear()
        return left

    async def stop(self) -> list[Brought]:
        """Cancel everything and wait for it; returns what it still brought."""
        tasks = list(self.tasks.values())
        self.tasks.clear()
        for task in tasks:
            task.cancel()
        for task in tasks:
            await asyncio.wait([task])
        return [task.result() for task in tasks if not task.cancelled()]

    async def _perform(self, command: Command, work: Coroutine[Any, Any, Brought]) -> Brought:
        """As an exception, a signal that foreign code raised would end the loop of everybody; it ends this drive."""
        try:
            brought = await work
        except asyncio.CancelledError:
            raise
        except BaseException as error:  # the application's, signals included; see broken
            brought = self._broken(command, error)
        if self.tasks.get(command) is asyncio.current_task():
            del self.tasks[command]
            self._arrived(command, brought)
        return brought

    def _ended(self, command: Command, task: asyncio.Task[Brought], work: Coroutine[Any, Any, Brought]) -> None:
        """A task that was canceled before its first step never ran, its own handlers neither: nothing has begun."""
        if task.cancelled():
            _abandon(work)
            if self.tasks.get(command) is task:
                del self.tasks[command]
                self._arrived(command, never_began(command))


def _abandon(work: Coroutine[Any, Any, Any]) -> None:
    """Close a coroutine that never ran, and those that it was going to wait for: nobody else will."""
    if inspect.getcoroutinestate(work) != inspect.CORO_CREATED:
        return
    for waited in inspect.getcoroutinelocals(work).values():
        if inspect.iscoroutine(waited):
            _abandon(waited)
    work.close()
