"""Runs that the code of a run submits to its own group: the place that it holds must not make it wait for ever."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from agent_support import Gate, agent, call, until

from protolink import Agent, AgentGroup, GroupLimits, RunHandle, Task, Tool
from protolink.journal import InMemoryDurableStore
from protolink.tools import ask_user_tool

ONE = GroupLimits(max_concurrent_runs=1)


def lead(act: Callable[[], Any], *responses: Any, **options: Any) -> Agent:
    """An agent whose model calls ``act`` in its first turn."""
    return agent(
        call("act"), *(responses or ("done",)), name="lead", tools=[Tool.from_callable(act, name="act")], **options
    )


def counted(turns: int, most: list[int]) -> Tool:
    """A tool that notes how many run it at once."""
    now: list[int] = []

    async def work() -> str:
        """Work."""
        now.append(1)
        most.append(len(now))
        for _ in range(turns):
            await asyncio.sleep(0)
        now.pop()
        return "worked"

    return Tool.from_callable(work, name="work")


async def bounded(result: Any) -> Any:
    """A run that waits for itself fails the test in place of hanging it."""
    async with asyncio.timeout(20):
        return await result


@pytest.mark.claim("GRP-042")
@pytest.mark.parametrize("whom", ["kid", "lead"])
@pytest.mark.parametrize("apart", [False, True])
async def test_a_run_waits_for_one_that_it_submitted_although_the_group_is_full(whom: str, apart: bool) -> None:
    async def act() -> Any:
        async def ask() -> Any:
            return (await group.run(whom, "go").result()).output

        return (await asyncio.gather(ask()))[0] if apart else await ask()

    async with AgentGroup([lead(act, "one", "two"), agent("one", name="kid")], limits=ONE) as group:
        handle = group.run("lead", "go")
        assert (await bounded(handle.result())).output == ("two" if whom == "lead" else "one")
        assert group.snapshot()["runs"]["active"] == 0


async def test_a_chain_of_such_runs_goes_on_too() -> None:
    async def act() -> Any:
        depth.append(1)
        return (
            "deep" if len(depth) == 4 else (await group.run("lead", Task.create_tool_call("act", {})).result()).output
        )

    depth: list[int] = []
    async with AgentGroup([lead(act)], limits=ONE) as group:
        result = await bounded(group.run("lead", Task.create_tool_call("act", {})).result())
    assert (result.output, len(depth)) == ("deep", 4)


async def test_a_place_is_lent_to_one_at_a_time_and_in_order() -> None:
    most: list[int] = []
    ended: list[str] = []

    async def act() -> str:
        handles = [group.run("kid", Task.create_tool_call("work", {})) for _ in range(5)]
        for handle in handles:
            await handle.result()
            ended.append(handle.context.run_id)
        assert [other.done for other in handles] == [True] * 5
        return "all"

    kid = agent(name="kid", tools=[counted(20, most)])
    async with AgentGroup([lead(act), kid], limits=ONE) as group:
        assert (await bounded(group.run("lead", "go").result())).status == "completed"
    assert (len(most), max(most)) == (5, 1)


async def test_others_still_wait_for_a_place_of_their_own() -> None:
    kids = Gate()

    async def act() -> Any:
        return (await group.run("kid", Task.create_tool_call("wait", {})).result()).output

    kid = Agent(name="kid", tools=[Tool.from_callable(kids.wait, name="wait")], verbosity=0)
    async with AgentGroup([lead(act), kid, agent("other", name="other")], limits=ONE) as group:
        handle = group.run("lead", "go")
        other = group.run("other", "go")
        await kids.reached.wait()
        assert (other.queued, group.snapshot()["runs"]) == (
            True,
            {**group.snapshot()["runs"], "active": 1, "queued": 1},
        )
        kids.opened.set()
        await bounded(handle.result())
        assert (await bounded(other.result())).output == "other"


async def test_a_run_that_outlives_the_one_that_submitted_it_keeps_the_place() -> None:
    kids = Gate()
    left: list[RunHandle] = []

    async def act() -> str:
        left.append(group.run("kid", Task.create_tool_call("wait", {})))
        await kids.reached.wait()
        return "left alone"

    kid = Agent(name="kid", tools=[Tool.from_callable(kids.wait, name="wait")], verbosity=0)
    async with AgentGroup([lead(act), kid, agent("other", name="other")], limits=ONE) as group:
        await bounded(group.run("lead", "go").result())
        other = group.run("other", "go")
        assert (other.queued, group.snapshot()["runs"]["active"]) == (True, 1)
        kids.opened.set()
        assert (await bounded(other.result())).output == "other"
        assert left[0].done


async def test_code_that_is_left_of_an_ended_run_has_no_place() -> None:
    """What a tool left behind holds nothing any more and waits like everybody else."""
    gate, held = asyncio.Event(), Gate()
    late: list[asyncio.Task[Any]] = []

    async def act() -> str:
        async def later() -> bool:
            await gate.wait()
            return group.run("kid", "go").queued

        late.append(asyncio.create_task(later()))
        return "left"

    busy = Agent(name="busy", tools=[Tool.from_callable(held.wait, name="wait")], verbosity=0)
    async with AgentGroup([lead(act), agent("x", name="kid"), busy], limits=ONE) as group:
        await bounded(group.run("lead", "go").result())
        group.run("busy", Task.create_tool_call("wait", {}))
        await held.reached.wait()
        gate.set()
        assert await late[0]


async def test_a_resumed_run_lends_its_place_and_whoever_resumed_it_has_none() -> None:
    store = InMemoryDurableStore()
    gate = Gate()

    async def act() -> Any:
        await gate.wait()
        return (await group.run("kid", "go").result()).output

    def desk(*responses: Any) -> Agent:
        return agent(
            *responses, name="desk", tools=[ask_user_tool(), Tool.from_callable(act, name="act")], durability=store
        )

    async with AgentGroup(
        [desk(call("ask_user", question="?"), call("act"), "done"), agent("x", name="kid")], limits=ONE
    ) as group:
        paused = await bounded(group.run("desk", "go").result())
        request = paused.task.metadata["interruption"]["request_id"]
        handle = await group.resume("desk", paused.task.metadata["run_id"], request_id=request, answer="yes")
        await gate.reached.wait()
        outside = group.run("kid", "go")
        assert outside.queued
        await outside.cancel()
        gate.opened.set()
        assert (await bounded(handle.result())).output == "done"


async def test_runs_of_a_group_without_limits_are_counted_as_ever() -> None:
    async def act() -> Any:
        handle = group.run("kid", "go")
        counts.append(group.snapshot()["runs"]["active"])
        return (await handle.result()).output

    counts: list[int] = []
    async with AgentGroup([lead(act), agent("x", name="kid")]) as group:
        await bounded(group.run("lead", "go").result())
        await until(lambda: group.snapshot()["runs"]["active"] == 0)
    assert counts == [2]
