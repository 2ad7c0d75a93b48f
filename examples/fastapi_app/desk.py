"""The runs behind the page: begun, followed, decided, canceled, and found again after a restart.

A run may have several attempts, each with a handle of the group: the first one ends at the first question, and each
answer begins the next. Who follows a run does not notice: its events are numbered on, in memory and in the store alike.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, AsyncIterator
from functools import partial
from typing import Any
from weakref import WeakValueDictionary

from protolink import (
    DEFAULT_REDACTION_POLICY,
    AdmissionError,
    Agent,
    AgentGroup,
    DurableExecutionError,
    GroupLimits,
    PresentationEvent,
    RunBudget,
    RunCheckpoint,
    RunContext,
    RunHandle,
    RunManager,
    Task,
)

from .messages import Looks, Message, live
from .records import Record, Records

#: As many runs at once, and as many that wait for their turn. Whoever comes then is told to come again.
LIMITS = GroupLimits(max_concurrent_runs=8, max_queued_runs=16)
BUDGET = RunBudget(max_steps=12, max_runtime_seconds=300)

#: How many events of a run at work can be read from memory. Older ones come from the store.
EVENT_BUFFER = 500

#: Seconds that runs have to end or to park when the server stops. It has to be more than a turn of the model takes.
DRAIN_SECONDS = 20.0

ENDED = frozenset({"completed", "failed", "canceled"})
CANCELED, DENIED = "Canceled from the page", "Denied on the page"

_log = logging.getLogger("refund-desk")


class Desk:
    """All runs of one process. ``async with`` starts what has to be started and ends it in order.

    What cannot be done is raised as AdmissionError (too much work) or DurableExecutionError (the run is not as it was
    displayed); then nothing has changed.
    """

    def __init__(self, agent: Agent, records: Records) -> None:
        self._agent = agent
        self._records = records
        self._group = AgentGroup([agent], limits=LIMITS, event_buffer_size=EVENT_BUFFER)
        self._manager = RunManager(agent)
        self._recovering: list[asyncio.Task[None]] = []
        # Who follows a run that rests waits for its event. It lives as long as somebody waits.
        self._news: WeakValueDictionary[str, asyncio.Event] = WeakValueDictionary()

    async def __aenter__(self) -> Desk:
        await self._group.start()
        for record in await asyncio.to_thread(self._records.wanted):
            await self._recover(record)
        return self

    async def __aexit__(self, *exc: object) -> None:
        """Runs at work end, or park before their next turn; the next process goes on with those."""
        for waiting in self._recovering:
            waiting.cancel()
        await asyncio.gather(*self._recovering, return_exceptions=True)
        await self._group.close(drain=DRAIN_SECONDS, park=True)

    # ------------------------------------------------------------------------------------------------ beginning

    def begin(self, record: Record) -> None:
        """Start a run that was just recorded."""
        runs = self._group.snapshot()["runs"]
        if runs["active"] >= runs["max_concurrent_runs"] and runs["queued"] >= runs["max_queued_runs"]:
            raise AdmissionError("no further run can wait", code="queue_full")
        self._start(record)

    def _start(self, record: Record) -> None:
        context = RunContext(run_id=record.run_id)
        task = Task.create_infer(prompt=record.prompt, budget=BUDGET, context=context)
        self._group.run(self._agent, task, request_id=record.run_id)

    async def _recover(self, record: Record) -> None:
        """Go on where the last process stopped. A run that was recorded and never began, begins."""
        stored = await asyncio.to_thread(self._checkpoint, record.run_id)
        if stored is None:
            self._start(record)
        elif stored.status in ENDED:
            await asyncio.to_thread(self._records.settle, record.run_id)
        elif stored.status == "working" or parked(stored):
            # Beside the others, because each of them waits for its turn.
            self._recovering.append(asyncio.create_task(self._go_on(record.run_id)))

    async def _go_on(self, run_id: str) -> None:
        try:
            await self._resume(run_id)
        except (AdmissionError, DurableExecutionError) as error:
            _log.warning("Run %s does not go on: %s", run_id, error)
            self._tell(run_id)

    async def _resume(self, run_id: str, **response: Any) -> None:
        """Begin the next attempt; return when it is at work and the response is stored."""
        try:
            await self._group.resume(self._agent, run_id, **response)
        except ValueError as error:  # what waits takes no response of this kind
            raise DurableExecutionError(str(error)) from error
        self._tell(run_id)

    # ------------------------------------------------------------------------------------------------ steering

    async def decide(self, record: Record, request_id: str, fingerprint: str, approved: bool) -> None:
        """Approve or deny what was displayed. Of several people the first one wins."""
        reason = None if approved else DENIED
        await self._answer(record, request_id=request_id, fingerprint=fingerprint, approved=approved, reason=reason)

    async def retry(self, record: Record) -> None:
        """Ask the model's provider once more, where a run waits for it."""
        await self._answer(record)

    async def _answer(self, record: Record, **response: Any) -> None:
        stored = await asyncio.to_thread(self._checkpoint, record.run_id)
        if stored is None or stored.status != "input-required":
            raise DurableExecutionError("the run does not wait")
        pausing = self._handle(record.run_id)
        if pausing is not None:
            await pausing.ended()  # it tells its last events
        await self._resume(record.run_id, **response)

    async def cancel(self, record: Record) -> None:
        """End a run, whatever it is doing. One that has ended stays as it is."""
        await asyncio.to_thread(self._records.cancel, record.run_id)
        handle = self._handle(record.run_id)
        if handle is not None:
            await handle.cancel(CANCELED)
        if await asyncio.to_thread(self._checkpoint, record.run_id) is not None:
            await asyncio.to_thread(self._manager.cancel, record.run_id)  # it may be one that waits
        self._tell(record.run_id)

    # ------------------------------------------------------------------------------------------------ looking

    async def snapshot(self, record: Record) -> dict[str, Any]:
        """The run as it stands, redacted: ``{run_id, prompt, status, answer, error, requests}``."""
        return await asyncio.to_thread(self._snapshot, record)

    def _snapshot(self, record: Record) -> dict[str, Any]:
        shown: dict[str, Any] = {
            "run_id": record.run_id,
            "prompt": record.prompt,
            "answer": None,
            "error": None,
            "requests": [],
        }
        stored = self._checkpoint(record.run_id)
        if stored is None:
            return {**shown, "status": self._beginning(record)}
        if parked(stored):
            return {**shown, "status": "queued"}
        task = Task.from_dict(stored.data["task"])
        return {
            **shown,
            "status": stored.status,
            "answer": task.get_output() if stored.status == "completed" else None,
            "error": DEFAULT_REDACTION_POLICY.redact(task.metadata.get("error")),
            "requests": self._manager.inspect(record.run_id)["interruptions"] if stored.status not in ENDED else [],
        }

    def _checkpoint(self, run_id: str) -> RunCheckpoint | None:
        """What is stored of a run; None before its beginning. Its id alone may be taken by then."""
        found = self._agent.durability.get(run_id)
        return None if found is None or "task" not in found.data else found

    async def follow(self, record: Record, after: int) -> AsyncGenerator[Message, None]:
        """What happens in a run behind event ``after``, across its pauses, until it has ended."""
        last: dict[str, Any] = {}
        known = self._submitted(record.run_id)
        handle = None if known is None or known.done else known
        while True:
            news = self._news.setdefault(record.run_id, asyncio.Event())
            async for message in self._attempt(record, after, handle):
                after = after if message.number is None else message.number
                yield message
            shown = await self.snapshot(record)
            if shown != last:
                yield Message("snapshot", shown)
            if shown["status"] in ENDED:
                return
            await news.wait()
            begun = self._submitted(record.run_id)
            # The next attempt, even if it is over by now: its handle still tells how the answer was written.
            handle, known = (None if begun is known else begun), begun
            last = await self.snapshot(record)  # nobody is asked any more
            yield Message("snapshot", last)

    async def _attempt(self, record: Record, after: int, handle: RunHandle | None) -> AsyncIterator[Message]:
        """An attempt as its handle tells it; a run that rests, from the store."""
        if handle is None:
            for message in await self._stored(record, after):
                yield message
            return
        looks = Looks(partial(self._stored, record), partial(self.snapshot, record))
        async for message in live(handle, after, looks):
            yield message

    async def _stored(self, record: Record, after: int) -> list[Message]:
        """The same activity as a handle tells, read from the store; nothing of a run that has not begun."""
        if await asyncio.to_thread(self._checkpoint, record.run_id) is None:
            return []
        events = await asyncio.to_thread(self._agent.run_events, record.run_id, after)
        shown = (PresentationEvent.of(event) for event in events)
        return [Message.activity(event) for event in shown if event is not None]

    def _beginning(self, record: Record) -> str:
        """The status of a run of which nothing is stored."""
        handle = self._submitted(record.run_id)
        if handle is None:
            return "canceled" if record.canceled else "starting"
        if handle.done:
            return handle.task.state.value
        return "queued" if handle.queued else "starting"

    def _handle(self, run_id: str) -> RunHandle | None:
        """The handle of an attempt that waits for its turn or is at work."""
        handle = self._submitted(run_id)
        return None if handle is None or handle.done else handle

    def _submitted(self, run_id: str) -> RunHandle | None:
        try:
            return self._group.get_run(run_id)
        except LookupError:
            return None

    def _tell(self, run_id: str) -> None:
        """Wake whoever follows a run that rested."""
        news = self._news.pop(run_id, None)
        if news is not None:
            news.set()


def parked(stored: RunCheckpoint) -> bool:
    """Whether the run made room for a server that stopped, and waits for nobody but the next one."""
    return any(found["kind"] == "yield" for found in stored.data.get("interruptions") or [])
