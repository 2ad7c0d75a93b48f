"""RunResult: how one attempt at a run ended."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..models import Task
from ..runtime import RunHandoff, RunReport, ToolEvidence


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


def result_of(task: Task) -> RunResult:
    """What a task tells of its attempt."""
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
