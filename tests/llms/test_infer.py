"""``LLM.infer``: the loop outside an agent."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

from protolink import (
    ActionAuthorizer,
    ActionDeniedError,
    BudgetEnforcer,
    BudgetExceededError,
    CancellationToken,
    CapabilityPolicy,
    ContextManifest,
    InferParseError,
    LLMModelProfile,
    RunBudget,
    RunContext,
    TaskExecutionError,
    create_llm,
)
from protolink.llms import MockLLM, ModelTurn
from protolink.models.turn import Call
from protolink.tools import Tool


def call(name: str, **args: Any) -> dict[str, Any]:
    return {"type": "tool_call", "tool": name, "args": args}


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def tools(*functions: Callable[..., Any]) -> dict[str, Tool]:
    found = [Tool.from_callable(function) for function in functions]
    return {tool.name: tool for tool in found}


@pytest.mark.claim("MAN-003", "MAN-004", "MAN-005")
async def test_the_second_event_of_a_one_call_inference_has_the_manifest() -> None:
    llm = create_llm("mock", default_response="done")
    llm.configure_metrics(LLMModelProfile(context_window=8192))
    context = RunContext(run_id="run_budgeted", budget=RunBudget(max_llm_calls=2))
    events: list[dict[str, Any]] = []

    async def capture(event: dict[str, Any]) -> None:
        await asyncio.sleep(0)
        events.append(event)

    part = await llm.infer(query="Summarize", tools={}, run_context=context, event_callback=capture)
    assert (part.type, part.content) == ("infer_output", "done")
    manifest = ContextManifest.from_dict(events[1]["manifest"])
    assert (manifest.run_id, manifest.context_window, manifest.user_tokens) == ("run_budgeted", 8192, 3)
    assert [event["type"] for event in events] == [
        "llm_step",
        "context_prepared",
        "llm_context",
        "llm_call_started",
        "llm_call_metrics",
        "llm_call_completed",
        "llm_response",
        "llm_action",
        "llm_final",
    ]


async def test_tools_run_and_the_model_sees_their_results() -> None:
    llm = MockLLM(sequential_responses=[call("add", a=1, b=2), "three"])
    assert (await llm.infer(query="add", tools=tools(add))).content == "three"


async def test_streaming_hands_fragments_to_the_callback() -> None:
    events: list[dict[str, Any]] = []

    async def capture(event: dict[str, Any]) -> None:
        events.append(event)

    await MockLLM(default_response="text").infer(query="q", tools={}, streaming=True, event_callback=capture)
    assert ["text" in event["content"] for event in events if event["type"] == "llm_chunk"] == [True]


async def test_an_authorizer_stands_before_the_tools() -> None:
    tool = Tool.from_callable(add, capabilities=["math"])
    gate = ActionAuthorizer(CapabilityPolicy({"math": "deny"}))
    llm = MockLLM(sequential_responses=[call("add", a=1, b=2), "never"])
    with pytest.raises(ActionDeniedError):
        await llm.infer(query="add", tools={"add": tool}, action_authorizer=gate)


async def test_an_approval_handler_is_asked() -> None:
    asked: list[str] = []

    def approve(request: Any, context: Any) -> bool:
        asked.append(request.action.name)
        return True

    gate = ActionAuthorizer(CapabilityPolicy({"math": "ask"}), approve)
    llm = MockLLM(sequential_responses=[call("add", a=1, b=2), "three"])
    tool = Tool.from_callable(add, capabilities=["math"])
    assert (await llm.infer(query="add", tools={"add": tool}, action_authorizer=gate)).content == "three"
    assert asked == ["add"]


async def test_the_callers_enforcer_counts_on() -> None:
    enforcer = BudgetEnforcer(RunBudget(max_llm_calls=3))
    assert enforcer.check_llm_call().allowed
    llm = MockLLM(sequential_responses=[call("add", a=1, b=2), "three"])
    await llm.infer(query="add", tools=tools(add), budget_enforcer=enforcer)
    assert (enforcer.usage.llm_calls, enforcer.usage.tool_calls) == (3, 1)
    with pytest.raises(BudgetExceededError):
        await llm.infer(query="again", tools={}, budget_enforcer=enforcer)


async def test_a_callback_carries_out_delegations() -> None:
    class Card:
        name = "kid"
        description = "A kid"

    asked: list[Any] = []

    async def delegate(agent: str, action: str, payload: dict[str, Any]) -> str:
        asked.append((agent, action, payload["prompt"]))
        return "E1"

    request = {"type": "agent_call", "agent": "kid", "action": "infer", "prompt": "find"}
    llm = MockLLM(sequential_responses=[request, "found E1"])
    part = await llm.infer(query="go", tools={}, agent_callback=delegate, agent_cards=[Card()])
    assert (part.content, asked) == ("found E1", [("kid", "infer", "find")])


async def test_an_unknown_peer_can_be_corrected() -> None:
    async def delegate(agent: str, action: str, payload: dict[str, Any]) -> str:
        return "E1"

    class Card:
        name = "kid"
        description = "A kid"

    wrong = {"type": "agent_call", "agent": "nobody", "action": "infer", "prompt": "find"}
    llm = MockLLM(sequential_responses=[wrong, "no such agent"])
    assert (await llm.infer(query="go", tools={}, agent_callback=delegate, agent_cards=[Card()])).content == (
        "no such agent"
    )


async def test_a_canceled_token_ends_the_loop_with_cancelled_error() -> None:
    token = CancellationToken()

    def stop() -> str:
        """Cancel from inside."""
        token.cancel("enough")
        return "stopped"

    llm = MockLLM(sequential_responses=[call("stop"), "never"])
    with pytest.raises(asyncio.CancelledError, match="enough"):
        await llm.infer(query="go", tools=tools(stop), cancellation_token=token)


async def test_canceled_context_is_refused_before_the_model_is_asked() -> None:
    llm = MockLLM(sequential_responses=["never"])
    with pytest.raises(asyncio.CancelledError, match="enough"):
        await llm.infer(query="go", tools={}, run_context=RunContext().cancel("enough"))
    assert llm._played == 0


async def test_replies_that_are_no_action_end_in_a_parse_error() -> None:
    llm = MockLLM(response_callback=lambda history, prompt: "")
    with pytest.raises(InferParseError) as caught:
        await llm.infer(query="go", tools={})
    assert caught.value.attempts == 3


async def test_a_failing_tool_fails_the_inference_with_its_cause() -> None:
    def broken() -> str:
        """Fail."""
        raise OSError("no disk")

    llm = MockLLM(sequential_responses=[call("broken"), "never"])
    with pytest.raises(TaskExecutionError) as caught:
        await llm.infer(query="go", tools=tools(broken))
    assert isinstance(caught.value.__cause__, OSError)


async def test_native_turns_may_carry_several_calls() -> None:
    turn = ModelTurn("", (Call("c1", "add", {"a": 1, "b": 2}), Call("c2", "add", {"a": 3, "b": 4})))
    llm = MockLLM(sequential_responses=[turn, "both"], tool_calling="native")
    assert (await llm.infer(query="go", tools=tools(add))).content == "both"


@pytest.mark.parametrize("query", ["", "  ", None, 7])
async def test_a_blank_query_is_refused(query: Any) -> None:
    with pytest.raises(ValueError, match="query"):
        await MockLLM().infer(query=query, tools={})
