"""Opening a run that paused after many turns, answering it and going on to its end."""

from __future__ import annotations

import asyncio
import json
import shutil
import sqlite3
from itertools import count as numbers
from pathlib import Path
from time import perf_counter

from protolink import RunContext, RunInterrupted, SQLiteDurableStore
from protolink.tools.builtins import ask_user_tool

from .row import Row
from .timing import alternated
from .workload import Script, agent, budget, look_up

SHORT, LONG = 200, 800
ROUNDS = 9
RUN = "run_paused"


def rows(directory: Path) -> list[Row]:
    paused = {turns: _pause(directory / f"paused-{turns}.db", turns) for turns in (SHORT, LONG)}
    names = numbers()

    def measured(turns: int) -> float:
        copy = directory / f"reopened-{next(names)}.db"
        shutil.copyfile(directory / f"paused-{turns}.db", copy)
        return _reopen(copy, turns, paused[turns])

    measured(SHORT)
    short, long, floor = alternated(
        lambda: measured(SHORT),
        lambda: measured(LONG),
        lambda: _floor(directory / f"paused-{LONG}.db"),
        times=ROUNDS,
    )
    return [
        Row(f"reopen and continue after {LONG} turns", long * 1e3, "ms", 5, 2.5, floor=floor * 1e3),
        Row(f"  each turn of {LONG} against one of {SHORT}", long / LONG * 1e6, "us", 1.1, floor=short / SHORT * 1e6),
    ]


def _pause(path: Path, turns: int) -> str:
    """A stored run that waits for an answer; returns the id of its question."""
    store = SQLiteDurableStore(path)
    runner = agent(Script("look_up", turns, asks=True), look_up, ask_user_tool(), durability=store)
    context = RunContext(run_id=RUN, budget=budget(turns))
    try:
        asyncio.run(runner.invoke("go", context=context))
    except RunInterrupted as pause:
        return pause.interruption.request_id
    finally:
        store.close()
    raise AssertionError("the run did not pause")


def _reopen(path: Path, turns: int, request: str) -> float:
    began = perf_counter()
    store = SQLiteDurableStore(path)
    runner = agent(Script("look_up", turns, asks=True), look_up, ask_user_tool(), durability=store)
    answer = asyncio.run(runner.resume(RUN, request_id=request, answer="yes"))
    took = perf_counter() - began
    store.close()
    assert answer == "done", answer
    return took


def _floor(path: Path) -> float:
    """Reading the same rows and decoding them, by hand."""
    began = perf_counter()
    db = sqlite3.connect(path)
    bodies = db.execute("SELECT body FROM protolink_facts ORDER BY place").fetchall()
    found = [json.loads(line) for (body,) in bodies for line in body.split(b"\n")]
    db.close()
    assert found
    return perf_counter() - began
