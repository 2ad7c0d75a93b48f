"""A durable tool turn: its intent and its receipt are on the disk, each before anything depends on it."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

from protolink import SQLiteDurableStore
from protolink.journal import sqlite as journal_sqlite

from .row import Row
from .timing import Marks, alternated
from .workload import Script, agent, budget, look_up

LONG = 830
SHORT = 100
ROUNDS = 9
RESULTS, MEGABYTE = 9, 1_000_000


def rows(directory: Path) -> list[Row]:
    bodies = _bodies(directory)
    numbers = iter(range(1_000_000))
    turn, floor = alternated(
        lambda: _run(directory / f"wall-{next(numbers)}.db", SHORT, perf_counter).per_turn(1, SHORT),
        lambda: _floor(directory / f"floor-{next(numbers)}.db", bodies),
        times=ROUNDS,
    )
    early, late = _growth(directory)
    written, stored = _bytes(directory / "bytes.db")
    return [
        Row("durable tool turn (1 KB, FULL), wall", turn * 1e3, "ms", 2.5, 1.5, floor=floor * 1e3),
        Row("  its commits, each one sync", _commits(directory / "commits.db"), "", 2),
        Row("  its CPU at turn 800 against 50", late * 1e6, "us", 1.15, 1.05, floor=early * 1e6),
        Row("  its bytes written, checkpoints included", written, "KB", 50, 30),
        Row("  its bytes stored", stored, "KB", 9, 5),
        Row(f"{RESULTS} results of 1 MB: bytes written", _large(directory / "large.db"), "MB", 3, 2.5, floor=RESULTS),
    ]


def _run(path: Path, turns: int, clock: Any) -> Marks:
    marks = Marks(clock)
    store = SQLiteDurableStore(path)
    runner = agent(Script("look_up", turns, mark=marks), look_up, durability=store)
    try:
        asyncio.run(runner.invoke("go", budget=budget(turns)))
    finally:
        store.close()
    return marks


def _bodies(directory: Path) -> list[bytes]:
    """What a run of ours stores: one body a commit."""
    path = directory / "same-bytes.db"
    _run(path, SHORT, perf_counter)
    with _opened(path) as db:
        return [body for (body,) in db.execute("SELECT body FROM protolink_facts ORDER BY place")]


def _floor(path: Path, bodies: list[bytes]) -> float:
    """The same bytes in as many synced commits on one connection: seconds for two of them."""
    with _opened(path) as db:
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = FULL")
        db.execute("CREATE TABLE facts (n INTEGER PRIMARY KEY, body BLOB NOT NULL)")
        began = perf_counter()
        for n, body in enumerate(bodies):
            db.execute("BEGIN IMMEDIATE")
            db.execute("INSERT INTO facts VALUES (?, ?)", (n, body))
            db.execute("COMMIT")
        return 2 * (perf_counter() - began) / len(bodies)


def _commits(path: Path) -> float:
    """Commits of one turn, seen by SQLite itself."""
    seen: list[int] = []
    count = 0

    def trace(statement: str) -> None:
        nonlocal count
        count += statement == "COMMIT"

    with _traced(trace):
        store = SQLiteDurableStore(path)
        script = Script("look_up", SHORT, mark=lambda: seen.append(count))
        asyncio.run(agent(script, look_up, durability=store).invoke("go", budget=budget(SHORT)))
        store.close()
    return (seen[SHORT] - seen[1]) / (SHORT - 1)


@contextmanager
def _traced(trace: Any) -> Iterator[None]:
    connect = journal_sqlite._connect

    def traced(*args: Any) -> sqlite3.Connection:
        connection = connect(*args)
        connection.set_trace_callback(trace)
        return connection

    journal_sqlite._connect = traced
    try:
        yield
    finally:
        journal_sqlite._connect = connect


def _growth(directory: Path) -> list[float]:
    marked = [_run(directory / f"long-{index}.db", LONG, process_time) for index in range(5)]
    return [sorted(marks.around(turn) for marks in marked)[2] for turn in (50, 800)]


def _bytes(path: Path) -> tuple[float | None, float]:
    """KB written by this process, and KB by which the file grew, for one turn."""
    before = _written()
    _run(path, LONG, perf_counter)
    after = _written()
    written = None if before is None or after is None else (after - before) / LONG / 1000
    return written, path.stat().st_size / LONG / 1000


def _large(path: Path) -> float | None:
    """MB written, log and checkpoints included, for results of one MB each."""

    def fetch(key: str, limit: int, exact: bool = False) -> str:
        return str(limit) + "x" * MEGABYTE

    store = SQLiteDurableStore(path)
    runner = agent(Script("fetch", RESULTS), fetch, durability=store)
    before = _written()
    asyncio.run(runner.invoke("go", budget=budget(RESULTS)))
    store.close()
    after = _written()
    return None if before is None or after is None else (after - before) / MEGABYTE


def _written() -> int | None:
    """Bytes that this process gave to write calls; None where the system does not count them."""
    try:
        lines = Path("/proc/self/io").read_text().splitlines()
    except OSError:
        return None
    return next(int(line.split()[1]) for line in lines if line.startswith("wchar"))


@contextmanager
def _opened(path: Path) -> Iterator[sqlite3.Connection]:
    connection = sqlite3.connect(path, isolation_level=None)
    try:
        yield connection
    finally:
        connection.close()
