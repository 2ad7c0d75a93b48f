"""A live tool turn: nothing is stored, so what is left is the runtime itself."""

from __future__ import annotations

import asyncio
from pathlib import Path
from time import process_time

from pydantic import create_model

from protolink.llms import ModelTurn
from protolink.models import ConversationHistory

from .row import Row
from .timing import Marks, alternated
from .workload import Script, agent, arguments, budget, count

TURNS = 430
ROUNDS = 9


def rows(directory: Path) -> list[Row]:
    """``directory`` is not needed."""
    marked: list[Marks] = []

    def measured() -> float:
        marked.append(asyncio.run(_run(TURNS)))
        return marked[-1].per_turn(1, TURNS)

    measured()
    marked.clear()
    turn, awaited, floor = alternated(
        measured,
        lambda: asyncio.run(_run(TURNS, awaited=True)).per_turn(1, TURNS),
        lambda: _floor(5000),
        times=ROUNDS,
    )
    early, late = _medians(marked, 100, 400)
    return [
        Row("live tool turn, CPU", turn * 1e6, "us", 30, 15, floor=floor * 1e6),
        Row("  with a model that has to be awaited", awaited * 1e6, "us", 30, 15, floor=floor * 1e6),
        Row("  its CPU at turn 400 against 100", late * 1e6, "us", 1.1, 1.05, floor=early * 1e6),
    ]


async def _run(turns: int, *, awaited: bool = False) -> Marks:
    marks = Marks(process_time)
    script = Script("count", turns, mark=marks)

    async def later(history: ConversationHistory, system_prompt: str) -> ModelTurn:
        return script(history, system_prompt)

    runner = agent(later if awaited else script, count)
    await runner.invoke("go", budget=budget(turns))
    return marks


def _floor(turns: int) -> float:
    """Validate, call, append."""
    shape = create_model("Arguments", key=(str, ...), limit=(int, ...), exact=(bool, False))
    calls = [arguments(turn) for turn in range(turns)]
    conversation: list[object] = []
    began = process_time()
    for call in calls:
        conversation.append(count(**shape.model_validate(call, strict=True).model_dump()))
    return (process_time() - began) / turns


def _medians(marked: list[Marks], *turns: int) -> list[float]:
    found = [sorted(marks.around(turn) for marks in marked) for turn in turns]
    return [values[len(values) // 2] for values in found]
