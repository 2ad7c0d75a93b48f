"""Providers that fail: what is tried again by itself, how long it waits, and what is left after the last attempt."""

from __future__ import annotations

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
    outcome,
    played,
    run_id,
    script,
    stream,
)

from protolink import Agent, BudgetExceededError, DurableExecutionError, RunBudget, TaskState
from protolink.journal import InMemoryDurableStore


def failing(clock: FakeClock, *replies: Any, **options: Any) -> Agent:
    return Agent(name="a", llm=script(*replies), clock=clock, verbosity=0, **options)


@pytest.mark.parametrize("error", [ConnectionError("reset"), TimeoutError("slow"), ConnectionRefusedError("no")])
async def test_passing_failure_is_tried_again_after_a_wait(mode: Mode, error: Exception) -> None:
    clock, task = FakeClock(), infer()
    found = mode.agent(error, error, "done", clock=clock)
    await mode.run(found, task)
    assert task.get_output() == "done"
    assert clock.slept == [0.5, 2.0]


async def test_attempts_are_told_one_by_one() -> None:
    events = await stream(failing(FakeClock(), ConnectionError("reset"), "done"), infer())
    assert kinds(events)[:8] == [
        "status:working",
        "llm_step",
        "context_prepared",
        "llm_context",
        "llm_call_started",
        "llm_retry",
        "context_prepared",
        "llm_context",
    ]
    assert kinds(events).count("llm_step") == 1
    [retry] = [e for e in events if kinds([e]) == ["llm_retry"]]
    assert retry.metadata["reason"] == "transient_error"
    about = {"attempt": 1, "error_type": "ConnectionError", "message": "reset"}
    assert about.items() <= retry.metadata.items()
    started = [e.metadata["attempt"] for e in events if kinds([e]) == ["llm_call_started"]]
    assert started == [1, 2]
    [done] = [e for e in events if kinds([e]) == ["llm_call_completed"]]
    assert done.metadata["attempts"] == 2


async def test_third_failure_ends_a_live_run() -> None:
    clock, task = FakeClock(), infer()
    found = failing(clock, *[ConnectionError("reset")] * 3, "never")
    error = await outcome(found, task)
    assert isinstance(error, RuntimeError)
    assert isinstance(error.__cause__, ConnectionError)
    assert (task.state, codes(task), played(found.llm)) == (TaskState.FAILED, ["ConnectionError"], 3)


async def test_other_failure_ends_a_live_run_at_once() -> None:
    clock, task = FakeClock(), infer()
    found = failing(clock, PermissionError("no key"), "never")
    events = await stream(found, task)
    assert kinds(events)[-3:] == ["llm_error", "task.error", "status:failed"]
    assert (played(found.llm), clock.slept) == (1, [])


async def test_answer_resets_the_count_of_failures() -> None:
    down = [ConnectionError("reset")] * 2
    found = failing(FakeClock(), *down, call("act"), *down, "done")
    found.tool(name="act")(lambda: "acted")
    assert await found.invoke("go") == "done"


@pytest.mark.parametrize("error", [ConnectionError("reset"), PermissionError("no key")])
async def test_durable_run_keeps_what_it_has_and_waits_for_somebody(error: Exception) -> None:
    clock, task = FakeClock(), infer()
    attempts = 3 if isinstance(error, ConnectionError) else 1
    found = failing(clock, call("act"), *[error] * attempts, "done", durability=InMemoryDurableStore())
    ran: list[str] = []
    found.tool(name="act")(lambda: ran.append("act"))
    assert await outcome(found, task) is None
    waiting = task.metadata["interruption"]
    assert (task.state, waiting["kind"]) == (TaskState.INPUT_REQUIRED, "retry")
    request = waiting["request"]
    assert (request["code"], request["message"]) == (type(error).__name__, str(error))
    assert (request["attempts"], request["provider"], request["model"]) == (attempts, "mock", "mock-gpt")
    assert waiting["request_id"].startswith(f"retry:{run_id(task)}:")
    assert await found.resume(run_id(task)) == "done"
    assert ran == ["act"]


async def test_failure_after_the_retry_waits_again_with_another_id() -> None:
    found = failing(FakeClock(), PermissionError("1"), PermissionError("2"), "done", durability=InMemoryDurableStore())
    task = infer()
    await found.run_task(task)
    again = await found.resume_task(run_id(task))
    first, second = task.metadata["interruption"], again.metadata["interruption"]
    assert first["request_id"] != second["request_id"]
    assert second["request"]["message"] == "2"
    assert await found.resume(run_id(task)) == "done"


async def test_retry_takes_no_answer() -> None:
    found, task = failing(FakeClock(), PermissionError("1"), "done", durability=InMemoryDurableStore()), infer()
    await found.run_task(task)
    request = task.metadata["interruption"]["request_id"]
    for response in ({"approved": True}, {"answer": "yes"}):
        with pytest.raises((ValueError, DurableExecutionError)):
            await found.resume(run_id(task), request_id=request, **response)
    assert await found.resume(run_id(task)) == "done"


async def test_attempts_after_a_resume_are_charged_too() -> None:
    found = failing(FakeClock(), PermissionError("1"), PermissionError("2"), "never", durability=InMemoryDurableStore())
    task = infer(budget=RunBudget(max_llm_calls=2))
    await found.run_task(task)
    await found.resume_task(run_id(task))
    with pytest.raises(BudgetExceededError):
        await found.resume(run_id(task))
    assert played(found.llm) == 2


async def test_failing_child_is_retried_inside_and_parks_with_the_child_s_run() -> None:
    kid = Agent(name="kid", llm=script(PermissionError("no key"), "kid"), verbosity=0)
    found = agent(delegate("kid"), "done", subagents=[kid], durability=InMemoryDurableStore())
    task = infer()
    await found.run_task(task)
    assert task.metadata["interruption"]["kind"] == "retry"
    assert task.metadata["interruption"]["run_id"] != run_id(task)
    assert await found.resume(run_id(task)) == "done"
