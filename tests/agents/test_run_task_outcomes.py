"""What ``run_task`` does with each kind of end: return the task, or raise after it was brought to its end."""

from __future__ import annotations

from typing import Any

import pytest
from agent_support import Mode, agent, call, codes, infer, limited, outcome, receipts

from protolink import (
    ActionDeniedError,
    Agent,
    ApprovalDecision,
    ApprovalRequiredError,
    BudgetExceededError,
    CapabilityPolicy,
    InferParseError,
    RunBudget,
    Task,
    TaskExecutionError,
    TaskState,
    Tool,
    ToolCorrectionLimitError,
    ToolFailedError,
    ToolRejectedError,
    UncertainExecutionError,
)
from protolink.journal import InMemoryDurableStore
from protolink.llms import MockLLM

ASKING = CapabilityPolicy({"act": "ask"})
DENYING = CapabilityPolicy({"act": "deny"})


def boom() -> None:
    """Fail."""
    raise KeyError("no row")


def refuse() -> None:
    """Refuse."""
    raise ToolRejectedError(code="taken", message="The name is taken.")


def add(a: int) -> int:
    """Add one."""
    return a + 1


def acting() -> Tool:
    return Tool.from_callable(lambda: "acted", name="act", capabilities=["act"])


def direct(tool: str, *, budget: RunBudget | None = None, **args: Any) -> Task:
    return Task.create_tool_call(tool_name=tool, args=args, budget=budget)


async def test_completed_task_is_returned_as_the_same_object(mode: Mode) -> None:
    task = infer()
    assert (await mode.run(mode.agent("done"), task)).error is None
    assert (task.state, task.get_output()) == (TaskState.COMPLETED, "done")


async def test_direct_tool_that_raises_returns_a_failed_task_with_code_and_message() -> None:
    task = direct("boom")
    assert await outcome(agent(tools=[boom]), task) is None
    assert task.state is TaskState.FAILED
    assert task.artifacts[0].parts[0].as_tool_output().error == {"code": "KeyError", "message": "'no row'"}


@pytest.mark.parametrize(
    ("task", "code"),
    [
        (direct("missing"), "unknown_tool"),
        (direct("add", a="x"), "invalid_arguments"),
        (direct("refuse"), "taken"),
    ],
    ids=["unknown", "arguments", "rejection"],
)
@pytest.mark.claim("REJ-030")
async def test_direct_request_that_is_rejected_returns_a_failed_task_with_the_rejection(task: Task, code: str) -> None:
    assert await outcome(agent(tools=[add, refuse]), task) is None
    assert task.state is TaskState.FAILED
    error = task.artifacts[0].parts[0].as_tool_output().error
    assert (error["code"], error["status"], error["changes_made"]) == (code, "rejected", False)


async def test_tool_of_a_model_that_raises_is_raised_with_its_cause() -> None:
    task = infer()
    error = await outcome(agent(call("boom"), "never", tools=[boom]), task)
    assert isinstance(error, RuntimeError)
    assert isinstance(error.__cause__, KeyError)
    assert (task.state, codes(task)) == (TaskState.FAILED, ["KeyError"])


@pytest.mark.parametrize("tool", ["missing", "add", "refuse"])
async def test_model_that_never_gets_it_right_ends_in_the_correction_limit(tool: str, mode: Mode) -> None:
    task = infer()
    bad = [call(tool, a=f"x{n}") for n in range(3)] if tool == "add" else [call(tool, n=n) for n in range(3)]
    if tool == "refuse":
        bad = [call("refuse_n", n=n) for n in range(3)]

    def refuse_n(n: int) -> None:
        raise ToolRejectedError(code="taken", message=f"{n} is taken")

    ran = await mode.run(mode.agent(*bad, "never", tools=[add, refuse_n]), task)
    if not mode.streamed:
        assert isinstance(ran.error, ToolCorrectionLimitError)
    assert (task.state, codes(task)) == (TaskState.FAILED, ["tool_correction_limit"])
    assert [kind for kind, _ in receipts(task)] == ["action_rejection"] * 3


@pytest.mark.claim("APR-002")
@pytest.mark.parametrize("task", [infer(), direct("act")], ids=["model", "direct"])
async def test_policy_denial_is_raised_after_the_task_failed(task: Task) -> None:
    error = await outcome(agent(call("act"), "never", tools=[acting()], policy=DENYING), task)
    assert isinstance(error, ActionDeniedError)
    assert (task.state, codes(task)) == (TaskState.FAILED, ["action_denied"])
    assert task.metadata["error"] == str(error)


@pytest.mark.claim("APR-003")
@pytest.mark.parametrize("task", [infer(), direct("act")], ids=["model", "direct"])
async def test_missing_approval_is_raised_after_the_task_failed(task: Task) -> None:
    error = await outcome(agent(call("act"), "never", tools=[acting()], policy=ASKING), task)
    assert isinstance(error, ApprovalRequiredError)
    assert (task.state, codes(task)) == (TaskState.FAILED, ["approval_required"])


@pytest.mark.parametrize(
    "task",
    [limited(max_tool_calls=0), direct("add", a=1, budget=RunBudget(max_tool_calls=0))],
    ids=["model", "direct"],
)
async def test_budget_is_raised_after_the_task_failed(task: Task) -> None:
    error = await outcome(agent(call("add", a=1), "never", tools=[add]), task)
    assert isinstance(error, BudgetExceededError)
    assert error.decision.limit_name == "max_tool_calls"
    assert (task.state, codes(task)) == (TaskState.FAILED, ["budget_exceeded"])


@pytest.mark.parametrize("task", [infer(), direct("boom")], ids=["model", "direct"])
async def test_unknown_effect_is_raised_after_the_task_failed(task: Task) -> None:
    error = await outcome(agent(call("boom"), "never", tools=[boom], durability=InMemoryDurableStore()), task)
    assert isinstance(error, UncertainExecutionError)
    assert (task.state, codes(task)) == (TaskState.FAILED, ["execution_uncertain"])


async def test_parse_failures_are_raised_after_the_task_failed() -> None:
    task = infer()
    error = await outcome(agent("", "", "", "never"), task)
    assert isinstance(error, InferParseError)
    assert (task.state, codes(task)) == (TaskState.FAILED, ["parse_failures"])


async def test_default_step_limit_is_raised_after_the_task_failed() -> None:
    task = infer()
    error = await outcome(agent(*[call("add", a=n) for n in range(20)], tools=[add]), task)
    assert isinstance(error, BudgetExceededError)
    assert str(error) == "Maximum inference steps (10) exceeded"
    assert (task.state, codes(task)) == (TaskState.FAILED, ["budget_exceeded"])


async def test_harmless_failure_of_a_model_s_tool_keeps_its_type(mode: Mode) -> None:
    def offline() -> None:
        raise ToolFailedError("nothing was sent", code="offline")

    task = infer()
    ran = await mode.run(mode.agent(call("offline"), "never", tools=[offline]), task)
    if not mode.streamed:
        assert isinstance(ran.error, ToolFailedError)
    assert (task.state, codes(task)) == (TaskState.FAILED, ["offline"])


async def test_task_without_a_model_fails_and_is_returned() -> None:
    task = infer()
    assert await outcome(agent(), task) is None
    assert (task.state, codes(task)) == (TaskState.FAILED, ["no_llm"])
    assert task.artifacts[0].parts[0].content["code"] == "no_llm"


async def test_error_of_the_provider_names_the_step_and_is_a_runtime_error() -> None:
    def answer(history: Any, prompt: str) -> Any:
        raise PermissionError("the key was refused")

    task = infer()
    error = await outcome(Agent(name="a", llm=MockLLM(response_callback=answer), verbosity=0), task)
    assert isinstance(error, RuntimeError)
    assert isinstance(error.__cause__, PermissionError)
    assert (task.state, task.metadata["blockers"][0]["step"]) == (TaskState.FAILED, 1)


async def test_returned_failures_raise_on_demand() -> None:
    task = direct("boom")
    await agent(tools=[boom]).run_task(task)
    with pytest.raises(TaskExecutionError):
        task.raise_for_status()


@pytest.mark.claim("APR-055")
@pytest.mark.parametrize("reason", ["Not on a Friday.", None])
async def test_denial_by_a_person_tells_the_reason(reason: str | None) -> None:
    def handler(request: Any, context: Any) -> ApprovalDecision:
        return ApprovalDecision(False, request.request_id, reason=reason, decided_by="ops")

    task = infer()
    found = agent(call("act"), "never", tools=[acting()], policy=ASKING, approval_handler=handler)
    error = await outcome(found, task)
    assert isinstance(error, ActionDeniedError)
    assert error.approval_decision is not None
    assert error.approval_decision.decided_by == "ops"
    assert str(error) == (reason or error.decision.reason)
    assert task.metadata["error"] == str(error)
