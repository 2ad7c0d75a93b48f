"""RunStore: a searchable record of tasks and run reports, for lookup, replay, audit and tests.

It is no part of recovery: runs go on from their journal, and never look in here.
"""

from __future__ import annotations

from dataclasses import field, fields
from typing import Any, Protocol, runtime_checkable

from ..models import Task, TaskState
from ..models.ids import utc_now
from ..models.value import dataclass
from ..runtime import RunContext, RunReport


@dataclass(frozen=True, slots=True)
class TaskRecord:
    """A stored snapshot of a task. ``metadata`` is that of the store call; times are ISO."""

    task_id: str
    state: str
    run_id: str | None = None
    session_id: str | None = None
    trace_id: str | None = None
    agent_name: str | None = None
    task: dict[str, Any] = field(default_factory=dict)
    metadata: dict[str, Any] = field(default_factory=dict)
    created_at: str | None = None
    updated_at: str = field(default_factory=utc_now)

    def to_dict(self) -> dict[str, Any]:
        """All fields, not redacted."""
        return {item.name: getattr(self, item.name) for item in fields(self)}


@dataclass(frozen=True, slots=True)
class RunReportRecord:
    """A stored report. ``metadata`` is that of the store call; the time is ISO."""

    run_id: str
    session_id: str | None = None
    trace_id: str | None = None
    agent_name: str | None = None
    report: dict[str, Any] = field(default_factory=dict)
    metadata: dict[str, Any] = field(default_factory=dict)
    created_at: str = field(default_factory=utc_now)

    def to_dict(self) -> dict[str, Any]:
        """All fields, not redacted."""
        return {item.name: getattr(self, item.name) for item in fields(self)}


@runtime_checkable
class RunStore(Protocol):
    """What an agent needs of a store. Synchronous and structural; each save replaces what has the same id."""

    def save_task(
        self,
        task: Task,
        *,
        context: RunContext | None = None,
        agent_name: str | None = None,
        metadata: dict[str, Any] | None = None,
    ) -> TaskRecord:
        """Store a snapshot. Without ``context`` the task's own metadata tells its run, session and trace."""

    def get_task(self, task_id: str) -> Task | None: ...

    def get_task_record(self, task_id: str) -> TaskRecord | None: ...

    def list_task_records(
        self,
        *,
        limit: int = 100,
        session_id: str | None = None,
        run_id: str | None = None,
        state: str | TaskState | None = None,
        agent_name: str | None = None,
    ) -> list[TaskRecord]:
        """The newest snapshots first; filters match exactly."""

    def save_report(
        self,
        report: RunReport,
        *,
        run_id: str | None = None,
        agent_name: str | None = None,
        metadata: dict[str, Any] | None = None,
    ) -> RunReportRecord:
        """Store a report under ``run_id``, else under the run of its context. ValueError when there is neither."""

    def get_report(self, run_id: str) -> RunReport | None: ...

    def get_report_record(self, run_id: str) -> RunReportRecord | None: ...

    def list_report_records(
        self, *, limit: int = 100, session_id: str | None = None, agent_name: str | None = None
    ) -> list[RunReportRecord]:
        """The newest reports first; filters match exactly."""
