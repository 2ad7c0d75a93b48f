"""A group at its edges: starting and closing at once, draining, admission in any order of events, durable runs."""

from __future__ import annotations

import asyncio
import json
from dataclasses import dataclass, field
from typing import Any

import pytest
from agent_support import Gate, agent, call, until
from hypothesis import given, settings
from hypothesis import strategies as st

from protolink import (
    Agent,
    AgentGroup,
    CapabilityPolicy,
    GroupLimits,
    InMemoryDurableStore,
    RunContext,
    RunHandle,
    Task,
    Tool,
)
from protolink.testing import FakeClock


async def listed(items: Any) -> list[Any]:
    return [item async for item in items]


class Part(Agent):
    """Something to start and stop; ``hold`` keeps its start waiting."""

    def __init__(self, name: str, log: list[str], hold: Gate | None = None) -> None:
        super().__init__(name=name, verbosity=0)
        self.log, self.hold = log, hold

    async def start(self) -> None:
        self.log.append(f"start {self.name}")
        if self.hold is not None:
            await self.hold.wait()

    async def stop(self) -> None:
        self.log.append(f"stop {self.name}")


def waiter(gate: Gate, name: str = "worker", **options: Any) -> Agent:
    async def wait() -> str:
        """Wait."""
        await gate.wait()
        return "waited"

    return Agent(name=name, tools=[wait], verbosity=0, **options)


def wait_task() -> Task:
    return Task.create_tool_call(tool_name="wait", args={})


# ---------------------------------------------------------------------------------------------------- lifecycle


@pytest.mark.claim("INT-031")
async def test_one_block_starts_stops_and_takes_back_what_several_agents_would() -> None:
    log: list[str] = []
    external = Part("external", log)

    class Broken(Part):
        async def start(self) -> None:
            await super().start()
            raise OSError("port taken")

    async with AgentGroup([Part("one", log), Part("two", log)], external_agents=[external]) as group:
        assert log == ["start one", "start two"]
        assert [item["ready"] for item in group.snapshot()["agents"]] == [True, True, True]
    assert log == ["start one", "start two", "stop two", "stop one"]
    log.clear()
    with pytest.raises(OSError, match="port taken"):
        async with AgentGroup([Part("one", log), Broken("two", log)], external_agents=[external]):
            raise AssertionError("never entered")
    assert log == ["start one", "start two", "stop two", "stop one"]


async def test_close_during_the_start_leaves_nothing_running() -> None:
    log: list[str] = []
    hold = Gate()
    group = AgentGroup([Part("one", log, hold), Part("two", log)])
    starting = asyncio.ensure_future(group.start())
    await hold.reached.wait()
    closing = asyncio.ensure_future(group.close())
    await asyncio.sleep(0)
    assert group.snapshot()["state"] == "starting"
    hold.opened.set()
    await asyncio.gather(starting, closing)
    assert log == ["start one", "start two", "stop two", "stop one"]
    assert group.snapshot()["state"] == "closed"


async def test_start_that_is_canceled_is_taken_back() -> None:
    log: list[str] = []
    hold = Gate()
    group = AgentGroup([Part("one", log), Part("two", log, hold)])
    starting = asyncio.ensure_future(group.start())
    await hold.reached.wait()
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    assert log == ["start one", "start two", "stop two", "stop one"]
    assert group.snapshot()["state"] == "closed"


async def test_start_that_takes_too_long_is_taken_back() -> None:
    log: list[str] = []
    group = AgentGroup([Part("one", log), Part("two", log, Gate())], startup_timeout=1e-9)
    with pytest.raises(TimeoutError):
        await group.start()
    assert log[-2:] == ["stop two", "stop one"]


async def test_close_that_is_canceled_while_a_part_stops_is_finished_by_the_next() -> None:
    log: list[str] = []
    stuck = Gate()

    class Slow(Part):
        async def stop(self) -> None:
            await super().stop()
            await stuck.wait()

    group = AgentGroup([Part("one", log), Slow("two", log)])
    await group.start()
    closing = asyncio.ensure_future(group.close())
    await stuck.reached.wait()
    closing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await closing
    assert group.snapshot()["state"] == "closing"
    stuck.opened.set()
    await group.close()
    assert log[2:] == ["stop two", "stop two", "stop one"]
    assert group.snapshot()["state"] == "closed"


@pytest.mark.parametrize("wrong", [{"max_concurrent_runs": 4}, 4, "4"])
async def test_limits_are_group_limits(wrong: Any) -> None:
    with pytest.raises(TypeError, match="GroupLimits"):
        AgentGroup([agent("done")], limits=wrong)


async def test_several_may_close_at_once_and_a_part_too() -> None:
    log: list[str] = []

    class Closing(Part):
        group: AgentGroup

        async def stop(self) -> None:
            await super().stop()
            await self.group.close()

    part = Closing("one", log)
    group = part.group = AgentGroup([part])
    await group.start()
    await asyncio.wait_for(asyncio.gather(group.close(), group.close()), 30)
    await group.close()
    assert log == ["start one", "stop one"]


async def test_tool_that_closes_its_own_group_is_canceled_with_the_others() -> None:
    groups: list[AgentGroup] = []
    log: list[str] = []

    async def close() -> str:
        """Close the group."""
        await groups[0].close()
        return "never"

    closer = Agent(name="closer", tools=[close], verbosity=0)
    groups.append(AgentGroup([Part("part", log), closer]))
    await groups[0].start()
    handle = groups[0].run("closer", Task.create_tool_call(tool_name="close", args={}))
    assert (await asyncio.wait_for(handle.result(), 30)).status == "canceled"
    await asyncio.wait_for(groups[0].close(), 30)
    assert log == ["start part", "stop part"]


async def test_snapshot_is_json_and_tells_the_states_in_their_order() -> None:
    hold, gate = Gate(), Gate()
    group = AgentGroup([Part("one", [], hold), waiter(gate)])
    states = [group.snapshot()["state"]]
    starting = asyncio.ensure_future(group.start())
    await hold.reached.wait()
    states.append(group.snapshot()["state"])
    assert [item["ready"] for item in group.snapshot()["agents"]] == [True, False]
    hold.opened.set()
    await starting
    states.append(group.snapshot()["state"])
    handle = group.run("worker", wait_task())
    await gate.reached.wait()
    closing = asyncio.ensure_future(group.close(drain=60))
    await until(lambda: group.snapshot()["state"] != "running")
    states.append(group.snapshot()["state"])
    assert json.loads(json.dumps(group.snapshot())) == group.snapshot()
    gate.opened.set()
    await closing
    states.append(group.snapshot()["state"])
    assert states == ["created", "starting", "running", "closing", "closed"]
    assert (await handle.result()).status == "completed"


# ---------------------------------------------------------------------------------------------------- draining


async def test_drain_lets_durable_work_park_where_it_is_and_be_resumed() -> None:
    gate = Gate()
    store = InMemoryDurableStore()

    async def wait() -> str:
        """Wait."""
        await gate.wait()
        return "waited"

    act = Tool.from_callable(lambda: "acted", name="act", capabilities=["act"])
    options: dict[str, Any] = {
        "tools": [wait, act],
        "policy": CapabilityPolicy({"act": "require_approval"}),
        "durability": store,
    }
    group = AgentGroup([agent(call("wait"), call("act"), **options)])
    await group.start()
    handle = group.run("agent", "go")
    await gate.reached.wait()
    closing = asyncio.ensure_future(group.close(drain=60))
    await asyncio.sleep(0)
    gate.opened.set()
    await closing
    result = await handle.result()
    assert (result.status, group.snapshot()["runs"]["active"]) == ("input-required", 0)
    request = handle.task.metadata["interruption"]["request_id"]
    again = agent(call("wait"), call("act"), "done", **options)
    again.llm._played = 2  # type: ignore[union-attr]
    assert await again.resume(handle.context.run_id, request_id=request, approved=True) == "done"


@pytest.mark.parametrize("below", [False, True])
async def test_parking_durable_work_pauses_it_before_its_next_turn_and_loses_nothing(below: bool) -> None:
    """A run of many turns need not be canceled because a process ends: a later one goes on where it stopped."""
    gate, effects = Gate(), list[str]()
    store = InMemoryDurableStore()

    async def work(text: str) -> str:
        """Work."""
        effects.append(text)
        await gate.wait()
        return text

    turns = [call("work", text="one"), call("work", text="two"), "done"]

    def made(played: int = 0) -> Agent:
        worker = agent(*turns, name="agent" if not below else "kid", tools=[work])
        if below:
            work_below = {"type": "agent_call", "agent": "kid", "action": "infer", "prompt": "go"}
            top = agent(work_below, "all done", subagents=[worker], durability=store)
            top.llm._played = 1 if played else 0  # type: ignore[union-attr]
        else:
            top = agent(*turns, tools=[work], durability=store)
            top.llm._played = played  # type: ignore[union-attr]
        worker.llm._played = played  # type: ignore[union-attr]
        return top

    group = AgentGroup([made()])
    await group.start()
    handle = group.run("agent", "go")
    await gate.reached.wait()
    closing = asyncio.ensure_future(group.close(drain=3600, park=True))
    await until(lambda: group.snapshot()["state"] == "closing")
    gate.opened.set()
    await asyncio.wait_for(closing, 30)
    result = await handle.result()
    assert (result.status, effects) == ("input-required", ["one"])
    assert result.handoff is not None
    assert (result.handoff.reason, result.handoff.steps) == ("drain", 1)
    assert handle.task.metadata["interruption"]["kind"] == "yield"
    assert await made(1).resume(handle.context.run_id) == ("all done" if below else "done")
    assert effects == ["one", "two"]


async def test_run_that_was_just_submitted_parks_before_its_first_turn() -> None:
    store = InMemoryDurableStore()
    target = agent("done", durability=store)
    group = AgentGroup([target])
    await group.start()
    handle = group.run("agent", "go")
    await group.close(drain=3600, park=True)
    result = await handle.result()
    assert result.status in ("input-required", "completed")
    assert await target.resume(handle.context.run_id) == "done"


async def test_live_work_cannot_park_and_is_drained_as_ever() -> None:
    gate = Gate()
    group = AgentGroup([waiter(gate)])
    await group.start()
    handle = group.run("worker", wait_task())
    await gate.reached.wait()
    with pytest.raises(ValueError, match="needs drain"):
        await group.close(park=True)
    closing = asyncio.ensure_future(group.close(drain=3600, park=True))
    await asyncio.sleep(0)
    gate.opened.set()
    await closing
    assert (await handle.result()).status == "completed"


async def test_drain_that_is_cut_short_still_ends_every_run() -> None:
    gates = [Gate(), Gate()]
    log: list[str] = []
    group = AgentGroup([Part("part", log), waiter(gates[0], "one"), waiter(gates[1], "two")])
    await group.start()
    handles = [group.run(name, wait_task()) for name in ("one", "two")]
    for gate in gates:
        await gate.reached.wait()
    closing = asyncio.ensure_future(group.close(drain=3600))
    await asyncio.sleep(0)
    closing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await closing
    assert [handle.done for handle in handles] == [True, True]
    assert [(await handle.result()).status for handle in handles] == ["canceled", "canceled"]
    assert log == ["start part", "stop part"]
    assert group.snapshot()["state"] == "closed"
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_every_run_has_ended_before_the_first_part_stops() -> None:
    gate = Gate()
    seen: list[bool] = []
    handles: list[RunHandle] = []

    class Watching(Part):
        async def stop(self) -> None:
            seen.extend(handle.done for handle in handles)

    async with AgentGroup([Watching("part", []), waiter(gate)]) as group:
        handles.extend(group.run("worker", wait_task()) for _ in range(3))
        await gate.reached.wait()
    assert seen == [True, True, True]


@pytest.mark.parametrize("wrong", [-1, float("nan"), float("inf"), "5", True])
async def test_drain_must_be_seconds(wrong: Any) -> None:
    group = AgentGroup([Agent(name="a", verbosity=0)])
    await group.start()
    with pytest.raises(ValueError, match="drain"):
        await group.close(drain=wrong)
    assert group.snapshot()["state"] == "running"
    await group.close()


# ---------------------------------------------------------------------------------------------------- admission


@dataclass
class Desk:
    """A worker whose runs end when the test says so; ``begun`` is the order in which they were let in."""

    begun: list[int] = field(default_factory=list)
    gates: dict[int, Gate] = field(default_factory=dict)

    def agent(self) -> Agent:
        async def work(number: int) -> int:
            """Work."""
            self.begun.append(number)
            await self.gates.setdefault(number, Gate()).wait()
            return number

        return Agent(name="worker", tools=[work], verbosity=0)

    def task(self, number: int) -> Task:
        return Task.create_tool_call(tool_name="work", args={"number": number})


OPS = st.lists(
    st.one_of(
        st.just(("submit",)),
        st.tuples(st.just("finish"), st.integers(0, 9)),
        st.tuples(st.just("cancel"), st.integers(0, 20)),
        st.tuples(st.just("later"), st.integers(1, 12)),
        st.tuples(st.just("turns"), st.integers(1, 8)),
    ),
    max_size=30,
)


@given(OPS, st.integers(1, 3), st.none() | st.integers(0, 3))
@settings(max_examples=80)
async def test_whoever_is_let_in_is_let_in_in_the_order_of_submission(
    ops: list[Any], most: int, waiting: int | None
) -> None:
    desk, clock = Desk(), FakeClock()
    limits = GroupLimits(max_concurrent_runs=most, max_queued_runs=waiting, queue_timeout=10)
    handles: list[RunHandle] = []
    async with AgentGroup([desk.agent()], limits=limits, clock=clock, max_retained_runs=1000) as group:
        for op, *args in ops:
            if op == "submit":
                handles.append(group.run("worker", desk.task(len(handles))))
            elif op == "finish" and desk.begun:
                number = desk.begun[args[0] % len(desk.begun)]
                desk.gates.setdefault(number, Gate()).opened.set()
            elif op == "cancel" and handles:
                await handles[args[0] % len(handles)].cancel()
            elif op == "later":
                clock.advance(args[0])
            elif op == "turns":
                for _ in range(args[0]):
                    await asyncio.sleep(0)
            runs = group.snapshot()["runs"]
            assert runs["active"] <= most
            assert waiting is None or runs["queued"] <= waiting
            assert runs["active"] + runs["queued"] + runs["retained"] <= len(handles)
        for _ in range(len(handles) + 1):  # let everybody finish
            for number in range(len(handles)):
                desk.gates.setdefault(number, Gate()).opened.set()
            await asyncio.sleep(0)
        results = [await asyncio.wait_for(handle.result(), 30) for handle in handles]
        assert desk.begun == sorted(desk.begun)
        assert len(set(desk.begun)) == len(desk.begun)
        for number, (handle, result) in enumerate(zip(handles, results, strict=True)):
            if result.status == "failed":
                assert result.error is not None
                assert result.error["code"] in ("queue_full", "queue_timeout")
                assert number not in desk.begun
            else:
                assert result.status == "canceled" or (result.status, result.output) == ("completed", number)
            types = [event.type for event in await listed(handle.events())]
            assert types[-1] == "task.status"
            assert types.count("run.rejected") == (result.status == "failed")
            if "run.admitted" in types:
                assert types[:2] == ["run.queued", "run.admitted"]
        runs = group.snapshot()["runs"]
        assert (runs["active"], runs["queued"], runs["retained"]) == (0, 0, len(handles))
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_waiting_time_of_a_run_is_not_its_runtime() -> None:
    desk = Desk()
    async with AgentGroup([desk.agent()], limits=GroupLimits(max_concurrent_runs=1)) as group:
        first, second = group.run("worker", desk.task(1)), group.run("worker", desk.task(2))
        await until(lambda: desk.begun == [1])
        assert (first.queued, second.queued) == (False, True)
        assert second.task.state.value == "submitted"
        desk.gates[1].opened.set()
        await until(lambda: desk.begun == [1, 2])
        assert second.queued is False
        desk.gates[2].opened.set()
        assert [event.type for event in (await second.result()).report.events][:2] == ["run.queued", "run.admitted"]  # type: ignore[union-attr]


async def test_paused_run_gives_its_place_to_the_next() -> None:
    store = InMemoryDurableStore()
    act = Tool.from_callable(lambda: "acted", name="act", capabilities=["act"])
    policy = CapabilityPolicy({"act": "require_approval"})
    target = agent(tools=[act], policy=policy, durability=store)
    limits = GroupLimits(max_concurrent_runs=1, max_queued_runs=5)
    async with AgentGroup([target], limits=limits) as group:
        handles = [group.run("agent", Task.create_tool_call(tool_name="act", args={})) for _ in range(3)]
        assert [(await handle.result()).status for handle in handles] == ["input-required"] * 3


# ---------------------------------------------------------------------------------------------------- requests


async def test_request_id_submitted_from_many_sides_runs_once() -> None:
    desk = Desk()

    async def submit(group: AgentGroup, turns: int) -> RunHandle:
        for _ in range(turns):
            await asyncio.sleep(0)
        return group.run("worker", desk.task(1), request_id="order-7")

    async with AgentGroup([desk.agent()], limits=GroupLimits(max_concurrent_runs=1)) as group:
        handles = await asyncio.gather(*(submit(group, turns) for turns in range(12)))
        assert len({id(handle) for handle in handles}) == 1
        desk.gates.setdefault(1, Gate()).opened.set()
        assert (await handles[0].result()).output == 1
        assert group.run("worker", desk.task(1), request_id="order-7") is handles[0]
        assert desk.begun == [1]


@pytest.mark.parametrize("wrong", ["", "  ", 5, b"x"])
async def test_request_id_must_be_text(wrong: Any) -> None:
    async with AgentGroup([agent("done")]) as group:
        with pytest.raises(ValueError, match="request_id"):
            group.run("agent", "go", request_id=wrong)
        assert group.snapshot()["runs"] == {**group.snapshot()["runs"], "active": 0, "queued": 0, "retained": 0}


async def test_submission_that_is_refused_takes_no_place() -> None:
    async with AgentGroup([agent("done")], limits=GroupLimits(max_concurrent_runs=1, max_queued_runs=0)) as group:
        with pytest.raises(ValueError, match="event_buffer_size"):
            group.run("agent", "go", event_buffer_size=0)
        with pytest.raises(TypeError):
            group.run("agent", 5)  # type: ignore[arg-type]
        assert (await group.run("agent", "go").result()).output == "done"


async def test_retained_runs_are_the_newest_to_end() -> None:
    desk = Desk()
    async with AgentGroup([desk.agent()], max_retained_runs=2) as group:
        handles = [group.run("worker", desk.task(number)) for number in range(4)]
        await until(lambda: len(desk.begun) == 4)
        for number in (2, 0, 3):
            desk.gates[number].opened.set()
            await handles[number].result()
        found = []
        for handle in handles:
            try:
                found.append(group.get_run(handle.context.run_id) is handle)
            except LookupError:
                found.append(False)
        assert found == [True, True, False, True]  # 1 still runs, 2 was the first to end


# ---------------------------------------------------------------------------------------------------- durable runs


async def test_numbers_of_a_run_that_waited_are_those_that_its_store_has() -> None:
    """The queue's events come first in the stream and are not stored: the store's numbers go on behind them."""
    gate = Gate()
    store = InMemoryDurableStore()
    target = waiter(gate, durability=store)
    async with AgentGroup([target], limits=GroupLimits(max_concurrent_runs=1)) as group:
        first, second = group.run("worker", wait_task()), group.run("worker", wait_task())
        await gate.reached.wait()
        gate.opened.set()
        for handle, before in ((first, 0), (second, 2)):
            await handle.result()
            live = [event.to_dict() for event in await listed(handle.events())]
            stored = [event.to_dict() for event in target.run_events(handle.context.run_id)]
            assert live[before:] == stored
            assert [event["sequence"] for event in live] == list(range(1, len(live) + 1))
            assert [event.to_dict() for event in target.run_events(handle.context.run_id, after=4)] == live[4:]


async def test_paused_run_can_be_submitted_again_under_its_id() -> None:
    store = InMemoryDurableStore()
    act = Tool.from_callable(lambda: "acted", name="act", capabilities=["act"])
    target = agent(tools=[act], policy=CapabilityPolicy({"act": "require_approval"}), durability=store)
    task = Task.create_tool_call(tool_name="act", args={}, context=RunContext(run_id="run-1"))
    async with AgentGroup([target]) as group:
        first = group.run("agent", task, request_id="one")
        assert (await first.result()).status == "input-required"
        assert group.run("agent", task, request_id="one") is first
        second = group.run("agent", task)
        assert (await second.result()).status == "input-required"
        assert group.get_run("run-1") is second
        assert (await listed(second.events()))[-1].final
        assert group.snapshot()["runs"]["retained"] == 1


async def test_a_group_takes_runs_in_its_own_event_loop_only() -> None:
    """Elsewhere a run would begin in a loop in which the group cannot end it."""
    async with AgentGroup([agent("x")]) as group:

        async def elsewhere() -> None:
            with pytest.raises(RuntimeError, match="event loop that started it"):
                group.run("agent", "go")
            with pytest.raises(RuntimeError, match="event loop that started it"):
                await group.resume("agent", "run")

        await asyncio.get_running_loop().run_in_executor(None, lambda: asyncio.run(elsewhere()))
        assert group.snapshot()["runs"]["active"] == 0
        assert (await group.run("agent", "go").result()).output == "x"
