"""How many children a run has at once, and in all, when several are asked for in one turn."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from agent_support import agent, call, delegate, infer, outcome, played

from protolink import Agent, SubagentLimitError, SubagentLimits, Task, Tool
from protolink.llms import Call, ModelTurn


def crowd(most: list[int], count: int = 5) -> list[Agent]:
    """Children with a tool that notes how many are at it."""
    now: list[int] = []

    async def look() -> str:
        """Look."""
        now.append(1)
        most.append(len(now))
        for _ in range(50):
            await asyncio.sleep(0)
        now.pop()
        return "seen"

    tool = Tool.from_callable(look, name="look")
    return [agent(call("look"), "answer", name=f"kid{number}", tools=[tool]) for number in range(count)]


def lead(children: list[Agent], limits: SubagentLimits) -> Agent:
    asks: list[dict[str, Any]] = [{"agent": kid.name, "action": "infer", "prompt": "go"} for kid in children]
    turn = ModelTurn("", tuple(Call(f"c{number}", "agent_call", args) for number, args in enumerate(asks)))
    return agent(turn, "done", native=True, subagents=children, parallel_tool_calls=True, subagent_limits=limits)


@pytest.mark.parametrize("limit", [1, 2, 4])
async def test_children_of_one_turn_wait_for_each_other(limit: int) -> None:
    most: list[int] = []
    children = crowd(most)
    assert await lead(children, SubagentLimits(max_concurrency=limit)).invoke("go") == "done"
    assert (len(most), max(most)) == (5, limit)


async def test_children_that_start_at_once_do_not_overshoot_their_number() -> None:
    most: list[int] = []
    children = crowd(most)
    error = await outcome(lead(children, SubagentLimits(max_children=2)), infer())
    assert isinstance(error, SubagentLimitError)
    assert str(error) == "Subagent count exceeded: 3 > 2"
    assert [played(kid.llm) for kid in children] == [2, 2, 0, 0, 0]  # type: ignore[arg-type]


@pytest.mark.parametrize("limit", [1, 2])
async def test_a_child_without_room_for_its_own_child_fails_at_once(limit: int) -> None:
    """Its parent holds the room that it would wait for."""
    grand = agent("grand", name="grand")
    kid = agent(delegate("grand"), "kid", name="kid", subagents=[grand])
    limits = SubagentLimits(max_depth=2, max_concurrency=limit)
    error = await outcome(agent(delegate("kid"), "done", subagents=[kid], subagent_limits=limits), infer())
    if limit == 2:
        assert error is None
    else:
        assert isinstance(error, SubagentLimitError)
        assert str(error) == "Too many subagents at once: 2 > 1"
    assert played(grand.llm) == limit - 1  # type: ignore[arg-type]


# ------------------------------------------------------------------------------------------------ own handlers


class Handled(Agent):
    """A child that does its tasks itself; ``most`` notes how many are at it."""

    def __init__(self, name: str, most: list[int], now: list[int]) -> None:
        super().__init__(name=name, verbosity=0)
        self._most, self._now = most, now

    async def handle_task(self, task: Task) -> Task:
        self._now.append(1)
        self._most.append(len(self._now))
        for _ in range(50):
            await asyncio.sleep(0)
        self._now.pop()
        return task.complete("seen")


def handled(most: list[int], count: int = 5) -> list[Agent]:
    now: list[int] = []
    return [Handled(f"kid{number}", most, now) for number in range(count)]


@pytest.mark.parametrize("limit", [1, 2, 4])
async def test_children_with_handlers_of_their_own_wait_for_each_other_too(limit: int) -> None:
    most: list[int] = []
    assert await lead(handled(most), SubagentLimits(max_concurrency=limit)).invoke("go") == "done"
    assert (len(most), max(most)) == (5, limit)


async def test_children_with_handlers_of_their_own_count_as_children() -> None:
    most: list[int] = []
    error = await outcome(lead(handled(most), SubagentLimits(max_children=2)), infer())
    assert isinstance(error, SubagentLimitError)
    assert str(error) == "Subagent count exceeded: 3 > 2"
    assert len(most) == 2


async def test_they_count_together_with_other_children() -> None:
    most: list[int] = []
    children = [*crowd([], 1), *handled(most, 3)[1:]]
    error = await outcome(lead(children, SubagentLimits(max_children=2)), infer())
    assert isinstance(error, SubagentLimitError)
    assert len(most) == 1


async def test_a_child_with_a_handler_of_its_own_may_be_nested_too_deep() -> None:
    most: list[int] = []
    kid = agent(delegate("kid0"), "kid", name="kid", subagents=handled(most, 1))
    error = await outcome(agent(delegate("kid"), "done", subagents=[kid]), infer())
    assert isinstance(error, SubagentLimitError)
    assert str(error) == "Subagent nesting depth exceeded: 2 > 1"
    assert most == []
