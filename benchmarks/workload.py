"""The work that is measured: a model that asks for one tool call after the other, and stops."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from protolink import Agent, RunBudget
from protolink.llms import Call, MockLLM, ModelTurn
from protolink.models import ConversationHistory

KILOBYTE = "x" * 1000


def look_up(key: str, limit: int, exact: bool = False) -> dict[str, Any]:
    """Look something up; the answer has about 1 KB."""
    return {"key": key, "found": limit, "body": KILOBYTE}


def count(key: str, limit: int, exact: bool = False) -> dict[str, Any]:
    """Look something up; the answer is short."""
    return {"key": key, "found": limit}


def arguments(turn: int) -> dict[str, Any]:
    """Different in every turn, as real calls are; the guard against repeats stays quiet."""
    return {"key": f"item-{turn}", "limit": turn, "exact": True}


class Script:
    """A model that calls ``tool`` in each of ``turns`` turns, then asks the user if ``asks``, then answers.

    It has no state: the turn is read off the conversation, so any number of runs may share it. ``mark`` is called first
    in every turn.
    """

    def __init__(self, tool: str, turns: int, *, asks: bool = False, mark: Callable[[], None] | None = None) -> None:
        self._tool = tool
        self._turns = turns
        self._asks = asks
        self._mark = mark

    def __call__(self, history: ConversationHistory, system_prompt: str) -> ModelTurn:
        if self._mark is not None:
            self._mark()
        turn = len(history) // 2 - 1  # the prompts, then a call and its result for each turn
        if turn < self._turns:
            return ModelTurn("", (Call(f"call-{turn}", self._tool, arguments(turn)),))
        if self._asks and turn == self._turns:
            return ModelTurn("", (Call("question", "ask_user", {"question": "Go on?"}),))
        return ModelTurn("done")


def agent(script: Callable[..., Any], *tools: Any, durability: Path | Any = None) -> Agent:
    """An agent whose model plays the script."""
    llm = MockLLM(response_callback=script, tool_calling="native")
    return Agent(name="bench", description="measured", llm=llm, tools=tools, durability=durability)


def budget(turns: int) -> RunBudget:
    """Enough for a run of so many turns; without it a run ends after ten."""
    return RunBudget(max_steps=2 * turns + 10)
