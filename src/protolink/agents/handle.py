"""RunHandle: one run under way, consumed once whoever reads it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

from ..errors import TaskAlreadyRunningError, UncertainExecutionError
from ..models import DEFAULT_REDACTION_POLICY, RedactionPolicy, Task
from ..runtime import RunContext, RunEvent, RunReport, ToolEvidence
from ..runtime.evidence import EvidenceTrail
from .answers import AnswerEvent, AnswerTrail
from .checks import checked_run_store, positive, text
from .observing import save_report
from .presentation import PresentationEvent, presented
from .remote import RemoteAgent
from .result import RunResult, result_of
from .resumed import ResumedRun
from .spawned import Spawned, SubagentHandle
from .target import LocalTarget, Target
from .window import EventWindow, is_fragment

if TYPE_CHECKING:
    from ..client import AgentClient
    from .agent import Agent


class Admission(Protocol):
    """A run's place in a queue, taken when its handle is made."""

    @property
    def waits(self) -> bool:
        """Whether it has to wait at all."""

    async def admitted(self) -> tuple[str, str] | None:
        """Return when the run may begin; ``(code, message)`` when it may not. Canceling gives the place up."""

    def leave(self) -> None:
        """The run is over, or never began. Harmless again."""


class RunHandle:
    """Started by ``agent.start_run()``, ``RunHandle.start()`` or a group. Reading is optional and repeatable.

    ``store``: where the report goes, in place of the agent's run store. ``redaction_policy`` masks the names in
    presentation events and the stored report. ``event_buffer_size``: how many of the latest events can be read again.
    """

    def __init__(
        self,
        agent_or_url: Agent | str,
        task: Task,
        *,
        client: AgentClient | None = None,
        store: Any = None,
        redaction_policy: RedactionPolicy | None = None,
        event_buffer_size: int | None = None,
        admission: Admission | None = None,
        resumed: ResumedRun | None = None,
    ) -> None:
        self.target = agent_or_url
        self.task = task
        self.client = client
        self._at = _target(agent_or_url, client) if resumed is None else resumed
        self.store = checked_run_store(store) if store is not None else self._at.run_store
        self.redaction_policy = redaction_policy
        self.event_buffer_size = positive("event_buffer_size", event_buffer_size)
        loop = asyncio.get_running_loop()
        self._agent = None if isinstance(agent_or_url, str) else agent_or_url
        name = None if self._agent is None else self._agent.name  # a remote agent enters the chain itself
        self.context = RunContext.ensure_task_context(task, agent_name=name)
        self._earlier = [] if resumed is None else resumed.earlier
        self._window = EventWindow(self.event_buffer_size, 0 if resumed is None else resumed.first - 1)
        self._admission = admission
        self._spawned = None if self._agent is None else Spawned(self._agent, self.context, self._add)
        self._at_work = asyncio.Event()
        self._report: RunReport | None = None
        self._begun = False
        self._admitted = resumed is not None
        self._parking = False
        self._reason: str | None = None
        self._running = loop.create_task(self._run())

    @classmethod
    def start(
        cls,
        agent_or_url: Agent | str,
        task: Task,
        *,
        client: AgentClient | None = None,
        store: Any = None,
        redaction_policy: RedactionPolicy | None = None,
        event_buffer_size: int | None = None,
    ) -> RunHandle:
        """Start a task on an agent in the running loop, or at an address, once and never again, through ``client``.

        ValueError for an address without a client.
        """
        if not isinstance(task, Task):
            raise TypeError(f"RunHandle.start takes a Task, not {type(task).__name__}")
        return cls(
            agent_or_url,
            task,
            client=client,
            store=store,
            redaction_policy=redaction_policy,
            event_buffer_size=event_buffer_size,
        )

    @property
    def done(self) -> bool:
        """Whether the attempt has ended."""
        return self._running.done()

    @property
    def queued(self) -> bool:
        """Whether the run waits for a place in its group."""
        return self._admission is not None and self._admission.waits

    async def result(self) -> RunResult:
        """Wait for the end of this attempt. Canceling the waiter leaves the run alone."""
        return await asyncio.shield(self._running)

    async def ended(self) -> None:
        """Wait until the run and its children have ended, however that was."""
        await asyncio.wait([self._running])

    # ------------------------------------------------------------------------------------------------ reading

    def events(self, after: int | None = None) -> AsyncGenerator[RunEvent, None]:
        """History first, then what comes, each once; numbered 1, 2, 3, ... Any number of readers.

        ``after`` N goes on behind event N. StreamGapError when the next event has left the replay window; without
        ``after`` a reader begins with the oldest that is there.
        """
        return self._window.read(after)

    async def presentation_events(self, after: int | None = None) -> AsyncIterator[PresentationEvent]:
        """What may be shown to anybody. ``after`` takes the number of any event of this run."""
        policy = self.redaction_policy or DEFAULT_REDACTION_POLICY
        async with aclosing(self.events(after)) as events:
            async for event in events:
                found = presented(event, lambda name: str(policy.redact(name)))
                if found is not None:
                    yield found

    async def answer_events(self) -> AsyncIterator[AnswerEvent]:
        """The root agent's answer while it is written; the last one is the answer or says that there is none."""
        trail = AnswerTrail(self.context.run_id, self._at.native)
        last: RunEvent | None = None
        async with aclosing(self.events()) as events:
            async for last in events:
                for answer in trail.add(last):
                    yield answer
        assert last is not None, "a run always has a last event"
        yield trail.end(self.task, last)

    async def chunks(self) -> AsyncIterator[str]:
        """The raw text of the root agent's model, piece by piece. A JSON model writes JSON actions."""
        async with aclosing(self.events()) as events:
            async for event in events:
                if is_fragment(event) and event.run_id == self.context.run_id:
                    yield str(event.payload.get("content") or "")

    async def tool_evidence(self) -> AsyncIterator[ToolEvidence]:
        """How the tool calls end, one by one; those that have ended already come first. Any number of readers."""
        trail = EvidenceTrail()
        async with aclosing(self.events()) as events:
            async for event in events:
                evidence = trail.add(event)
                if evidence is not None:
                    yield evidence

    @property
    def report(self) -> RunReport:
        """The report of what has happened so far; after the end that of the result.

        With an ``event_buffer_size`` it leaves out the text fragments that have left the window.
        """
        if self._report is not None:
            return self._report
        return RunReport.from_events([*self._earlier, *self._window.kept()], context=RunContext.from_task(self.task))

    # ------------------------------------------------------------------------------------------------ steering

    async def cancel(self, reason: str = "Application requested cancellation") -> None:
        """Cancel the run and wait until it and its children have ended. Harmless after its end, and again.

        A tool of the run itself may call it, and is not made to wait for its own end. Any event loop will do.
        ValueError for a reason that is no text.
        """
        text("reason", reason)
        if self._running.get_loop() is not asyncio.get_running_loop():
            elsewhere = asyncio.run_coroutine_threadsafe(self.cancel(reason), self._running.get_loop())
            await asyncio.wrap_future(elsewhere)
        elif not self._running.done():
            inside = self._at.inside(self.task)
            await self._ask_to_stop(reason)
            if not inside:
                await asyncio.wait([self._running])

    def park(self) -> None:
        """Ask a durable run to pause before its next model turn; ``resume(run_id)`` goes on. A live run ignores it."""
        self._parking = True
        self._at.park(self.task)

    async def spawn(self, agent_name: str, prompt: str) -> SubagentHandle:
        """Start a subagent beside the run, on the run's budget and under its policy. The run's end cancels it.

        RuntimeError when the run is not at work or is durable, and outside its event loop; ValueError for an unknown
        subagent, SubagentLimitError.
        """
        if self._running.get_loop() is not asyncio.get_running_loop():
            raise RuntimeError("spawn() belongs to the event loop of the run: have it called there")
        agent = self._agent
        if agent is None or self._spawned is None:
            raise RuntimeError("a run at another address spawns nothing here; start a run of its own")
        if self.queued:
            raise RuntimeError("the run waits for its place in the group, so nothing can be spawned beside it")
        if agent.durability is not None:
            raise RuntimeError("a durable run spawns nothing: its children have to delegate, so that they can resume")
        await self._at_work.wait()
        active = agent._active.get(self.task.id)
        if self._running.done() or active is None or active.driver is None:
            raise RuntimeError("the run is not at work, so nothing can be spawned beside it")
        return await self._spawned.start(agent_name, prompt, active.driver)

    # ------------------------------------------------------------------------------------------------ inside

    async def _run(self) -> RunResult:
        try:
            found = await self._outcome()
            await self._end_children()
            self._finish(found)
            self._report = report = self.report
            save_report(self._at, self._stored(report), self.store)
            return replace(found, report=report, tool_evidence=report.tool_evidence)
        finally:
            self._window.end()
            self._at_work.set()
            if self._admission is not None:
                self._admission.leave()

    async def _outcome(self) -> RunResult:
        self._begun = True
        try:
            self._refuse_twice()
            if self._reason is not None:
                raise asyncio.CancelledError
            refused = await self._wait_for_admission()
            if refused is not None:
                return refused
            self._refuse_twice()
            self._admitted = True
            await self._follow()
            return result_of(self.task)
        except asyncio.CancelledError:
            if self.task.state.value in ("submitted", "working"):  # canceled before the agent took it over
                self.task.cancel(self._reason)
                RunContext.from_task(self.task).cancel(self._reason).attach_to_task(self.task)
            return result_of(self.task)
        except UncertainExecutionError as error:  # a durable run tells it in its task, a remote agent in nothing
            known = result_of(self.task)
            told = {"code": "remote_outcome_unknown", "message": str(error)}
            return known if known.status == "failed" else RunResult("uncertain", self.task, error=told)
        except Exception as error:  # refused before it began; the handle tells it instead of raising
            return RunResult("failed", self.task, error={"code": type(error).__name__, "message": str(error)})

    async def _follow(self) -> None:
        """Take in the events of the run. Its own numbers follow those of the queue, so that a store has the same."""
        own = self._at.own_events
        async with aclosing(self._at.events(self.task, self._window.last + 1)) as events:
            async for event in events:
                found = RunEvent.from_task_event(event, context=self.context, own=own)
                if _ends(found, self.task.id):
                    await self._end_children()  # what the children still tell comes before the end
                self._add(found)
                if self._parking and not self._at_work.is_set():
                    self._at.park(self.task)
                self._at_work.set()
                if self.event_buffer_size is not None:
                    await asyncio.sleep(0)  # a burst must not run through the window before anybody can read it

    def _refuse_twice(self) -> None:
        """What runs already is another handle's: nothing done here may change it."""
        if self._at.runs(self.task):
            raise TaskAlreadyRunningError(f"Task '{self.task.id}' is running already")

    async def _ask_to_stop(self, reason: str) -> None:
        self._reason = self._reason or reason
        if not self._admitted:  # it waits, or has not begun
            if self._begun:
                self._running.cancel()
            return
        if not await self._at.cancel(self.task, reason) and not self._at_work.is_set():
            self._running.cancel()  # it was about to be taken over
        # Otherwise it has ended, and its last events are on their way.

    async def _end_children(self) -> None:
        if self._spawned is not None:
            await self._spawned.close()

    async def _wait_for_admission(self) -> RunResult | None:
        """None when the run may begin. One that may not has failed without having executed anything."""
        if self._admission is None:
            return None
        waits = self._admission.waits
        if waits:
            self._activity("run.queued", "info", "Waiting for a free place")
        refused = await self._admission.admitted()
        if refused is None:
            if waits:
                self._activity("run.admitted", "info", "Admitted")
            return None
        code, message = refused
        self._activity("run.rejected", "error", message, code=code)
        self.task.fail(message)
        return RunResult("failed", self.task, error={"code": code, "message": message})

    def _finish(self, found: RunResult) -> None:
        """Every run ends with a final status, one that never began too."""
        newest = self._window.newest()
        if newest is not None and _ends(newest, self.task.id):
            return
        summary = f"Task finished with state {found.status}"
        last = self._activity("task.status", "info", summary, final=True, new_state=found.status, error=found.error)
        if self._at_work.is_set() and self._agent is not None and self._agent.durability is not None:
            last.sequence = None  # the store could not be written, and gives the number to what it takes next

    def _activity(self, type: str, severity: str, summary: str, *, final: bool = False, **payload: Any) -> RunEvent:
        event = RunEvent(
            type=type,
            run_id=self.context.run_id,
            task_id=self.task.id,
            agent_name=self._at.name,
            severity=severity,
            summary=summary,
            payload={"final": final, **payload},
            final=final,
        )
        self._add(event)
        return event

    def _add(self, event: RunEvent) -> None:
        event.sequence = self._window.last + 1
        self._window.add(event)

    def _stored(self, report: RunReport) -> RunReport:
        return report if self.redaction_policy is None else report.redacted(self.redaction_policy)


def _target(agent_or_url: Agent | str, client: AgentClient | None) -> Target:
    if not isinstance(agent_or_url, str):
        if not callable(getattr(agent_or_url, "handle_task_streaming", None)):
            raise TypeError(f"a run is started on an Agent or its address, not on {type(agent_or_url).__name__}")
        return LocalTarget(agent_or_url)
    if client is None:
        raise ValueError(f"'{agent_or_url}' is an address: give an AgentClient with client=, or an Agent")
    if not callable(getattr(client, "send_task", None)):
        raise TypeError(f"client must be an AgentClient, not {type(client).__name__}")
    return RemoteAgent(client, agent_or_url)


def _ends(event: RunEvent, task_id: str) -> bool:
    return event.final and event.type == "task.status" and event.task_id == task_id
