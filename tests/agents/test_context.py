"""The run's context is in place before anything runs, and everything of a run carries its id."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from protolink import Agent, PolicyDecision, RunContext, RunEvent, Task
from protolink.llms import MockLLM
from protolink.tools import Tool

CALL = {"type": "tool_call", "tool": "look", "args": {}}


def look() -> str:
    """Look."""
    return "seen"


def agent() -> Agent:
    return Agent(name="looker", llm=MockLLM(sequential_responses=[CALL, "done"]), tools=[look], verbosity=0)


@pytest.mark.claim("CTX-003")
async def test_a_task_has_its_context_before_it_runs() -> None:
    seen: list[Any] = []

    class Seeing(Agent):
        async def execute_task(self, task: Task) -> Task:
            done = await super().execute_task(task)
            seen.append(task.metadata["run_context"])
            return done

    task = Task.create_infer(prompt="go")
    assert "run_context" not in task.metadata
    await Seeing(name="looker", llm=MockLLM(default_response="x")).run_task(task)
    assert seen[0]["run_id"] == task.id
    assert seen[0]["agent_chain"] == ["looker"]


@pytest.mark.claim("CTX-004")
async def test_a_streamed_task_has_its_context_at_the_first_event() -> None:
    task = Task.create_infer(prompt="go")
    async for _ in agent().handle_task_streaming(task):
        assert RunContext.from_task(task).run_id == task.metadata["run_id"] == task.id
        break
    else:
        pytest.fail("there were no events")


@pytest.mark.claim("CTX-008")
async def test_every_action_and_event_of_a_run_carries_its_id() -> None:
    task = Task.create_infer(prompt="go", context=RunContext(run_id="run_one"))
    events = [
        RunEvent.from_task_event(event, context=RunContext.from_task(task))
        async for event in agent().handle_task_streaming(task)
    ]
    assert {event.run_id for event in events} == {"run_one"}
    assert {event["run_id"] for event in task.metadata["run_events"]} == {"run_one"}


@pytest.mark.claim("CAN-002")
async def test_canceling_a_context_signals_no_running_work() -> None:
    started, gate = asyncio.Event(), asyncio.Event()

    async def wait() -> str:
        """Wait."""
        started.set()
        await gate.wait()
        return "finished"

    context = RunContext()
    waiter = Agent(name="waiter", tools=[wait], verbosity=0)
    task = Task.create_tool_call(tool_name="wait", context=context)
    running = asyncio.create_task(waiter.run_task(task))
    await started.wait()
    assert context.cancel("enough").canceled
    gate.set()
    assert (await running).state.value == "completed"


@pytest.mark.claim("CAN-016", "CAN-042")
async def test_a_canceled_tool_meets_cancelled_error_at_its_await() -> None:
    started = asyncio.Event()
    cleaned: list[str] = []

    async def wait() -> str:
        """Wait for ever."""
        started.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cleaned.append("up")
            raise
        return "never"

    waiter = Agent(name="waiter", tools=[wait], verbosity=0)
    task = Task.create_tool_call(tool_name="wait")
    running = asyncio.create_task(waiter.run_task(task))
    await started.wait()
    await waiter.cancel_task(task.id)
    assert (await running).state.value == "canceled"
    assert cleaned == ["up"]


@pytest.mark.claim("ACT-002")
async def test_model_direct_caller_and_context_caller_all_make_actions() -> None:
    judged: list[tuple[str, str]] = []

    class Watching:
        async def evaluate(self, action: Any, context: Any) -> Any:
            judged.append((action.kind, action.name))
            return PolicyDecision("allow", "fine", "watching")

    tool = Tool.from_callable(look)
    watched = Agent(
        name="looker",
        llm=MockLLM(sequential_responses=[CALL, "done"]),
        tools=[tool],
        policy=Watching(),
        verbosity=0,
    )
    await watched.invoke("go")
    await watched.call_tool("look")
    await watched.call_tool_in_context("look", RunContext())
    assert judged == [("tool.call", "look")] * 3
