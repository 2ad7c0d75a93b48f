"""A stored run that goes on in this process, as the target of a run handle."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, Any

from ..engine.project import Event
from ..engine.state import Run
from ..models import Task, TaskStatusUpdateEvent
from ..runtime import RunEvent
from .attempt import stored
from .drive import Drive, give_up
from .responses import Response
from .stream import END, told_by
from .target import LocalTarget

if TYPE_CHECKING:
    from .agent import Agent


class ResumedRun(LocalTarget):
    """Its answer is stored and it is at work when it is made, so that neither can be lost or canceled away.

    ``first``: the number of its first event; the ``earlier`` ones are those that are stored.
    """

    def __init__(self, agent: Agent, task: Task, earlier: list[RunEvent], queue: asyncio.Queue[Any]) -> None:
        super().__init__(agent)
        self.task = task
        self.earlier = earlier
        self.first = 1
        self._queue = queue
        self._worker: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    @classmethod
    async def begin(cls, agent: Agent, run_id: str, response: Response, rerun: str | None) -> ResumedRun:
        """Go on with the run. Raises what ``agent.resume`` refuses; then nothing has changed."""
        queue: asyncio.Queue[Any] = asyncio.Queue()
        earlier = await asyncio.get_running_loop().run_in_executor(None, agent.run_events, run_id)
        begun = await agent.execution.resume(run_id, response, rerun=rerun, sinks=[queue.put_nowait], streaming=True)
        if isinstance(begun, Run):
            return await cls._at_rest(agent, begun, earlier, queue)
        found = cls(agent, begun.task, earlier, queue)
        found.first = begun.driver.log.buffer[0].seq
        await found._start(begun)
        return found

    @classmethod
    async def _at_rest(cls, agent: Agent, run: Run, earlier: list[RunEvent], queue: asyncio.Queue[Any]) -> ResumedRun:
        """A run that has ended, or still waits for somebody else's answer: its handle tells just that."""
        found = cls(agent, await stored(agent, run), earlier, queue)
        found.first = run.seq
        state = found.task.state.value
        queue.put_nowait(TaskStatusUpdateEvent(found.task.id, None, state, True, {"task": found.task.to_dict()}))
        queue.put_nowait(END)
        found._worker.set_result(None)
        return found

    def events(self, task: Task, number: int = 1) -> AsyncGenerator[Event, None]:
        return told_by(self._worker, self._queue)

    def runs(self, task: Task) -> bool:
        """What runs there is this very run."""
        return False

    # ------------------------------------------------------------------------------------------------ inside

    async def _start(self, drive: Drive) -> None:
        taken = asyncio.get_running_loop().create_future()
        self._worker = asyncio.ensure_future(self._work(drive, taken))
        try:
            await asyncio.shield(taken)
        except asyncio.CancelledError:
            self._worker.cancel()
            await asyncio.wait([self._worker])
            raise

    async def _work(self, drive: Drive, taken: asyncio.Future[None]) -> None:
        try:
            with self._agent._active.register(drive.task) as active:
                active.driver = drive.driver
                if (storing := drive.driver.log.flush()) is not None:
                    await storing
                taken.set_result(None)
                await drive.finish()
        except BaseException as error:
            if taken.done():
                raise
            await give_up(drive.journal)  # the store took nothing, or the same task runs here under another run
            taken.set_exception(error)
        finally:
            self._queue.put_nowait(END)
