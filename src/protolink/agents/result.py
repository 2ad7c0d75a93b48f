"""RunResult: how one attempt at a run ended."""

from __future__ import annotations

from typing import Any

from ..models import Task
from ..models.json import plain
from ..models.value import dataclass
from ..runtime import RunHandoff, RunReport, ToolEvidence


@dataclass(frozen=True, slots=True)
class RunResult:
    """How one execution attempt ended.

    ``status``: completed, failed, canceled, input-required, or uncertain when nobody knows how a remote run ended.
    ``output`` only when completed, as JSON where it has that form. ``error``: ``{"code", "message", ...}`` when failed
    or uncertain, and for a run whose provider is down. ``handoff`` when a work slice ended. ``report`` and
    ``tool_evidence`` cover this attempt.
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
        error = {key: waiting["request"].get(key) for key in ("code", "message")}
    output = _told(task.get_output()) if status == "completed" else None
    return RunResult(status, task, output, error, handoff=RunHandoff.from_task(task))


def _told(output: Any) -> Any:
    """The same JSON whether the run was live, stored or remote; what has no JSON form is the tool's own object."""
    try:
        return plain(output)
    except TypeError:
        return output
