"""``agent.sync``: the same methods for code without an event loop."""

from __future__ import annotations

import asyncio
import threading
import warnings

import pytest
from agent_support import agent, call, infer, limited, run_id

from protolink import (
    BudgetExceededError,
    CapabilityPolicy,
    RunContext,
    RunInterrupted,
    TaskNotFoundError,
    TaskState,
    Tool,
)
from protolink.journal import InMemoryDurableStore

NAMES = ("invoke", "call_tool", "run_task", "cancel_task", "resume", "resume_task")


def guarded() -> Tool:
    return Tool.from_callable(lambda: "acted", name="act", capabilities=["act"])


def test_invoke_returns_the_answer() -> None:
    assert agent(call("act"), "done", tools=[guarded()]).sync.invoke("go") == "done"


def test_call_tool_returns_the_result() -> None:
    found = agent(tools=[guarded()])
    assert found.sync.call_tool("act") == "acted"
    assert found.sync.call_tool_in_context("act", RunContext()) == "acted"


def test_run_task_returns_the_same_task() -> None:
    task = infer()
    assert agent("done").sync.run_task(task) is task
    assert task.state is TaskState.COMPLETED


def test_errors_are_those_of_the_async_methods() -> None:
    with pytest.raises(BudgetExceededError):
        agent("never").sync.run_task(limited(max_llm_calls=0))
    with pytest.raises(ValueError, match="missing"):
        agent().sync.call_tool("missing")
    with pytest.raises(TaskNotFoundError):
        agent().sync.cancel_task("task-unknown")


def test_paused_run_is_resumed_without_a_loop() -> None:
    found = agent(
        call("act"),
        "done",
        tools=[guarded()],
        policy=CapabilityPolicy({"act": "ask"}),
        durability=InMemoryDurableStore(),
    )
    with pytest.raises(RunInterrupted) as caught:
        found.sync.invoke("go")
    request = caught.value.interruption.request_id
    assert found.sync.resume(caught.value.run_id, request_id=request, approved=True) == "done"
    assert found.sync.resume_task(caught.value.run_id).state is TaskState.COMPLETED


@pytest.mark.parametrize("name", NAMES)
async def test_inside_a_running_loop_it_is_refused_before_anything_starts(name: str) -> None:
    found = agent("never", tools=[guarded()])
    argument = infer() if name == "run_task" else "act"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(RuntimeError, match=f"await agent.{name}"):
            getattr(found.sync, name)(argument)
    assert found.llm._played == 0


def test_several_threads_share_the_one_loop() -> None:
    found, answers = agent(*["one"] * 8), list[str]()
    threads = [threading.Thread(target=lambda: answers.append(found.sync.invoke("go"))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == ["one"] * 8


def test_running_task_is_canceled_from_another_thread() -> None:
    started, task = threading.Event(), infer()
    found = agent(call("wait"), "never")

    @found.tool
    async def wait() -> None:
        started.set()
        await asyncio.Event().wait()

    worker = threading.Thread(target=found.sync.run_task, args=(task,))
    worker.start()
    started.wait()
    assert found.sync.cancel_task(task.id, "from outside") is task
    worker.join()
    assert (task.state, task.metadata["cancel_reason"]) == (TaskState.CANCELED, "from outside")


def test_facade_works_again_after_an_asyncio_run() -> None:
    found = agent("one", "two", "three")
    assert found.sync.invoke("go") == "one"
    assert asyncio.run(found.invoke("go")) == "two"
    assert found.sync.invoke("go") == "three"


def test_run_started_without_a_loop_can_be_resumed_with_one() -> None:
    found = agent(call("act"), "done", tools=[guarded()], yield_after_steps=1, durability=InMemoryDurableStore())
    task = found.sync.run_task(infer())
    assert asyncio.run(found.resume(run_id(task))) == "done"
