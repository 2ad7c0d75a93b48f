"""The guard against a model that asks for the same thing again and again."""

from __future__ import annotations

from typing import Any

import pytest
from agent_support import Mode, agent, call, codes, delegate, infer, kinds, played, run_id, stream, turn

from protolink import Agent, Tool, ToolRejectedError
from protolink.journal import InMemoryDurableStore


class Noting:
    def __init__(self, **traits: Any) -> None:
        self.made: list[Any] = []
        self.tool = Tool.from_callable(self.note, **traits)

    def note(self, n: Any = None, m: Any = None) -> str:
        """Note a value."""
        self.made.append(n)
        return "noted"


async def test_same_action_again_is_not_executed(mode: Mode) -> None:
    noting, task = Noting(), infer()
    found = mode.agent(call("note", n=1), call("note", n=1), "done", tools=[noting.tool])
    await mode.run(found, task)
    assert task.get_output() == "done"
    assert noting.made == [1]


async def test_repeat_is_told_as_a_retry_and_costs_the_turn_but_no_correction() -> None:
    noting, task = Noting(), infer()
    found = agent(*[call("note", n=1)] * 5, "done", tools=[noting.tool])
    events = await stream(found, task)
    retries = [e for e in events if kinds([e]) == ["llm_retry"]]
    assert {e.metadata["reason"] for e in retries} == {"duplicate_action"}
    assert len(retries) == 4
    assert (task.get_output(), played(found.llm)) == ("done", 6)


async def test_order_of_the_arguments_does_not_matter() -> None:
    noting = Noting()
    found = agent(call("note", n=1, m=2), call("note", m=2, n=1), "done", tools=[noting.tool])
    assert await found.invoke("go") == "done"
    assert noting.made == [1]


async def test_other_arguments_are_another_action() -> None:
    noting = Noting()
    found = agent(*[call("note", n=n) for n in ("1", "2")], call("note", n=1), "done", tools=[noting.tool])
    assert await found.invoke("go") == "done"
    assert noting.made == ["1", "2", 1]


@pytest.mark.parametrize(("between", "runs"), [(4, 1), (5, 2)])
async def test_only_the_last_five_started_actions_are_looked_at(between: int, runs: int) -> None:
    noting = Noting()
    others = [call("note", n=f"other {n}") for n in range(between)]
    found = agent(call("note", n=0), *others, call("note", n=0), "done", tools=[noting.tool])
    assert await found.invoke("go") == "done"
    assert noting.made.count(0) == runs


async def test_tool_that_only_reads_may_be_asked_again(mode: Mode) -> None:
    noting, task = Noting(read_only=True), infer()
    await mode.run(mode.agent(*[call("note", n=1)] * 3, "done", tools=[noting.tool]), task)
    assert noting.made == [1, 1, 1]


async def test_calls_of_one_turn_are_not_compared_with_each_other() -> None:
    noting = Noting()
    found = agent(turn(("note", {"n": 1}), ("note", {"n": 1})), "done", native=True, tools=[noting.tool])
    assert await found.invoke("go") == "done"
    assert noting.made == [1, 1]


async def test_refused_request_is_not_remembered() -> None:
    made: list[int] = []

    def picky(n: int) -> str:
        """Pick."""
        return "ok"

    found = agent(call("picky", n="x"), call("picky", n="x"), "done", tools=[picky])
    task = infer()
    events = await stream(found, task)
    assert kinds(events).count("tool_rejected") == 2
    assert "llm_retry" not in kinds(events)
    assert made == []


async def test_action_that_was_started_and_refused_is_remembered() -> None:
    tries: list[int] = []

    def picky(n: int) -> None:
        """Pick."""
        tries.append(n)
        raise ToolRejectedError(code="no", message="no")

    task = infer()
    await agent(call("picky", n=1), call("picky", n=1), "done", tools=[picky]).run_task(task)
    assert tries == [1]


async def test_repeated_delegation_is_guarded_too() -> None:
    kid = agent("once", "never", name="kid")
    found = agent(delegate("kid"), delegate("kid"), "done", subagents=[kid])
    assert await found.invoke("go") == "done"
    assert played(kid.llm) == 1


async def test_repeats_end_at_the_step_limit() -> None:
    noting, task = Noting(), infer()
    found = agent(*[call("note", n=1)] * 12, tools=[noting.tool])
    await stream(found, task)
    assert codes(task) == ["budget_exceeded"]
    assert noting.made == [1]


@pytest.mark.claim("SLI-029")
async def test_guard_remembers_across_slices() -> None:
    noting, task = Noting(), infer()
    found = Agent(
        name="a",
        llm=agent(call("note", n=1), call("note", n=1), "done").llm,
        tools=[noting.tool],
        yield_after_steps=1,
        durability=InMemoryDurableStore(),
        verbosity=0,
    )
    await found.run_task(task)
    for _ in range(2):
        task = await found.resume_task(run_id(task))
    assert task.get_output() == "done"
    assert noting.made == [1]


async def test_two_tasks_do_not_know_of_each_other() -> None:
    noting = Noting()
    found = agent(call("note", n=1), "one", call("note", n=1), "two", tools=[noting.tool])
    assert [await found.invoke("go"), await found.invoke("go")] == ["one", "two"]
    assert noting.made == [1, 1]
