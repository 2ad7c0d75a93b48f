"""``invoke``: ask and get the answer, or the exception that says why there is none."""

from __future__ import annotations

import pytest
from agent_support import Mode, agent, call, infer, outcome, script

from protolink import (
    ActionDeniedError,
    Agent,
    BudgetExceededError,
    CapabilityPolicy,
    InferParseError,
    Part,
    PolicyDecision,
    RunBudget,
    RunContext,
    RunInterrupted,
    Task,
    TaskExecutionError,
    TaskState,
    Tool,
)
from protolink.journal import InMemoryDurableStore


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@pytest.mark.claim("REJ-009")
async def test_scripted_text_is_the_answer(mode: Mode) -> None:
    assert await mode.agent("hello").invoke("hi") == "hello"


@pytest.mark.claim("REJ-009")
async def test_scripted_mapping_is_played_as_an_action(mode: Mode) -> None:
    found = mode.agent(call("add", a=1, b=2), "three", tools=[add])
    assert await found.invoke("add") == "three"


async def test_tool_call_returns_the_result_of_the_tool() -> None:
    found = agent(tools=[add])
    assert await found.invoke("unused", "tool_call", tool_name="add", tool_args={"a": 1, "b": 2}) == 3


@pytest.mark.parametrize(("part", "name"), [("tool_call", None), ("text", None), ("other", "add")])
async def test_other_part_types_are_refused(part: str, name: str | None) -> None:
    with pytest.raises(ValueError, match="part_type"):
        await agent("x", tools=[add]).invoke("go", part, tool_name=name)


@pytest.mark.claim("REJ-010")
async def test_budget_applies_to_the_call() -> None:
    found = agent(call("add", a=1, b=2), "three", tools=[add])
    with pytest.raises(BudgetExceededError, match="max_llm_calls"):
        await found.invoke("add", budget=RunBudget(max_llm_calls=1))


async def test_explicit_session_and_budget_override_those_of_the_context() -> None:
    seen: list[RunContext] = []
    found = agent(call("look"), "ok")

    @found.tool(action_builder=None, capabilities=["look"])
    def look() -> str:
        return "seen"

    class Watching:
        async def evaluate(self, action: object, context: RunContext) -> object:
            seen.append(context)
            return PolicyDecision("allow", "fine", "watching")

    found.policy = Watching()
    context = RunContext(session_id="old", budget=RunBudget(max_steps=1))
    await found.invoke("go", session_id="new", budget=RunBudget(max_steps=5), context=context)
    assert seen[0].session_id == "new"
    assert seen[0].budget.max_steps == 5
    assert (context.session_id, context.budget.max_steps) == ("old", 1)


async def test_failed_task_raises_with_the_task() -> None:
    with pytest.raises(TaskExecutionError) as caught:
        await agent().invoke("no model here")
    assert caught.value.task.state is TaskState.FAILED
    assert caught.value.task.metadata["blockers"][0]["code"] == "no_llm"


async def test_exception_of_a_chosen_tool_is_the_cause() -> None:
    def boom() -> None:
        raise KeyError("missing")

    with pytest.raises(RuntimeError) as caught:
        await agent(call("boom"), "never", tools=[boom]).invoke("go")
    assert isinstance(caught.value.__cause__, KeyError)


async def test_replies_that_are_no_action_end_in_a_parse_error(mode: Mode) -> None:
    with pytest.raises(InferParseError) as caught:
        await mode.agent("", "", "").invoke("go")
    assert (caught.value.attempts, caught.value.step) == (3, 3)


async def test_good_reply_resets_the_count_of_bad_ones(mode: Mode) -> None:
    found = mode.agent("", "", call("add", a=1, b=1), "", "", "two", tools=[add])
    assert await found.invoke("go") == "two"


async def test_durable_pause_raises_an_interruption() -> None:
    found = agent(call("act"), "done", durability=InMemoryDurableStore())

    @found.tool(capabilities=["act"])
    def act() -> str:
        return "acted"

    found.policy.rules["act"] = "ask"
    with pytest.raises(RunInterrupted) as caught:
        await found.invoke("go")
    assert caught.value.task.state is TaskState.INPUT_REQUIRED
    assert caught.value.interruption.kind == "approval"


async def test_agent_without_model_completes_a_text_task() -> None:
    task = Task.create("just words")
    assert await outcome(agent(), task) is None
    assert task.state is TaskState.COMPLETED


async def test_newest_message_of_an_agent_is_no_work() -> None:
    task = infer()
    task.messages[-1].role = "agent"
    llm = script("never")
    await Agent(name="a", llm=llm, verbosity=0).run_task(task)
    assert (task.state, llm._played) == (TaskState.COMPLETED, 0)


@pytest.mark.claim("CAN-037")
async def test_output_of_a_finished_part_survives_the_failure_of_a_later_one() -> None:
    task = Task.create_tool_call(tool_name="add", args={"a": 1, "b": 2})
    task.messages[-1].parts.append(Part.tool_call(tool_name="missing", args={}))
    await agent(tools=[add]).run_task(task)
    assert task.state is TaskState.FAILED
    first, second = task.artifacts
    assert first.parts[0].as_tool_output().result == 3
    assert second.parts[0].as_tool_output().error is not None


async def test_parts_run_in_order_and_stop_at_the_first_failure() -> None:
    done: list[str] = []

    def note(word: str) -> str:
        if word == "bad":
            raise ValueError(word)
        done.append(word)
        return word

    task = Task.create_tool_call(tool_name="note", args={"word": "one"})
    task.messages[-1].parts += [Part.tool_call(tool_name="note", args={"word": w}) for w in ("bad", "three")]
    await agent(tools=[note]).run_task(task)
    assert (done, task.state) == (["one"], TaskState.FAILED)


@pytest.mark.claim("INT-001")
async def test_policy_protects_direct_calls_and_model_calls_alike() -> None:
    ran: list[str] = []
    tool = Tool.from_callable(lambda: ran.append("ran"), name="act", capabilities=["act"])
    found = agent(call("act"), "never", tools=[tool], policy=CapabilityPolicy({"act": "deny"}))
    without_model = agent(tools=[tool], policy=CapabilityPolicy({"act": "deny"}))
    for work in (found.invoke("go"), found.call_tool("act"), without_model.call_tool("act")):
        with pytest.raises(ActionDeniedError):
            await work
    assert ran == []
