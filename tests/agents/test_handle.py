"""``start_run``: a run that goes on by itself, with events to read, a result to await and a cancel."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from agent_support import Gate, agent, call, delegate, infer, run_id, until

from protolink import Agent, CapabilityPolicy, RunBudget, RunContext, RunEvent, Task, Tool
from protolink.journal import InMemoryDurableStore
from protolink.llms import MockLLM


def guarded() -> Tool:
    return Tool.from_callable(lambda: "acted", name="act", capabilities=["act"])


def waiting(gate: Gate) -> Agent:
    async def wait() -> str:
        await gate.wait()
        return "waited"

    return agent(call("wait"), "done", tools=[wait])


async def listed(events: Any) -> list[RunEvent]:
    return [event async for event in events]


@pytest.mark.claim("LIV-005", "INT-017")
async def test_handle_gives_events_and_the_result() -> None:
    handle = agent("done").start_run("go", budget=RunBudget(max_llm_calls=2))
    events = await listed(handle.events())
    result = await handle.result()
    assert (result.status, result.output, result.error, result.handoff) == ("completed", "done", None, None)
    assert result.task is handle.task
    assert [e.sequence for e in events] == list(range(1, len(events) + 1))
    assert {e.run_id for e in events} == {handle.context.run_id}


@pytest.mark.claim("INT-017")
async def test_budget_of_the_call_bounds_the_run() -> None:
    found = agent(call("act"), "never", tools=[guarded()])
    result = await found.start_run("go", budget=RunBudget(max_llm_calls=1)).result()
    assert result.status == "failed"
    assert result.error is not None
    assert (result.error["code"], result.output) == ("budget_exceeded", None)


async def test_run_goes_on_without_a_reader() -> None:
    handle = agent("done").start_run("go")
    assert (await handle.result()).output == "done"


async def test_events_can_be_read_again_and_by_several() -> None:
    handle = agent(call("act"), "done", tools=[guarded()]).start_run("go")
    first, second = await asyncio.gather(listed(handle.events()), listed(handle.events()))
    third = await listed(handle.events())
    assert first == second == third


async def test_reader_may_go_on_after_a_number() -> None:
    handle = agent("done").start_run("go")
    every = await listed(handle.events())
    assert await listed(handle.events(after=5)) == every[5:]
    assert await listed(handle.events(after=len(every))) == []


async def test_reader_that_comes_late_gets_the_history_first() -> None:
    gate = Gate()
    handle = waiting(gate).start_run("go")
    await gate.reached.wait()
    seen: list[str] = []
    async for event in handle.events():
        seen.append(event.type)
        if event.type == "action.started":
            gate.opened.set()
    assert seen[0] == "task.status"
    assert "action.completed" in seen


async def test_reader_that_leaves_does_not_stop_the_run() -> None:
    handle = agent(call("act"), "done", tools=[guarded()]).start_run("go")
    async for _ in handle.events():
        break
    assert (await handle.result()).output == "done"


@pytest.mark.claim("INT-017")
async def test_cancel_ends_the_run_as_canceled() -> None:
    gate = Gate()
    handle = waiting(gate).start_run("go")
    await gate.reached.wait()
    await handle.cancel("enough")
    result = await handle.result()
    assert (result.status, result.error) == ("canceled", None)
    assert handle.task.metadata["cancel_reason"] == "enough"
    assert (await listed(handle.events()))[-1].final


async def test_cancel_before_the_first_event_and_after_the_last_is_harmless() -> None:
    handle = agent("done").start_run("go")
    await handle.cancel()
    assert (await handle.result()).status == "canceled"
    await handle.cancel()
    finished = agent("done").start_run("go")
    await finished.result()
    await finished.cancel()
    assert (await finished.result()).status == "completed"


async def test_cancel_before_the_run_began_leaves_a_canceled_task() -> None:
    handle = agent("done").start_run("go")
    await handle.cancel("at once")
    result = await handle.result()
    assert result.task is not None
    assert result.task.state.value == "canceled"
    assert result.task.metadata["cancel_reason"] == "at once"


async def test_waiter_that_is_canceled_leaves_the_run_alone() -> None:
    gate = Gate()
    handle = waiting(gate).start_run("go")
    await gate.reached.wait()
    waiter = asyncio.ensure_future(handle.result())
    await asyncio.sleep(0)
    waiter.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiter
    assert not gate.canceled
    gate.opened.set()
    assert (await handle.result()).output == "done"


async def test_reader_that_is_canceled_leaves_the_run_alone() -> None:
    gate = Gate()
    handle = waiting(gate).start_run("go")
    await gate.reached.wait()
    reader = asyncio.ensure_future(listed(handle.events()))
    await until(lambda: handle.task.id in handle.target.active_task_ids)
    reader.cancel()
    gate.opened.set()
    assert (await handle.result()).output == "done"


async def test_paused_run_ends_the_attempt_as_input_required() -> None:
    found = Agent(
        name="a",
        llm=agent(call("act"), "done").llm,
        tools=[guarded()],
        policy=CapabilityPolicy({"act": "ask"}),
        durability=InMemoryDurableStore(),
        verbosity=0,
    )
    handle = found.start_run("go")
    events = await listed(handle.events())
    result = await handle.result()
    assert (result.status, result.output, result.error, result.handoff) == ("input-required", None, None, None)
    assert events[-1].final
    request = handle.task.metadata["interruption"]["request_id"]
    assert await found.resume(handle.context.run_id, request_id=request, approved=True) == "done"


@pytest.mark.claim("SLI-014", "SLI-022")
async def test_used_up_slice_is_in_the_result() -> None:
    found = agent(call("act"), "done", tools=[guarded()], yield_after_steps=1, durability=InMemoryDurableStore())
    result = await found.start_run("go").result()
    assert result.status == "input-required"
    assert result.handoff is not None
    assert (result.handoff.steps, result.handoff.reason) == (1, "step_slice")


async def test_provider_that_is_down_is_told_as_an_error_of_a_paused_run() -> None:
    llm = MockLLM(sequential_responses=[PermissionError("no key")])
    found = Agent(name="a", llm=llm, durability=InMemoryDurableStore(), verbosity=0)
    result = await found.start_run("go").result()
    assert (result.status, result.handoff) == ("input-required", None)
    assert result.error == {"code": "PermissionError", "message": "no key"}


async def test_failure_is_told_in_the_result_and_never_raised() -> None:
    def boom() -> None:
        raise KeyError("no row")

    result = await agent(call("boom"), tools=[boom]).start_run("go").result()
    assert result.error is not None
    assert (result.status, result.error["code"]) == ("failed", "KeyError")
    refused = await Agent(name="a", llm="mock", yield_after_steps=1, verbosity=0).start_run("go").result()
    assert refused.status == "failed"
    assert refused.error is not None
    assert "durability" in refused.error["message"]


@pytest.mark.parametrize("prompt", [5, None, ["go"], {"prompt": "go"}])
async def test_work_must_be_text_or_a_task(prompt: Any) -> None:
    with pytest.raises(TypeError, match="text or a Task"):
        agent("done").start_run(prompt)


@pytest.mark.parametrize("more", [{"session_id": "s"}, {"budget": RunBudget()}, {"context": RunContext()}])
async def test_task_brings_its_own_controls(more: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="own"):
        agent("done").start_run(infer(), **more)


async def test_task_may_be_given_instead_of_text() -> None:
    task = Task.create_tool_call(tool_name="act", args={})
    handle = agent(tools=[guarded()]).start_run(task)
    assert (await handle.result()).output == "acted"
    assert handle.task is task


def test_start_run_needs_a_running_loop() -> None:
    with pytest.raises(RuntimeError):
        agent("done").start_run("go")


async def test_context_and_session_travel_with_the_run() -> None:
    handle = agent("done").start_run("go", session_id="s", context=RunContext(run_id="run-mine"))
    await handle.result()
    assert (run_id(handle.task), handle.context.session_id) == ("run-mine", "s")


@pytest.mark.claim("LIV-001", "LIV-004", "LIV-007", "DEL-003")
async def test_events_of_a_child_arrive_while_it_works() -> None:
    gate = Gate()

    async def wait() -> str:
        await gate.wait()
        return "waited"

    kid = agent(call("wait"), "kid", name="kid", tools=[wait])
    handle = agent(delegate("kid"), "done", subagents=[kid]).start_run("go")
    seen: list[tuple[str | None, str]] = []
    async for event in handle.events():
        seen.append((event.agent_name, event.type))
        if seen[-1] == ("kid", "action.started"):
            assert ("agent", "action.completed") not in seen
            gate.opened.set()
    assert ("kid", "action.completed") in seen
    assert (await handle.result()).output == "done"
