"""Handles of stored runs that go on: by the agent, and in a group's place."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from agent_support import Gate, agent, call, delegate, infer, script, until

from protolink import (
    AdmissionError,
    Agent,
    AgentGroup,
    CapabilityPolicy,
    DurableExecutionError,
    GroupLimits,
    RunBusyError,
    RunHandle,
    StoreUnavailableError,
    StreamGapError,
    UncertainExecutionError,
)
from protolink.agents.resumed import ResumedRun
from protolink.journal import InMemoryDurableStore
from protolink.testing import FaultyStore, Outage
from protolink.tools import Tool, ask_user_tool


def desk(store: Any, *responses: Any, tools: Any = (), **options: Any) -> Agent:
    """An agent that asks before it publishes."""
    rules = CapabilityPolicy({"publish": "ask"})
    made = Agent(name="desk", llm=script(*responses), durability=store, policy=rules, verbosity=0, **options)

    def publish(text: str) -> str:
        return f"published {text}"

    made.tool(capabilities=["publish"])(publish)
    made.add_tools(tools)
    return made


async def waiting(store: Any) -> tuple[str, dict[str, Any], RunHandle]:
    """A run that waits for its approval: its id, the interruption and the handle that saw it pause."""
    handle = desk(store, call("publish", text="hello")).start_run("go")
    result = await handle.result()
    assert result.task is not None
    return handle.context.run_id, result.task.metadata["interruption"], handle


def approval(pause: dict[str, Any]) -> dict[str, Any]:
    return {"request_id": pause["request_id"], "fingerprint": pause["fingerprint"], "approved": True}


async def numbers(handle: RunHandle, after: int | None = None) -> list[int | None]:
    return [event.sequence async for event in handle.events(after)]


async def test_an_approved_run_goes_on_under_a_handle() -> None:
    store = InMemoryDurableStore()
    run_id, pause, _ = await waiting(store)
    handle = await desk(store, "all done").resume_run(run_id, **approval(pause))
    result = await handle.result()
    assert (result.status, result.output) == ("completed", "all done")
    assert handle.context.run_id == run_id
    types = [event.type async for event in handle.events()]
    assert types[-1] == "task.status"
    assert "action.completed" in types


async def test_its_answer_grows_while_it_is_written() -> None:
    store = InMemoryDurableStore()
    run_id, pause, _ = await waiting(store)
    handle = await desk(store, "all done").resume_run(run_id, **approval(pause))
    answers = [answer async for answer in handle.answer_events()]
    assert answers[0].kind == "delta"
    assert (answers[-1].kind, answers[-1].text) == ("completed", "all done")


async def test_its_events_are_numbered_after_the_stored_ones_and_the_store_has_the_same() -> None:
    store = InMemoryDurableStore()
    run_id, pause, first = await waiting(store)
    seen = [event async for event in first.events()]
    handle = await desk(store, "all done").resume_run(run_id, **approval(pause))
    told = {event.sequence: event.type async for event in handle.events()}
    assert min(n for n in told if n is not None) == (seen[-1].sequence or 0) + 1
    await handle.result()
    stored = {event.sequence: event.type for event in desk(store).run_events(run_id)}
    fragments = [n for n in told if n not in stored]
    assert {n: stored[n] for n in told if n in stored} == {n: told[n] for n in told if n in stored}
    assert len(fragments) == 1, "only the text fragment has a number that the store has not"


async def test_readers_with_an_earlier_cursor_are_sent_to_the_store() -> None:
    store = InMemoryDurableStore()
    run_id, pause, _ = await waiting(store)
    handle = await desk(store, "all done").resume_run(run_id, **approval(pause))
    with pytest.raises(StreamGapError):
        await numbers(handle, after=1)
    await handle.result()


async def test_its_report_tells_of_the_whole_run() -> None:
    store = InMemoryDurableStore()
    run_id, pause, _ = await waiting(store)
    handle = await desk(store, "all done").resume_run(run_id, **approval(pause))
    result = await handle.result()
    assert result.report is not None
    types = [event.type for event in result.report.events]
    assert types.index("approval.required") < types.index("approval.decided") < types.index("action.completed")
    assert [evidence.tool_name for evidence in result.tool_evidence] == ["publish"]
    assert len({event.event_id for event in result.report.events}) == len(types)


@pytest.mark.parametrize(
    ("wrong", "error"),
    [
        ({"fingerprint": "0" * 64}, DurableExecutionError),
        ({"request_id": "unknown"}, DurableExecutionError),
        ({"answer": "text"}, ValueError),
        ({"approved": None}, ValueError),
    ],
)
async def test_a_refused_response_is_raised_and_the_run_still_waits(
    wrong: dict[str, Any], error: type[Exception]
) -> None:
    store = InMemoryDurableStore()
    run_id, pause, _ = await waiting(store)
    with pytest.raises(error):
        await desk(store).resume_run(run_id, **{**approval(pause), **wrong})
    handle = await desk(store, "all done").resume_run(run_id, **approval(pause))
    assert (await handle.result()).status == "completed"


async def test_an_unknown_run_is_refused() -> None:
    with pytest.raises(DurableExecutionError, match="nothing"):
        await desk(InMemoryDurableStore()).resume_run("nothing")


async def test_a_denial_ends_the_run_as_failed() -> None:
    store = InMemoryDurableStore()
    run_id, pause, _ = await waiting(store)
    handle = await desk(store).resume_run(run_id, request_id=pause["request_id"], approved=False, reason="not today")
    result = await handle.result()
    assert result.status == "failed"
    assert result.error is not None
    assert result.error["code"] == "action_denied"
    assert result.error["message"] == "not today"


async def test_a_run_that_still_waits_gives_a_handle_that_says_so() -> None:
    store = InMemoryDurableStore()
    run_id, pause, _ = await waiting(store)
    result = await (await desk(store).resume_run(run_id)).result()
    assert result.status == "input-required"
    assert result.task is not None
    assert result.task.metadata["interruption"] == pause


async def test_a_completed_run_gives_its_stored_result_and_runs_nothing() -> None:
    store = InMemoryDurableStore()
    run_id, pause, _ = await waiting(store)
    await (await desk(store, "all done").resume_run(run_id, **approval(pause))).result()
    result = await (await desk(store).resume_run(run_id)).result()
    assert (result.status, result.output) == ("completed", "all done")


async def test_an_unknown_outcome_is_raised_as_by_resume() -> None:
    def explode() -> None:
        raise OSError("gone")

    store = InMemoryDurableStore()
    handle = desk(store, call("explode"), tools=[explode]).start_run("go")
    await handle.result()
    with pytest.raises(UncertainExecutionError):
        await desk(store, tools=[explode]).resume_run(handle.context.run_id)


async def test_a_second_pause_ends_the_attempt_and_can_be_answered_in_turn() -> None:
    store = InMemoryDurableStore()
    run_id, pause, _ = await waiting(store)
    again = await desk(store, call("publish", text="more"), "done").resume_run(run_id, **approval(pause))
    result = await again.result()
    assert result.status == "input-required"
    assert result.task is not None
    last = await desk(store, "done").resume_run(run_id, **approval(result.task.metadata["interruption"]))
    assert (await last.result()).output == "done"


async def test_canceling_at_once_cancels_the_stored_run() -> None:
    wait = Tool.from_callable(Gate().wait, name="wait", read_only=True)  # canceled while it runs, nothing is unknown
    second = InMemoryDurableStore()
    asked = desk(second, call("publish", text="hello"), tools=[wait]).start_run("go")
    result = await asked.result()
    assert result.task is not None
    going = desk(second, call("wait"), "never", tools=[wait])
    resumed = await going.resume_run(asked.context.run_id, **approval(result.task.metadata["interruption"]))
    await resumed.cancel("stop")
    ended = await resumed.result()
    assert ended.status == "canceled"
    assert second.get(asked.context.run_id).status == "canceled"


async def test_a_run_at_work_is_not_resumed_twice() -> None:
    store = InMemoryDurableStore()
    gate = Gate()
    asked = desk(store, call("publish", text="hello"), tools=[gate.wait]).start_run("go")
    result = await asked.result()
    assert result.task is not None
    pause = result.task.metadata["interruption"]
    first = await desk(store, call("wait"), "done", tools=[gate.wait]).resume_run(
        asked.context.run_id, **approval(pause)
    )
    await gate.reached.wait()
    with pytest.raises(RunBusyError):
        await desk(store, tools=[gate.wait]).resume_run(asked.context.run_id)
    gate.opened.set()
    assert (await first.result()).output == "done"


async def test_a_question_of_a_child_is_answered_through_the_roots_handle() -> None:
    store = InMemoryDurableStore()

    def parent(*responses: Any, child: Any = ()) -> Agent:
        asking = agent(*child, name="child", tools=[ask_user_tool()]) if child else agent("x", name="child")
        if not child:
            asking.add_tool(ask_user_tool())
        return agent(*responses, name="parent", durability=store, subagents=[asking])

    handle = parent(delegate("child"), child=[call("ask_user", question="Which?")]).start_run("go")
    result = await handle.result()
    assert result.task is not None
    pause = result.task.metadata["interruption"]
    going = await parent("done", child=["the red one"]).resume_run(
        handle.context.run_id, request_id=pause["request_id"], answer="red"
    )
    assert (await going.result()).output == "done"


async def test_nothing_is_left_running_or_owned() -> None:
    store = InMemoryDurableStore()
    run_id, pause, _ = await waiting(store)
    before = asyncio.all_tasks()
    handle = await desk(store, "all done").resume_run(run_id, **approval(pause))
    await handle.result()
    await until(lambda: asyncio.all_tasks() == before)
    assert (await desk(store).resume_run(run_id)) is not handle


# ---------------------------------------------------------------------------------------------------- groups


async def test_a_group_resumes_a_run_in_a_place_of_its_own() -> None:
    store = InMemoryDurableStore()
    run_id, pause, _ = await waiting(store)
    async with AgentGroup([desk(store, "all done")]) as group:
        handle = await group.resume("desk", run_id, **approval(pause))
        assert group.get_run(run_id) is handle
        assert (await handle.result()).output == "all done"
        assert group.snapshot()["runs"]["retained"] == 1


async def test_resumed_runs_count_against_the_groups_limits_and_wait_their_turn() -> None:
    store = InMemoryDurableStore()
    gate = Gate()
    run_id, pause, _ = await waiting(store)
    worker = agent(call("wait"), "first", name="worker", tools=[gate.wait])
    async with AgentGroup([worker, desk(store, "second")], limits=GroupLimits(max_concurrent_runs=1)) as group:
        first = group.run("worker", infer())
        resuming = asyncio.create_task(group.resume("desk", run_id, **approval(pause)))
        await gate.reached.wait()
        await until(lambda: group.snapshot()["runs"]["queued"] == 1)
        gate.opened.set()
        assert (await first.result()).output == "first"
        assert (await (await resuming).result()).output == "second"


async def test_a_full_queue_refuses_before_anything_is_recorded() -> None:
    store = InMemoryDurableStore()
    gate = Gate()
    run_id, pause, _ = await waiting(store)
    worker = agent(call("wait"), "first", name="worker", tools=[gate.wait])
    limits = GroupLimits(max_concurrent_runs=1, max_queued_runs=0)
    async with AgentGroup([worker, desk(store, "second")], limits=limits) as group:
        first = group.run("worker", infer())
        await gate.reached.wait()
        with pytest.raises(AdmissionError) as caught:
            await group.resume("desk", run_id, **approval(pause))
        assert caught.value.code == "queue_full"
        gate.opened.set()
        await first.result()
        assert (await (await group.resume("desk", run_id, **approval(pause))).result()).output == "second"


async def test_a_refused_response_frees_its_place() -> None:
    store = InMemoryDurableStore()
    run_id, pause, _ = await waiting(store)
    async with AgentGroup([desk(store, "all done")], limits=GroupLimits(max_concurrent_runs=1)) as group:
        with pytest.raises(DurableExecutionError):
            await group.resume("desk", run_id, **{**approval(pause), "fingerprint": "0" * 64})
        assert group.snapshot()["runs"]["active"] == 0
        assert (await (await group.resume("desk", run_id, **approval(pause))).result()).status == "completed"


async def test_a_caller_that_stops_waiting_gives_its_place_up() -> None:
    store = InMemoryDurableStore()
    gate = Gate()
    run_id, pause, _ = await waiting(store)
    worker = agent(call("wait"), "first", name="worker", tools=[gate.wait])
    async with AgentGroup([worker, desk(store, "x")], limits=GroupLimits(max_concurrent_runs=1)) as group:
        first = group.run("worker", infer())
        resuming = asyncio.create_task(group.resume("desk", run_id, **approval(pause)))
        await until(lambda: group.snapshot()["runs"]["queued"] == 1)
        resuming.cancel()
        await asyncio.wait([resuming])
        assert group.snapshot()["runs"]["queued"] == 0
        gate.opened.set()
        await first.result()


async def test_closing_the_group_ends_resumed_runs_and_refuses_waiting_ones() -> None:
    store = InMemoryDurableStore()
    gate = Gate()
    asked = desk(store, call("publish", text="hello"), tools=[gate.wait]).start_run("go")
    result = await asked.result()
    assert result.task is not None
    run_id, pause = asked.context.run_id, result.task.metadata["interruption"]
    other_id, other_pause, _ = await waiting(other := InMemoryDurableStore())
    going = desk(store, call("wait"), "never", tools=[gate.wait])
    late = agent("x", name="late", durability=other)
    group = AgentGroup([going, late], limits=GroupLimits(max_concurrent_runs=1))
    await group.start()
    handle = await group.resume("desk", run_id, **approval(pause))
    waiter = asyncio.create_task(group.resume("late", other_id, **approval(other_pause)))
    await gate.reached.wait()
    await group.close()
    assert (await handle.result()).status == "canceled"
    with pytest.raises(RuntimeError, match="the group is clos"):
        await waiter
    assert other.get(other_id).status == "input-required"


async def test_addresses_and_strangers_are_refused() -> None:
    async with AgentGroup([desk(InMemoryDurableStore())]) as group:
        with pytest.raises(ValueError, match="no agent"):
            await group.resume("nobody", "run")
        with pytest.raises(TypeError):
            await group.resume("desk", "run", colour="red")
    with pytest.raises(RuntimeError, match="closed"):
        await group.resume("desk", "run")


# ---------------------------------------------------------------------------------------------------- what is stored


async def test_the_response_is_stored_when_the_handle_is_there() -> None:
    store = InMemoryDurableStore()
    run_id, pause, _ = await waiting(store)
    handle = await desk(store, "all done").resume_run(run_id, **approval(pause))
    assert list(store.get(run_id).data["responses"]) == [pause["request_id"]]
    assert (await handle.result()).status == "completed"


async def test_a_store_that_is_away_refuses_and_the_run_still_waits() -> None:
    first = FaultyStore()
    run_id, pause, _ = await waiting(first)
    # Commit 1 takes the run over; 2 would store the response.
    away = first.restart([Outage(2, times=1000)])
    with pytest.raises(StoreUnavailableError):
        await desk(away, "never", store_patience=0, clock=away.clock).resume_run(run_id, **approval(pause))
    back = away.restart()
    assert back.get(run_id).status == "input-required"
    handle = await desk(back, "all done", clock=back.clock).resume_run(run_id, **approval(pause))
    assert (await handle.result()).output == "all done"


async def test_a_run_under_way_in_the_group_is_busy() -> None:
    store = InMemoryDurableStore()
    gate = Gate()
    asked = desk(store, call("publish", text="hello"), tools=[gate.wait]).start_run("go")
    result = await asked.result()
    assert result.task is not None
    pause = result.task.metadata["interruption"]
    async with AgentGroup([desk(store, call("wait"), "done", tools=[gate.wait])]) as group:
        handle = await group.resume("desk", asked.context.run_id, **approval(pause))
        with pytest.raises(RunBusyError):
            await group.resume("desk", asked.context.run_id, **approval(pause))
        gate.opened.set()
        assert (await handle.result()).status == "completed"


@pytest.mark.parametrize("how", [{}, {"drain": 10, "park": True}])
async def test_a_group_that_closes_waits_for_a_run_that_is_being_opened_and_ends_it_too(
    how: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    store = InMemoryDurableStore()
    gate, opening = Gate(), Gate()
    begin = ResumedRun.begin

    async def slowly(*given: Any) -> ResumedRun:
        await opening.wait()
        return await begin(*given)

    async def hold() -> str:
        """Hold."""
        await gate.wait()
        return "held"

    paused = desk(store, call("publish", text="hello"), tools=[hold]).start_run("go")
    task = (await paused.result()).task
    assert task is not None
    run_id, pause = paused.context.run_id, task.metadata["interruption"]
    monkeypatch.setattr(ResumedRun, "begin", slowly)
    group = AgentGroup([desk(store, call("hold"), "never", tools=[hold])])
    await group.start()
    resuming = asyncio.ensure_future(group.resume("desk", run_id, **approval(pause)))
    await opening.reached.wait()
    closing = asyncio.ensure_future(group.close(**how))
    await until(lambda: group.snapshot()["state"] == "closing")
    opening.opened.set()
    handle = await resuming
    if how:
        await gate.reached.wait()
        gate.opened.set()
    await closing
    assert handle.done
    assert (await handle.result()).status == ("input-required" if how else "canceled")
    assert group.snapshot()["runs"]["active"] == 0


async def test_a_group_that_closes_takes_no_run_that_waits_for_a_place() -> None:
    store = InMemoryDurableStore()
    run_id, pause, _ = await waiting(store)
    gate = Gate()

    async def hold() -> str:
        """Hold."""
        await gate.wait()
        return "held"

    first = agent(call("hold"), name="first", tools=[hold])
    group = AgentGroup([first, desk(store, "never")], limits=GroupLimits(max_concurrent_runs=1))
    await group.start()
    group.run("first", "go")
    await gate.reached.wait()
    resuming = asyncio.ensure_future(group.resume("desk", run_id, **approval(pause)))
    await until(lambda: group.snapshot()["runs"]["queued"] == 1)
    await group.close()
    with pytest.raises(RuntimeError, match="the group is clos"):
        await resuming
    assert store.get(run_id).status == "input-required"  # type: ignore[union-attr]
