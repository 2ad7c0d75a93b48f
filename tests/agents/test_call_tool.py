"""``call_tool``: application code runs one tool itself, under the same rules as a model."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from agent_support import agent

from protolink import (
    ActionDeniedError,
    Agent,
    ApprovalRequiredError,
    CapabilityPolicy,
    PolicyDecision,
    RunAction,
    RunContext,
    RunInterrupted,
    Tool,
    ToolFailedError,
    ToolRejectedError,
    UncertainExecutionError,
)
from protolink.journal import InMemoryDurableStore


def add(a: int, b: int = 10) -> int:
    """Add two numbers."""
    return a + b


class Watching:
    """A policy that allows everything and keeps what it was shown."""

    def __init__(self) -> None:
        self.seen: list[RunAction] = []

    async def evaluate(self, action: RunAction, context: RunContext) -> PolicyDecision:
        self.seen.append(action)
        return PolicyDecision("allow", "watched", "watching")


async def test_result_is_the_very_object_that_the_tool_returned() -> None:
    made = object()
    assert await agent(tools=[Tool.from_callable(lambda: made, name="make")]).call_tool("make") is made


async def test_async_tool_is_awaited() -> None:
    async def later() -> str:
        return "later"

    assert await agent(tools=[later]).call_tool("later") == "later"


@pytest.mark.parametrize("arguments", [{"a": "many"}, {"b": 1}, {"a": 1, "c": 2}, {}])
async def test_bad_arguments_are_a_value_error_and_the_tool_does_not_run(arguments: dict[str, Any]) -> None:
    ran: list[int] = []

    def note(a: int, b: int = 0) -> None:
        ran.append(a)

    with pytest.raises(ValueError, match=r"note|a|b|c"):
        await agent(tools=[note]).call_tool("note", **arguments)
    assert ran == []


async def test_unknown_tool_is_a_value_error_that_lists_the_known_ones() -> None:
    with pytest.raises(ValueError, match=r"missing.*add"):
        await agent(tools=[add]).call_tool("missing")


async def test_exception_of_the_tool_arrives_as_it_was_raised() -> None:
    error = KeyError("no such row")

    def fail() -> None:
        raise error

    with pytest.raises(KeyError) as caught:
        await agent(tools=[fail]).call_tool("fail")
    assert caught.value is error


@pytest.mark.claim("REJ-030")
async def test_rejection_of_a_direct_call_is_raised_without_a_second_try() -> None:
    tries: list[int] = []

    def refuse(a: int) -> None:
        tries.append(a)
        raise ToolRejectedError(code="taken", message="The name is taken.", details={"a": a}, suggestion="Use another.")

    with pytest.raises(ToolRejectedError) as caught:
        await agent(tools=[refuse]).call_tool("refuse", a=1)
    assert (caught.value.code, caught.value.details, caught.value.suggestion) == ("taken", {"a": 1}, "Use another.")
    assert tries == [1]


async def test_tool_failed_error_arrives_with_its_code() -> None:
    def fail() -> None:
        raise ToolFailedError("nothing was sent", code="offline")

    for found in (agent(tools=[fail]), agent(tools=[fail], durability=InMemoryDurableStore())):
        with pytest.raises(ToolFailedError) as caught:
            await found.call_tool("fail")
        assert caught.value.code == "offline"


@pytest.mark.claim("ACT-001", "ACT-012")
async def test_policy_sees_validated_arguments_and_not_the_raw_ones() -> None:
    policy = Watching()
    await agent(tools=[add], policy=policy).call_tool("add", a=5)
    [action] = policy.seen
    assert isinstance(action, RunAction)
    assert (action.kind, action.name, action.payload) == ("tool.call", "add", {"arguments": {"a": 5, "b": 10}})


@pytest.mark.claim("INT-018")
async def test_denied_call_never_reaches_the_tool() -> None:
    ran: list[int] = []
    tool = Tool.from_callable(lambda: ran.append(1), name="act", capabilities=["records.delete"])
    with pytest.raises(ActionDeniedError) as caught:
        await agent(tools=[tool], policy=CapabilityPolicy({"records.*": "deny"})).call_tool("act")
    assert caught.value.action.capabilities == {"records.delete"}
    assert ran == []


@pytest.mark.claim("APR-003")
async def test_approval_without_a_handler_fails_closed_with_the_request() -> None:
    ran: list[int] = []
    tool = Tool.from_callable(lambda: ran.append(1), name="act", capabilities=["act"])
    with pytest.raises(ApprovalRequiredError) as caught:
        await agent(tools=[tool], policy=CapabilityPolicy({"act": "ask"})).call_tool("act")
    assert caught.value.request.to_dict()["action"]["name"] == "act"
    assert ran == []


@pytest.mark.claim("INT-004")
async def test_capabilities_and_kinds_are_the_applications_own() -> None:
    policy = Watching()
    found = agent(policy=policy)

    @found.tool(
        capabilities=["launch the rocket!"],
        action_builder=lambda arguments, context: RunAction(kind="rocket.launch", name="apollo"),
    )
    def launch() -> str:
        return "launched"

    assert await found.call_tool("launch") == "launched"
    [action] = policy.seen
    assert (action.kind, action.name, action.capabilities) == ("rocket.launch", "apollo", {"launch the rocket!"})


async def test_blocking_tools_run_in_the_loop_thread_unless_told_otherwise() -> None:
    def where() -> int:
        return threading.get_ident()

    here = threading.get_ident()
    inline, threaded = agent(tools=[where]), agent(tools=[where], sync_execution="thread", max_sync_workers=1)
    own = agent(tools=[Tool.from_callable(where, sync_execution="inline")], sync_execution="thread")
    assert await inline.call_tool("where") == here
    assert await threaded.call_tool("where") != here
    assert await own.call_tool("where") == here
    threaded.sync_executor.shutdown()


async def test_durable_call_is_stored_as_a_task_of_its_own() -> None:
    store = InMemoryDurableStore()
    assert await agent(tools=[add], durability=store).call_tool("add", a=1) == 11
    [stored] = store.list()
    assert stored.status == "completed"


async def test_durable_call_that_needs_approval_pauses_and_goes_on() -> None:
    found = agent(policy=CapabilityPolicy({"act": "ask"}), durability=InMemoryDurableStore())

    @found.tool(capabilities=["act"])
    def act() -> str:
        return "acted"

    with pytest.raises(RunInterrupted) as caught:
        await found.call_tool("act")
    request = caught.value.interruption.request_id
    assert await found.resume(caught.value.run_id, request_id=request, approved=True) == "acted"


async def test_durable_tool_that_raises_leaves_the_outcome_unknown() -> None:
    def fail() -> None:
        raise OSError("connection lost")

    with pytest.raises(UncertainExecutionError) as caught:
        await agent(tools=[fail], durability=InMemoryDurableStore()).call_tool("fail")
    assert isinstance(caught.value.__cause__, OSError)


async def test_call_leaves_no_active_task_behind() -> None:
    seen: list[tuple[str, ...]] = []
    found = agent()

    @found.tool
    def look() -> None:
        seen.append(found.active_task_ids)

    await found.call_tool("look")
    assert len(seen[0]) == 1
    assert found.active_task_ids == ()


@pytest.mark.claim("CTX-021", "POL-010")
@pytest.mark.parametrize("rule", ["deny", False])
async def test_permissions_of_the_context_narrow_what_policy_allows(rule: Any) -> None:
    found = agent()

    @found.tool(capabilities=["act"])
    def act() -> str:
        return "acted"

    with pytest.raises(ActionDeniedError):
        await found.call_tool_in_context("act", RunContext(permissions={"act": rule}))
    assert await found.call_tool_in_context("act", RunContext()) == "acted"


@pytest.mark.claim("CTX-021")
async def test_permissions_of_the_context_never_widen_what_policy_denies() -> None:
    found = agent(policy=CapabilityPolicy({"act": "deny"}))

    @found.tool(capabilities=["act"])
    def act() -> str:
        return "acted"

    with pytest.raises(ActionDeniedError):
        await found.call_tool_in_context("act", RunContext(permissions={"act": "allow"}))


@pytest.mark.claim("POL-010")
async def test_capability_named_by_nobody_is_not_enforced() -> None:
    plain = Tool.from_callable(lambda: "acted", name="act")
    found = Agent(name="a", tools=[plain], policy=CapabilityPolicy({"other": "deny"}), verbosity=0)
    assert await found.call_tool_in_context("act", RunContext(permissions={"other": "deny"})) == "acted"


async def test_authorize_action_governs_what_application_code_does_itself() -> None:
    found = agent(policy=CapabilityPolicy({"deploy": "ask"}), approval_handler=lambda request, context: True)
    action = RunAction(kind="app.deploy", name="site", capabilities={"deploy"})
    authorization = await found.authorize_action(action)
    assert authorization.action is action
    assert authorization.approval_decision is not None
    assert authorization.approval_decision.approved
    with pytest.raises(ActionDeniedError):
        await found.authorize_action(action, RunContext(permissions={"deploy": "deny"}))
