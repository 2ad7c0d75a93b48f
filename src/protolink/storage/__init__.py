"""Where an application keeps values of its own, and records of its runs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._lazy import by_name, loader

_HOMES = {
    "memory": ("InMemoryStorage",),
    "run_store": (
        "RunReportRecord",
        "RunStore",
        "TaskRecord",
    ),
    "sqlite": ("SQLiteStorage",),
    "sqlite_run_store": ("SQLiteRunStore",),
    "storage": ("Storage",),
}

__all__ = [
    "InMemoryStorage",
    "RunReportRecord",
    "RunStore",
    "SQLiteRunStore",
    "SQLiteStorage",
    "Storage",
    "TaskRecord",
]

if TYPE_CHECKING:
    from .memory import InMemoryStorage
    from .run_store import RunReportRecord, RunStore, TaskRecord
    from .sqlite import SQLiteStorage
    from .sqlite_run_store import SQLiteRunStore
    from .storage import Storage

__getattr__, __dir__ = loader(__name__, by_name(_HOMES), globals())
