"""PresentationEvent.of: activity from events that no handle has shown."""

from __future__ import annotations

import pytest

from protolink import Agent, InMemoryDurableStore, PresentationEvent, RedactionPolicy, RunEvent
from protolink.llms import MockLLM


def look(place: str) -> str:
    """Look somewhere."""
    return "seen"


def agent(store: InMemoryDurableStore) -> Agent:
    script = [{"type": "tool_call", "tool": "look", "args": {"place": "here"}}, "Seen."]
    return Agent(name="looker", llm=MockLLM(sequential_responses=script), tools=[look], durability=store, verbosity=0)


@pytest.mark.claim("GRP-021", "GRP-033")
async def test_stored_events_give_the_activity_that_the_handle_told() -> None:
    store = InMemoryDurableStore()
    handle = agent(store).start_run("Look")
    await handle.result()
    live = [activity async for activity in handle.presentation_events()]
    stored = agent(store).run_events(handle.context.run_id)
    assert [found for event in stored if (found := PresentationEvent.of(event))] == live
    assert {activity.action_id for activity in live if activity.kind == "tool"} == {live[3].action_id}
    cut = live[3].sequence
    behind = [PresentationEvent.of(event) for event in agent(store).run_events(handle.context.run_id, after=cut)]
    assert [found for found in behind if found] == live[4:]


def test_event_that_is_no_activity_gives_none() -> None:
    assert PresentationEvent.of(RunEvent(type="context.prepared")) is None


def test_name_is_masked_by_the_given_policy() -> None:
    event = RunEvent(type="action.started", payload={"tool": "pay_tok_4711"}, sequence=3)
    shown = PresentationEvent.of(event)
    masked = PresentationEvent.of(event, RedactionPolicy(sensitive_values={"tok_4711"}))
    assert shown is not None
    assert masked is not None
    assert shown.title == "pay_tok_4711 started"
    assert "tok_4711" not in masked.title
