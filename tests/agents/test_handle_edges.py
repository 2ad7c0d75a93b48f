"""The edges of a run handle: cancel at any moment, one run a task, nothing left behind, a last event always."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator
from typing import Any

import pytest
from agent_support import Gate, agent, call, infer, played, until
from hypothesis import given, settings
from hypothesis import strategies as st

from protolink import LLM, Agent, RunAction, RunHandle, Task, Tool
from protolink.tools import PreparedTool, ToolExecution


async def listed(items: Any) -> list[Any]:
    return [item async for item in items]


def waiting(gate: Gate, **options: Any) -> Agent:
    async def wait() -> str:
        await gate.wait()
        return "waited"

    return agent(call("wait"), "done", tools=[wait], **options)


async def settle() -> None:
    """Let everything that can still happen happen."""
    for _ in range(20):
        await asyncio.sleep(0)


def others() -> set[asyncio.Task[Any]]:
    return asyncio.all_tasks() - {asyncio.current_task()}  # type: ignore[arg-type]


# ---------------------------------------------------------------------------------------------------- cancel


@pytest.mark.claim("GRP-026")
async def test_cancel_is_the_agents_own_cancellation() -> None:
    gate = Gate()
    handle = waiting(gate).start_run("go")
    await gate.reached.wait()
    token = handle.target.get_cancellation_token(handle.task.id)
    await handle.cancel("enough")
    assert token is not None
    assert (token.is_cancelled, token.reason, gate.canceled) == (True, "enough", True)
    events = await listed(handle.events())
    assert [e.type for e in events if e.type.startswith("action.")][-1] == "action.canceled"
    assert (events[-1].type, events[-1].payload["new_state"], events[-1].final) == ("task.status", "canceled", True)
    assert events[-1].payload["metadata"]["cancel_reason"] == "enough"
    assert handle.task.metadata["cancel_reason"] == "enough"
    result = await handle.result()
    assert (result.status, result.output, result.error) == ("canceled", None, None)


async def test_run_has_ended_when_cancel_returns() -> None:
    gate = Gate()
    handle = waiting(gate).start_run("go")
    await gate.reached.wait()
    await asyncio.gather(handle.cancel("one"), handle.cancel("two"))
    assert handle.done
    assert handle.task.metadata["cancel_reason"] == "one"
    await handle.cancel("three")
    assert (await handle.result()).status == "canceled"


@pytest.mark.claim("GRP-027")
async def test_waiters_that_are_canceled_or_timed_out_leave_the_run_going() -> None:
    gate = Gate()
    handle = waiting(gate).start_run("go")
    await gate.reached.wait()
    waiters = [asyncio.ensure_future(handle.result()) for _ in range(3)]
    await asyncio.sleep(0)
    for waiter in waiters[:2]:
        waiter.cancel()
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(handle.result(), 0)
    assert [type(found) for found in await asyncio.gather(*waiters[:2], return_exceptions=True)] == [
        asyncio.CancelledError
    ] * 2
    assert (handle.done, gate.canceled) == (False, False)
    gate.opened.set()
    assert (await waiters[2]).output == "done"


@given(st.integers(0, 60), st.booleans())
@settings(max_examples=60)
async def test_cancel_at_any_moment_loses_no_event(turns: int, bounded: bool) -> None:
    """However far the run has come: whole, numbered without a gap, and with a last status that tells the truth."""
    runs: list[int] = []
    tool = Tool.from_callable(lambda: runs.append(1), name="act")
    target = agent(call("act"), "done", tools=[tool])
    handle = target.start_run("go", event_buffer_size=1000 if bounded else None)
    for _ in range(turns):
        await asyncio.sleep(0)
    await handle.cancel("now")
    result = await handle.result()
    events = await listed(handle.events())
    assert handle.done
    assert [event.sequence for event in events] == list(range(1, len(events) + 1))
    assert [event.sequence for event in events if event.final and event.type == "task.status"] == [len(events)]
    assert events[-1].payload["new_state"] == result.status == handle.task.state.value
    assert result.status in ("completed", "canceled")
    assert len(runs) == sum(event.type == "action.started" for event in events)
    if result.status == "completed":
        assert events[-1].payload["metadata"]["task"]["state"] == "completed"
        assert {"llm.call.completed", "action.completed", "task.artifact"} <= {event.type for event in events}
    await settle()
    assert others() == set()


async def test_tool_may_cancel_its_own_run() -> None:
    found: list[RunHandle] = []

    async def stop() -> str:
        await found[0].cancel("from inside")
        await asyncio.Event().wait()
        return "never"

    found.append(agent(call("stop"), "never", tools=[stop]).start_run("go"))
    result = await asyncio.wait_for(found[0].result(), 30)
    assert (result.status, found[0].task.metadata["cancel_reason"]) == ("canceled", "from inside")


async def test_cancel_from_another_thread_reaches_the_run() -> None:
    gate = Gate()
    handle = waiting(gate).start_run("go")
    await gate.reached.wait()
    await asyncio.to_thread(lambda: asyncio.run(handle.cancel("from a thread")))
    assert handle.done
    assert (await handle.result()).status == "canceled"


# ---------------------------------------------------------------------------------------------------- one run


async def test_second_handle_of_a_running_task_is_refused_and_harms_nothing() -> None:
    gate = Gate()
    target, task = waiting(gate), infer()
    first = target.start_run(task)
    await gate.reached.wait()
    second, third = target.start_run(task), target.start_run(task)
    await second.cancel("not mine")
    for handle in (second, third):
        result = await handle.result()
        assert result.error is not None
        assert (result.status, result.error["code"]) == ("failed", "TaskAlreadyRunningError")
        assert (await listed(handle.events()))[-1].final
    assert (first.done, gate.canceled, task.state.value) == (False, False, "working")
    gate.opened.set()
    assert (await first.result()).output == "done"
    assert target.llm is not None
    assert played(target.llm) == 2  # type: ignore[arg-type]


async def test_of_handles_made_at_once_for_one_task_one_runs_it() -> None:
    gate = Gate()
    target, task = waiting(gate), infer()
    first, second = target.start_run(task), target.start_run(task)
    await asyncio.sleep(0)
    await second.cancel("not mine")
    gate.opened.set()
    assert (await first.result()).output == "done"
    error = (await second.result()).error
    assert error is not None
    assert error["code"] == "TaskAlreadyRunningError"


async def test_result_is_of_the_task_that_an_own_handler_returns() -> None:
    class Own(Agent):
        async def handle_task(self, task: Task) -> Task:
            made = Task.from_dict(task.to_dict())
            return made.complete("its own")

    handle = Own(name="own", verbosity=0).start_run("go")
    result = await handle.result()
    assert (result.status, result.output) == ("completed", "its own")
    assert handle.task.state.value == "completed"
    finals = [event for event in await listed(handle.events()) if event.final]
    assert [event.payload["new_state"] for event in finals] == ["completed"]


async def test_own_handler_that_fails_is_told_in_the_result_without_its_secrets() -> None:
    key = "sk-proj-abcdefghijklmnop1234"

    class Own(Agent):
        async def handle_task(self, task: Task) -> Task:
            raise OSError(f"the key {key} is not accepted")

    handle = Own(name="own", verbosity=0).start_run("go")
    result = await handle.result()
    assert result.error is not None
    assert (result.status, "is not accepted" in result.error["message"]) == ("failed", True)
    events = await listed(handle.events())
    assert [event.type for event in events][-2:] == ["task.error", "task.status"]
    assert key not in repr((result.error, handle.task, events))


@pytest.mark.claim("INT-032")
async def test_result_is_the_same_whatever_shape_the_stream_had() -> None:
    """A model's answer, a direct call, an own handler, a refusal: one await, one shape."""

    class Own(Agent):
        async def handle_task(self, task: Task) -> Task:
            return task.complete("own")

    def one() -> int:
        return 1

    def boom() -> None:
        raise OSError("no")

    tools = [one, boom]
    starts = [
        (agent("text").start_run("go"), ("completed", "text")),
        (agent(tools=tools).start_run(Task.create_tool_call(tool_name="one", args={})), ("completed", 1)),
        (Own(name="o", verbosity=0).start_run("go"), ("completed", "own")),
        (agent(tools=tools).start_run(Task.create_tool_call(tool_name="boom", args={})), ("failed", None)),
        (agent(tools=tools).start_run("nobody answers"), ("failed", None)),
    ]
    for handle, (status, output) in starts:
        result = await handle.result()
        assert (result.status, result.output) == (status, output)
        assert result.task is handle.task
        assert result.report is handle.report
        assert (result.error is None) is (status == "completed")


# ---------------------------------------------------------------------------------------------------- left behind


async def test_ended_runs_leave_no_task_behind() -> None:
    gate = Gate()
    for handle in [
        agent("done").start_run("go"),
        agent(KeyError("x")).start_run("go"),
        Agent(name="a", llm="mock", yield_after_steps=1, verbosity=0).start_run("go"),
    ]:
        reader = handle.events()
        await anext(reader)
        await handle.result()
    canceled = waiting(gate).start_run("go")
    await gate.reached.wait()
    lost = canceled.events()
    await anext(lost)
    await canceled.cancel()
    await settle()
    assert others() == set()


async def test_runs_cut_off_by_the_loops_end_still_end() -> None:
    """Somebody cancels every task of the loop, as ``asyncio.run`` does at its end: readers are let go."""
    gate = Gate()
    handle = waiting(gate).start_run("go")
    reader = asyncio.ensure_future(listed(handle.events()))
    await gate.reached.wait()
    for task in others() - {reader}:
        task.cancel()
    events = await asyncio.wait_for(reader, 30)
    assert events[-1].final
    assert events[-1].payload["new_state"] == "canceled"
    assert gate.canceled


async def test_handle_nobody_holds_still_runs_to_its_end() -> None:
    done: list[str] = []
    target = agent(call("act"), "done", tools=[Tool.from_callable(lambda: done.append("acted"), name="act")])
    target.start_run("go")
    gc.collect()
    await until(lambda: not target.active_task_ids and done == ["acted"])


def emitting(count: int) -> PreparedTool:
    """A tool that tells ``count`` things without a pause."""

    def burst() -> int:
        return count

    async def execute(execution: ToolExecution) -> int:
        for number in range(count):
            await execution.emit("app.tick", n=number)
        return count

    def prepare(arguments: Any, context: Any) -> RunAction:
        return RunAction("tool.call", "burst", {"arguments": dict(arguments)})

    return PreparedTool(burst, prepare=prepare, execute=execute, capabilities=())


async def test_unbroken_burst_reaches_a_reader_through_a_small_window() -> None:
    """Five hundred events of one tool without a pause: whoever waits gets them all, and three are kept."""
    handle = agent(tools=[emitting(500)]).start_run(
        Task.create_tool_call(tool_name="burst", args={}), event_buffer_size=3
    )
    events = await listed(handle.events())
    assert [event.payload["n"] for event in events if event.type == "app.tick"] == list(range(500))
    assert [event.sequence for event in events] == list(range(1, len(events) + 1))
    assert [event.sequence for event in await listed(handle.events())] == [
        len(events) - 2,
        len(events) - 1,
        len(events),
    ]


class Talking(LLM):
    """Writes a long answer in small pieces."""

    def __init__(self, pieces: int) -> None:
        super().__init__("talking", {})
        self.pieces = pieces

    async def call(self, history: Any) -> str:
        return '{"type": "final", "content": "' + "ab " * self.pieces + '"}'

    async def call_stream(self, history: Any) -> AsyncIterator[str]:
        text = await self.call(history)
        for start in range(0, len(text), 3):
            yield text[start : start + 3]

    def validate_connection(self) -> bool:
        return True


async def test_fragments_that_nobody_reads_do_not_pile_up() -> None:
    handle = Agent(name="a", llm=Talking(3000), verbosity=0).start_run("go", event_buffer_size=10)
    result = await handle.result()
    assert result.output == ("ab " * 3000)
    kept = handle._window.kept()
    assert handle._window.last > 3000
    assert len(kept) < 40
    assert result.report is not None
    assert result.report.events[-1].final


@pytest.mark.parametrize("wrong", [5, None, object()])
async def test_run_is_started_on_an_agent_or_an_address(wrong: Any) -> None:
    with pytest.raises(TypeError, match="an Agent or its address"):
        RunHandle.start(wrong, infer())
    with pytest.raises(TypeError, match="takes a Task"):
        RunHandle.start(agent("done"), "go")  # type: ignore[arg-type]


@pytest.mark.parametrize("wrong", [0, -1, True, 1.5, "5"])
async def test_window_must_hold_at_least_one_event(wrong: Any) -> None:
    with pytest.raises((ValueError, TypeError), match="event_buffer_size"):
        RunHandle.start(agent("done"), infer(), event_buffer_size=wrong)


async def test_window_of_one_keeps_the_last_event() -> None:
    handle = agent("done").start_run("go", event_buffer_size=1)
    await handle.result()
    [last] = await listed(handle.events())
    assert (last.final, last.type) == (True, "task.status")
    assert last.sequence is not None
    assert last.sequence > 1
