"""Event sinks."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from protolink.models import Task, TaskProgressEvent
from protolink.runtime import (
    ActionAuthorizer,
    CapabilityPolicy,
    EventSink,
    InMemoryEventSink,
    PolicyEffect,
    RunAction,
    RunContext,
    RunEvent,
)


def emit(sink: EventSink, *events: RunEvent) -> None:
    async def all_of_them() -> None:
        for event in events:
            await sink.emit(event)

    asyncio.run(all_of_them())


@pytest.mark.claim("EVT-050", "EVT-056", "EVT-054")
def test_the_first_event_gets_number_one() -> None:
    sink, first, second = InMemoryEventSink(), RunEvent("a"), RunEvent("b")
    emit(sink, first, second)
    assert (first.sequence, second.sequence) == (1, 2)
    assert [item["sequence"] for item in sink.to_list()] == [1, 2]
    with pytest.raises(TypeError):
        InMemoryEventSink(5)  # type: ignore[call-arg]


@pytest.mark.claim("EVT-021", "EVT-057")
def test_given_numbers_are_kept_and_larger_ones_move_the_counter() -> None:
    sink = InMemoryEventSink()
    events = [RunEvent("a", sequence=7), RunEvent("b"), RunEvent("c", sequence=3), RunEvent("d")]
    emit(sink, *events)
    assert [event.sequence for event in events] == [7, 8, 3, 9]


@pytest.mark.claim("EVT-055")
def test_recorded_events_are_a_new_tuple_of_the_same_objects() -> None:
    sink, events = InMemoryEventSink(), [RunEvent("a"), RunEvent("b")]
    emit(sink, *events)
    found = sink.events
    assert isinstance(found, tuple)
    assert all(one is two for one, two in zip(found, events, strict=True))
    emit(sink, RunEvent("c"))
    assert len(found) == 2


@pytest.mark.claim("EVT-058")
def test_a_task_event_is_normalized_recorded_and_returned() -> None:
    task, sink = Task.create("x"), InMemoryEventSink()
    RunContext(run_id="run_1").attach_to_task(task)
    raw = TaskProgressEvent(task.id, progress=1, message="one")
    event = asyncio.run(sink.emit_task_event(raw, context=RunContext.from_task(task)))
    assert sink.events[0] is event
    assert (event.type, event.run_id, event.sequence) == ("task.progress", "run_1", 1)


def test_two_sinks_number_a_native_event_each_for_itself() -> None:
    native, one, two = RunEvent("action.started"), InMemoryEventSink(), InMemoryEventSink()
    emit(two, RunEvent("before"))
    first, second = (asyncio.run(sink.emit_task_event(native)) for sink in (one, two))
    assert (first.sequence, second.sequence, native.sequence) == (1, 2, None)
    assert first.event_id == second.event_id == native.event_id


@pytest.mark.claim("EVT-059")
def test_listing_serializes_everything_unredacted() -> None:
    sink, event = InMemoryEventSink(), RunEvent("a", payload={"api_key": "sk-1"})
    emit(sink, event)
    assert sink.to_list() == [event.to_dict()]
    assert sink.to_list()[0]["payload"]["api_key"] == "sk-1"


@pytest.mark.claim("EVT-060")
def test_clearing_forgets_events_and_restarts_numbering() -> None:
    sink = InMemoryEventSink()
    emit(sink, RunEvent("a"), RunEvent("b"))
    sink.clear()
    assert sink.events == ()
    again = RunEvent("c")
    emit(sink, again)
    assert again.sequence == 1


class Printer:
    """A sink of an application: no base class."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    async def emit(self, event: RunEvent) -> bool | None:
        self.lines.append(event.type)
        return True


@pytest.mark.claim("EVT-053")
def test_any_object_with_async_emit_is_a_sink() -> None:
    printer: Any = Printer()
    emit(printer, RunEvent("a"), RunEvent("b"))
    assert printer.lines == ["a", "b"]


@pytest.mark.claim("EVT-052")
def test_what_a_sink_does_with_an_event_authorizes_nothing() -> None:
    printer: Any = Printer()
    action = RunAction("tool.call", "write", capabilities=frozenset({"x"}))
    policy = CapabilityPolicy({"x": "deny"})
    decision = policy.decide(action, RunContext())
    emit(printer, RunEvent("action.policy", payload={"decision": decision.to_dict()}))
    assert policy.decide(action, RunContext()).effect is PolicyEffect.DENY
    with pytest.raises(RuntimeError):
        asyncio.run(ActionAuthorizer(policy).authorize(action, RunContext()))


@pytest.mark.claim("EVT-061")
def test_the_sink_holds_no_lock() -> None:
    names = {type(value).__name__.lower() for value in vars(InMemoryEventSink()).values()}
    assert names == {"list", "int"}
