"""How many children a run has at once, and in all, when several are asked for in one turn."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from agent_support import agent, call, delegate, infer, outcome, played

from protolink import Agent, SubagentLimitError, SubagentLimits, Tool
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
