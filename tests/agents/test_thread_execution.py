"""``sync_execution="thread"``: blocking tools beside the event loop, in every kind of run."""

from __future__ import annotations

import asyncio
import gc
import threading
import weakref
from pathlib import Path
from typing import Any

import pytest
from agent_support import Mode, agent, call, codes, infer, outcome, run_id, until

from protolink import Agent, TaskState, Tool, UncertainExecutionError
from protolink.journal import InMemoryDurableStore


class Blocked:
    """A blocking tool that stops until the test lets it go on."""

    def __init__(self) -> None:
        self.begun, self.release, self.ended = threading.Event(), threading.Event(), threading.Event()
        self.calls = 0

    def __call__(self) -> str:
        self.calls += 1
        self.begun.set()
        assert self.release.wait(30)
        self.ended.set()
        return "blocked"

    async def reached(self) -> None:
        assert await asyncio.to_thread(self.begun.wait, 30)

    def tool(self, **how: Any) -> Tool:
        return Tool.from_callable(self, name="block", description="Block.", **how)


def names() -> set[str]:
    return {thread.name for thread in threading.enumerate()}


async def test_blocking_tool_leaves_the_loop_to_others(mode: Mode) -> None:
    blocked = Blocked()
    found = mode.agent(call("block"), "done", tools=[blocked.tool()], sync_execution="thread")
    task = infer()
    running = asyncio.ensure_future(mode.run(found, task))
    await blocked.reached()
    assert await agent("meanwhile").invoke("go") == "meanwhile"
    blocked.release.set()
    await running
    assert task.get_output() == "done"


async def test_no_more_threads_than_allowed_work_at_once() -> None:
    lock, full, release = threading.Lock(), threading.Event(), threading.Event()
    counts = {"now": 0, "most": 0}

    def block() -> None:
        with lock:
            counts["now"] += 1
            counts["most"] = max(counts["most"], counts["now"])
            if counts["now"] == 2:
                full.set()
        release.wait(30)
        with lock:
            counts["now"] -= 1

    found = agent(tools=[block], sync_execution="thread", max_sync_workers=2)
    calls = [asyncio.ensure_future(found.call_tool("block")) for _ in range(5)]
    assert await asyncio.to_thread(full.wait, 30)
    for _ in range(50):
        await asyncio.sleep(0)
    release.set()
    await asyncio.gather(*calls)
    assert counts["most"] == 2


async def test_tool_of_two_agents_runs_in_the_threads_of_the_agent_that_calls_it() -> None:
    shared = Tool.from_callable(lambda: threading.current_thread().name, name="where", sync_execution="thread")
    first, second = agent(name="first", tools=[shared]), agent(name="second", tools=[shared])
    assert (await second.call_tool("where")).startswith("protolink-second")
    assert (await first.call_tool("where")).startswith("protolink-first")
    assert shared.executor is None


async def test_async_tools_stay_in_the_loop() -> None:
    async def where() -> int:
        return threading.get_ident()

    assert await agent(tools=[where], sync_execution="thread").call_tool("where") == threading.get_ident()


def test_threads_end_with_their_agent() -> None:
    found = agent(name="short-lived", tools=[lambda_tool()], sync_execution="thread")
    assert asyncio.run(found.call_tool("where")).startswith("protolink-short-lived")
    workers = [thread for thread in threading.enumerate() if thread.name.startswith("protolink-short-lived")]
    gone = weakref.ref(found)
    del found
    gc.collect()
    assert gone() is None
    for thread in workers:
        thread.join(10)
    assert workers
    assert not any(thread.is_alive() for thread in workers)


def lambda_tool() -> Tool:
    return Tool.from_callable(lambda: threading.current_thread().name, name="where")


def test_agent_without_blocking_calls_has_no_threads() -> None:
    found = agent("done", name="threadless", tools=[lambda_tool()], sync_execution="thread")
    asyncio.run(found.invoke("go"))
    assert not any(name.startswith("protolink-threadless") for name in names())


# ---------------------------------------------------------------------------------------------------- cancellation


async def test_canceled_durable_run_does_not_know_what_the_thread_did(tmp_path: Path) -> None:
    blocked, task = Blocked(), infer()
    found = agent(call("block"), tools=[blocked.tool()], sync_execution="thread", durability=tmp_path / "runs.sqlite")
    running = asyncio.ensure_future(outcome(found, task))
    await blocked.reached()
    await found.cancel_task(task.id, "stop")
    assert isinstance(await running, UncertainExecutionError)
    assert not blocked.ended.is_set()
    assert (task.state, codes(task)) == (TaskState.CANCELED, ["execution_uncertain"])
    blocked.release.set()
    assert blocked.ended.wait(10)


async def test_call_that_waited_for_a_thread_is_known_to_have_done_nothing() -> None:
    """It is no unknown outcome: the durable run is canceled, and nothing has to be reconciled."""
    blocked, store, task = Blocked(), InMemoryDurableStore(), infer()
    ran: list[int] = []
    found = agent(
        call("second"),
        tools=[blocked.tool(), Tool.from_callable(lambda: ran.append(1), name="second")],
        sync_execution="thread",
        max_sync_workers=1,
        durability=store,
    )
    first = asyncio.ensure_future(found.call_tool("block"))
    await blocked.reached()
    second = asyncio.ensure_future(outcome(found, task))
    await until(lambda: executing(store, run_id(task)))
    await found.cancel_task(task.id, "stop")
    assert await second is None
    assert (task.state, codes(task)) == (TaskState.CANCELED, [])
    assert store.get(run_id(task)).status == "canceled"
    blocked.release.set()
    assert await first == "blocked"
    assert ran == []


def executing(store: InMemoryDurableStore, key: str) -> bool:
    checkpoint = store.get(key)
    return checkpoint is not None and any(
        entry["state"] == "executing" for entry in checkpoint.data.get("actions", {}).values()
    )


@pytest.mark.parametrize("signal", [KeyboardInterrupt, SystemExit])
async def test_signal_raised_in_a_thread_ends_the_run_and_reaches_the_caller(signal: type[BaseException]) -> None:
    def act() -> None:
        raise signal

    task, store = infer(), InMemoryDurableStore()
    found = agent(call("act"), tools=[act], sync_execution="thread", durability=store)
    with pytest.raises(signal):
        await found.run_task(task)
    assert store.get(run_id(task)).status == "uncertain"
    assert await agent("still there").invoke("go") == "still there"


async def test_tool_that_ends_by_stop_iteration_fails_and_does_not_hang(mode: Mode) -> None:
    def act() -> None:
        raise StopIteration

    found = mode.agent(call("act"), tools=[Tool.from_callable(act, read_only=True)], sync_execution="thread")
    ran = await mode.run(found, infer())
    assert ran.task.state is TaskState.FAILED


async def test_agent_whose_threads_are_shut_down_refuses_and_leaves_no_doubt() -> None:
    store, task, ran = InMemoryDurableStore(), infer(), []
    found = agent(
        call("act"),
        tools=[Tool.from_callable(lambda: ran.append(1), name="act")],
        sync_execution="thread",
        durability=store,
    )
    found.sync_executor.shutdown()
    await outcome(found, task)
    assert store.get(run_id(task)).status == "failed"
    assert ran == []


async def test_a_tool_in_a_thread_may_use_the_blocking_facade_of_another_agent() -> None:
    other = agent("from the other")

    def ask() -> str:
        return str(other.sync.invoke("go"))

    assert await agent(tools=[ask], sync_execution="thread").call_tool("ask") == "from the other"


def test_configuration_keeps_where_tools_run() -> None:
    source = Agent(name="a", tools=[own_tool], sync_execution="thread", max_sync_workers=2)
    source.add_tool(Tool.from_callable(other_tool, sync_execution="inline"))
    loaded = Agent.from_dict(source.to_dict())
    assert (loaded.sync_execution, loaded.max_sync_workers) == ("thread", 2)
    assert [tool.sync_execution for tool in loaded.tools.values()] == ["thread", "inline"]


def own_tool() -> None:
    """One."""


def other_tool() -> None:
    """Two."""
