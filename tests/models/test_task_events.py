from __future__ import annotations

from dataclasses import fields

import pytest

from protolink.models import (
    Artifact,
    Part,
    TaskArtifactUpdateEvent,
    TaskErrorEvent,
    TaskEvent,
    TaskLLMStreamEvent,
    TaskProgressEvent,
    TaskState,
    TaskStatusUpdateEvent,
    task_event_from_dict,
)

EVENTS: list[TaskEvent] = [
    TaskStatusUpdateEvent("t", "submitted", "working", False, {"k": 1}, event_id="e", timestamp="s"),
    TaskArtifactUpdateEvent("t", Artifact(parts=[Part.text("x")])),
    TaskProgressEvent("t", 40, "half"),
    TaskErrorEvent("t", "code", "text", recoverable=True),
    TaskLLMStreamEvent("t", "agent", "llm_chunk", 2, "he", metadata={"a": {"b": 1}}),
]
TYPES = ["task_status_update", "task_artifact_update", "task_progress", "task_error", "task_llm_stream"]


@pytest.mark.parametrize(("event", "kind"), list(zip(EVENTS, TYPES, strict=True)))
def test_event_survives_its_json_form(event: TaskEvent, kind: str) -> None:
    record = event.to_dict()
    assert record["type"] == kind
    assert type(event).from_dict(record) == event
    assert task_event_from_dict(record) == event


@pytest.mark.parametrize("event", EVENTS, ids=TYPES)
def test_event_fields_start_and_end_alike(event: TaskEvent) -> None:
    names = [field.name for field in fields(event)]
    assert names[0] == "task_id"
    assert names[-3:] == ["metadata", "event_id", "timestamp"]
    assert set(event.to_dict()) == {"type", *names}


def test_given_id_and_time_are_kept() -> None:
    event = TaskProgressEvent("t", 1, event_id="e", timestamp="s")
    assert (event.event_id, event.timestamp) == ("e", "s")
    assert TaskProgressEvent("t").event_id != TaskProgressEvent("t").event_id


def test_states_are_written_as_text() -> None:
    event = TaskStatusUpdateEvent("t", None, TaskState.WORKING)  # type: ignore[arg-type]
    assert event.to_dict()["new_state"] == "working"


def test_written_event_is_detached() -> None:
    event = TaskLLMStreamEvent("t", metadata={"a": {"b": 1}})
    event.to_dict()["metadata"]["a"]["b"] = 2
    assert event.metadata == {"a": {"b": 1}}


@pytest.mark.parametrize(
    ("cls", "data", "named"),
    [
        (TaskProgressEvent, {"progress": 1}, "'task_id'"),
        (TaskProgressEvent, {"task_id": "t", "progress": True}, "'progress'"),
        (TaskProgressEvent, {"task_id": "t", "type": "task_error"}, "'type'"),
        (TaskStatusUpdateEvent, {"task_id": "t", "previous_state": None}, "'new_state'"),
        (TaskStatusUpdateEvent, {"task_id": "t", "previous_state": None, "new_state": "w", "final": 1}, "'final'"),
        (TaskArtifactUpdateEvent, {"task_id": "t", "artifact": 3}, "Artifact"),
        (TaskErrorEvent, [], "JSON object"),
    ],
)
def test_malformed_event_is_refused(cls: type[TaskEvent], data: dict, named: str) -> None:
    with pytest.raises(ValueError, match=named):
        cls.from_dict(data)


@pytest.mark.parametrize("kind", [None, "other", []])
def test_unknown_event_type_is_refused(kind: object) -> None:
    with pytest.raises(ValueError, match="'type'"):
        task_event_from_dict({"type": kind, "task_id": "t"})


def test_members_of_newer_peers_are_left_out() -> None:
    record = {**TaskProgressEvent("t", 3).to_dict(), "novel": 1}
    assert TaskProgressEvent.from_dict(record).progress == 3


@pytest.mark.parametrize("event", EVENTS, ids=TYPES)
def test_members_are_what_is_written_without_copies(event: TaskEvent) -> None:
    assert event.members() == event.to_dict()
    assert list(event.members()) == list(event.to_dict())
    assert event.members()["metadata"] is event.metadata


def test_an_artifact_among_the_members_is_a_copy() -> None:
    event = TaskArtifactUpdateEvent("t", Artifact(metadata={"a": {"b": 1}}))
    event.members()["artifact"]["metadata"]["a"]["b"] = 2
    assert event.artifact.metadata == {"a": {"b": 1}}


def test_an_artifact_that_is_a_record_already_is_written() -> None:
    event = TaskArtifactUpdateEvent("t", {"id": "art_1"})  # type: ignore[arg-type]
    assert event.to_dict()["artifact"] == {"id": "art_1"}
