"""Many durable runs at once share their commits."""

from __future__ import annotations

import asyncio
from itertools import count as numbers
from pathlib import Path
from time import perf_counter

from protolink import Agent, SQLiteDurableStore

from .row import Row
from .timing import alternated
from .workload import Script, agent, budget, look_up

RUNS, TURNS = 200, 10
ROUNDS = 5


def rows(directory: Path) -> list[Row]:
    names = numbers()

    def throughput(together: bool) -> float:
        store = SQLiteDurableStore(directory / f"many-{next(names)}.db")
        runner = agent(Script("look_up", TURNS), look_up, durability=store)
        began = perf_counter()
        asyncio.run(_together(runner) if together else _in_turn(runner))
        took = perf_counter() - began
        store.close()
        return RUNS * TURNS / took

    many, one = alternated(lambda: throughput(True), lambda: throughput(False), times=ROUNDS)
    return [Row(f"{RUNS} runs of {TURNS} turns at once", many, "turns/s", 5, 15, floor=one, at_least=True)]


async def _together(runner: Agent) -> None:
    await asyncio.gather(*(runner.invoke("go", budget=budget(TURNS)) for _ in range(RUNS)))


async def _in_turn(runner: Agent) -> None:
    for _ in range(RUNS):
        await runner.invoke("go", budget=budget(TURNS))
