"""Refused requests and what the model may make of them."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from agent_support import (
    Mode,
    agent,
    call,
    codes,
    delegate,
    delegate_tool,
    infer,
    kinds,
    outcome,
    played,
    receipts,
    recorded,
    script,
    stream,
)

from protolink import (
    ActionDeniedError,
    Agent,
    BudgetExceededError,
    CapabilityPolicy,
    RunAction,
    RunBudget,
    RunContext,
    Task,
    TaskState,
    Tool,
    ToolCorrectionLimitError,
    ToolFailedError,
    ToolRejectedError,
    UncertainExecutionError,
)
from protolink.journal import InMemoryDurableStore
from protolink.llms import MockLLM
from protolink.tools.prepared import PreparedTool, ToolExecution

VALID = ("lint", "tests")


def select_check(check_id: str) -> str:
    """Select one available check."""
    raise AssertionError("describes the signature only")


class Selection:
    """A prepared tool that refuses what it does not know, and what it was asked."""

    def __init__(self, *, later: bool = False, capability: str = "plan.select") -> None:
        self.selected: list[str] = []
        self.prepared: list[str] = []
        prepare = self._later if later else self._now
        self.tool = PreparedTool(select_check, prepare=prepare, execute=self._execute, capabilities=(capability,))

    def _now(self, arguments: dict[str, Any], context: RunContext) -> RunAction:
        self.prepared.append(arguments["check_id"])
        if arguments["check_id"] not in VALID:
            raise ToolRejectedError(
                code="unknown_check",
                message="That check is unavailable; nothing changed.",
                details={"valid_ids": list(VALID)},
                suggestion="Choose lint or tests.",
            )
        return RunAction(kind="tool.call", name="select_check", payload={"arguments": arguments})

    async def _later(self, arguments: dict[str, Any], context: RunContext) -> RunAction:
        await asyncio.sleep(0)
        return self._now(arguments, context)

    async def _execute(self, execution: ToolExecution) -> str:
        execution.check()
        self.selected.append(execution.authorization.action.payload["arguments"]["check_id"])
        return "selected"


def choose(check: str) -> dict[str, Any]:
    return call("select_check", check_id=check)


@pytest.mark.claim(
    "REJ-001", "REJ-002", "REJ-003", "REJ-004", "REJ-005", "REJ-006", "REJ-010", "REJ-011", "REJ-014", "REJ-015"
)
@pytest.mark.parametrize("later", [False, True])
async def test_refused_proposal_is_corrected_by_the_next_one(mode: Mode, later: bool) -> None:
    selection = Selection(later=later)
    found = mode.agent(choose("typo"), choose("lint"), "Selected lint.", tools=[selection.tool])
    task = infer(budget=RunBudget(max_steps=3, max_llm_calls=3, max_tool_calls=1))
    await mode.run(found, task)
    assert task.get_output() == "Selected lint."
    assert selection.selected == ["lint"]
    assert selection.prepared == ["typo", "lint"]


@pytest.mark.claim("REJ-012")
async def test_refusal_is_an_observation_of_the_same_loop() -> None:
    seen: list[list[dict[str, Any]]] = []

    def answer(history: Any, prompt: str) -> Any:
        seen.append([dict(m) for m in history.messages])
        return [choose("typo"), choose("lint"), "done"][len(seen) - 1]

    llm = MockLLM(response_callback=answer)
    await Agent(name="a", llm=llm, tools=[Selection().tool], verbosity=0).invoke("Select.")
    told = json.loads(seen[1][-1]["content"])
    assert (told["type"], told["tool"]) == ("tool_result", "select_check")
    result = told["result"]
    assert (result["type"], result["status"], result["changes_made"]) == ("tool_rejection", "rejected", False)
    assert result["code"] == "unknown_check"
    assert (result["details"], result["suggestion"]) == ({"valid_ids": list(VALID)}, "Choose lint or tests.")
    assert result["correction"] == {"attempt": 1, "remaining": 1, "allowed": 2}
    assert seen[2][: len(seen[1])] == seen[1]


@pytest.mark.claim("REJ-016", "REJ-017", "REJ-031")
async def test_person_is_asked_only_about_the_corrected_proposal() -> None:
    shown: list[RunAction] = []
    selection = Selection()
    found = agent(
        choose("typo"),
        choose("lint"),
        "done",
        tools=[selection.tool],
        policy=CapabilityPolicy({"plan.select": "ask"}),
        approval_handler=lambda request, context: shown.append(request.action) or True,
    )
    task = infer()
    events = await stream(found, task)
    [action] = shown
    assert action.payload["arguments"] == {"check_id": "lint"}
    assert kinds(events).count("policy_decision") == 1
    [rejection] = [a for a in task.artifacts if a.kind == "action_rejection"]
    assert action.action_id != rejection.action_id


@pytest.mark.claim("REJ-020")
async def test_refused_proposal_has_neither_start_nor_result(mode: Mode) -> None:
    task = infer()
    await mode.run(mode.agent(choose("typo"), "gave up", tools=[Selection().tool]), task)
    assert task.get_output() == "gave up"
    assert receipts(task) == [("action_rejection", "select_check")]
    assert recorded(task) == ["action.rejected"]


@pytest.mark.claim("REJ-021", "REJ-024", "REJ-032")
async def test_all_kinds_of_refusals_draw_on_one_allowance(mode: Mode) -> None:
    def refuse() -> None:
        raise ToolRejectedError(code="no", message="no")

    kid = agent("never", name="kid")
    bad = [call("missing"), choose("typo"), call("refuse"), delegate("nobody"), call("select_check", wrong=1)]
    found = mode.agent(*bad, "never", tools=[Selection().tool, refuse], subagents=[kid])
    found.llm.max_tool_corrections = 4
    task = infer()
    ran = await mode.run(found, task)
    assert codes(task) == ["tool_correction_limit"]
    assert [r[0] for r in receipts(task)] == ["action_rejection"] * 5
    if not mode.streamed:
        assert isinstance(ran.error, ToolCorrectionLimitError)


@pytest.mark.claim("REJ-008", "REJ-023", "REJ-024")
@pytest.mark.parametrize("allowed", [0, 1, 3])
async def test_allowance_is_the_number_of_corrections(mode: Mode, allowed: int) -> None:
    found = mode.agent(*[choose(f"typo{n}") for n in range(allowed + 1)], "never", tools=[Selection().tool])
    found.llm.max_tool_corrections = allowed
    task = infer()
    await mode.run(found, task)
    assert codes(task) == ["tool_correction_limit"]
    assert played(found.llm) == allowed + 1
    [blocker] = task.metadata["blockers"]
    assert blocker["max_tool_corrections"] == allowed


@pytest.mark.claim("REJ-022")
async def test_two_corrections_are_allowed_unless_told_otherwise() -> None:
    assert script("x").max_tool_corrections == 2
    found = agent(choose("a"), choose("b"), choose("lint"), "done", tools=[Selection().tool])
    assert await found.invoke("go") == "done"
    again = agent(choose("a"), choose("b"), choose("c"), "never", tools=[Selection().tool])
    with pytest.raises(ToolCorrectionLimitError):
        await again.invoke("go")


@pytest.mark.claim("REJ-025")
async def test_success_does_not_refill_the_allowance(mode: Mode) -> None:
    found = mode.agent(
        choose("a"), choose("lint"), choose("b"), choose("tests"), choose("c"), "never", tools=[Selection().tool]
    )
    task = infer()
    await mode.run(found, task)
    assert codes(task) == ["tool_correction_limit"]


async def test_each_loop_has_an_allowance_of_its_own() -> None:
    kid = agent(choose("a"), choose("b"), "kid", name="kid", tools=[Selection().tool])
    found = agent(choose("a"), choose("b"), delegate("kid"), "done", tools=[Selection().tool], subagents=[kid])
    assert await found.invoke("go") == "done"


@pytest.mark.claim("REJ-029")
async def test_denial_is_no_correction() -> None:
    selection = Selection()
    found = agent(choose("lint"), "never", tools=[selection.tool], policy=CapabilityPolicy({"plan.select": "deny"}))
    error = await outcome(found, infer())
    assert isinstance(error, ActionDeniedError)
    assert played(found.llm) == 1


@pytest.mark.claim("REJ-029")
async def test_ordinary_exception_of_preparation_is_no_correction() -> None:
    def prepare(arguments: dict[str, Any], context: RunContext) -> RunAction:
        raise LookupError("index is gone")

    tool = PreparedTool(select_check, prepare=prepare, execute=lambda e: None, capabilities=("plan.select",))
    task = infer()
    error = await outcome(agent(choose("lint"), "never", tools=[tool]), task)
    assert isinstance(error, RuntimeError)
    assert isinstance(error.__cause__, LookupError)
    assert receipts(task) == []


@pytest.mark.claim("REJ-029")
async def test_used_up_budget_is_no_correction() -> None:
    selection, task = Selection(), infer(budget=RunBudget(max_tool_calls=1))
    found = agent(choose("lint"), choose("tests"), "never", tools=[selection.tool])
    assert isinstance(await outcome(found, task), BudgetExceededError)
    assert (selection.selected, played(found.llm)) == (["lint"], 2)


@pytest.mark.claim("REJ-029")
@pytest.mark.parametrize("durable", [False, True])
@pytest.mark.parametrize("kind", [ToolFailedError, OSError])
async def test_partial_write_or_lost_answer_is_no_correction(durable: bool, kind: type[Exception]) -> None:
    written: list[str] = []

    def write() -> None:
        written.append("half")
        raise kind("half of it is written")

    store = InMemoryDurableStore() if durable else None
    found, task = agent(call("write"), call("write"), "never", tools=[write], durability=store), infer()
    raised = await outcome(found, task)
    assert isinstance(raised, UncertainExecutionError) == (durable and kind is OSError)
    assert (task.state, written, played(found.llm)) == (TaskState.FAILED, ["half"], 1)


@pytest.mark.claim("REJ-007", "REJ-029")
async def test_check_stops_an_executor_of_a_canceled_run() -> None:
    reached: list[str] = []

    def execute(execution: ToolExecution) -> None:
        found.get_cancellation_token(execution.task_id).cancel("enough")  # type: ignore[union-attr]
        reached.append("before")
        execution.check()
        reached.append("after")

    def prepare(arguments: dict[str, Any], context: RunContext) -> RunAction:
        return RunAction(kind="tool.call", name="select_check", payload={"arguments": arguments})

    tool = PreparedTool(select_check, prepare=prepare, execute=execute, capabilities=("plan.select",))
    found, task = agent(choose("lint"), "never", tools=[tool]), infer()
    assert await outcome(found, task) is None
    assert (task.state, task.metadata["cancel_reason"]) == (TaskState.CANCELED, "enough")
    assert reached == ["before"]


@pytest.mark.claim("REJ-030")
async def test_refused_direct_call_has_no_second_try() -> None:
    selection, task = Selection(), Task.create_tool_call(tool_name="select_check", args={"check_id": "typo"})
    found = agent("never", tools=[selection.tool])
    assert await outcome(found, task) is None
    assert task.state is TaskState.FAILED
    assert task.artifacts[0].parts[0].as_tool_output().error["code"] == "unknown_check"
    with pytest.raises(ToolRejectedError) as caught:
        await found.call_tool("select_check", check_id="typo")
    assert caught.value.details == {"valid_ids": list(VALID)}
    assert (selection.prepared, played(found.llm)) == (["typo", "typo"], 0)


@pytest.mark.parametrize(
    ("action", "code"),
    [
        (call("missing"), "unknown_tool"),
        (call("add", a="x"), "invalid_arguments"),
        (delegate("nobody"), "unknown_agent"),
        (delegate_tool("kid", "missing"), "unknown_delegated_tool"),
        (delegate_tool("kid", "add", a="x"), "invalid_arguments"),
    ],
)
async def test_refusals_name_their_kind(action: dict[str, Any], code: str) -> None:
    tool = Tool.from_callable(add)
    kid = agent("never", name="kid", tools=[tool])
    task = infer()
    await agent(action, "done", tools=[tool], subagents=[kid]).run_task(task)
    [artifact] = [a for a in task.artifacts if a.kind == "action_rejection"]
    assert artifact.parts[0].content["rejection"]["code"] == code
    assert played(kid.llm) == 0


def add(a: int) -> int:
    """Add one."""
    return a + 1


@pytest.mark.claim("REJ-027")
async def test_executor_may_refuse_and_its_event_says_execution() -> None:
    def refuse(n: int) -> str:
        if n == 0:
            raise ToolRejectedError(code="zero", message="zero")
        return "ok"

    task = infer()
    events = await stream(agent(call("refuse", n=0), call("refuse", n=1), "done", tools=[refuse]), task)
    [rejected] = [e for e in events if kinds([e]) == ["tool_rejected"]]
    assert rejected.metadata["phase"] == "execution"
    assert recorded(task) == ["action.started", "action.rejected", "action.started", "action.completed"]
    assert [r[0] for r in receipts(task)] == ["action_rejection", "action_result"]
