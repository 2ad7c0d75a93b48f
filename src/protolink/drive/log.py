"""The log of one drive: facts are staged, stored in one append, and only then shown.

There is no second path. A numbered event is never shown before its fact is stored, so whoever reconnects with a number
finds the same event under it. Fragments of a model's text are numbered and never stored.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from ..engine.evolve import evolve
from ..engine.facts import Fact, Record
from ..engine.project import Event, event_id, forwarded, numbers, project
from ..engine.receipts import export
from ..engine.state import Frame, Run, status
from ..engine.task import tellable
from ..errors import DurableExecutionError, StoreUnavailableError
from ..models import Task, TaskLLMStreamEvent, TaskStatusUpdateEvent
from ..models.ids import iso_from_seconds
from .commit import undisturbed
from .ports import Clock, Journal

Sink = Callable[[Event], None]

#: Numbers between two facts of a live run that nobody watches: a fact proves at most one thing, some numbers after its
#: first event, so the ids of its receipts differ without the events being made or counted.
APART = 32

#: Seconds before a refused append is tried again: the first wait, and the longest.
FIRST_WAIT, LONGEST_WAIT = 0.05, 5.0


class Log:
    """``buffer``: what is staged and not stored. ``firm``: something outside may depend on it.

    ``shown`` is the caller's task, brought up to date after each flush. ``patience``: seconds for which a store that
    is away is waited for. ``on_cancel`` is told when the caller is canceled while a commit is under way.
    """

    def __init__(
        self,
        run: Run,
        journal: Journal,
        clock: Clock,
        *,
        sinks: Iterable[Sink],
        shown: Task | None,
        patience: float,
        on_cancel: Callable[[], None],
    ) -> None:
        self.buffer: list[Record] = []
        self.pending: list[Event] = []
        self.firm = False
        self._run = run
        self._journal = journal
        self._clock = clock
        self._sinks = list(sinks)
        self._shown = shown
        self._patience = patience
        self._on_cancel = on_cancel

    def begin(self, first: Record, events: list[Event]) -> None:
        """Take over a run that ``first`` has just created; it is stored with what follows."""
        self._run.seq += len(events)
        self.buffer.append(first)
        self.pending.extend(events if self._sinks else ())
        self.firm = True

    def stage(self, fact: Fact) -> None:
        """Take a fact over and buffer it: projected on the state before it, then evolved."""
        run = self._run
        record = Record(run.n, run.seq, self._clock.now(), fact)
        if self._sinks:
            events = project(run, record)
            run.seq += len(events)
            self.pending.extend(events)
        else:
            run.seq += numbers(run, record) if run.durable else APART
        evolve(run, record)
        self.buffer.append(record)
        if fact.firm:
            self.firm = True

    def fragment(self, frame: Frame, text: str) -> bool:
        """Show a fragment of a model's text. False when it waits behind events that are not stored yet."""
        run = self._run
        scope = run.scope(frame)
        number, run.seq = run.seq, run.seq + 1
        event: Event = TaskLLMStreamEvent(
            scope.task.id,
            scope.agent,
            "llm_chunk",
            frame.turn + 1,
            text,
            event_id=event_id(run.salt, number),
            timestamp=iso_from_seconds(self._clock.now()),
        )
        if scope.parent_action is not None:
            event = forwarded(run, scope, event, number)
        if self.pending:
            self.pending.append(event)
            self.firm = True
            return False
        self.deliver([event])
        return True

    def flush(self) -> Awaitable[None] | None:
        """One append of everything staged, then the sinks. None when that is done, without waiting.

        What could not be stored stays first in the buffer.
        """
        if not self.buffer:
            return None
        batch, events = self.buffer, self.pending
        self.buffer, self.pending, self.firm = [], [], False
        if self._journal.durable or self._run.outcome is not None:  # of a live run only the end may be remembered
            return self._flush(batch, events)
        self._journal.append(batch, "working")
        if events:
            self.deliver(events)
        return None

    async def _flush(self, batch: list[Record], events: list[Event]) -> None:
        try:
            await self._store(batch)
        except BaseException:
            self.buffer, self.pending = batch + self.buffer, []
            raise
        self.show()
        self.deliver(events)

    async def _store(self, batch: list[Record]) -> None:
        """Retried with growing waits while the store is away; nothing new starts meanwhile."""
        began, wait = self._clock.now(), FIRST_WAIT
        while True:
            try:
                stored = self._journal.append(batch, status(self._run))
                if stored is not None:
                    await self._undisturbed(stored)
                return
            except StoreUnavailableError:
                if self._clock.now() - began >= self._patience:
                    raise
            except (TypeError, ValueError) as error:  # whoever brought the value should have refused it
                raise DurableExecutionError(
                    f"Run '{self._run.id}' cannot go on: what happened cannot be stored, {error}"
                ) from error
            await self._clock.sleep_until(self._clock.now() + wait)
            wait = min(wait * 2, LONGEST_WAIT)

    async def _undisturbed(self, work: Awaitable[None]) -> None:
        """A cancellation of the caller is told of when it is known how the commit went."""
        commit = undisturbed(work)
        try:
            await commit
        except asyncio.CancelledError:
            self._on_cancel()
            commit.result()

    def show(self) -> None:
        """Bring the caller's task up to date with what is stored."""
        found, shown = self._run.task, self._shown
        if shown is None or shown is found:
            return
        shown.state = found.state
        shown.artifacts.extend(found.artifacts[len(shown.artifacts) :])
        shown.metadata = found.metadata

    def deliver(self, events: list[Event]) -> None:
        """Hand events to the sinks."""
        for event in events:
            complete(self._run, event)
            for sink in self._sinks:
                sink(event)


def complete(run: Run, event: Event) -> None:
    """The final status carries the whole task, as it is then."""
    if isinstance(event, TaskStatusUpdateEvent) and event.final:
        event.metadata["task"] = told(export(run))


def told(task: Task) -> dict[str, Any]:
    """The task as JSON. What a live tool returned and has no JSON form is told by its text."""
    try:
        return task.to_dict()
    except TypeError:
        artifacts = [tellable(artifact) for artifact in task.artifacts]
        return Task(
            task.id, task.state, task.messages, artifacts, task.metadata, task.flow_state, task.created_at
        ).to_dict()
