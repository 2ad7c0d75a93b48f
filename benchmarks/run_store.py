"""Listing stored runs, against the same indexed query by hand."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from pathlib import Path
from time import perf_counter

from protolink import RunContext, SQLiteRunStore, Task

from .row import Row
from .timing import alternated

FEW, MANY = 10_000, 100_000
ROUNDS, CALLS = 9, 10
SESSION = "session_1"


def rows(directory: Path) -> list[Row]:
    few, many = _store(directory / "runs-few.db", FEW), _store(directory / "runs-many.db", MANY)
    filtered, floor, listed, grown = alternated(
        lambda: _timed(lambda: few.list_task_records(session_id=SESSION)),
        lambda: _timed(lambda: _by_hand(few)),
        lambda: _timed(few.list_task_records),
        lambda: _timed(lambda: many.list_task_records(session_id=SESSION)),
        times=ROUNDS,
    )
    return [
        Row(f"filter {FEW:,} stored runs", filtered * 1e3, "ms", 5, floor=floor * 1e3),
        Row("  list them", listed * 1e3, "ms", 5, floor=floor * 1e3),
        Row(f"  filter {MANY:,} against {FEW:,}", grown * 1e3, "ms", 1.3, floor=filtered * 1e3),
    ]


def _timed(work: Callable[[], object]) -> float:
    began = perf_counter()
    for _ in range(CALLS):
        work()
    return (perf_counter() - began) / CALLS


def _store(path: Path, count: int) -> SQLiteRunStore:
    """One record saved, the others copied from it; each session has more than a listing returns."""
    store = SQLiteRunStore(path)
    store.save_task(Task.create_infer(prompt="go", context=RunContext(session_id=SESSION)))
    db = sqlite3.connect(path)
    with db:
        db.execute(
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?) "
            f"INSERT INTO {store.tasks_table} SELECT 'task_' || i, state, 'run_' || i, 'session_' || (i % 50), "
            f"trace_id, agent_name, task_json, metadata_json, created_at, updated_at || i FROM {store.tasks_table}, n",
            (count,),
        )
    db.close()
    return store


def _by_hand(store: SQLiteRunStore) -> list[tuple[object, ...]]:
    """A connection, the newest hundred by the index, their JSON read."""
    db = sqlite3.connect(store.db_path)
    found = db.execute(
        f"SELECT * FROM {store.tasks_table} WHERE session_id = ? ORDER BY updated_at DESC LIMIT 100", (SESSION,)
    ).fetchall()
    db.close()
    return [(*row[:6], json.loads(row[6]), json.loads(row[7]), *row[8:]) for row in found]
