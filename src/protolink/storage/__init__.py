"""Where an application keeps values of its own, and records of its runs."""

from __future__ import annotations

from .memory import InMemoryStorage
from .run_store import RunReportRecord, RunStore, TaskRecord
from .sqlite import SQLiteStorage
from .sqlite_run_store import SQLiteRunStore
from .storage import Storage

__all__ = [
    "InMemoryStorage",
    "RunReportRecord",
    "RunStore",
    "SQLiteRunStore",
    "SQLiteStorage",
    "Storage",
    "TaskRecord",
]
