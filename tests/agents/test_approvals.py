"""Approvals in live runs: what the handler sees, what it may answer, and what becomes of a wrong answer."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from agent_support import FakeClock, Gate, agent, call, codes, delegate, infer, kinds, outcome, stream, turn

from protolink import (
    ActionDeniedError,
    Agent,
    ApprovalDecision,
    ApprovalRequest,
    ApprovalRequiredError,
    BudgetExceededError,
    CapabilityPolicy,
    Part,
    RunAction,
    RunBudget,
    RunContext,
    Task,
    TaskState,
    Tool,
)
from protolink.models import Artifact
from protolink.tools.prepared import PreparedTool

ASKING = CapabilityPolicy({"act": "ask"})


class Acting:
    """An agent whose only tool needs approval, and what it did."""

    def __init__(self, handler: Callable[..., Any] | None, **options: Any) -> None:
        self.ran: list[str] = []
        tool = Tool.from_callable(self.act, capabilities=["act"], description="Acts on a word.")
        options = {"tools": [tool], "policy": ASKING, "approval_handler": handler, **options}
        self.agent = agent(call("act", word="x"), "done", **options)

    def act(self, word: str, times: int = 1) -> str:
        self.ran.append(word)
        return word


@pytest.mark.claim("APR-001", "APR-004", "APR-005")
async def test_handler_sees_the_complete_action_and_the_run() -> None:
    shown: list[tuple[ApprovalRequest, RunContext]] = []

    def handler(request: ApprovalRequest, context: RunContext) -> bool:
        assert acting.ran == []
        shown.append((request, context))
        return True

    acting, task = Acting(handler), infer(session_id="s")
    assert await outcome(acting.agent, task) is None
    [(request, context)] = shown
    action = request.action
    assert (action.kind, action.name) == ("tool.call", "act")
    assert action.payload == {"arguments": {"word": "x", "times": 1}}
    assert (action.capabilities, action.description) == ({"act"}, "Acts on a word.")
    assert request.run_id == context.run_id == RunContext.from_task(task).run_id
    assert context.session_id == "s"
    assert request.policy_decision.effect.value == "require_approval"
    assert request.request_id.startswith("approval_")
    assert acting.ran == ["x"]


@pytest.mark.claim("APR-004", "APR-007")
async def test_handler_sees_the_preview() -> None:
    shown: list[Artifact] = []

    def build(arguments: dict[str, Any], context: RunContext) -> RunAction:
        preview = Artifact(kind="preview").add_part(Part.json({"would": arguments["word"]}))
        return RunAction(
            kind="words.act", name="act", payload={"arguments": arguments}, metadata={"note": 1}
        ).with_artifacts([preview])

    def handler(request: ApprovalRequest, context: RunContext) -> bool:
        shown.extend(request.action.artifacts)
        assert request.action.metadata == {"note": 1}
        return True

    ran: list[str] = []

    def act(word: str) -> None:
        ran.append(word)

    tool = Tool.from_callable(act, capabilities=["act"], action_builder=build)
    found = agent(call("act", word="x"), "done", tools=[tool], policy=ASKING, approval_handler=handler)
    assert await found.invoke("go") == "done"
    assert shown[0].parts[0].content == {"would": "x"}
    assert ran == ["x"]


@pytest.mark.claim("APR-029", "APR-030", "APR-031", "APR-005")
@pytest.mark.parametrize("approved", [True, False])
@pytest.mark.parametrize("kind", ["sync", "async", "decision"])
async def test_answer_may_be_a_bool_or_a_decision_now_or_later(kind: str, approved: bool) -> None:
    async def later(request: ApprovalRequest, context: RunContext) -> bool:
        await asyncio.sleep(0)
        return approved

    handlers: dict[str, Callable[..., Any]] = {
        "sync": lambda request, context: approved,
        "async": later,
        "decision": lambda request, context: ApprovalDecision(approved, request.request_id, decided_by="me"),
    }
    acting, task = Acting(handlers[kind]), infer()
    error = await outcome(acting.agent, task)
    assert acting.ran == (["x"] if approved else [])
    assert isinstance(error, ActionDeniedError) is not approved


@pytest.mark.claim("APR-048")
@pytest.mark.parametrize("answer", [None, "yes", 1, {"approved": True}])
async def test_answer_of_another_type_approves_nothing(answer: Any) -> None:
    acting, task = Acting(lambda request, context: answer), infer()
    error = await outcome(acting.agent, task)
    assert isinstance(error, RuntimeError)
    assert isinstance(error.__cause__, TypeError)
    assert (acting.ran, task.state) == ([], TaskState.FAILED)


@pytest.mark.claim("APR-032", "APR-049")
async def test_decision_for_another_request_approves_nothing() -> None:
    acting, task = Acting(lambda request, context: ApprovalDecision(True, "approval_other")), infer()
    error = await outcome(acting.agent, task)
    assert isinstance(error, RuntimeError)
    assert isinstance(error.__cause__, ValueError)
    assert "approval_other" in str(error.__cause__)
    assert (acting.ran, task.state) == ([], TaskState.FAILED)


async def test_decision_may_not_be_kept_for_a_second_action() -> None:
    kept: list[ApprovalDecision] = []
    ran: list[int] = []

    def handler(request: ApprovalRequest, context: RunContext) -> ApprovalDecision:
        kept.append(ApprovalDecision(True, request.request_id))
        return kept[0]

    def act(n: int) -> None:
        ran.append(n)

    tool = Tool.from_callable(act, capabilities=["act"])
    found = agent(call("act", n=1), call("act", n=2), tools=[tool], policy=ASKING, approval_handler=handler)
    error = await outcome(found, infer())
    assert isinstance(error, RuntimeError)
    assert ran == [1]


@pytest.mark.claim("APR-050")
async def test_handler_that_raises_approves_nothing() -> None:
    def handler(request: ApprovalRequest, context: RunContext) -> bool:
        raise LookupError("nobody home")

    acting, task = Acting(handler), infer()
    error = await outcome(acting.agent, task)
    assert isinstance(error, RuntimeError)
    assert isinstance(error.__cause__, LookupError)
    assert (acting.ran, codes(task)) == ([], ["LookupError"])


@pytest.mark.claim("APR-025", "APR-055")
async def test_reason_of_the_person_is_the_message() -> None:
    acting = Acting(lambda request, context: ApprovalDecision(False, request.request_id, reason="Not on a Friday."))
    with pytest.raises(ActionDeniedError, match="Not on a Friday") as caught:
        await acting.agent.call_tool("act", word="x")
    assert caught.value.approval_request is not None
    assert caught.value.approval_decision is not None
    assert caught.value.approval_decision.request_id == caught.value.approval_request.request_id


@pytest.mark.claim("APR-055")
@pytest.mark.parametrize("blank", ["", "  "])
async def test_blank_reason_of_the_person_is_none(blank: str) -> None:
    acting = Acting(lambda request, context: ApprovalDecision(False, request.request_id, reason=blank))
    task = infer()
    error = await outcome(acting.agent, task)
    assert isinstance(error, ActionDeniedError)
    assert str(error) == error.decision.reason == task.metadata["error"]
    assert error.approval_decision is not None
    assert error.approval_decision.reason is None


@pytest.mark.claim("APR-003", "APR-005")
async def test_nobody_to_ask_means_no() -> None:
    acting, task = Acting(None), infer()
    error = await outcome(acting.agent, task)
    assert isinstance(error, ApprovalRequiredError)
    assert error.request.action.payload == {"arguments": {"word": "x", "times": 1}}
    assert ApprovalRequest.from_dict(error.request.to_dict()).request_id == error.request.request_id
    assert acting.ran == []


async def test_handler_of_the_child_is_asked_about_the_child_s_action() -> None:
    asked: list[str] = []
    kid = Acting(lambda request, context: asked.append("kid") or True)
    kid.agent.card.name = "kid"
    found = agent(
        delegate("kid"),
        "done",
        subagents=[kid.agent],
        approval_handler=lambda request, context: asked.append("parent") or True,
    )
    assert await found.invoke("go") == "done"
    assert (asked, kid.ran) == (["kid"], ["x"])


async def test_run_waits_for_the_person_and_is_canceled_while_it_waits() -> None:
    gate, task = Gate(), infer()

    async def handler(request: ApprovalRequest, context: RunContext) -> bool:
        await gate.wait()
        return True

    acting = Acting(handler)
    running = asyncio.ensure_future(acting.agent.run_task(task))
    await gate.reached.wait()
    await acting.agent.cancel_task(task.id, "never mind")
    await running
    assert (task.state, acting.ran, gate.canceled) == (TaskState.CANCELED, [], True)


async def test_waiting_for_the_person_ends_with_the_runtime() -> None:
    gate, clock, task = Gate(), FakeClock(), infer(budget=RunBudget(max_runtime_seconds=60))

    async def handler(request: ApprovalRequest, context: RunContext) -> bool:
        await gate.wait()
        return True

    acting = Acting(handler, clock=clock)
    running = asyncio.ensure_future(outcome(acting.agent, task))
    await gate.reached.wait()
    clock.advance(61)
    error = await running
    # Nobody refused; the run was not given the time to ask.
    assert isinstance(error, BudgetExceededError)
    assert (error.decision.limit_name, error.decision.limit) == ("max_runtime_seconds", 60)
    assert (acting.ran, gate.canceled, task.state) == ([], True, TaskState.FAILED)
    assert task.metadata["blockers"][-1]["code"] == "budget_exceeded"


async def test_question_that_expires_is_a_denial() -> None:
    gate, clock, task = Gate(), FakeClock(), infer()

    async def handler(request: ApprovalRequest, context: RunContext) -> bool:
        await gate.wait()
        return True

    def build(arguments: dict[str, Any], context: RunContext) -> RunAction:
        return RunAction(kind="tool.call", name="act", payload={"arguments": arguments}, metadata={"expires_in": 30})

    ran: list[str] = []
    tool = Tool.from_callable(lambda: ran.append("x"), name="act", capabilities=["act"], action_builder=build)
    found = agent(call("act"), tools=[tool], policy=ASKING, approval_handler=handler, clock=clock)
    running = asyncio.ensure_future(outcome(found, task))
    await gate.reached.wait()
    clock.advance(31)
    assert isinstance(await running, ActionDeniedError)
    assert (ran, gate.canceled) == ([], True)


async def test_several_requests_of_a_turn_are_asked_side_by_side() -> None:
    waiting: dict[str, asyncio.Future[bool]] = {}
    ran: list[int] = []

    async def handler(request: ApprovalRequest, context: RunContext) -> bool:
        future = asyncio.get_running_loop().create_future()
        waiting[str(request.action.payload["arguments"]["n"])] = future
        if len(waiting) == 2:
            waiting["2"].set_result(True)
        answer = await future
        if not waiting["1"].done():
            waiting["1"].set_result(True)
        return answer

    def act(n: int) -> int:
        ran.append(n)
        return n

    tool = Tool.from_callable(act, capabilities=["act"])
    found = agent(
        turn(("act", {"n": 1}), ("act", {"n": 2})),
        "done",
        native=True,
        tools=[tool],
        policy=ASKING,
        approval_handler=handler,
    )
    assert await found.invoke("go") == "done"
    assert sorted(ran) == [1, 2]


async def test_handler_that_runs_another_task_of_the_agent_is_possible() -> None:
    async def handler(request: ApprovalRequest, context: RunContext) -> bool:
        answer = await other.invoke("may it?")
        return bool(answer == "yes")

    other = agent("yes", name="other")
    acting = Acting(handler)
    assert await acting.agent.invoke("go") == "done"


@pytest.mark.claim("EVT-041", "EVT-042")
async def test_request_and_decision_are_told_with_the_same_id() -> None:
    acting = Acting(lambda request, context: ApprovalDecision(True, request.request_id, reason="ok", decided_by="me"))
    events = await stream(acting.agent, infer())
    required = next(e for e in events if kinds([e]) == ["approval_required"]).metadata["request"]
    decided = next(e for e in events if kinds([e]) == ["approval_decision"]).metadata["decision"]
    assert decided["request_id"] == required["request_id"]
    assert (decided["approved"], decided["reason"], decided["decided_by"]) == (True, "ok", "me")


async def test_tool_sees_who_approved_it() -> None:
    seen: list[Any] = []

    def act() -> None:
        """Act."""

    def prepare(arguments: dict[str, Any], context: RunContext) -> RunAction:
        return RunAction(kind="tool.call", name="act", payload={"arguments": arguments})

    def execute(execution: Any) -> str:
        seen.append(execution.authorization)
        return "acted"

    tool = PreparedTool(act, prepare=prepare, execute=execute, capabilities=("act",))
    found = Agent(
        name="a",
        tools=[tool],
        policy=ASKING,
        approval_handler=lambda request, context: ApprovalDecision(True, request.request_id, decided_by="me"),
        verbosity=0,
    )
    task = Task.create_tool_call(tool_name="act", args={})
    await found.run_task(task)
    [authorization] = seen
    assert authorization.approval_decision.decided_by == "me"
    assert authorization.approval_request.request_id == authorization.approval_decision.request_id
