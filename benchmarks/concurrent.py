"""Many durable runs at once share their commits.

How much that gains depends on the disk: one after another, runs wait for it; together they wait for the interpreter.
So the same is measured a second time as it would be on a disk that takes longer for a sync.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count as numbers
from pathlib import Path
from typing import Any

from protolink import Agent, SQLiteDurableStore
from protolink.journal.writer import Writer

from .row import Row
from .timing import alternated
from .workload import Script, agent, budget, look_up

RUNS, TURNS = 200, 10
ROUNDS = 5
#: Seconds that a sync takes on a slow disk, and how many runs are enough to see that.
SYNC, IN_TURN = 0.002, 20


def rows(directory: Path) -> list[Row]:
    paths = (directory / f"many-{number}.db" for number in numbers())
    here = alternated(
        lambda: _throughput(next(paths), RUNS, together=True),
        lambda: _throughput(next(paths), RUNS, together=False),
        times=ROUNDS,
    )
    with _slow_disk():
        slow = alternated(
            lambda: _throughput(next(paths), RUNS, together=True),
            lambda: _throughput(next(paths), IN_TURN, together=False),
            times=ROUNDS - 2,
        )
    name = f"{RUNS} runs of {TURNS} turns at once"
    return [
        Row(name, here[0], "turns/s", 5, 15, floor=here[1], at_least=True),
        Row(f"  if a sync took {SYNC * 1e3:g} ms more", slow[0], "turns/s", 5, 15, floor=slow[1], at_least=True),
    ]


def _throughput(path: Path, runs: int, *, together: bool) -> float:
    """Turns a second."""
    store = SQLiteDurableStore(path)
    runner = agent(Script("look_up", TURNS), look_up, durability=store)
    began = time.perf_counter()
    asyncio.run(_together(runner, runs) if together else _in_turn(runner, runs))
    took = time.perf_counter() - began
    store.close()
    return runs * TURNS / took


async def _together(runner: Agent, runs: int) -> None:
    await asyncio.gather(*(runner.invoke("go", budget=budget(TURNS)) for _ in range(runs)))


async def _in_turn(runner: Agent, runs: int) -> None:
    for _ in range(runs):
        await runner.invoke("go", budget=budget(TURNS))


@contextmanager
def _slow_disk() -> Iterator[None]:
    """The writing thread waits ``SYNC`` after each commit that wrote something, as it would for the disk."""
    together = Writer._together

    def slow(self: Writer, batch: list[Any]) -> list[Any]:
        before = self.transactions
        found = together(self, batch)
        if self.transactions != before:
            time.sleep(SYNC)
        return found

    Writer._together = slow  # type: ignore[method-assign]
    try:
        yield
    finally:
        Writer._together = together  # type: ignore[method-assign]
