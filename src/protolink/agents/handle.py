"""RunHandle: one run under way, consumed once whoever reads it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ..models import Task
from ..runtime import RunContext, RunEvent, RunHandoff, RunReport, ToolEvidence
from ..runtime.evidence import EvidenceTrail
from .observing import save_report

if TYPE_CHECKING:
    from .agent import Agent


@dataclass(frozen=True, slots=True)
class RunResult:
    """How one execution attempt ended.

    ``status``: completed, failed, canceled or input-required. ``output`` only when completed. ``error``: ``{"code",
    "message", ...}`` when failed, and for a run whose provider is down. ``handoff`` when a work slice ended.
    ``report`` and ``tool_evidence`` cover this attempt.
    """

    status: str
    task: Task | None
    output: Any = None
    error: dict[str, Any] | None = None
    report: RunReport | None = None
    tool_evidence: tuple[ToolEvidence, ...] = ()
    handoff: RunHandoff | None = None


class RunHandle:
    """Started by ``agent.start_run()``. Reading is optional and repeatable; the run goes on either way."""

    def __init__(self, agent: Agent, task: Task) -> None:
        self.target = agent
        self.task = task
        self.context = RunContext.ensure_task_context(task, agent_name=agent.name)
        self._events: list[RunEvent] = []
        self._changed = asyncio.Event()
        self._ended = False
        self._report: RunReport | None = None
        self._begun = False
        self._reason: str | None = None
        self._running = asyncio.get_running_loop().create_task(self._run())

    async def result(self) -> RunResult:
        """Wait for the end of this attempt. Canceling the waiter leaves the run alone."""
        return await asyncio.shield(self._running)

    async def events(self, after: int = 0) -> AsyncIterator[RunEvent]:
        """History first, then what comes, each once; numbered 1, 2, 3, ... Any number of readers."""
        position = max(0, after)
        while True:
            while position < len(self._events):
                position += 1
                yield self._events[position - 1]
            if self._ended:
                return
            await self._changed.wait()

    async def tool_evidence(self) -> AsyncIterator[ToolEvidence]:
        """How the tool calls end, one by one; those that have ended already come first. Any number of readers."""
        trail = EvidenceTrail()
        async for event in self.events():
            evidence = trail.add(event)
            if evidence is not None:
                yield evidence

    @property
    def report(self) -> RunReport:
        """The report of what has happened so far; after the end that of the result."""
        if self._report is not None:
            return self._report
        return RunReport.from_events(self._events, context=RunContext.from_task(self.task))

    async def cancel(self, reason: str = "Application requested cancellation") -> None:
        """Cancel the run. Harmless after its end, and again."""
        if self._running.done():
            return
        if self.task.id in self.target.active_task_ids:
            await self.target.cancel_task(self.task.id, reason)
            return
        self._reason = reason
        if self._begun:
            self._running.cancel()
        await asyncio.wait([self._running])

    async def _run(self) -> RunResult:
        try:
            found = await self._outcome()
            self._report = report = self.report
            save_report(self.target, report)
            return replace(found, report=report, tool_evidence=report.tool_evidence)
        finally:
            self._ended = True
            self._tell()

    async def _outcome(self) -> RunResult:
        self._begun = True
        try:
            if self._reason is not None:
                raise asyncio.CancelledError
            async for event in self.target.handle_task_streaming(self.task):
                found = RunEvent.from_task_event(event, context=self.context, sequence=len(self._events) + 1)
                self._events.append(found)
                self._tell()
            return _result(self.task)
        except asyncio.CancelledError:
            if self.task.state.value in ("submitted", "working"):  # canceled before the agent took it over
                self.task.cancel(self._reason)
                RunContext.from_task(self.task).cancel(self._reason).attach_to_task(self.task)
            return _result(self.task)
        except Exception as error:  # refused before it began; the handle tells it instead of raising
            return RunResult("failed", self.task, error={"code": type(error).__name__, "message": str(error)})

    def _tell(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()


def _result(task: Task) -> RunResult:
    status = task.state.value
    blockers = task.metadata.get("blockers", [])
    error: dict[str, Any] | None = None
    if status == "failed":
        last = blockers[-1] if blockers else {"code": "task_failed"}
        error = {**last, "message": task.metadata.get("error") or "the task failed", "blockers": blockers}
    waiting = task.metadata.get("interruption") or {}
    if status == "input-required" and waiting.get("kind") == "retry":
        error = {"code": waiting["request"]["code"], "message": waiting["request"]["message"]}
    output = task.get_output() if status == "completed" else None
    return RunResult(status, task, output, error, handoff=RunHandoff.from_task(task))
