"""The task operations of a server: submit, stream, cancel."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Iterator, Mapping
from contextlib import aclosing, contextmanager
from typing import Any

from ..drive.log import told as told_of
from ..drive.ports import Clock
from ..errors import TaskAlreadyRunningError, TaskCancellationError
from ..models import Task, TaskStatusUpdateEvent
from ..models.json import digest, plain
from ..models.value import dataclass
from ..runtime import TaskCancellationRequest
from ..transport import RouteCall, TransportConfig
from ..transport.faults import Fault, fault_of
from .reading import read_cancellation, read_task
from .served import Served
from .submissions import Key, Submission, Submissions

#: How long tasks may take to settle after they were canceled because the server stops.
SETTLE_SECONDS = 5.0


@dataclass(slots=True)
class Work:
    """A submitted task while the agent is at it."""

    task: Task
    key: Key | None
    submission: Submission


class TaskEndpoints:
    """Handlers of the task routes. A key means one piece of work, whether it was submitted or streamed."""

    def __init__(self, agent: Served, config: TransportConfig, clock: Clock) -> None:
        self._agent = agent
        self._submissions = Submissions(config, clock)
        self._canceled = Submissions(config, clock)
        self._working: dict[int, Work] = {}
        self._idle = asyncio.Event()
        self._idle.set()
        self._closing = False
        self._settle_seconds = SETTLE_SECONDS

    async def card(self, call: RouteCall) -> Any:
        return self._agent.card.to_dict()

    async def submit(self, call: RouteCall) -> Any:
        """The finished task. Failures of the work itself are in the task; only what never became work is a fault."""
        task, body, earlier = self._accept(call)
        if earlier is not None:
            return await earlier.answer()
        with self._at_work(task, call.key, body) as work:
            return self._settled(work, await self._run(task))

    async def stream(self, call: RouteCall) -> AsyncGenerator[tuple[Any, bool], None]:
        """The events of a task; the final status carries the task. A repeated key gets the final status alone."""
        task, body, earlier = self._accept(call)
        if earlier is not None:
            yield _final(await earlier.answer(), None), True
            return
        with self._at_work(task, call.key, body) as work:
            last: dict[str, Any] | None = None
            try:
                # The final status is kept back until the agent has brought the task itself to its end.
                async with aclosing(self._agent.handle_task_streaming(task)) as events:
                    async for event in events:
                        told = plain(event)
                        if _ends(told, task.id):
                            last = told
                        else:
                            yield told, False
            except Exception:
                if not task.is_terminal:
                    raise
            done = self._settled(work, _carried(last) or _ended(task))
            yield _final(done, last), True

    async def cancel(self, call: RouteCall) -> Any:
        """The canceled task. The same request again, after its answer was lost, gets the same answer."""
        request = read_cancellation(call.body)
        asked = None if call.key is None else (call.key[0], f"{call.key[1]}:{digest(call.body)}")
        try:
            done = told_of(await self._agent.cancel_task(request))
        except TaskCancellationError:
            earlier = self._canceled.find(asked, "")
            if earlier is None:
                raise
            return await earlier.answer()
        self._canceled.settle(asked, self._canceled.begin(asked, ""), done)
        return done

    def reopen(self) -> None:
        """Take work again after ``drain``. The answers so far are still known."""
        self._closing = False
        self._idle = asyncio.Event()  # it belongs to the loop in which it was waited for
        self._idle.set()

    async def drain(self, seconds: float) -> None:
        """Take no more work, wait for what there is, then cancel it by name, so that clients get canceled tasks."""
        self._closing = True
        if await self._becomes_idle(seconds):
            return
        reason = "The server is stopping"
        asked = [
            asyncio.ensure_future(self._agent.cancel_task(TaskCancellationRequest(work.task.id, reason)))
            for work in self._working.values()
        ]
        await asyncio.wait(asked, timeout=self._settle_seconds)
        for cancellation in asked:
            if not cancellation.done():
                cancellation.cancel()
        await asyncio.gather(*asked, return_exceptions=True)  # what does not obey is cut off by the transport
        await self._becomes_idle(self._settle_seconds)

    # ------------------------------------------------------------------------------------------------ inside

    def _accept(self, call: RouteCall) -> tuple[Task, str, Submission | None]:
        """The task, the digest of its text, and what was submitted earlier under the same key."""
        task = read_task(call.body)
        body = digest(call.body)
        earlier = self._submissions.find(call.key, body)
        if earlier is None and self._closing:
            raise Fault("unavailable", "The server is stopping and takes nothing new")
        return task, body, earlier

    @contextmanager
    def _at_work(self, task: Task, key: Key | None, body: str) -> Iterator[Work]:
        work = Work(task, key, self._submissions.begin(key, body))
        self._working[id(work)] = work
        self._idle.clear()
        try:
            yield work
        except TaskAlreadyRunningError as error:  # somebody else's work: this request has done nothing
            self._submissions.drop(key, work.submission, fault_of(error))
            raise
        except Exception as error:
            self._submissions.settle(key, work.submission, fault_of(error))
            raise
        finally:
            del self._working[id(work)]
            if not self._working:
                self._idle.set()
            if not work.submission.done.is_set():  # it was cut off: its reader left, or the server stops
                self._submissions.settle(key, work.submission, _cut_off(task))

    async def _run(self, task: Task) -> dict[str, Any]:
        try:
            done = await self._agent.run_task(task)
        except Exception:
            # Refusals of policies and budgets are raised after the task was ended; the task tells them.
            if not task.is_terminal:
                raise
            return told_of(task)
        if not isinstance(done, Task):
            raise Fault("internal", f"The agent returned {type(done).__name__} in place of a task")
        return _ended(done)

    def _settled(self, work: Work, done: dict[str, Any]) -> dict[str, Any]:
        self._submissions.settle(work.key, work.submission, done)
        return done

    async def _becomes_idle(self, seconds: float) -> bool:
        try:
            async with asyncio.timeout(seconds):
                await self._idle.wait()
        except TimeoutError:
            return False
        return True


def _ends(event: Any, task_id: str) -> bool:
    return (
        isinstance(event, Mapping)
        and event.get("type") == TaskStatusUpdateEvent.type
        and event.get("final") is True
        and event.get("task_id") == task_id
    )


def _carried(last: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """The task in a final status, where the agent has put it there."""
    found = ((last or {}).get("metadata") or {}).get("task")
    return found if isinstance(found, dict) else None


def _ended(task: Task) -> dict[str, Any]:
    if not task.is_terminal and task.state.value != "input-required":
        raise Fault("internal", f"The agent has left the task {task.state.value}")
    return told_of(task)


def _final(done: Mapping[str, Any], last: Mapping[str, Any] | None) -> dict[str, Any]:
    """The last event: the agent's own final status, or one made from the task, with the task inside."""
    told = dict(last) if last is not None else TaskStatusUpdateEvent(done["id"], None, done["state"], True).to_dict()
    told["metadata"] = {**(told.get("metadata") or {}), "task": done}
    return told


def _cut_off(task: Task) -> Any:
    """How the work stands that nobody has told the end of. Never raises: others may wait for this answer."""
    if task.is_terminal:
        try:
            return told_of(task)
        except Exception as error:  # a task of foreign code, with something in it that is no JSON
            return fault_of(error)
    return Fault("interrupted", "The work was cut off before it had ended")
