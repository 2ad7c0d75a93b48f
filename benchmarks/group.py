"""Many live runs in one group: the memory they take, and how they are admitted."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections.abc import Awaitable, Iterable
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from time import perf_counter

from protolink import AgentGroup, GroupLimits, RunEvent, RunHandle, Task
from protolink.llms import ModelTurn
from protolink.models import ConversationHistory

from .row import Row
from .timing import alternated
from .workload import Script, agent, budget, look_up

RUNS, TURNS, PLACES = 200, 10, 10
ROUNDS = 5


def rows(directory: Path) -> list[Row]:
    """``directory`` is not needed."""
    disordered: list[int] = []

    def measured() -> float:
        wait, wrong = asyncio.run(_admitted())
        disordered.append(wrong)
        return wait

    wait, floor = alternated(measured, lambda: asyncio.run(_by_hand()), times=ROUNDS)
    return [
        Row(f"memory of {RUNS} live runs of {TURNS} turns in a group", _grown(), "MB", 200, 100),
        Row(f"  admitted out of order to {PLACES} places", sum(disordered), "", 0),
        Row("  wait for a place, 99th percentile", wait * 1e3, "ms", 1.5, 1.1, floor=floor * 1e3),
    ]


class Together(Script):
    """Each run waits in its last turn until all of them are there, so that all live at once."""

    def __init__(self, runs: int) -> None:
        super().__init__("look_up", TURNS)
        self._missing = runs
        self._all = asyncio.Event()

    def __call__(self, history: ConversationHistory, system_prompt: str) -> Awaitable[ModelTurn]:
        return self._turn(super().__call__(history, system_prompt))

    async def _turn(self, turn: ModelTurn) -> ModelTurn:
        if not turn.calls:
            self._missing -= 1
            if self._missing == 0:
                self._all.set()
            await self._all.wait()
        return turn


def _grown() -> float | None:
    """MB by which the runs made a process of their own grow, at most; None where the system does not tell."""
    command = [sys.executable, "-m", "benchmarks.group"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    before, after = json.loads(done.stdout)
    return None if before is None or after is None else after - before


def _most_memory() -> float | None:
    """MB that this process had in memory at most."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        return None
    return next((int(line.split()[1]) / 1000 for line in lines if line.startswith("VmHWM")), None)


async def _live(runs: int) -> None:
    runner = agent(Together(runs), look_up)
    async with AgentGroup([runner]) as group:
        results = [await handle.result() for handle in [group.run(runner, _task()) for _ in range(runs)]]
    assert all(result.status == "completed" for result in results)


async def _admitted() -> tuple[float, int]:
    """Seconds that 99% of the runs waited at most, and how many were not admitted in their turn."""
    runner = agent(Script("look_up", TURNS), look_up)
    async with AgentGroup([runner], limits=GroupLimits(max_concurrent_runs=PLACES), max_retained_runs=RUNS) as group:
        handles = [group.run(runner, _task()) for _ in range(RUNS)]
        for handle in handles:
            await handle.result()
    waited = [found for handle in handles if (found := _queued_and_admitted(handle))]
    began = [admitted for _, admitted in waited]
    late = sum(following < earlier for earlier, following in pairwise(began))
    return _percentile(admitted - queued for queued, admitted in waited), late


def _queued_and_admitted(handle: RunHandle) -> tuple[float, float] | None:
    """Unix seconds; None for a run that did not have to wait."""
    told = {event.type: _at(event) for event in handle.report.events[:2]}
    return (told["run.queued"], told["run.admitted"]) if "run.queued" in told else None


def _at(event: RunEvent) -> float:
    return datetime.fromisoformat(event.timestamp).timestamp()


async def _by_hand() -> float:
    """The same runs behind a semaphore."""
    runner, places = agent(Script("look_up", TURNS), look_up), asyncio.Semaphore(PLACES)
    waits: list[float] = []

    async def run() -> None:
        began = perf_counter()
        async with places:
            waits.append(perf_counter() - began)
            await runner.start_run(_task()).result()

    await asyncio.gather(*(run() for _ in range(RUNS)))
    return _percentile(waits)


def _percentile(waits: Iterable[float]) -> float:
    found = sorted(waits)
    return found[len(found) * 99 // 100 - 1]


def _task() -> Task:
    return Task.create_infer(prompt="go", budget=budget(TURNS))


if __name__ == "__main__":
    asyncio.run(_live(1))  # what is loaded once is no memory of a run
    first = _most_memory()
    asyncio.run(_live(RUNS))
    print(json.dumps([first, _most_memory()]))
