"""What a store of run reports holds, redacted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rich.console import Console

from ..models import DEFAULT_REDACTION_POLICY
from ..storage import SQLiteRunStore
from .show import rows

Records = dict[str, list[dict[str, Any]]]


def stored(path: Path, status: str | None, limit: int) -> Records:
    """``{"tasks", "reports"}``, full records, the newest first; none when there is no such file.

    ``status`` picks tasks by their state; a report has none. The file is only read.
    """
    if not path.exists():
        return {"tasks": [], "reports": []}
    store = SQLiteRunStore(path, read_only=True)
    tasks = store.list_task_records(limit=limit, state=status)
    reports = store.list_report_records(limit=limit)
    redact = DEFAULT_REDACTION_POLICY.redact
    return {
        "tasks": [redact(record.to_dict()) for record in tasks],
        "reports": [redact(record.to_dict()) for record in reports],
    }


def show(console: Console, found: Records) -> None:
    """Two sections, one line a record."""
    console.print("Task snapshots")
    rows(console, found["tasks"], "task_id", "state", "run_id", "agent_name", "updated_at")
    console.print("Run reports")
    rows(console, found["reports"], "run_id", "agent_name", "session_id", "created_at")
