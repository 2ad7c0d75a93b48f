"""What a store of run reports holds, redacted."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from rich.console import Console

from ..models import DEFAULT_REDACTION_POLICY
from ..storage import SQLiteRunStore
from .exits import FAILED
from .output import fail
from .show import rows

T = TypeVar("T")

Records = dict[str, list[dict[str, Any]]]


def stored(path: Path, status: str | None, limit: int) -> Records:
    """``{"tasks", "reports"}``, full records, the newest first; none when there is no such file.

    ``status`` picks tasks by their state; a report has none. The file is only read.
    """
    return read(path, lambda store: _records(store, status, limit), FAILED) or {"tasks": [], "reports": []}


def read(path: Path, work: Callable[[SQLiteRunStore], T], code: int) -> T | None:
    """What ``work`` finds in the store; None when there is no such file. The command ends when it cannot be read."""
    try:
        return work(SQLiteRunStore(path, read_only=True)) if path.exists() else None
    except (sqlite3.Error, OSError, ValueError, TypeError) as error:
        fail(f"{path} cannot be read as a store of recorded runs: {error}", code)


def _records(store: SQLiteRunStore, status: str | None, limit: int) -> Records:
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
