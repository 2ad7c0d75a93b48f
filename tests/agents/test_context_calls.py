"""``call_tool_in_context``: one tool on behalf of a run, without a task, never stored."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

import pytest
from agent_support import FakeClock, Gate, agent

from protolink import (
    ActionDeniedError,
    Agent,
    ApprovalRequiredError,
    BudgetExceededError,
    CapabilityPolicy,
    RunAction,
    RunBudget,
    RunContext,
    Tool,
    ToolRejectedError,
)
from protolink.journal import InMemoryDurableStore
from protolink.tools.prepared import PreparedTool, ToolExecution

ASKING = CapabilityPolicy({"act": "ask"})


class Acting:
    def __init__(self, **options: Any) -> None:
        self.ran: list[int] = []
        self.agent = Agent(name="a", tools=[Tool.from_callable(self.act, capabilities=["act"])], verbosity=0, **options)

    def act(self, n: int = 0) -> int:
        """Act."""
        self.ran.append(n)
        return n + 1


@pytest.mark.claim("APR-010")
async def test_tool_runs_without_a_task_and_returns_its_own_result() -> None:
    acting, seen = Acting(), list[tuple[str, ...]]()
    acting.agent.tool(name="look")(lambda: seen.append(acting.agent.active_task_ids))
    assert await acting.agent.call_tool_in_context("act", RunContext(), n=4) == 5
    await acting.agent.call_tool_in_context("look", RunContext())
    assert seen == [()]


@pytest.mark.claim("APR-010")
async def test_unknown_tool_and_bad_arguments_are_value_errors() -> None:
    acting = Acting()
    with pytest.raises(ValueError, match="missing"):
        await acting.agent.call_tool_in_context("missing", RunContext())
    with pytest.raises(ValueError):
        await acting.agent.call_tool_in_context("act", RunContext(), n="many")
    assert acting.ran == []


@pytest.mark.claim("APR-011")
async def test_policy_judges_it_in_the_given_context() -> None:
    with pytest.raises(ActionDeniedError):
        await Acting(policy=CapabilityPolicy({"act": "deny"})).agent.call_tool_in_context("act", RunContext())
    acting = Acting()
    with pytest.raises(ActionDeniedError):
        await acting.agent.call_tool_in_context("act", RunContext(permissions={"act": False}))
    assert acting.ran == []


@pytest.mark.claim("APR-011")
async def test_handler_is_asked_with_that_context() -> None:
    contexts: list[RunContext] = []

    def handler(request: Any, context: RunContext) -> bool:
        contexts.append(context)
        assert request.run_id == "run-mine"
        return True

    acting = Acting(policy=ASKING, approval_handler=handler)
    context = RunContext(run_id="run-mine")
    assert await acting.agent.call_tool_in_context("act", context) == 1
    assert contexts == [context]


@pytest.mark.claim("APR-011", "APR-003")
async def test_without_a_handler_it_fails_closed() -> None:
    acting = Acting(policy=ASKING)
    with pytest.raises(ApprovalRequiredError):
        await acting.agent.call_tool_in_context("act", RunContext())
    assert acting.ran == []


async def test_calls_with_one_context_share_its_budget() -> None:
    acting, context = Acting(), RunContext(budget=RunBudget(max_tool_calls=2))
    for n in range(2):
        await acting.agent.call_tool_in_context("act", context, n=n)
    with pytest.raises(BudgetExceededError):
        await acting.agent.call_tool_in_context("act", context, n=2)
    assert acting.ran == [0, 1]


async def test_another_context_has_a_budget_of_its_own() -> None:
    acting = Acting()
    for n in range(4):
        context = RunContext(budget=RunBudget(max_tool_calls=1))
        await acting.agent.call_tool_in_context("act", context, n=n)
        del context
        gc.collect()
    assert acting.ran == [0, 1, 2, 3]


async def test_calls_side_by_side_share_the_budget_too() -> None:
    started: list[int] = []

    async def slow(n: int) -> None:
        """Slow."""
        started.append(n)
        await asyncio.sleep(0)

    found, context = agent(tools=[slow]), RunContext(budget=RunBudget(max_tool_calls=2))
    calls = [found.call_tool_in_context("slow", context, n=n) for n in range(3)]
    ended = await asyncio.gather(*calls, return_exceptions=True)
    assert [type(e).__name__ for e in ended if e is not None] == ["BudgetExceededError"]
    assert len(started) == 2


async def test_canceled_context_is_refused_before_anything() -> None:
    acting = Acting()
    with pytest.raises(asyncio.CancelledError, match="over"):
        await acting.agent.call_tool_in_context("act", RunContext().cancel("over"))
    assert acting.ran == []


async def test_durable_agent_stores_nothing_and_asks_nobody() -> None:
    store = InMemoryDurableStore()
    acting = Acting(policy=ASKING, approval_handler=lambda request, context: True, durability=store)
    with pytest.raises(ApprovalRequiredError, match="call_tool"):
        await acting.agent.call_tool_in_context("act", RunContext())
    assert acting.ran == []
    acting.agent.policy = CapabilityPolicy()
    assert await acting.agent.call_tool_in_context("act", RunContext()) == 1
    assert list(store.list()) == []


async def test_exceptions_of_the_tool_are_its_own() -> None:
    def boom() -> None:
        raise KeyError("no row")

    def refuse() -> None:
        raise ToolRejectedError(code="no", message="no")

    found = agent(tools=[boom, refuse])
    with pytest.raises(KeyError):
        await found.call_tool_in_context("boom", RunContext())
    with pytest.raises(ToolRejectedError):
        await found.call_tool_in_context("refuse", RunContext())


@pytest.mark.parametrize("context", [None, {}, "run"])
async def test_context_must_be_one(context: Any) -> None:
    with pytest.raises(TypeError, match="RunContext"):
        await Acting().agent.call_tool_in_context("act", context)


async def test_tool_may_call_another_on_behalf_of_its_own_run() -> None:
    acting = Acting()

    def outer() -> None:
        """Call another tool."""

    def prepare(arguments: dict[str, Any], context: RunContext) -> Any:
        return RunAction(kind="tool.call", name="outer", payload={"arguments": arguments})

    async def execute(execution: ToolExecution) -> int:
        return int(await acting.agent.call_tool_in_context("act", execution.context, n=1))

    acting.agent.add_tool(PreparedTool(outer, prepare=prepare, execute=execute, capabilities=("outer",)))
    assert await acting.agent.call_tool("outer") == 2


async def test_time_of_calls_in_one_context_counts_together_and_once() -> None:
    clock, first, second = FakeClock(), Gate(), Gate()
    gates = {"one": first, "two": second}

    async def wait(name: str) -> str:
        """Wait."""
        await gates[name].wait()
        return name

    target = agent(tools=[wait], clock=clock)
    context = RunContext(budget=RunBudget(max_runtime_seconds=25))
    calls = [asyncio.ensure_future(target.call_tool_in_context("wait", context, name=name)) for name in gates]
    await asyncio.gather(first.reached.wait(), second.reached.wait())
    clock.advance(10)
    first.opened.set()
    assert await calls[0] == "one"
    clock.advance(10)
    second.opened.set()
    assert await calls[1] == "two"
    clock.advance(100)  # nobody works
    assert await target.call_tool_in_context("wait", context, name="one") == "one"
    slow = Gate()
    gates["one"] = slow
    last = asyncio.ensure_future(target.call_tool_in_context("wait", context, name="one"))
    await slow.reached.wait()
    clock.advance(10)
    slow.opened.set()
    assert await last == "one"
    with pytest.raises(BudgetExceededError, match="runtime"):
        await target.call_tool_in_context("wait", context, name="two")
