"""AgentGroup: what it starts and stops, and whom it lets run."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from agent_support import Gate, call, script, until

from protolink import Agent, AgentGroup, GroupLimits, RunContext, Task
from protolink.testing import FakeClock


class Part(Agent):
    """An agent that has something to start and stop."""

    def __init__(self, name: str, log: list[str], fails: str = "") -> None:
        super().__init__(name=name, verbosity=0)
        self.log, self.fails = log, fails

    async def start(self) -> None:
        self.log.append(f"start {self.name}")
        if self.fails == "start":
            raise OSError("port taken")

    def stop(self) -> None:
        self.log.append(f"stop {self.name}")
        if self.fails == "stop":
            raise OSError("will not stop")


class Bench:
    """An agent whose tool waits at a gate of its own for each run."""

    def __init__(self) -> None:
        self.gates: dict[str, Gate] = {}
        self.begun: list[str] = []
        self.agent = Agent(name="worker", tools=[self.wait], verbosity=0)

    async def wait(self, name: str) -> str:
        self.begun.append(name)
        await self.gates.setdefault(name, Gate()).wait()
        return name

    def task(self, name: str, **how: Any) -> Task:
        return Task.create_tool_call(tool_name="wait", args={"name": name}, **how)

    async def reached(self, *names: str) -> None:
        await until(lambda: self.begun == list(names))

    def let(self, name: str) -> None:
        self.gates.setdefault(name, Gate()).opened.set()


async def kinds(handle: Any) -> list[str]:
    return [event.type async for event in handle.events()]


# ---------------------------------------------------------------------------------------------------- lifecycle


@pytest.mark.claim("GRP-001", "GRP-002", "GRP-003", "GRP-004", "GRP-006", "GRP-016", "GRP-018")
async def test_group_runs_its_agents_directly() -> None:
    def add(a: int, b: int) -> int:
        return a + b

    async with AgentGroup([Agent(name="math", tools=[add], verbosity=0)]) as group:
        handle = group.run("math", Task.create_tool_call(tool_name="add", args={"a": 1, "b": 2}))
        types = await kinds(handle)
        result = await handle.result()
    assert (result.status, result.output) == ("completed", 3)
    assert result.report is not None
    assert types[-1] == "task.status"
    assert group.snapshot()["state"] == "closed"


@pytest.mark.claim("GRP-008", "GRP-012", "GRP-013", "GRP-014", "GRP-015")
async def test_owned_parts_stop_in_reverse_and_others_are_left_alone() -> None:
    log: list[str] = []
    registry, client, external = Part("registry", log), Part("client", log), Part("external", log)
    group = AgentGroup(
        [Part("one", log), Part("two", log)],
        external_agents=[external],
        registry=registry,
        own_registry=True,
        client=client,
        startup_timeout=10,
        limits=None,
        event_buffer_size=None,
        max_retained_runs=100,
    )
    async with group:
        assert log == ["start registry", "start one", "start two"]
    assert log[3:] == ["stop two", "stop one", "stop registry"]
    log.clear()
    async with AgentGroup([Part("one", log)], registry=registry, external_agents=[external]):
        pass
    assert log == ["start one", "stop one"]


@pytest.mark.claim("GRP-010")
async def test_failed_start_takes_back_what_has_started() -> None:
    log: list[str] = []
    group = AgentGroup([Part("one", log), Part("two", log, "start"), Part("three", log)])
    with pytest.raises(OSError, match="port taken"):
        await group.start()
    assert log == ["start one", "start two", "stop two", "stop one"]
    assert group.snapshot()["state"] == "closed"
    with pytest.raises(RuntimeError, match="closed"):
        await group.start()


async def test_part_that_fails_to_stop_does_not_keep_the_others_running() -> None:
    log: list[str] = []
    group = AgentGroup([Part("one", log), Part("two", log, "stop")])
    await group.start()
    with pytest.raises(ExceptionGroup, match="failed to stop"):
        await group.close()
    assert log[-2:] == ["stop two", "stop one"]
    await group.close()


@pytest.mark.claim("GRP-005")
async def test_canceled_handle_ends_its_run_and_no_other() -> None:
    bench = Bench()
    async with AgentGroup([bench.agent]) as group:
        stopped, kept = group.run("worker", bench.task("a")), group.run("worker", bench.task("b"))
        await bench.reached("a", "b")
        await stopped.cancel("enough")
        assert (bench.gates["a"].canceled, bench.gates["b"].canceled) == (True, False)
        assert (stopped.done, kept.done) == (True, False)
        assert (await stopped.result()).status == "canceled"
        assert stopped.task.metadata["cancel_reason"] == "enough"
        bench.let("b")
        assert (await kept.result()).output == "b"


@pytest.mark.claim("GRP-011")
async def test_leaving_cancels_the_runs_of_the_group() -> None:
    bench = Bench()
    async with AgentGroup([bench.agent], limits=GroupLimits(max_concurrent_runs=1)) as group:
        running, waiting = group.run("worker", bench.task("a")), group.run("worker", bench.task("b"))
        await bench.reached("a")
    assert [(await handle.result()).status for handle in (running, waiting)] == ["canceled", "canceled"]
    assert bench.gates["a"].canceled
    assert bench.begun == ["a"]


async def test_draining_lets_active_runs_end_and_waiting_ones_never_begin() -> None:
    bench = Bench()
    group = AgentGroup([bench.agent], limits=GroupLimits(max_concurrent_runs=1))
    await group.start()
    running, waiting = group.run("worker", bench.task("a")), group.run("worker", bench.task("b"))
    await bench.reached("a")
    closing = asyncio.ensure_future(group.close(drain=60))
    assert (await waiting.result()).status == "canceled"
    assert not running.done
    with pytest.raises(RuntimeError, match="closing"):
        group.run("worker", bench.task("c"))
    bench.let("a")
    await closing
    assert (await running.result()).output == "a"
    assert bench.begun == ["a"]


async def test_drain_that_runs_out_cancels() -> None:
    bench = Bench()
    group = AgentGroup([bench.agent])
    await group.start()
    handle = group.run("worker", bench.task("a"))
    await bench.reached("a")
    await group.close(drain=0)
    assert (await handle.result()).status == "canceled"


async def test_misuse_is_refused() -> None:
    agent = Agent(name="a", verbosity=0)
    for how in ([agent, Agent(name="a")], [agent, agent]):
        with pytest.raises(ValueError, match="two agents"):
            AgentGroup(how)
    with pytest.raises(ValueError, match="registry"):
        AgentGroup([agent], own_registry=True)
    with pytest.raises(ValueError, match="startup_timeout"):
        AgentGroup([agent], startup_timeout=0)
    with pytest.raises(RuntimeError, match="created"):
        AgentGroup([agent]).run("a", "go")
    async with AgentGroup([agent]) as group:
        for other in ("b", Agent(name="a"), Agent(name="b")):
            with pytest.raises(ValueError, match="no agent"):
                group.run(other, "go")
        with pytest.raises(LookupError, match="no run"):
            group.get_run("run_1")


@pytest.mark.parametrize(
    "wrong",
    [{"max_concurrent_runs": 0}, {"max_queued_runs": -1}, {"queue_timeout": 0}, {"queue_timeout": float("inf")}],
)
def test_limits_must_be_sensible(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(wrong))):
        GroupLimits(**wrong)


# ---------------------------------------------------------------------------------------------------- requests


@pytest.mark.claim("GRP-028", "GRP-029")
async def test_later_changes_of_the_task_change_nothing() -> None:
    bench = Bench()
    bench.let("a")
    async with AgentGroup([bench.agent]) as group:
        task = bench.task("a")
        handle = group.run(bench.agent, task)
        task.messages.clear()
        task.metadata["more"] = True
        assert (await handle.result()).output == "a"
        assert "more" not in handle.task.metadata
    assert task.state.value == "submitted"


@pytest.mark.claim("GRP-030", "GRP-031")
async def test_request_id_stands_for_one_input() -> None:
    bench = Bench()
    bench.let("a")
    async with AgentGroup([bench.agent]) as group:
        first = group.run("worker", bench.task("a"), request_id="r")
        assert group.run("worker", bench.task("a"), request_id="r") is first
        await first.result()
        assert group.run("worker", bench.task("a"), "r") is first
        for other in (bench.task("b"), bench.task("a", session_id="s")):
            with pytest.raises(ValueError, match="another agent or input"):
                group.run("worker", other, request_id="r")
    assert bench.begun == ["a"]


@pytest.mark.claim("GRP-032", "GRP-035")
async def test_only_ended_runs_are_dropped() -> None:
    bench = Bench()
    async with AgentGroup([bench.agent], max_retained_runs=1) as group:
        handles = [group.run("worker", bench.task(name), request_id=name) for name in "abc"]
        await bench.reached("a", "b", "c")
        for name, handle in zip("bc", handles[1:], strict=True):
            bench.let(name)
            await handle.result()
        ids = [handle.context.run_id for handle in handles]
        assert group.get_run(ids[0]) is handles[0]
        assert group.get_run(ids[2]) is handles[2]
        with pytest.raises(LookupError):
            group.get_run(ids[1])
        assert bench.begun == ["a", "b", "c"]
        assert group.run("worker", bench.task("b"), request_id="b") is not handles[1]
        assert group.snapshot()["runs"]["retained"] == 1


async def test_run_that_is_under_way_is_not_submitted_twice() -> None:
    bench = Bench()
    async with AgentGroup([bench.agent]) as group:
        group.run("worker", bench.task("a", context=RunContext(run_id="run_1")))
        with pytest.raises(ValueError, match="under way"):
            group.run("worker", bench.task("a", context=RunContext(run_id="run_1")))


# ---------------------------------------------------------------------------------------------------- admission


@pytest.mark.claim("GRP-036", "GRP-037", "GRP-044")
async def test_first_to_come_is_first_to_begin() -> None:
    bench = Bench()
    limits = GroupLimits(max_concurrent_runs=2, max_queued_runs=64, queue_timeout=30)
    async with AgentGroup([bench.agent], limits=limits) as group:
        handles = [group.run("worker", bench.task(name)) for name in "abcde"]
        await bench.reached("a", "b")
        runs = group.snapshot()["runs"]
        assert (runs["active"], runs["queued"], runs["max_concurrent_runs"], runs["max_queued_runs"]) == (2, 3, 2, 64)
        assert group.snapshot()["agents"] == [{"name": "worker", "owned": True, "ready": True}]
        for done, begun in (("b", "abc"), ("a", "abcd"), ("d", "abcde")):
            bench.let(done)
            await bench.reached(*begun)
        bench.let("c")
        bench.let("e")
        assert [(await handle.result()).output for handle in handles] == list("abcde")
        assert (await kinds(handles[2]))[:3] == ["run.queued", "run.admitted", "task.status"]
        assert "run.queued" not in await kinds(handles[0])


@pytest.mark.claim("GRP-038", "GRP-040")
async def test_full_queue_fails_the_run_before_it_begins() -> None:
    bench = Bench()
    limits = GroupLimits(max_concurrent_runs=1, max_queued_runs=0)
    async with AgentGroup([bench.agent], limits=limits) as group:
        group.run("worker", bench.task("a"))
        refused = group.run("worker", bench.task("b"))
        result = await refused.result()
        assert result.error is not None
        assert (result.status, result.error["code"], result.output) == ("failed", "queue_full", None)
        assert refused.task.state.value == "failed"
        assert await kinds(refused) == ["run.rejected", "task.status"]
        assert [event.final async for event in refused.events()] == [False, True]
    assert bench.begun == ["a"]


@pytest.mark.claim("GRP-039", "GRP-040")
async def test_run_that_waits_too_long_fails_before_it_begins() -> None:
    bench, clock = Bench(), FakeClock()
    limits = GroupLimits(max_concurrent_runs=1, queue_timeout=30)
    async with AgentGroup([bench.agent], limits=limits, clock=clock) as group:
        first = group.run("worker", bench.task("a"))
        late = group.run("worker", bench.task("b"))
        await bench.reached("a")
        clock.advance(29)
        assert late.queued
        clock.advance(1)
        result = await late.result()
        assert result.error is not None
        assert (result.status, result.error["code"]) == ("failed", "queue_timeout")
        assert await kinds(late) == ["run.queued", "run.rejected", "task.status"]
        bench.let("a")
        assert (await first.result()).output == "a"
    assert bench.begun == ["a"]


@pytest.mark.claim("GRP-041")
async def test_canceled_while_waiting_never_begins() -> None:
    bench = Bench()
    async with AgentGroup([bench.agent], limits=GroupLimits(max_concurrent_runs=1)) as group:
        group.run("worker", bench.task("a"))
        middle, last = group.run("worker", bench.task("b")), group.run("worker", bench.task("c"))
        await bench.reached("a")
        await middle.cancel("not needed")
        assert (await middle.result()).status == "canceled"
        assert middle.task.metadata["cancel_reason"] == "not needed"
        assert (await kinds(middle))[-1] == "task.status"
        bench.let("a")
        await bench.reached("a", "c")
        bench.let("c")
        assert (await last.result()).output == "c"


@pytest.mark.claim("GRP-042")
async def test_children_need_no_place_of_their_own() -> None:
    child = Agent(name="child", llm=script("from the child"), verbosity=0)
    delegation = {"type": "agent_call", "agent": "child", "action": "infer", "prompt": "do it"}
    parent = Agent(name="parent", llm=script(delegation, "done"), subagents=[child], verbosity=0)
    limits = GroupLimits(max_concurrent_runs=1, max_queued_runs=0)
    async with AgentGroup([parent], limits=limits) as group:
        assert (await group.run("parent", "go").result()).output == "done"


@pytest.mark.claim("GRP-043")
async def test_without_limits_all_begin_at_once() -> None:
    bench = Bench()
    async with AgentGroup([bench.agent]) as group:
        for number in range(50):
            group.run("worker", bench.task(str(number)))
        await bench.reached(*map(str, range(50)))
        assert group.snapshot()["runs"]["queued"] == 0


async def test_model_run_is_submitted_by_its_prompt() -> None:
    agent = Agent(name="a", llm=script(call("act"), "done"), tools=[act], verbosity=0)
    async with AgentGroup([], external_agents=[agent]) as group:
        assert (await group.run(agent, "go").result()).output == "done"


def act() -> str:
    return "acted"
