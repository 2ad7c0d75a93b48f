"""Reports of a long run: making one, and comparing two.

The floors are what has to be done with the same data at the least: once through JSON and back, and a look at every
value of both sides.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from time import process_time
from typing import Any

from protolink import RunRecorder, RunReport, Task, diff_run_reports
from protolink.models.json import encode, loads

from .row import Row
from .timing import alternated
from .workload import Script, agent, budget, count

EVENTS = 10_000
EVENTS_PER_TURN = 14
ROUNDS = 5


def rows(directory: Path) -> list[Row]:
    """``directory`` is not needed."""
    small, large = _recordings(EVENTS), _recordings(2 * EVENTS)
    reports, twice = ([recorder.to_report() for recorder in side] for side in (small, large))
    assert diff_run_reports(*reports).matches, "two runs of the same work must match"
    trees = [loads(encode(report.to_dict())) for report in reports]
    build, through_json, diff, look, longer = alternated(
        _timed(small[0].to_report),
        _timed(lambda: loads(encode(reports[0].to_dict()))),
        _timed(lambda: diff_run_reports(*reports)),
        _timed(lambda: _alike(*trees)),
        _timed(lambda: diff_run_reports(*twice)),
        times=ROUNDS,
    )
    growth = len(twice[0].events) / len(reports[0].events) / 2  # the runs are not exactly twice as long
    return [
        Row(f"report of {len(reports[0].events)} events", build * 1e3, "ms", 2, 0.25, floor=through_json * 1e3),
        Row("  comparing two of them", diff * 1e3, "ms", 25, 10, floor=look * 1e3),
        Row("  comparing two twice as long", longer * 1e3 / growth, "ms", 2.2, 2.05, floor=diff * 1e3),
    ]


def _recordings(events: int) -> list[RunRecorder]:
    return [asyncio.run(_record(events // EVENTS_PER_TURN)) for _ in range(2)]


async def _record(turns: int) -> RunRecorder:
    recorder = RunRecorder()
    runner = agent(Script("count", turns), count)
    async for event in runner.handle_task_streaming(Task.create_infer(prompt="go", budget=budget(turns))):
        await recorder.record_task_event(event)
    return recorder


def _timed(work: Callable[[], RunReport | Any]) -> Callable[[], float]:
    def measure() -> float:
        began = process_time()
        work()
        return process_time() - began

    return measure


def _alike(left: Any, right: Any) -> int:
    """Compare all values, one by one; returns how many are equal."""
    if isinstance(left, dict) and isinstance(right, dict):
        return sum(_alike(value, right.get(key)) for key, value in left.items())
    if isinstance(left, list) and isinstance(right, list):
        return sum(map(_alike, left, right))
    return int(left == right)
