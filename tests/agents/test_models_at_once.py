"""Models that answer without being awaited: the run is shorter, and neither blocks others nor becomes deaf."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from agent_support import agent, call

from protolink import Agent, RunBudget, SubagentLimits
from protolink.journal import InMemoryDurableStore
from protolink.llms import Call, MockLLM, ModelTurn
from protolink.models import ConversationHistory

TURNS = 30


def look(number: int) -> int:
    """Look at a number."""
    return number


def looking(*, durable: bool = False, seen: Any = None) -> Agent:
    """An agent whose model looks at one number after the other, and says so to ``seen``."""

    def played(history: ConversationHistory, system_prompt: str) -> Any:
        turn = sum(message.role == "assistant" for message in history)
        if seen is not None:
            seen(turn)
        return call("look", number=turn) if turn < TURNS else "seen"

    store = {"durability": InMemoryDurableStore()} if durable else {}
    return Agent(name="watcher", llm=MockLLM(response_callback=played), tools=[look], verbosity=0, **store)


BUDGET = RunBudget(max_steps=2 * TURNS + 10)


@pytest.mark.parametrize("durable", [False, True])
async def test_others_go_on_once_a_turn(durable: bool) -> None:
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            ticks += 1
            await asyncio.sleep(0)

    other = asyncio.create_task(tick())
    assert await looking(durable=durable).invoke("go", budget=BUDGET) == "seen"
    other.cancel()
    assert ticks >= TURNS


async def test_two_runs_take_turns() -> None:
    order: list[str] = []
    first, second = looking(seen=lambda turn: order.append("a")), looking(seen=lambda turn: order.append("b"))
    await asyncio.gather(first.invoke("go", budget=BUDGET), second.invoke("go", budget=BUDGET))
    assert sorted(order[:6]) == ["a", "a", "a", "b", "b", "b"]


@pytest.mark.parametrize("durable", [False, True])
async def test_a_caller_that_is_canceled_between_two_turns_stops_the_run(durable: bool) -> None:
    turns: list[int] = []

    def seen(turn: int) -> None:
        turns.append(turn)
        if turn == 3:
            asyncio.get_running_loop().call_soon(running.cancel)

    running = asyncio.ensure_future(looking(durable=durable, seen=seen).invoke("go", budget=BUDGET))
    with pytest.raises(asyncio.CancelledError):
        await running
    assert turns[-1] == 3


@pytest.mark.parametrize("durable", [False, True])
async def test_it_does_not_hold_up_another_child_whose_work_is_waited_for(durable: bool) -> None:
    """A result that is not taken in is not stored either: its effect would be uncertain after a crash."""
    order: list[str] = []

    async def slow(number: int) -> int:
        """Look at a number, slowly."""
        await asyncio.sleep(0)
        return number

    def played(history: ConversationHistory, system_prompt: str) -> Any:
        turn = sum(message.role == "assistant" for message in history)
        order.append(f"slow {turn}")
        return call("slow", number=turn) if turn < 3 else "seen"

    quick = looking(seen=lambda turn: order.append(f"quick {turn}"))
    other = Agent(name="other", llm=MockLLM(response_callback=played), tools=[slow], verbosity=0)
    both = [
        Call(name, "agent_call", {"agent": name, "action": "infer", "prompt": "go"}) for name in ("watcher", "other")
    ]
    lead = agent(
        ModelTurn("", tuple(both)), "done", native=True, subagents=[quick, other], parallel_tool_calls=True,
        **({"durability": InMemoryDurableStore()} if durable else {}),
    )  # fmt: skip
    assert await lead.invoke("go", budget=BUDGET) == "done"
    assert order.index("slow 3") < order.index(f"quick {TURNS // 2}")


async def test_it_does_not_hold_up_the_end_of_work_that_is_not_wanted_any_more() -> None:
    order: list[str] = []

    async def wait() -> None:
        """Wait until canceled."""
        try:
            await asyncio.Event().wait()
        finally:
            order.append("waited")

    async def fail() -> None:
        """Fail."""
        await asyncio.sleep(0)
        raise ValueError("broken")

    grand = agent(call("wait"), "never", name="grand", tools=[wait])
    two = (Call("1", "agent_call", {"agent": "grand", "action": "infer", "prompt": "go"}), Call("2", "fail", {}))
    failing = agent(
        ModelTurn("", two), "never", name="failing", native=True, subagents=[grand], tools=[fail],
        parallel_tool_calls=True,
    )  # fmt: skip
    quick = looking(seen=lambda turn: order.append(f"quick {turn}"))
    both = [
        Call(name, "agent_call", {"agent": name, "action": "infer", "prompt": "go"}) for name in ("watcher", "failing")
    ]
    lead = agent(
        ModelTurn("", tuple(both)), "done", native=True, subagents=[quick, failing], parallel_tool_calls=True,
        subagent_limits=SubagentLimits(max_depth=2),
    )  # fmt: skip
    with pytest.raises(Exception, match="broken"):
        await lead.invoke("go", budget=BUDGET)
    assert "waited" in order
    assert f"quick {TURNS // 2}" not in order  # the watcher's work is not wanted any more either


async def test_its_errors_are_those_of_any_model() -> None:
    with pytest.raises(Exception, match="no such model") as caught:
        await agent(ValueError("no such model")).invoke("go")
    assert isinstance(caught.value, ValueError) or isinstance(caught.value.__cause__, ValueError)


async def test_what_it_says_wrong_is_corrected() -> None:
    assert await agent('{"type": "tool_call"}', "better").invoke("go") == "better"
