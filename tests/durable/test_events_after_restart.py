"""Events are numbered with the facts they come from: read again they are the same, and later ones go on above."""

from __future__ import annotations

from typing import Any

import pytest

from protolink import Agent, DurableExecutionError, RunManager
from protolink.runtime import RunContext
from protolink.tools import ask_user_tool

QUESTION = ("ask_user", {"question": "Which format?"})
CALL = ("publish", {"text": "hello"})


def fresh(scene: Any, *calls: Any, **how: Any) -> Any:
    return scene.agent([ask_user_tool(), scene.publish()], *(calls or scene.calls), **how)


async def watched(agent: Any) -> list[Any]:
    handle = agent.start_run("go", context=RunContext(run_id="run-1"))
    return [event async for event in handle.events()]


def shown(events: list[Any]) -> list[Any]:
    return [(event.sequence, event.type, event.event_id, event.action_id) for event in events]


async def test_numbers_read_again_are_those_that_were_seen(inferred: Any) -> None:
    seen = await watched(fresh(inferred, CALL, QUESTION))
    again = fresh(inferred).run_events("run-1")
    deltas = [event for event in seen if event.payload.get("llm_event_type") == "llm_chunk"]
    assert shown([event for event in seen if event not in deltas]) == shown(again)


async def test_numbers_grow_and_are_never_used_twice(inferred: Any) -> None:
    pause_events = await watched(fresh(inferred, CALL, QUESTION))
    high = max(event.sequence for event in pause_events)
    agent = fresh(inferred)
    request = agent.durability.get("run-1").data["interruption"]["request_id"]
    before = shown(agent.run_events("run-1"))
    await agent.resume("run-1", request_id=request, answer="CSV")
    after = shown(agent.run_events("run-1"))
    assert after[: len(before)] == before
    numbers = [item[0] for item in after]
    assert numbers == sorted(set(numbers))
    assert min(item[0] for item in after[len(before) :]) > high


@pytest.mark.claim("DUR-069")
async def test_a_resume_repeats_no_event_of_the_pending_action(scene: Any) -> None:
    await scene.pause(fresh(scene, QUESTION))
    agent = fresh(scene)
    request = agent.durability.get("run-1").data["interruption"]["request_id"]
    await agent.resume("run-1", request_id=request, answer="CSV")
    types = [event.type for event in agent.run_events("run-1")]
    for once in ("action.requested", "action.policy", "user_input.requested", "user_input.answered"):
        assert types.count(once) == 1, once


async def test_only_what_is_after_a_number_is_read(inferred: Any) -> None:
    agent = fresh(inferred, CALL)
    await inferred.begin(agent)
    everything = shown(agent.run_events("run-1"))
    middle = everything[len(everything) // 2][0]
    assert shown(agent.run_events("run-1", after=middle)) == [item for item in everything if item[0] > middle]
    assert agent.run_events("run-1", after=everything[-1][0]) == []


async def test_reading_events_takes_no_lease(scene: Any) -> None:
    agent = fresh(scene, CALL)
    await scene.begin(agent)
    token, _ = agent.durability.acquire("run-1", "helper", {})
    assert fresh(scene).run_events("run-1")
    agent.durability.release("run-1", token)


async def test_events_of_an_unknown_run_are_refused(scene: Any) -> None:
    with pytest.raises(DurableExecutionError, match="run-9"):
        fresh(scene, CALL).run_events("run-9")


async def test_every_event_was_stored_before_it_was_shown(inferred: Any, tape: Any) -> None:
    agent = fresh(inferred, CALL, durability=tape)
    handle = agent.start_run("go", context=RunContext(run_id="run-1"))
    async for event in handle.events():
        if event.payload.get("llm_event_type") == "llm_chunk":
            continue
        stored = [found.event_id for found in agent.run_events("run-1")]
        assert event.event_id in stored, event.type


async def test_another_process_reads_the_same_events(application: Any) -> None:
    processes = application("native")
    processes.run("start", call=QUESTION)
    # The readers are agents of another making: events come from the facts alone.
    one, two = (Agent(name="helper", durability=str(processes.database)) for _ in range(2))
    assert shown(one.run_events("run-1")) == shown(two.run_events("run-1"))
    assert RunManager(one).events("run-1")[-1]["summary"] == "Task paused: input"
