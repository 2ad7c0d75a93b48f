"""Listing durable runs, against the same query by hand: by an index, with the facts of what is found decoded."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import Callable
from pathlib import Path
from time import perf_counter

from protolink import SQLiteDurableStore
from protolink.journal.rows import Batch, checksum

from .row import Row
from .timing import alternated
from .workload import Script, agent, budget, count

FEW, MANY, AGENTS, TURNS = 10_000, 100_000, 1_000, 1
WAITING = 5
ROUNDS, CALLS = 9, 5
NAME = "agent_7"
AT_REST = "status = ? AND status <> 'working'"


def rows(directory: Path) -> list[Row]:
    few, many = _store(directory / "durable-few.db", FEW), _store(directory / "durable-many.db", MANY)
    db = sqlite3.connect(directory / "durable-few.db")
    filtered, floor, waiting, waiting_floor, listed, all_floor, grown = alternated(
        _timed(lambda: few.list(agent_name=NAME)),
        _timed(lambda: _by_hand(db, "INDEXED BY protolink_agents WHERE agent_name = ?", NAME)),
        _timed(lambda: few.list(status="input-required")),
        _timed(lambda: _by_hand(db, f"INDEXED BY protolink_at_rest WHERE {AT_REST}", "input-required")),
        _timed(few.list),
        _timed(lambda: _by_hand(db, "")),
        _timed(lambda: many.list(agent_name=NAME, limit=FEW // AGENTS)),
        times=ROUNDS,
    )
    db.close()
    for store in (few, many):
        store.close()
    return [
        Row(f"filter {FEW:,} durable runs", filtered * 1e3, "ms", 5, floor=floor * 1e3),
        Row(f"  find {WAITING} that wait", waiting * 1e3, "ms", 5, floor=waiting_floor * 1e3),
        Row("  list them", listed * 1e3, "ms", 5, floor=all_floor * 1e3),
        Row(f"  filter {MANY:,} against {FEW:,}", grown * 1e3, "ms", 1.3, floor=filtered * 1e3),
    ]


def _timed(work: Callable[[], object]) -> Callable[[], float]:
    def measure() -> float:
        began = perf_counter()
        for _ in range(CALLS):
            work()
        return (perf_counter() - began) / CALLS

    return measure


def _store(path: Path, wanted: int) -> SQLiteDurableStore:
    """One run that was made, the others copied from it, with ``AGENTS`` names in turn. The first of them wait."""
    store = SQLiteDurableStore(path)
    asyncio.run(agent(Script("count", TURNS), count, durability=store).invoke("go", budget=budget(TURNS)))
    store.close()
    db = sqlite3.connect(path)
    db.create_function("checksum_of", 3, _checksum)
    names = [name for _, name, *_ in db.execute("PRAGMA table_info(protolink_runs)")]
    made = {"number": "i + 1", "run_id": "'run_' || i", "agent_name": f"'agent_' || (i % {AGENTS})"}
    copied = ", ".join(made.get(name, name) for name in names)
    numbers = f"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {wanted - 1})"
    with db:
        db.execute(f"{numbers} INSERT INTO protolink_runs SELECT {copied} FROM n, protolink_runs WHERE number = 1")
        db.execute(
            f"{numbers} INSERT INTO protolink_facts SELECT place + (i << 32), body,"
            " checksum_of('run_' || i, place, body) FROM n, protolink_facts WHERE place >> 32 = 1"
        )
        db.execute("UPDATE protolink_runs SET status = 'input-required' WHERE number <= ?", (WAITING,))
    db.close()
    return SQLiteDurableStore(path)


def _checksum(run_id: str, place: int, body: bytes) -> int:
    return checksum(run_id, Batch(place & 0xFFFFFFFF, body.count(b"\n") + 1, body))


def _by_hand(db: sqlite3.Connection, condition: str, *values: str) -> list[object]:
    """The newest runs, and their facts decoded."""
    query = f"SELECT * FROM protolink_runs {condition} ORDER BY number DESC LIMIT 20"
    found = db.execute(query, values).fetchall()
    facts = "SELECT body FROM protolink_facts WHERE place >= ? << 32 AND place < (? + 1) << 32 ORDER BY place"
    read = [[body for (body,) in db.execute(facts, (number, number))] for number, *_ in found]
    return [[json.loads(line) for body in bodies for line in body.split(b"\n")] for bodies in read]
