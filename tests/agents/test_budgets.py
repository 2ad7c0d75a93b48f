"""Budgets in real runs: each limit where it is checked, what is charged, and one ledger for the whole tree."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from agent_support import (
    FakeClock,
    Mode,
    agent,
    call,
    codes,
    delegate,
    infer,
    kinds,
    limited,
    only,
    outcome,
    receipts,
    recorded,
    script,
    stream,
    turn,
)

from protolink import (
    Agent,
    BudgetDecision,
    BudgetExceededError,
    BudgetPolicy,
    BudgetUsage,
    Part,
    RunBudget,
    RunContext,
    SubagentLimitError,
    SubagentLimits,
    Task,
    TaskState,
    ToolRejectedError,
)
from protolink.journal import InMemoryDurableStore
from protolink.llms import MockLLM


def add(a: int) -> int:
    """Add one."""
    return a + 1


class Calls:
    """A tool that counts its calls."""

    def __init__(self) -> None:
        self.made: list[int] = []

    def tool(self, n: int) -> int:
        """Count."""
        self.made.append(n)
        return n


def counting(calls: Calls, *responses: Any, **options: Any) -> Agent:
    found = agent(*responses, **options)
    found.tool(name="count")(calls.tool)
    return found


async def exceeded(found: Agent, task: Task, limit: str) -> BudgetExceededError:
    error = await outcome(found, task)
    assert isinstance(error, BudgetExceededError)
    assert error.decision.limit_name == limit
    assert (task.state, codes(task)) == (TaskState.FAILED, ["budget_exceeded"])
    return error


@pytest.mark.claim("BUD-001", "BUD-002")
async def test_work_under_every_limit_is_silent(mode: Mode) -> None:
    task = limited(
        max_steps=100,
        max_llm_calls=100,
        max_tool_calls=100,
        max_runtime_seconds=1e9,
        max_input_tokens=10**6,
        max_output_tokens=10**6,
    )
    found = mode.agent(call("add", a=1), "done", tools=[add])
    events = await stream(found, task)
    assert task.get_output() == "done"
    assert not [word for word in kinds(events) if word.startswith("budget")]


@pytest.mark.claim("BUD-001", "BUD-004", "BUD-027", "BUD-035")
async def test_model_call_over_its_limit_is_never_made(mode: Mode) -> None:
    task = limited(max_llm_calls=1)
    found = mode.agent(call("add", a=1), "never", tools=[add])
    ran = await mode.run(found, task)
    if not mode.streamed:
        assert isinstance(ran.error, BudgetExceededError)
    assert codes(task) == ["budget_exceeded"]
    assert found.llm._played == 1


@pytest.mark.claim("BUD-004", "BUD-028", "BUD-035")
async def test_tool_over_its_limit_is_never_called(mode: Mode) -> None:
    calls, task = Calls(), limited(max_tool_calls=1)
    found = mode.agent(call("count", n=1), call("count", n=2), "never")
    found.tool(name="count")(calls.tool)
    await mode.run(found, task)
    assert codes(task) == ["budget_exceeded"]
    assert calls.made == [1]


@pytest.mark.claim("BUD-028")
async def test_explicit_tool_part_is_checked_too() -> None:
    calls = Calls()
    task = Task.create_tool_call(tool_name="count", args={"n": 1}, budget=RunBudget(max_tool_calls=1))
    task.messages[-1].parts.append(Part.tool_call(tool_name="count", args={"n": 2}))
    await exceeded(counting(calls), task, "max_tool_calls")
    assert calls.made == [1]


@pytest.mark.claim("BUD-026")
async def test_steps_are_checked_before_each_tool_part() -> None:
    calls = Calls()
    task = Task.create_tool_call(tool_name="count", args={"n": 1}, budget=RunBudget(max_steps=1))
    task.messages[-1].parts.append(Part.tool_call(tool_name="count", args={"n": 2}))
    await exceeded(counting(calls), task, "max_steps")
    assert calls.made == [1]


@pytest.mark.claim("BUD-026")
async def test_steps_are_checked_before_each_model_turn() -> None:
    found = agent(call("add", a=1), call("add", a=2), "never", tools=[add])
    await exceeded(found, limited(max_steps=2), "max_steps")
    assert found.llm._played == 2


@pytest.mark.claim("BUD-005", "BUD-026")
async def test_parts_of_one_task_draw_on_one_budget() -> None:
    task = Task.create_tool_call(tool_name="add", args={"a": 1}, budget=RunBudget(max_steps=2))
    task.messages[-1].parts.append(Part.infer(prompt="go"))
    found = agent(call("add", a=2), "never", tools=[add])
    await exceeded(found, task, "max_steps")
    assert found.llm._played == 1


@pytest.mark.claim("BUD-005", "BUD-027")
async def test_every_attempt_at_the_provider_is_a_call() -> None:
    asked: list[int] = []

    def answer(history: Any, prompt: str) -> str:
        asked.append(1)
        raise ConnectionError("again")

    found = Agent(name="a", llm=MockLLM(response_callback=answer), clock=FakeClock(), verbosity=0)
    await exceeded(found, limited(max_llm_calls=2), "max_llm_calls")
    assert len(asked) == 2


async def test_attempts_of_one_turn_are_one_step() -> None:
    replies = [ConnectionError("again"), ConnectionError("again"), "done"]
    found = Agent(name="a", llm=script(*replies), clock=FakeClock(), verbosity=0)
    task = limited(max_steps=1)
    assert await outcome(found, task) is None
    assert task.get_output() == "done"


@pytest.mark.claim("BUD-029")
async def test_input_over_the_limit_is_never_sent() -> None:
    found = agent("never")
    await exceeded(found, infer("word " * 400, budget=RunBudget(max_input_tokens=400)), "max_input_tokens")
    assert found.llm._played == 0


@pytest.mark.claim("BUD-029")
async def test_input_of_all_calls_adds_up() -> None:
    events = await stream(agent("done"), infer())
    once = only(events, "context_prepared").metadata["manifest"]["total_estimated_tokens"]
    found = agent(call("add", a=1), "never", tools=[add])
    await exceeded(found, limited(max_input_tokens=once * 2), "max_input_tokens")
    assert found.llm._played == 1


@pytest.mark.claim("BUD-030", "BUD-036")
async def test_output_is_checked_when_it_is_known_even_if_it_is_the_answer() -> None:
    found, task = agent("word " * 400), limited(max_output_tokens=10)
    await exceeded(found, task, "max_output_tokens")
    assert found.llm._played == 1


@pytest.mark.claim("BUD-031", "BUD-036")
async def test_runtime_is_checked_after_the_model_has_answered() -> None:
    clock, calls = FakeClock(), Calls()

    def answer(history: Any, prompt: str) -> Any:
        clock.advance(20)
        return call("count", n=1)

    found = Agent(name="a", llm=MockLLM(response_callback=answer), clock=clock, verbosity=0)
    found.tool(name="count")(calls.tool)
    await exceeded(found, limited(max_runtime_seconds=10), "max_runtime_seconds")
    assert calls.made == []


@pytest.mark.claim("BUD-031", "BUD-036")
@pytest.mark.parametrize("durable", [False, True])
async def test_runtime_is_checked_when_the_model_has_answered_even_if_it_is_the_answer(durable: bool) -> None:
    clock = FakeClock()

    def answer(history: Any, prompt: str) -> str:
        clock.advance(20)
        return "too late"

    how: dict[str, Any] = {"durability": InMemoryDurableStore()} if durable else {}
    found = Agent(name="a", llm=MockLLM(response_callback=answer), clock=clock, verbosity=0, **how)
    error = await exceeded(found, limited(max_runtime_seconds=10), "max_runtime_seconds")
    assert error.decision.observed == 20


@pytest.mark.claim("BUD-031", "BUD-032", "BUD-037", "CAN-033")
async def test_tool_that_overruns_keeps_its_result_and_the_next_step_is_refused() -> None:
    clock, task = FakeClock(), limited(max_runtime_seconds=10)
    found = agent(call("slow"), "never", clock=clock)

    @found.tool
    def slow() -> str:
        clock.advance(20)
        return "slow"

    await exceeded(found, task, "max_runtime_seconds")
    assert receipts(task) == [("action_result", "slow")]
    assert recorded(task) == ["action.started", "action.completed"]
    [overrun] = task.metadata["completed_action_budget_overruns"]
    assert (overrun["action_name"], overrun["decision"]["limit_name"]) == ("slow", "max_runtime_seconds")
    assert found.llm._played == 1


@pytest.mark.claim("BUD-031")
async def test_model_call_is_given_up_at_the_end_of_the_runtime() -> None:
    clock, asked = FakeClock(), asyncio.Event()

    async def answer(history: Any, prompt: str) -> str:
        asked.set()
        await asyncio.Event().wait()
        return "never"

    found, task = Agent(name="a", llm=MockLLM(response_callback=answer), clock=clock, verbosity=0), infer()
    RunContext(budget=RunBudget(max_runtime_seconds=10)).attach_to_task(task)
    running = asyncio.ensure_future(outcome(found, task))
    await asked.wait()
    clock.advance(11)
    error = await running
    assert isinstance(error, BudgetExceededError)
    assert error.decision.limit_name == "max_runtime_seconds"


@pytest.mark.claim("BUD-032", "BUD-037")
async def test_result_is_recorded_before_the_next_check_stops_the_run(mode: Mode) -> None:
    task = limited(max_llm_calls=1)
    await mode.run(mode.agent(call("add", a=1), "never", tools=[add]), task)
    assert task.state is TaskState.FAILED
    assert receipts(task) == [("action_result", "add")]


@pytest.mark.claim("BUD-003", "BUD-033", "EVT-037")
async def test_limit_that_is_near_warns_once_in_the_whole_run(mode: Mode) -> None:
    found = mode.agent(*[call("add", a=n) for n in range(4)], "done", tools=[add])
    events = await stream(found, limited(max_llm_calls=5, max_tool_calls=100))
    warned = only(events, "budget_warning")
    assert warned.metadata["decision"]["limit_name"] == "max_llm_calls"
    assert (warned.metadata["decision"]["observed"], warned.metadata["decision"]["limit"]) == (4, 5)


@pytest.mark.claim("BUD-008")
@pytest.mark.parametrize(
    ("limit", "value"),
    [
        ("max_steps", 1),
        ("max_llm_calls", 1),
        ("max_tool_calls", 0),
        ("max_runtime_seconds", 5),
        ("max_input_tokens", 1),
        ("max_output_tokens", 1),
    ],
)
async def test_each_of_the_six_limits_stops_the_loop(limit: str, value: int) -> None:
    clock = FakeClock()

    def answer(history: Any, prompt: str) -> Any:
        clock.advance(10)
        return call("add", a=int(clock.time))

    found = Agent(name="a", llm=MockLLM(response_callback=answer), tools=[add], clock=clock, verbosity=0)
    await exceeded(found, limited(**{limit: value}), limit)


async def test_usage_equal_to_the_limit_is_allowed() -> None:
    found = agent(call("add", a=1), "done", tools=[add])
    assert await found.invoke("go", budget=RunBudget(max_steps=2, max_llm_calls=2, max_tool_calls=1)) == "done"


async def test_loop_without_a_step_limit_ends_after_ten_turns(mode: Mode) -> None:
    task = infer()
    found = mode.agent(*[call("add", a=n) for n in range(10)], "never", tools=[add])
    ran = await mode.run(found, task)
    assert found.llm._played == 10
    assert task.metadata["error"] == "Maximum inference steps (10) exceeded"
    assert task.metadata["blockers"][0]["decision"]["metadata"]["default"] is True
    if not mode.streamed:
        assert isinstance(ran.error, BudgetExceededError)


async def test_larger_step_limit_lifts_the_default_one(mode: Mode) -> None:
    task = limited(max_steps=15)
    found = mode.agent(*[call("add", a=n) for n in range(12)], "done", tools=[add])
    await mode.run(found, task)
    assert task.get_output() == "done"


async def test_default_bound_counts_each_loop_and_not_its_children() -> None:
    kid = agent(*[call("add", a=n) for n in range(8)], "kid", name="kid", tools=[add])
    found = agent(*[call("add", a=n) for n in range(8)], delegate("kid"), "done", tools=[add], subagents=[kid])
    assert await found.invoke("go") == "done"


@pytest.mark.claim("BUD-007")
async def test_policy_of_the_application_takes_the_place_of_the_built_in_one() -> None:
    seen: list[BudgetUsage] = []

    class NoTools:
        def evaluate(self, budget: RunBudget, usage: BudgetUsage) -> BudgetDecision:
            seen.append(usage)
            if usage.tool_calls:
                return BudgetDecision("compact", limit_name="house_rule", message="no tools today", usage=usage)
            return BudgetDecision.allow(usage)

    found = agent(call("add", a=1), "never", tools=[add], budget_policy=NoTools())
    error = await exceeded(found, limited(max_llm_calls=100), "house_rule")
    assert str(error) == "no tools today"
    assert seen[0].llm_calls in (0, 1)


@pytest.mark.claim("BUD-007")
async def test_warning_ratio_of_the_built_in_policy_can_be_changed() -> None:
    for ratio, expected in ((0.0, 0), (0.1, 1)):
        found = agent(call("add", a=1), "done", tools=[add], budget_policy=BudgetPolicy(warning_ratio=ratio))
        events = await stream(found, limited(max_llm_calls=2))
        assert kinds(events).count("budget_warning") == expected


async def test_no_budget_policy_means_no_budget() -> None:
    found = agent(call("add", a=1), call("add", a=2), "done", tools=[add], budget_policy=None)
    assert await found.invoke("go", budget=RunBudget(max_steps=1, max_llm_calls=1, max_tool_calls=0)) == "done"


@pytest.mark.claim("BUD-006", "BUD-073")
async def test_nested_task_has_a_budget_of_its_own_and_the_outer_one_goes_on_after_it() -> None:
    inner: list[str] = []
    found = agent(
        call("nest"),
        call("add", a=1),
        call("add", a=2),
        call("add", a=3),
        "outer done",
        call("add", a=4),
        tools=[add],
    )

    @found.tool
    async def nest() -> str:
        nested = Agent(name="nested", llm=script(call("add", a=9), call("add", a=8), "inner"), tools=[add], verbosity=0)
        inner.append(await nested.invoke("inside", budget=RunBudget(max_llm_calls=3, max_tool_calls=2)))
        own = Task.create_tool_call(tool_name="add", args={"a": 5}, budget=RunBudget(max_tool_calls=1))
        await found.run_task(own)
        inner.append(own.state.value)
        return "nested"

    assert await found.invoke("go", budget=RunBudget(max_llm_calls=5, max_tool_calls=4, max_steps=5)) == "outer done"
    assert inner == ["inner", "completed"]


@pytest.mark.claim("INT-022")
async def test_child_draws_on_the_budget_of_its_parent() -> None:
    kid = agent(call("add", a=1), "never", name="kid", tools=[add])
    found = agent(delegate("kid"), "never", subagents=[kid])
    await exceeded(found, limited(max_llm_calls=2), "max_llm_calls")
    assert (found.llm._played, kid.llm._played) == (1, 1)


@pytest.mark.parametrize("limit", [3, 4, 5, 6])
async def test_children_side_by_side_never_overshoot_together(limit: int) -> None:
    kids = [agent(call("add", a=1), f"answer {n}", name=f"kid{n}", tools=[add]) for n in range(2)]
    found = agent(
        turn(*[("agent_call", {"agent": kid.name, "action": "infer", "prompt": "go"}) for kid in kids]),
        "done",
        native=True,
        subagents=kids,
        parallel_tool_calls=True,
    )
    task = limited(max_llm_calls=limit)
    error = await outcome(found, task)
    assert sum(a.llm._played for a in (found, *kids)) <= limit
    assert (error is None) == (limit == 6)


async def test_children_side_by_side_warn_once_together() -> None:
    kids = [agent(call("add", a=1), f"answer {n}", name=f"kid{n}", tools=[add]) for n in range(2)]
    found = agent(
        turn(*[("agent_call", {"agent": kid.name, "action": "infer", "prompt": "go"}) for kid in kids]),
        "done",
        native=True,
        subagents=kids,
        parallel_tool_calls=True,
    )
    task = limited(max_llm_calls=7)
    events = await stream(found, task)
    assert task.get_output() == "done"
    assert sum(word in ("budget_warning", "budget.warning") for word in kinds(events)) == 1


@pytest.mark.parametrize("parallel", [False, True])
async def test_calls_of_a_turn_run_as_far_as_the_budget_goes(parallel: bool) -> None:
    calls, task = Calls(), limited(max_tool_calls=2)
    many = turn(*[("count", {"n": n}) for n in range(3)])
    found = counting(calls, many, "never", native=True, parallel_tool_calls=parallel)
    await exceeded(found, task, "max_tool_calls")
    assert calls.made == [0, 1]
    assert receipts(task) == [("action_result", "count")] * 2


async def test_denied_work_is_not_charged() -> None:
    task = limited(max_tool_calls=0, max_llm_calls=5)
    error = await exceeded(agent(call("add", a=1), tools=[add]), task, "max_tool_calls")
    assert error.decision.usage is not None
    assert error.decision.observed == 1
    [blocker] = task.metadata["blockers"]
    assert blocker["decision"]["limit"] == 0


@pytest.mark.claim("REJ-013", "REJ-027")
async def test_rejection_by_the_executor_costs_a_tool_call() -> None:
    def refuse(n: int) -> None:
        raise ToolRejectedError(code="no", message="no")

    found = agent(call("refuse", n=1), call("refuse", n=2), "never", tools=[refuse])
    await exceeded(found, limited(max_tool_calls=1), "max_tool_calls")
    assert found.llm._played == 2


@pytest.mark.claim("REJ-026", "REJ-032")
async def test_refused_request_costs_its_turn_and_no_tool_call() -> None:
    found = agent(call("missing"), "done", tools=[add])
    assert await found.invoke("go", budget=RunBudget(max_tool_calls=0)) == "done"
    again = agent(call("missing"), "never", tools=[add])
    await exceeded(again, limited(max_llm_calls=1), "max_llm_calls")
    steps = agent(call("missing"), "never", tools=[add])
    await exceeded(steps, limited(max_steps=1), "max_steps")


async def test_children_are_limited_in_number_over_the_whole_run() -> None:
    kid = agent("one", "two", "never", name="kid")
    found = agent(
        delegate("kid", "a"),
        delegate("kid", "b"),
        delegate("kid", "c"),
        subagents=[kid],
        subagent_limits=SubagentLimits(max_children=2),
    )
    error = await outcome(found, infer())
    assert isinstance(error, SubagentLimitError)
    assert "count" in str(error)
    assert kid.llm._played == 2


async def test_children_are_limited_in_depth() -> None:
    grand = agent("deep", name="grand")
    kid = agent(delegate("grand"), "kid", name="kid", subagents=[grand])
    task = infer()
    error = await outcome(agent(delegate("kid"), "never", subagents=[kid]), task)
    assert isinstance(error, SubagentLimitError)
    assert "depth" in str(error)
    assert grand.llm._played == 0


async def test_budget_is_left_to_the_calling_code_as_it_was() -> None:
    budget = RunBudget(max_llm_calls=5)
    context = RunContext(budget=budget)
    await agent("done").invoke("go", context=context)
    assert budget == RunBudget(max_llm_calls=5)
    assert context.budget is budget
