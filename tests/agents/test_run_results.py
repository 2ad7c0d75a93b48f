"""RunResult, status by status, and the tool evidence that comes with it."""

from __future__ import annotations

import json
from dataclasses import FrozenInstanceError, dataclass, fields
from datetime import datetime
from typing import Any

import pytest
from agent_support import Gate, agent, call, delegate, delegate_tool, infer, run_id, turn

from protolink import (
    Agent,
    AgentGroup,
    ApprovalDecision,
    CapabilityPolicy,
    GroupLimits,
    InMemoryDurableStore,
    RunBudget,
    RunEvent,
    RunHandle,
    RunHandoff,
    RunReport,
    RunResult,
    Task,
    Tool,
    ToolFailedError,
    ToolRejectedError,
    collect_tool_evidence,
)
from protolink.llms import MockLLM
from protolink.runtime.evidence import EvidenceTrail


def read(event: Any) -> RunEvent:
    return event if isinstance(event, RunEvent) else RunEvent.from_dict(event)


async def listed(items: Any) -> list[Any]:
    return [item async for item in items]


def direct(name: str, /, **args: Any) -> Task:
    return Task.create_tool_call(tool_name=name, args=args)


def add(a: int, b: int = 2) -> int:
    """Add."""
    return a + b


def boom() -> None:
    """Fail."""
    raise KeyError("no row")


def guarded(effect: str, **options: Any) -> Agent:
    """Its tool ``act`` needs a capability that its policy answers with ``effect``."""
    tool = Tool.from_callable(lambda: "acted", name="act", capabilities=["act"])
    options = {"policy": CapabilityPolicy({"act": effect}), **options}
    return agent(call("act"), "done", tools=[tool], **options)


# ---------------------------------------------------------------------------------------------------- the shape


@pytest.mark.claim("GRP-045")
async def test_result_has_these_fields_and_stays_as_it_is() -> None:
    assert [field.name for field in fields(RunResult)] == [
        "status",
        "task",
        "output",
        "error",
        "report",
        "tool_evidence",
        "handoff",
    ]
    handle = agent(tools=[add]).start_run(direct("add", a=1))
    result = await handle.result()
    assert isinstance(result.task, Task)
    assert isinstance(result.report, RunReport)
    assert (result.task, result.report) == (handle.task, handle.report)
    assert (result.error, result.handoff) == (None, None)
    assert isinstance(result.tool_evidence, tuple)
    with pytest.raises(FrozenInstanceError):
        result.status = "other"  # type: ignore[misc]
    assert await handle.result() == result


@dataclass
class Found:
    code: int
    lines: list[str]


@pytest.mark.claim("GRP-046")
@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (3, 3),
        ("text", "text"),
        (None, None),
        ({"a": [1]}, {"a": [1]}),
        (Found(0, ["x"]), {"code": 0, "lines": ["x"]}),
        ((1, Found(1, [])), [1, {"code": 1, "lines": []}]),
    ],
)
async def test_output_is_the_tools_own_result(value: Any, shown: Any) -> None:
    def make() -> Any:
        """Make it."""
        return value

    result = await agent(tools=[make]).start_run(direct("make")).result()
    assert (result.status, result.output) == ("completed", shown)


async def test_output_without_a_json_form_is_the_tools_own_object() -> None:
    made = object()
    target = agent(tools=[Tool.from_callable(lambda: made, name="make")])
    result = await target.start_run(direct("make")).result()
    assert result.output is made


async def test_output_is_the_same_live_and_durable() -> None:
    def make() -> Found:
        """Make it."""
        return Found(0, ["x"])

    for how in ({}, {"durability": InMemoryDurableStore()}):
        result = await agent(tools=[make], **how).start_run(direct("make")).result()
        assert result.output == {"code": 0, "lines": ["x"]}


@pytest.mark.claim("GRP-046")
@pytest.mark.parametrize("native", [False, True])
async def test_output_is_the_final_response_of_a_model(native: bool) -> None:
    result = await agent(call("add", a=1), "It is three.", tools=[add], native=False).start_run("go").result()
    assert result.output == "It is three."
    result = await agent("Hello", native=native).start_run("go").result()
    assert result.output == "Hello"


# ---------------------------------------------------------------------------------------------------- status by status


async def ended(status: str) -> RunResult:
    """One run for each way to end."""
    if status == "completed":
        return await agent("done").start_run("go").result()
    if status == "failed":
        return await agent(call("boom"), tools=[boom]).start_run("go").result()
    if status == "input-required":
        return await guarded("require_approval", durability=InMemoryDurableStore()).start_run("go").result()
    gate = Gate()

    async def wait() -> None:
        """Wait."""
        await gate.wait()

    handle = agent(call("wait"), "never", tools=[wait]).start_run("go")
    await gate.reached.wait()
    await handle.cancel("enough")
    return await handle.result()


@pytest.mark.claim("GRP-048", "GRP-047")
@pytest.mark.parametrize("status", ["completed", "failed", "canceled", "input-required"])
async def test_status_is_that_of_the_task(status: str) -> None:
    result = await ended(status)
    assert result.task is not None
    assert result.status == result.task.state.value == status
    assert (result.output is None) is (status != "completed")
    assert (result.error is None) is (status != "failed")
    assert result.report is not None
    assert result.report.events[-1].payload["new_state"] == status


def rejecting() -> Any:
    """Refuse."""
    raise ToolRejectedError("not like this", code="no")


def failing() -> Any:
    """Fail for good."""
    raise ToolFailedError("card declined", code="card_declined", details={"bank": "x"})


FAILURES: dict[str, tuple[Any, str]] = {
    "a tool's exception": (lambda: agent(call("boom"), tools=[boom]).start_run("go"), "KeyError"),
    "a direct tool's exception": (lambda: agent(tools=[boom]).start_run(direct("boom")), "KeyError"),
    "a tool's typed failure": (lambda: agent(tools=[failing]).start_run(direct("failing")), "card_declined"),
    "a direct rejection": (lambda: agent(tools=[rejecting]).start_run(direct("rejecting")), "tool_rejected"),
    "a model's exception": (lambda: agent(PermissionError("no key")).start_run("go"), "PermissionError"),
    "no model": (lambda: agent(tools=[add]).start_run("go"), "no_llm"),
    "policy": (lambda: guarded("deny").start_run("go"), "action_denied"),
    "nobody to ask": (lambda: guarded("require_approval").start_run("go"), "approval_required"),
    "budget": (lambda: guarded("allow").start_run("go", budget=RunBudget(max_llm_calls=1)), "budget_exceeded"),
    "configuration": (
        lambda: Agent(name="a", llm="mock", yield_after_steps=1, verbosity=0).start_run("go"),
        "ValueError",
    ),
}


@pytest.mark.claim("GRP-047")
@pytest.mark.parametrize("cause", FAILURES)
async def test_error_is_structured_and_says_what_failed(cause: str) -> None:
    start, code = FAILURES[cause]
    handle: RunHandle = start()
    result = await handle.result()
    assert result.error is not None
    assert (result.status, result.error["code"], result.output) == ("failed", code, None)
    assert isinstance(result.error["message"], str)
    assert result.error["message"]
    assert json.loads(json.dumps(result.error)) == result.error
    assert [item["code"] for item in result.error.get("blockers", [])][-1:] in ([code], [])


@pytest.mark.claim("GRP-047")
async def test_queue_failures_are_told_in_the_same_shape() -> None:
    async with AgentGroup([agent("done")], limits=GroupLimits(max_concurrent_runs=1, max_queued_runs=0)) as group:
        first, second = group.run("agent", "one"), group.run("agent", "two")
        result = await second.result()
        assert result.error is not None
        assert (result.status, result.error["code"]) == ("failed", "queue_full")
        assert result.error["message"] == second.task.metadata["error"]
        assert (await first.result()).error is None


async def test_unknown_outcome_of_a_durable_run_fails_the_attempt() -> None:
    def publish() -> None:
        """Publish."""
        raise OSError("connection lost")

    target = agent(call("publish"), tools=[publish], durability=InMemoryDurableStore())
    handle = target.start_run("go")
    result = await handle.result()
    assert result.error is not None
    assert (result.status, result.error["code"], result.output) == ("failed", "execution_uncertain", None)
    assert result.error["run_id"] == handle.context.run_id
    [blocker] = result.error["blockers"]
    assert blocker["action_id"] == result.error["action_id"]
    assert (await listed(handle.events()))[-1].final


async def test_handoff_is_that_of_the_used_up_slice_alone() -> None:
    target = agent(call("add", a=1), "done", tools=[add], yield_after_steps=1, durability=InMemoryDurableStore())
    result = await target.start_run("go").result()
    assert isinstance(result.handoff, RunHandoff)
    assert (result.status, result.output, result.error) == ("input-required", None, None)
    assert (await ended("input-required")).handoff is None


async def test_output_of_a_run_that_failed_late_is_not_its_last_receipt() -> None:
    target = agent(call("add", a=1), call("boom"), tools=[add, boom])
    result = await target.start_run("go").result()
    assert (result.status, result.output) == ("failed", None)
    assert [(found.tool_name, found.outcome) for found in result.tool_evidence] == [
        ("add", "completed"),
        ("boom", "failed"),
    ]


@pytest.mark.claim("INT-033")
async def test_pending_request_id_is_all_that_is_needed_to_go_on() -> None:
    """Two processes of an application: the second one has nothing but the store and the request's id."""
    store = InMemoryDurableStore()
    result = await guarded("require_approval", durability=store).start_run("go").result()
    assert result.task is not None
    waiting = result.task.metadata["interruption"]
    again = agent("done", tools=[Tool.from_callable(lambda: "acted", name="act", capabilities=["act"])])
    fresh = Agent(
        name="agent",
        llm=MockLLM(response_callback=lambda history, prompt: "done"),
        tools=list(again.tools.values()),
        policy=CapabilityPolicy({"act": "require_approval"}),
        durability=store,
        verbosity=0,
    )
    found = await fresh.resume(run_id(result.task), request_id=waiting["request_id"], approved=True)
    assert found == "done"
    stored = store.get(run_id(result.task))
    assert stored is not None
    assert [entry["state"] for entry in stored.data["actions"].values()] == ["succeeded"]


# ---------------------------------------------------------------------------------------------------- evidence


@pytest.mark.claim("GRP-055", "GRP-057")
async def test_evidence_is_in_result_report_and_stream_alike() -> None:
    handle = agent(call("add", a=1), call("boom"), tools=[add, boom]).start_run("go")
    early = await listed(handle.tool_evidence())
    result = await handle.result()
    late = await listed(handle.tool_evidence())
    assert result.report is not None
    assert [(found.tool_name, found.outcome) for found in result.tool_evidence] == [
        ("add", "completed"),
        ("boom", "failed"),
    ]
    assert tuple(early) == tuple(late) == result.tool_evidence == result.report.tool_evidence
    events = await listed(handle.events())
    assert collect_tool_evidence(events) == result.tool_evidence
    assert collect_tool_evidence([event.to_dict() for event in events]) == result.tool_evidence
    assert RunReport.from_dict(result.report.to_dict()).tool_evidence == result.tool_evidence


@pytest.mark.claim("GRP-057")
async def test_evidence_comes_while_the_run_goes_on() -> None:
    gate = Gate()

    async def wait() -> None:
        """Wait."""
        await gate.wait()

    handle = agent(call("add", a=1), call("wait"), "done", tools=[add, wait]).start_run("go")
    stream = handle.tool_evidence()
    first = await anext(stream)
    assert (first.tool_name, first.outcome, handle.done) == ("add", "completed", False)
    gate.opened.set()
    assert [found.tool_name async for found in stream] == ["wait"]


@pytest.mark.claim("GRP-056")
async def test_evidence_tells_arguments_result_outcome_and_time() -> None:
    handle = agent(tools=[add]).start_run(direct("add", a=1))
    result = await handle.result()
    [found] = result.tool_evidence
    assert (found.tool_name, found.arguments, found.result) == ("add", {"a": 1, "b": 2}, 3)
    assert (found.outcome, found.result_omitted, found.error) == ("completed", False, None)
    assert (found.run_id, found.task_id, found.agent_name) == (handle.context.run_id, handle.task.id, "agent")
    assert found.started_at is not None
    assert datetime.fromisoformat(found.started_at) <= datetime.fromisoformat(found.finished_at)
    assert found.duration_seconds is not None
    assert found.duration_seconds >= 0
    assert (found.parent_action_id, found.delegation_id) == (None, None)


@pytest.mark.claim("GRP-056", "DEL-021")
@pytest.mark.parametrize("order", [delegate("kid"), delegate_tool("kid", "add", a=1)])
async def test_childs_tool_is_evidence_and_the_delegation_is_none(order: dict[str, Any]) -> None:
    """A finished ``agent.call`` proves nothing of a tool; the child's own receipt does, under the child's ids."""
    kid = agent(call("add", a=1), "kid done", name="kid", tools=[add])
    handle = agent(order, "done", subagents=[kid]).start_run("go")
    result = await handle.result()
    events = await listed(handle.events())
    [asked] = [e for e in events if e.type == "action.completed" and e.run_id == handle.context.run_id]
    [found] = result.tool_evidence
    assert (found.tool_name, found.agent_name, found.outcome) == ("add", "kid", "completed")
    assert found.run_id != handle.context.run_id
    assert found.parent_action_id == found.delegation_id == asked.action_id
    assert asked.delegation_id == asked.action_id
    idle = agent(delegate("kid"), "done", subagents=[agent("I did nothing", name="kid")]).start_run("go")
    claimed = await idle.result()
    assert any(event.type == "action.completed" for event in await listed(idle.events()))
    assert (claimed.output, claimed.tool_evidence) == ("done", ())


@pytest.mark.claim("GRP-058")
async def test_one_call_is_evidence_once_however_often_it_is_told() -> None:
    kid = agent(call("add", a=1), "kid done", name="kid", tools=[add])
    handle = agent(delegate("kid"), call("add", a=5), "done", tools=[add], subagents=[kid]).start_run("go")
    result = await handle.result()
    events = await listed(handle.events())
    assert result.task is not None
    snapshot = result.task.metadata["run_events"]
    assert {event["event_id"] for event in snapshot} & {event.event_id for event in events}
    mixed = [*events, *snapshot, *events]
    found = collect_tool_evidence(mixed)
    assert [item.action_id for item in found] == [item.action_id for item in result.tool_evidence]
    assert len({item.action_id for item in found}) == len(found) == 2
    trail = EvidenceTrail()  # what a live reader follows
    assert [item.action_id for event in mixed if (item := trail.add(read(event)))] == [item.action_id for item in found]


@pytest.mark.claim("GRP-059")
@pytest.mark.parametrize("exposed", [False, True])
@pytest.mark.parametrize("whose", ["own", "child"])
async def test_result_of_a_models_tool_is_shown_when_its_own_agent_exposes_it(exposed: bool, whose: str) -> None:
    if whose == "own":
        target = agent(call("add", a=1), "done", tools=[add], expose_tool_results=exposed)
    else:  # the setting is that of the agent which executes, not of the one that asks
        kid = agent(call("add", a=1), "kid", name="kid", tools=[add], expose_tool_results=exposed)
        target = agent(delegate("kid"), "done", subagents=[kid], expose_tool_results=not exposed)
    handle = target.start_run("go")
    [found] = (await handle.result()).tool_evidence
    assert (found.result, found.result_omitted) == ((3, False) if exposed else (None, True))
    assert found.arguments == {"a": 1, "b": 2}
    direct_call = await target.start_run(direct("add", a=1)).result() if whose == "own" else None
    if direct_call is not None:
        assert direct_call.tool_evidence[0].result == 3


OUTCOMES = {
    "completed": lambda: agent(call("add", a=1), "done", tools=[add]),
    "failed": lambda: agent(call("boom"), tools=[boom]),
    "rejected": lambda: agent(call("rejecting"), "done", tools=[rejecting]),
    "denied": lambda: guarded("deny"),
}


@pytest.mark.parametrize("outcome", OUTCOMES)
async def test_evidence_has_each_outcome_and_its_error(outcome: str) -> None:
    [found] = (await OUTCOMES[outcome]().start_run("go").result()).tool_evidence
    assert found.outcome == outcome
    if outcome == "completed":
        assert found.error is None
    else:
        assert found.error is not None
        assert found.error["code"]
    if outcome == "rejected":
        assert (found.error or {})["message"] == "not like this"


async def test_canceled_and_unknown_calls_are_evidence_too() -> None:
    result = await ended("canceled")
    assert [found.outcome for found in result.tool_evidence] == ["canceled"]

    def lose() -> None:
        """Lose the connection."""
        raise OSError("connection lost")

    lost = await agent(call("lose"), tools=[lose], durability=InMemoryDurableStore()).start_run("go").result()
    [found] = lost.tool_evidence
    assert (found.outcome, found.result) == ("uncertain", None)


async def test_person_who_refuses_is_a_denial() -> None:
    async def refuse(request: Any, context: Any) -> ApprovalDecision:
        return ApprovalDecision(False, request.request_id, reason="not today")

    result = await guarded("require_approval", approval_handler=refuse).start_run("go").result()
    [found] = result.tool_evidence
    assert (found.outcome, found.started_at, found.duration_seconds) == ("denied", None, None)
    assert result.error is not None
    assert result.error["code"] == "action_denied"


async def test_calls_of_one_turn_are_evidence_one_by_one() -> None:
    target = agent(turn(("add", {"a": 1}), ("add", {"a": 2})), "done", native=True, tools=[add])
    result = await target.start_run(infer()).result()
    assert [found.arguments for found in result.tool_evidence] == [{"a": 1, "b": 2}, {"a": 2, "b": 2}]
    assert len({found.action_id for found in result.tool_evidence}) == 2
