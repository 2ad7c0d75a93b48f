"""Children spawned beside a live run: its budget, clock, limits, policies, stream and end are theirs too."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from agent_support import Gate, agent, call, delegate, played, script, until

from protolink import (
    Agent,
    AgentGroup,
    ApprovalDecision,
    CapabilityPolicy,
    GroupLimits,
    LocalTraceTelemetry,
    PolicyDecision,
    RunAction,
    RunBudget,
    RunContext,
    RunHandle,
    SQLiteRunStore,
    SubagentLimitError,
    SubagentLimits,
    Task,
    Tool,
)
from protolink.testing import FakeClock


async def listed(items: Any) -> list[Any]:
    return [item async for item in items]


def holding(gate: Gate, name: str = "wait") -> Tool:
    async def wait() -> str:
        """Wait."""
        await gate.wait()
        return "waited"

    return Tool.from_callable(wait, name=name)


def parent(gate: Gate, *children: Agent, responses: Any = (), **options: Any) -> Agent:
    return agent(call("wait"), *(responses or ("done",)), tools=[holding(gate)], subagents=children, **options)


async def working(gate: Gate, *children: Agent, **options: Any) -> RunHandle:
    budget = options.pop("budget", None)
    handle = parent(gate, *children, **options).start_run("go", budget=budget)
    await gate.reached.wait()
    return handle


# ---------------------------------------------------------------------------------------------------- the end


async def test_nothing_of_a_child_outlives_its_parent() -> None:
    gate, inner = Gate(), Gate()
    handle = await working(gate, agent(call("stay"), call("stay"), name="kid", tools=[holding(inner, "stay")]))
    spawned = [await handle.spawn("kid", "do it") for _ in range(2)]
    await inner.reached.wait()
    gate.opened.set()
    await handle.result()
    assert inner.canceled
    for child in spawned:
        task = await child.result()
        assert (child.done, task.state.value) == (True, "canceled")
        assert task.metadata["cancel_reason"] == "The parent has ended"
    events = await listed(handle.events())
    assert [event.sequence for event in events] == list(range(1, len(events) + 1))
    assert events[-1].run_id == handle.context.run_id
    ends = [event.run_id for event in events if event.metadata.get("source_final") and event.type == "task.status"]
    assert sorted(ends) == sorted(child.run_id for child in spawned)
    assert asyncio.all_tasks() == {asyncio.current_task()}


@pytest.mark.parametrize("how", ["handle", "agent"])
async def test_canceling_the_parent_stops_its_children_at_once(how: str) -> None:
    """A child begins nothing new although a tool of the parent takes its time to stop."""
    slow, inner = asyncio.Event(), Gate()
    acts: list[str] = []
    reached = asyncio.Event()

    async def stubborn() -> str:
        """Stop slowly."""
        reached.set()
        try:
            await asyncio.Event().wait()
        finally:
            await slow.wait()
        return "never"

    act = Tool.from_callable(lambda: acts.append("act"), name="act")
    kid = agent(call("stay"), call("act"), "x", name="kid", tools=[holding(inner, "stay"), act])
    handle = agent(call("stubborn"), tools=[stubborn], subagents=[kid]).start_run("go")
    await reached.wait()
    spawned = await handle.spawn("kid", "do it")
    await inner.reached.wait()
    cancel = handle.cancel("stop") if how == "handle" else handle.target.cancel_task(handle.task.id, "stop")
    canceling = asyncio.ensure_future(cancel)
    await until(lambda: spawned.done)
    assert (inner.canceled, acts, handle.done) == (True, [], False)
    assert (await spawned.result()).metadata["cancel_reason"] == "stop"
    slow.set()
    await canceling
    assert (await handle.result()).status == "canceled"


async def test_child_that_is_spawned_after_the_cancellation_does_nothing() -> None:
    gate = Gate()
    kid = agent("x", name="kid")
    handle = await working(gate, kid)
    handle.target.get_cancellation_token(handle.task.id).cancel("stop")  # type: ignore[union-attr]
    spawned = await handle.spawn("kid", "do it")
    assert (await spawned.result()).state.value == "canceled"
    assert played(kid.llm) == 0  # type: ignore[arg-type]
    await handle.cancel()


async def test_closing_a_group_ends_the_children_of_its_runs() -> None:
    gate, inner = Gate(), Gate()
    kid = agent(call("stay"), name="kid", tools=[holding(inner, "stay")])
    group = AgentGroup([parent(gate, kid)], limits=GroupLimits(max_concurrent_runs=1, max_queued_runs=0))
    async with group:
        handle = group.run("agent", "go")
        await gate.reached.wait()
        spawned = await handle.spawn("kid", "do it")
        await inner.reached.wait()
    assert (handle.done, spawned.done, inner.canceled) == (True, True, True)


async def test_parent_that_fails_takes_its_children_along() -> None:
    gate, inner = Gate(), Gate()
    kid = agent(call("stay"), name="kid", tools=[holding(inner, "stay")])
    handle = await working(gate, kid, responses=(KeyError("model"),))
    spawned = await handle.spawn("kid", "do it")
    await inner.reached.wait()
    gate.opened.set()
    assert (await handle.result()).status == "failed"
    assert (spawned.done, inner.canceled) == (True, True)


async def test_child_that_fails_leaves_its_parent_alone() -> None:
    gate = Gate()
    handle = await working(gate, agent(KeyError("model"), name="kid"))
    task = await (await handle.spawn("kid", "do it")).result()
    assert task.state.value == "failed"
    gate.opened.set()
    assert (await handle.result()).output == "done"


async def test_waiter_for_a_child_may_be_canceled() -> None:
    gate, inner = Gate(), Gate()
    kid = agent(call("stay"), "kid", name="kid", tools=[holding(inner, "stay")])
    handle = await working(gate, kid)
    spawned = await handle.spawn("kid", "do it")
    await inner.reached.wait()
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(spawned.result(), 0)
    assert not spawned.done
    inner.opened.set()
    assert (await spawned.result()).get_output() == "kid"
    gate.opened.set()
    await handle.result()


# ---------------------------------------------------------------------------------------------------- the budget


async def test_childs_work_is_charged_to_the_parent() -> None:
    gate = Gate()
    handle = await working(gate, agent("kid", name="kid"), responses=("never",), budget=RunBudget(max_llm_calls=2))
    assert (await (await handle.spawn("kid", "do it")).result()).state.value == "completed"
    gate.opened.set()
    result = await handle.result()
    assert result.error is not None
    assert (result.status, result.error["code"]) == ("failed", "budget_exceeded")
    assert (result.error["decision"]["limit_name"], result.error["decision"]["observed"]) == ("max_llm_calls", 3)


async def test_parents_work_is_charged_to_the_child() -> None:
    gate = Gate()
    handle = await working(gate, agent("never", name="kid"), budget=RunBudget(max_llm_calls=1))
    task = await (await handle.spawn("kid", "do it")).result()
    assert (task.state.value, task.metadata["blockers"][0]["code"]) == ("failed", "budget_exceeded")
    await handle.cancel()


async def test_one_limit_warns_once_for_parent_and_children() -> None:
    gate = Gate()
    handle = await working(gate, agent("kid", name="kid"), budget=RunBudget(max_llm_calls=4))
    for _ in range(2):
        await (await handle.spawn("kid", "do it")).result()
    gate.opened.set()
    result = await handle.result()
    assert result.report is not None
    assert [event.type for event in result.report.events].count("budget.warning") == 1


async def test_time_in_which_both_work_counts_once() -> None:
    clock, gate, inner = FakeClock(), Gate(), Gate()
    kid = agent(call("stay"), "kid", name="kid", tools=[holding(inner, "stay")])
    handle = await working(gate, kid, clock=clock, budget=RunBudget(max_runtime_seconds=100))
    clock.advance(10)
    spawned = await handle.spawn("kid", "do it")
    await inner.reached.wait()
    clock.advance(10)
    inner.opened.set()
    assert (await spawned.result()).state.value == "completed"
    clock.advance(10)  # the parent goes on alone; its clock was not stopped by the child's end
    active = handle.target._active.get(handle.task.id)
    assert active is not None
    assert active.driver is not None
    ledger = active.driver.run.ledger
    assert ledger.seconds(clock.now()) == 30
    gate.opened.set()
    assert (await handle.result()).status == "completed"
    clock.advance(10)
    assert ledger.seconds(clock.now()) == 30


async def test_runtime_that_the_parent_used_is_not_there_for_the_child() -> None:
    clock, gate = FakeClock(), Gate()
    handle = await working(gate, agent("never", name="kid"), clock=clock, budget=RunBudget(max_runtime_seconds=5))
    clock.advance(10)
    task = await (await handle.spawn("kid", "do it")).result()
    assert (task.state.value, task.metadata["blockers"][0]["code"]) == ("failed", "budget_exceeded")
    await handle.cancel()


async def test_parents_budget_policy_judges_its_children() -> None:
    gate = Gate()
    handle = await working(gate, agent("kid", name="kid"), budget=RunBudget(max_llm_calls=1), budget_policy=None)
    assert (await (await handle.spawn("kid", "do it")).result()).state.value == "completed"
    gate.opened.set()
    assert (await handle.result()).status == "completed"


# ---------------------------------------------------------------------------------------------------- the limits


async def test_spawning_at_the_same_time_cannot_overshoot() -> None:
    opened = asyncio.Event()

    async def factory() -> Any:
        await opened.wait()
        return script("kid")

    opened.set()
    gate = Gate()
    kid = Agent(name="kid", llm_factory=factory, verbosity=0)
    handle = await working(gate, kid, subagent_limits=SubagentLimits(max_children=2))
    opened.clear()
    starts = [asyncio.ensure_future(handle.spawn("kid", "do it")) for _ in range(4)]
    await asyncio.sleep(0)
    opened.set()
    found = await asyncio.gather(*starts, return_exceptions=True)
    assert [type(item).__name__ for item in found].count("SubagentLimitError") == 2
    await handle.cancel()


async def test_start_that_is_canceled_counts_as_no_child() -> None:
    opened, asked = asyncio.Event(), asyncio.Event()
    opened.set()

    async def factory() -> Any:
        asked.set()
        await opened.wait()
        return script("kid")

    gate = Gate()
    kid = Agent(name="kid", llm_factory=factory, verbosity=0)
    handle = await working(gate, kid, subagent_limits=SubagentLimits(max_children=1))
    opened.clear()
    asked.clear()
    starting = asyncio.ensure_future(handle.spawn("kid", "do it"))
    await asked.wait()
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    opened.set()
    assert (await (await handle.spawn("kid", "do it")).result()).get_output() == "kid"
    await handle.cancel()


async def test_children_of_both_kinds_count_together() -> None:
    gate = Gate()
    handle = await working(
        gate,
        agent("one", name="kid"),
        agent("never", name="other"),
        responses=(delegate("other"), "done"),
        subagent_limits=SubagentLimits(max_children=1),
    )
    await (await handle.spawn("kid", "do it")).result()
    gate.opened.set()
    result = await handle.result()
    assert result.error is not None
    assert (result.status, result.error["decision"]["limit_name"]) == ("failed", "max_children")


async def test_no_more_children_at_once_than_allowed() -> None:
    gate, inner = Gate(), Gate()
    kid = agent(call("stay"), "x", name="kid", tools=[holding(inner, "stay")])
    handle = await working(gate, kid, subagent_limits=SubagentLimits(max_concurrency=1))
    first = await handle.spawn("kid", "do it")
    with pytest.raises(SubagentLimitError, match="at once"):
        await handle.spawn("kid", "do it")
    await first.cancel()
    await handle.spawn("kid", "do it")
    await handle.cancel()


@pytest.mark.parametrize("depth", [1, 2])
async def test_child_stands_at_depth_one(depth: int) -> None:
    gate = Gate()
    kid = agent(delegate("grand"), "kid", name="kid", subagents=[agent("grand", name="grand")])
    handle = await working(gate, kid, subagent_limits=SubagentLimits(max_depth=depth))
    task = await (await handle.spawn("kid", "do it")).result()
    if depth == 2:
        assert task.get_output() == "kid"
    else:
        assert "depth exceeded: 2 > 1" in task.metadata["error"]
    gate.opened.set()
    await handle.result()


@pytest.mark.parametrize("name", ["nobody", "", 5, None])
async def test_only_children_of_the_agent_can_be_spawned(name: Any) -> None:
    gate = Gate()
    handle = await working(gate, agent("x", name="kid"))
    with pytest.raises(ValueError, match="no subagent"):
        await handle.spawn(name, "do it")
    with pytest.raises(ValueError, match="nonblank"):
        await handle.spawn("kid", "  ")
    await handle.cancel()


async def test_nothing_is_spawned_from_another_event_loop() -> None:
    """The child would live in a loop that its parent cannot wait for."""
    gate = Gate()
    kid = agent("x", name="kid")
    handle = await working(gate, kid)

    def elsewhere() -> None:
        asyncio.run(handle.spawn("kid", "do it"))  # type: ignore[arg-type]

    with pytest.raises(RuntimeError, match="event loop of the run"):
        await asyncio.get_running_loop().run_in_executor(None, elsewhere)
    gate.opened.set()
    assert (await handle.result()).status == "completed"
    assert played(kid.llm) == 0  # type: ignore[arg-type]


async def test_nothing_is_spawned_beside_a_run_that_waits_for_its_place() -> None:
    gate = Gate()
    limits = GroupLimits(max_concurrent_runs=1)
    async with AgentGroup([parent(gate, agent("x", name="kid"))], limits=limits) as group:
        group.run("agent", "one")
        queued = group.run("agent", "two")
        with pytest.raises(RuntimeError, match="waits for its place"):
            await queued.spawn("kid", "do it")


# ---------------------------------------------------------------------------------------------------- the stream


async def test_childs_events_and_evidence_are_the_parents_too() -> None:
    gate = Gate()
    kid = agent(
        delegate("grand"),
        call("act"),
        "kid",
        name="kid",
        tools=[Tool.from_callable(lambda: "acted", name="act")],
        subagents=[agent("grand", name="grand")],
    )
    handle = await working(gate, kid, subagent_limits=SubagentLimits(max_depth=2))
    spawned = await handle.spawn("kid", "do it")
    await spawned.result()
    gate.opened.set()
    result = await handle.result()
    events = await listed(handle.events())
    own = [event for event in events if event.run_id == spawned.run_id]
    assert [event.metadata["source_sequence"] for event in own][:3] == [1, 2, 3]
    assert {event.metadata["parent_run_id"] for event in own} == {handle.context.run_id}
    assert [event.metadata["source_final"] for event in own if event.type == "task.status"] == [False, True]
    below = [event for event in events if event.agent_name == "grand"]
    assert {event.metadata["parent_run_id"] for event in below} == {spawned.run_id}
    assert [event.metadata["source_final"] for event in below if event.type == "task.status"] == [False, True]
    assert {event.parent_action_id for event in below} != {None}
    assert not any(event.final for event in own + below)
    assert result.report is not None
    assert {event.event_id for event in own + below} <= {event.event_id for event in result.report.events}
    assert [(found.agent_name, found.tool_name) for found in result.tool_evidence] == [
        ("kid", "act"),
        ("agent", "wait"),
    ]
    [listed_child] = handle.task.metadata["subagent_runs"]
    assert listed_child == {"task_id": spawned.id, "run_id": spawned.run_id, "agent": "kid", "action_id": None}


@pytest.mark.claim("LIV-019")
async def test_fragments_of_a_worker_need_the_parents_events_an_owned_child_and_a_model_that_streams() -> None:
    gate = Gate()
    handle = await working(gate, agent("kid speaks", "kid again", name="kid"), responses=(delegate("kid"), "done"))
    spawned = await handle.spawn("kid", "do it")
    await spawned.result()
    gate.opened.set()
    await handle.result()
    events = await listed(handle.events())
    pieces = [event for event in events if event.payload.get("llm_event_type") == "llm_chunk"]
    workers = {event.run_id for event in pieces if event.agent_name == "kid"}
    assert len(workers) == 2
    assert spawned.run_id in workers
    assert all("kid" not in text for text in [text async for text in handle.chunks()][2:])
    task = Task.create_infer(prompt="go")
    worker = agent(call("act"), "kid", name="kid", tools=[Tool.from_callable(lambda: "acted", name="act")])
    unwatched = parent(gate, worker, responses=(delegate("kid"), "done"))
    await unwatched.run_task(task)  # nobody reads events: the evidence comes at the end, and no fragments
    kept = [event for event in task.metadata["run_events"] if event["agent_name"] == "kid"]
    assert kept
    assert all(event["payload"].get("llm_event_type") != "llm_chunk" for event in kept)


async def test_child_asks_its_own_handler_under_the_policies_of_both() -> None:
    asked: list[str] = []

    async def approve(request: Any, context: Any) -> ApprovalDecision:
        asked.append(request.run_id)
        return ApprovalDecision(True, request.request_id)

    gate = Gate()
    act = Tool.from_callable(lambda: "acted", name="act", capabilities=["act"])
    kid = agent(call("act"), "kid", name="kid", tools=[act], approval_handler=approve)
    handle = await working(gate, kid, policy=CapabilityPolicy({"act": "require_approval"}))
    spawned = await handle.spawn("kid", "do it")
    assert (await spawned.result()).get_output() == "kid"
    assert asked == [spawned.run_id]
    await handle.cancel()


async def test_child_has_a_session_of_its_own() -> None:
    gate = Gate()
    handle = await working(gate, agent("kid", name="kid"))
    spawned = await handle.spawn("kid", "do it")
    context = spawned.task.metadata["run_context"]
    assert context["session_id"] not in (None, handle.context.session_id)
    assert (context["parent_run_id"], context["agent_chain"]) == (handle.context.run_id, ["agent", "kid"])
    await handle.cancel()


class Own(Agent):
    """Handles its tasks itself, after a gate."""

    gate: Gate

    async def handle_task(self, task: Task) -> Task:
        await self.gate.wait()
        return task.complete("by hand")


async def test_child_that_handles_tasks_itself_does_so_when_spawned() -> None:
    gate = Gate()
    kid = Own(name="kid", verbosity=0)
    kid.gate = Gate()
    handle = await working(gate, kid)
    first, second = [await handle.spawn("kid", "do it") for _ in range(2)]
    await first.cancel("not this one")
    assert (first.task.state.value, second.done) == ("canceled", False)
    kid.gate.opened.set()
    assert (await second.result()).get_output() == "by hand"
    kid.gate = Gate()
    last = await handle.spawn("kid", "do it")
    gate.opened.set()
    await handle.result()
    assert (last.done, last.task.state.value, kid.gate.canceled) == (True, "canceled", True)
    states = [
        event.payload["new_state"]
        for event in await listed(handle.events())
        if event.run_id == second.run_id and event.type == "task.status"
    ]
    assert states == ["working", "completed"]


# ---------------------------------------------------------------------------------------------------- who watches


async def test_telemetry_of_the_parent_traces_its_children_in_the_parents_trace() -> None:
    telemetry, gate = LocalTraceTelemetry(), Gate()
    act = Tool.from_callable(lambda: "acted", name="act")
    kid = agent(call("act"), "kid", name="kid", tools=[act])
    handle = await working(gate, kid, telemetry=telemetry)
    spawned = await handle.spawn("kid", "do it")
    await spawned.result()
    gate.opened.set()
    await handle.result()
    of_child, of_parent = telemetry.recorder.replay()
    assert (of_child["task_id"], of_child["run_id"], of_child["status"]) == (spawned.id, spawned.run_id, "ok")
    assert of_child["trace_id"] == of_parent["trace_id"]
    assert of_parent["run_id"] == handle.context.run_id
    assert {span["name"] for span in of_child["spans"]} >= {"LLM Call", "Tool: act"}


async def test_telemetry_hears_the_end_of_a_child_that_the_parents_end_cancels() -> None:
    telemetry, gate, inner = LocalTraceTelemetry(), Gate(), Gate()
    kid = agent(call("stay"), name="kid", tools=[holding(inner, "stay")])
    handle = await working(gate, kid, telemetry=telemetry)
    spawned = await handle.spawn("kid", "do it")
    await inner.reached.wait()
    gate.opened.set()
    await handle.result()
    found = {trace["task_id"]: trace["metadata"]["final_state"] for trace in telemetry.recorder.replay()}
    assert found == {handle.task.id: "completed", spawned.id: "canceled"}


@pytest.mark.parametrize("shared", [False, True])
async def test_telemetry_hears_once_of_a_child_that_handles_tasks_itself(shared: bool) -> None:
    telemetry, gate = LocalTraceTelemetry(), Gate()
    kid = Own(name="kid", verbosity=0, telemetry=telemetry if shared else None)
    kid.gate = Gate()
    kid.gate.opened.set()
    handle = await working(gate, kid, telemetry=telemetry)
    spawned = await handle.spawn("kid", "do it")
    await spawned.result()
    gate.opened.set()
    await handle.result()
    assert [trace["task_id"] for trace in telemetry.recorder.replay()] == [spawned.id, handle.task.id]


async def test_run_store_of_the_parent_has_its_children_in_the_report(tmp_path: Path) -> None:
    store, gate = SQLiteRunStore(tmp_path / "runs.db"), Gate()
    act = Tool.from_callable(lambda: "acted", name="act")
    handle = await working(gate, agent(call("act"), "kid", name="kid", tools=[act]), run_store=store)
    spawned = await handle.spawn("kid", "do it")
    await spawned.result()
    gate.opened.set()
    await handle.result()
    report = store.get_report(handle.context.run_id)
    assert report is not None
    acted = [event for event in report.events if event.run_id == spawned.run_id and event.type == "action.completed"]
    assert len(acted) == 1
    assert store.get_task(handle.task.id).metadata["subagent_runs"][0]["run_id"] == spawned.run_id  # type: ignore[union-attr]


# ------------------------------------------------------------------------------------------------- its context


async def test_what_a_child_changes_in_its_context_reaches_neither_parent_nor_siblings() -> None:
    gate, seen = Gate(), list[tuple[str, list[str]]]()

    async def judged(action: RunAction, context: RunContext) -> PolicyDecision:
        seen.append((context.agent_chain[-1], list(context.permissions["fs.read"]["paths"])))
        if action.name == "spoil":
            context.permissions["fs.read"]["paths"].append("/etc")
        return PolicyDecision("allow", "seen", "watching")

    watching = SimpleNamespace(evaluate=judged)
    kids = [
        agent(call("spoil"), "done", name=name, policy=watching, tools=[Tool.from_callable(lambda: "ok", name="spoil")])
        for name in ("first", "second")
    ]
    context = RunContext(permissions={"fs.read": {"paths": ["/data"]}})
    handle = parent(gate, *kids, policy=CapabilityPolicy()).start_run("go", context=context)
    await gate.reached.wait()
    for name in ("first", "second"):
        assert (await (await handle.spawn(name, "do it")).result()).state.value == "completed"
    gate.opened.set()
    await handle.result()
    assert seen == [("first", ["/data"]), ("second", ["/data"])]
    assert handle.context.permissions == context.permissions == {"fs.read": {"paths": ["/data"]}}
