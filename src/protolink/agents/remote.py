"""An agent at another address: a task is sent there once, whatever becomes of the answer.

What a peer sends is foreign: its events and tasks are read into our own shapes, or they end the exchange.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from ..errors import (
    ProtolinkError,
    TaskNotCancelableError,
    TaskNotFoundError,
    UncertainExecutionError,
)
from ..models import AgentCard, Artifact, Task, TaskStatusUpdateEvent
from ..models.shape import items, mapping
from ..runtime import RunContext, RunEvent, RunHandoff, RunInterruption
from ..runtime.context import CONTEXT_KEY
from ..runtime.fields import members

if TYPE_CHECKING:
    from ..client import AgentClient

#: Seconds until a cancellation that overtook its task is sent again: the first wait, and the longest.
_FIRST_WAIT, _LONGEST_WAIT = 0.02, 1.0

#: Seconds for which a task that the peer has canceled may still be on its way here.
SETTLE_SECONDS = 10.0

#: Task states in which the peer has nothing more to say.
_ENDED = frozenset({"completed", "failed", "canceled", "input-required"})

#: Metadata that says whose run a task is. The peer's word does not count there.
_OURS = frozenset((CONTEXT_KEY, "run_id", "session_id", "trace_id", "parent_run_id", "workspace_uri"))


class RemoteAgent:
    """One task at another address. Live events need a transport that streams and a card that offers them.

    ``card`` None: asked for when needed.
    """

    def __init__(self, client: AgentClient, url: str, card: AgentCard | None = None) -> None:
        self.url = url
        self._client = client
        self._card = card
        self._over = asyncio.Event()
        self._canceled = self._sent = False
        self._patience: asyncio.Timeout | None = None

    @property
    def name(self) -> str:
        return self.url if self._card is None else self._card.name

    @property
    def native(self) -> None:
        """Nobody here knows how its model speaks."""

    @property
    def own_events(self) -> bool:
        """They come from elsewhere."""
        return False

    @property
    def run_store(self) -> None:
        """Its records are its own."""

    def runs(self, task: Task) -> bool:
        """Nobody here knows; the peer refuses what runs there already."""
        return False

    def inside(self, task: Task) -> bool:
        return False

    def park(self, task: Task) -> None:
        """Its store is its own, and so is the decision to pause."""

    async def events(self, task: Task, number: int = 1) -> AsyncGenerator[RunEvent, None]:
        """Have the task done and bring it to its end; yields what the peer tells, the final status last.

        UncertainExecutionError when the peer may have begun and nobody says how it ended; what the peer refuses, or
        what never reached it, raises the client's own error. CancelledError when it was canceled before it was sent.
        """
        context = RunContext.ensure_task_context(task)
        try:
            streams = await self._streams()
            self._sent = True
            async with aclosing(self._exchanged(task, context, streams)) as events:
                async for event in events:
                    yield event
        finally:
            self._over.set()

    async def cancel(self, task: Task, reason: str) -> bool:
        """Have the peer cancel it and wait for its end here. A request that overtakes the task itself is repeated.

        When the peer cannot be asked, or does not end the task although it was, nobody waits for it any longer: its end
        is not known.
        """
        self._canceled = True
        if not self._sent:
            self._wait_no_longer_than(0)
        else:
            await self._have_it_canceled(task, reason)
        await self._over.wait()
        return True

    async def cancel_now(self, task: Task, reason: str) -> bool:
        """Ask the peer once. False when it does not run there: not yet, or no longer."""
        try:
            await self._client.cancel_task(self.url, task.id, reason=reason)
        except TaskNotFoundError:
            return False
        except TaskNotCancelableError:
            pass  # it has ended meanwhile, and its end is on its way
        return True

    # ------------------------------------------------------------------------------------------------ inside

    async def _have_it_canceled(self, task: Task, reason: str) -> None:
        wait = _FIRST_WAIT
        try:
            while not self._over.is_set() and not await self.cancel_now(task, reason):
                try:
                    await asyncio.wait_for(self._over.wait(), wait)
                except TimeoutError:
                    wait = min(2 * wait, _LONGEST_WAIT)
            self._wait_no_longer_than(SETTLE_SECONDS)
        except ProtolinkError:  # the peer cannot be asked, or its answer cannot be read
            self._wait_no_longer_than(0)

    async def _streams(self) -> bool:
        """Whether events come live. CancelledError when the run was canceled meanwhile."""
        if not self._client.transport.supports_streaming:
            return False
        try:
            async with asyncio.timeout(None) as self._patience:
                self._card = self._card or await self._client.get_agent_card(self.url)
        except TimeoutError:
            if not self._canceled:
                raise
        if self._card is None or self._canceled:
            raise asyncio.CancelledError
        return self._card.capabilities.streaming

    async def _exchanged(self, task: Task, context: RunContext, streams: bool) -> AsyncGenerator[RunEvent, None]:
        """Send the task and read what comes, up to its end. From the first event on every error leaves it unknown."""
        number = 0
        try:
            async with asyncio.timeout(None) as self._patience, aclosing(self._asked(task, streams)) as told:
                async for raw in told:
                    number += 1
                    event = _read(raw, context)
                    if streams and event.sequence is None:  # its place in the peer's stream, which the wire leaves out
                        event.sequence = number
                    if _ends(event, task):
                        _take_over(task, event, context)
                        yield event
                        return
                    yield event
        except Exception as error:
            if not number and _never_sent(error):
                raise
            expired = self._patience is not None and self._patience.expired()
            why = "it was to cancel it, and has not ended it" if expired else str(error) or type(error).__name__
            raise self._unknown(task, why) from error
        raise self._unknown(task, "its stream ended without a final task")

    def _asked(self, task: Task, streams: bool) -> AsyncGenerator[Any, None]:
        return self._client.send_task_streaming(self.url, task) if streams else self._answered(task)

    async def _answered(self, task: Task) -> AsyncGenerator[Any, None]:
        """What a stream would have told of the finished task: the events recorded in it, and its final status."""
        found = await self._client.send_task(self.url, task)
        recorded = found.metadata.get("run_events")
        for event in recorded if isinstance(recorded, list) else []:  # anything else is refused with the task
            yield event
        yield TaskStatusUpdateEvent(task.id, None, found.state.value, True, {"task": found.to_dict()})

    def _wait_no_longer_than(self, seconds: float) -> None:
        if self._patience is not None and not self._over.is_set():
            self._patience.reschedule(asyncio.get_running_loop().time() + seconds)

    def _unknown(self, task: Task, why: str) -> UncertainExecutionError:
        return UncertainExecutionError(
            f"It is not known what '{self.name}' did for task '{task.id}': {why}. The task is not sent again; look at "
            "the systems that the agent acts on"
        )


def _never_sent(error: Exception) -> bool:
    """Whether nothing has begun, as far as the error of the first exchange tells."""
    if isinstance(error, ProtolinkError):  # refused or not reached, unless it says otherwise
        return not getattr(error, "outcome_unknown", False)
    return isinstance(error, (ValueError, TypeError, NotImplementedError))  # the task, or the address, cannot be sent


def _read(raw: Any, context: RunContext) -> RunEvent:
    """ValueError or TypeError for what is no event, or speaks for the run that asked."""
    found = RunEvent.from_task_event(raw, context=context)
    if found.run_id is not None and found.run_id == context.parent_run_id:
        raise ValueError("the peer tells events of its caller's own run")
    if found.type == "task.artifact":
        told = mapping(found.payload.get("artifact"), "artifact")
        if Artifact.from_dict(told).id != told.get("id"):
            raise ValueError("the peer tells of an artifact without an id")
    return found


def _ends(event: RunEvent, task: Task) -> bool:
    return event.type == "task.status" and event.final and event.task_id == task.id


def ended(task: Any, context: RunContext, name: str) -> Task:
    """The task with which an application's own way of asking the peer came back, when it can be relied upon.

    UncertainExecutionError for what is no ended task.
    """
    try:
        if not isinstance(task, Task):
            raise TypeError(f"call_agent() returned {type(task).__name__} in place of the task")
        if task.state.value not in _ENDED:
            raise ValueError(f"call_agent() returned the task in state {task.state.value}")
        _check_records(task, context)
    except (ValueError, TypeError) as error:
        raise UncertainExecutionError(f"It is not known what '{name}' did: {error}") from error
    return task


def _take_over(task: Task, event: RunEvent, context: RunContext) -> None:
    """The peer's state, artifacts and evidence, from its final status. Whose run it is stays ours to say.

    ValueError for what is no end of this very task; then the task stays as it was.
    """
    told = members(event.payload.get("metadata")).get("task")
    if told is None:
        raise ValueError("the peer's final status has no task")
    found = Task.from_dict(told)
    if found.id != task.id or found.state.value not in _ENDED:
        raise ValueError(f"the peer answered with task '{found.id}' in state {found.state.value}")
    if event.payload.get("new_state") != found.state.value:
        raise ValueError(f"the peer's final status is not that of its task, which is {found.state.value}")
    _check_records(found, context)
    task.state, task.artifacts, task.messages = found.state, found.artifacts, found.messages
    kept = {key: value for key, value in task.metadata.items() if key in _OURS}
    task.metadata = {key: value for key, value in found.metadata.items() if key not in _OURS} | kept


def _check_records(found: Task, context: RunContext) -> None:
    """What others read of a task without asking again whether it is there."""
    for event in items(found.metadata, "run_events", "the peer's task"):
        _read(event, context)
    for blocker in items(found.metadata, "blockers", "the peer's task"):
        mapping(blocker, "blocker")
    waiting = [found.metadata.get("interruption"), *items(found.metadata, "interruptions", "the peer's task")]
    for request in waiting:
        if request is not None:
            RunInterruption.from_dict(request)
    RunHandoff.from_task(found)
