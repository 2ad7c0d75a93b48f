"""RunEvent: the envelope, and the mapping from task events."""

from __future__ import annotations

import copy
import dataclasses
import uuid
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protolink.models import (
    Artifact,
    RedactionPolicy,
    Task,
    TaskArtifactUpdateEvent,
    TaskErrorEvent,
    TaskLLMStreamEvent,
    TaskProgressEvent,
    TaskStatusUpdateEvent,
)
from protolink.models.json import dumps, loads
from protolink.runtime import RunContext, RunEvent

words = st.none() | st.text(max_size=8)
objects = st.dictionaries(
    st.text(max_size=5), st.integers(0, 9) | st.lists(st.text(max_size=3), max_size=2), max_size=2
)
events = st.builds(
    RunEvent,
    type=st.text(min_size=1, max_size=8).filter(str.strip),
    run_id=words,
    task_id=words,
    agent_name=words,
    sequence=st.none() | st.integers(),
    step=st.none() | st.integers(),
    span_id=words,
    parent_span_id=words,
    action_id=words,
    parent_action_id=words,
    delegation_id=words,
    severity=st.sampled_from(["info", "loud"]),
    summary=words,
    payload=objects,
    final=st.booleans(),
    metadata=objects,
)

ACTION = {"kind": "tool.call", "name": "write", "action_id": "action_1", "payload": {}}
CALL = {"kind": "agent.call", "name": "worker", "action_id": "action_2", "payload": {}}


def llm(kind: str, *, content: Any = None, final: bool = False, **metadata: Any) -> RunEvent:
    raw = TaskLLMStreamEvent(
        "task_1", agent_name="agent", llm_event_type=kind, step=2, content=content, final=final, metadata=metadata
    )
    return RunEvent.from_task_event(raw)


@pytest.mark.claim("EVT-002", "EVT-030", "EVT-024")
def test_objects_and_mappings_normalize_to_the_same_envelope() -> None:
    raw = TaskProgressEvent("task_1", progress=50, message="Halfway done")
    one, two = RunEvent.from_task_event(raw), RunEvent.from_task_event(raw.to_dict())
    assert isinstance(one, RunEvent)
    assert one == two
    assert (one.type, one.summary, one.task_id) == ("task.progress", "Halfway done", "task_1")
    assert one.metadata["source_type"] == "task_progress"
    assert (one.event_id, one.timestamp) == (raw.event_id, raw.timestamp)
    for wrong in (5, None, "text", object()):
        with pytest.raises(TypeError):
            RunEvent.from_task_event(wrong)


@pytest.mark.claim("EVT-004", "EVT-005")
def test_an_event_is_mutable_and_of_any_type() -> None:
    event = RunEvent(type="my.own type")
    event.sequence = 3
    assert dataclasses.is_dataclass(event)
    assert (event.type, event.to_dict()["sequence"]) == ("my.own type", 3)
    with pytest.raises(TypeError):
        RunEvent()  # type: ignore[call-arg]


@pytest.mark.claim(
    "EVT-006",
    "EVT-007",
    "EVT-008",
    "EVT-009",
    "EVT-010",
    "EVT-011",
    "EVT-012",
    "EVT-013",
    "EVT-014",
    "EVT-015",
    "EVT-017",
    "EVT-019",
)
def test_every_optional_field_has_its_default() -> None:
    found = RunEvent("x").to_dict()
    generated = {key: found.pop(key) for key in ("event_id", "timestamp")}
    assert all(generated.values())
    nothing = (
        "run_id",
        "task_id",
        "agent_name",
        "sequence",
        "step",
        "span_id",
        "parent_span_id",
        "action_id",
        "parent_action_id",
        "delegation_id",
        "summary",
    )
    assert found == {
        "type": "x",
        "severity": "info",
        "payload": {},
        "final": False,
        "metadata": {},
        "version": "1.0",
    } | (dict.fromkeys(nothing))
    assert RunEvent("x").payload is not RunEvent("x").payload


@pytest.mark.claim("EVT-018", "EVT-020")
def test_event_id_and_time_are_generated() -> None:
    one, two = RunEvent("x"), RunEvent("x")
    assert uuid.UUID(one.event_id) != uuid.UUID(two.event_id)
    moment = datetime.fromisoformat(one.timestamp)
    assert moment.utcoffset() == timedelta(0)
    assert abs(datetime.now(UTC) - moment) < timedelta(minutes=5)


@pytest.mark.claim("EVT-016")
def test_final_follows_the_source() -> None:
    assert llm("llm_final", content="done", final=True).final is True
    assert llm("llm_chunk", content="x").final is False
    for final in (True, False):
        assert RunEvent.from_task_event(TaskStatusUpdateEvent("t", "working", "completed", final)).final is final


@pytest.mark.claim("EVT-022")
@pytest.mark.parametrize(
    ("kind", "severity"),
    [
        ("llm_step", "info"),
        ("llm_parse_error", "warning"),
        ("llm_retry", "warning"),
        ("llm_error", "error"),
        ("approval_required", "warning"),
        ("action_denied", "error"),
        ("tool_rejected", "warning"),
        ("agent_call_rejected", "warning"),
        ("tool_error", "error"),
        ("agent_call_error", "error"),
        ("tool_canceled", "info"),
        ("budget_warning", "warning"),
        ("budget_exceeded", "error"),
        ("something_new", "info"),
    ],
)
def test_severity_is_derived_from_the_source_type(kind: str, severity: str) -> None:
    assert llm(kind).severity == severity
    assert RunEvent("x", severity="deafening").severity == "deafening"


MAPPING: list[tuple[str, dict[str, Any], str, str]] = [
    ("llm_step", {}, "llm.stream", "llm_step"),
    (
        "context_prepared",
        {"manifest": {"total_estimated_tokens": 12}},
        "context.prepared",
        "Context prepared: 12 estimated tokens",
    ),
    ("llm_context", {"manifest": {}}, "llm.stream", "llm_context"),
    ("llm_call_started", {"model": "m"}, "llm.call.started", "LLM call started: m"),
    ("llm_chunk", {"content": "x"}, "llm.stream", "llm_chunk"),
    ("llm_call_metrics", {}, "llm.stream", "llm_call_metrics"),
    (
        "llm_call_completed",
        {"latency_ms": 7, "metrics": {"model": "m"}},
        "llm.call.completed",
        "LLM call completed: m in 7 ms",
    ),
    ("llm_response", {}, "llm.stream", "llm_response"),
    ("llm_action", {"action": "tool_call"}, "llm.stream", "llm_action"),
    ("llm_final", {"content": "It is so."}, "llm.stream", "llm_final: It is so."),
    ("llm_parse_error", {"message": "bad"}, "llm.stream", "llm_parse_error"),
    ("llm_retry", {}, "llm.stream", "llm_retry"),
    ("llm_error", {}, "llm.stream", "llm_error"),
    ("run_yielded", {"handoff": {}}, "llm.stream", "run_yielded"),
    ("action_requested", {"action": ACTION}, "action.requested", "Action requested: write"),
    ("policy_decision", {"decision": {"effect": "deny"}}, "action.policy", "Policy decision: deny"),
    ("approval_required", {"request": {"action": ACTION}}, "approval.required", "Approval required: write"),
    ("approval_decision", {"decision": {"approved": True}}, "approval.decided", "Approval granted"),
    ("approval_decision", {"decision": {"approved": False}}, "approval.decided", "Approval denied"),
    ("action_approved", {"action": ACTION}, "action.approved", "Action approved: write"),
    ("action_denied", {"action": ACTION, "message": "No."}, "action.denied", "No."),
    ("tool_start", {"tool": "write"}, "action.started", "Action started: write"),
    ("agent_call_start", {"agent": "worker", "action": "infer"}, "action.started", "Action started: worker"),
    ("tool_result", {"tool": "write"}, "action.completed", "Action completed: write"),
    ("agent_call_result", {"agent": "worker"}, "action.completed", "Action completed: worker"),
    ("tool_rejected", {"tool": "write"}, "action.rejected", "Tool 'write' rejected the request; nothing changed."),
    ("agent_call_rejected", {"agent": "w"}, "action.rejected", "Delegation to 'w' rejected; nothing changed."),
    ("tool_error", {"error": {"message": "broke"}}, "action.failed", "broke"),
    ("agent_call_error", {"message": "broke"}, "action.failed", "broke"),
    ("tool_canceled", {"message": "x"}, "action.canceled", "tool_canceled"),
    ("budget_warning", {"decision": {"message": "near"}}, "budget.warning", "near"),
    ("budget_exceeded", {"decision": {"message": "over"}}, "budget.exceeded", "over"),
    ("something_new", {}, "llm.stream", "something_new"),
]


@pytest.mark.claim("EVT-031")
@pytest.mark.parametrize(("kind", "metadata", "expected", "summary"), MAPPING)
def test_each_model_event_has_one_stable_type_and_summary(
    kind: str, metadata: dict[str, Any], expected: str, summary: str
) -> None:
    event = llm(kind, **metadata) if "content" not in metadata else llm(kind, content=metadata["content"])
    assert (event.type, event.summary) == (expected, summary)
    assert (event.task_id, event.agent_name, event.step) == ("task_1", "agent", 2)
    assert event.metadata == {"source_type": "task_llm_stream"}


@pytest.mark.claim("EVT-031")
def test_callback_records_normalize_without_a_wrapper() -> None:
    event = RunEvent.from_task_event({"type": "tool_start", "step": 3, "tool": "write", "action_id": "action_1"})
    assert (event.type, event.step, event.action_id) == ("action.started", 3, "action_1")


@pytest.mark.claim("EVT-031")
@pytest.mark.parametrize(
    ("raw", "expected", "severity", "summary"),
    [
        (TaskStatusUpdateEvent("t", "submitted", "working"), "task.status", "info", "Task state changed to working"),
        (
            TaskStatusUpdateEvent("t", "working", "failed", True),
            "task.status",
            "info",
            "Task finished with state failed",
        ),
        (TaskArtifactUpdateEvent("t", Artifact(id="art_1")), "task.artifact", "info", "Artifact produced: art_1"),
        (TaskProgressEvent("t", progress=40, message=None), "task.progress", "info", "Task progress 40%"),
        (TaskErrorEvent("t", "boom", "It broke"), "task.error", "error", "It broke"),
    ],
)
def test_each_task_event_has_one_stable_type_and_summary(raw: Any, expected: str, severity: str, summary: str) -> None:
    event = RunEvent.from_task_event(raw)
    assert (event.type, event.severity, event.summary) == (expected, severity, summary)


def test_a_final_pause_is_not_called_finished() -> None:
    raw = TaskStatusUpdateEvent("t", "working", "input-required", True)
    raw.metadata = {"task": {"metadata": {"interruption": {"kind": "yield"}}}}
    assert RunEvent.from_task_event(raw).summary == "Task paused: yield"


@pytest.mark.claim("EVT-023", "EVT-047", "EVT-048")
@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("manifest", {"total_estimated_tokens": 1}),
        ("action", ACTION),
        ("request", {"action": ACTION, "request_id": "approval_1"}),
        ("decision", {"effect": "allow"}),
        ("action_id", "action_1"),
        ("parent_action_id", "action_0"),
        ("span_id", "span_1"),
        ("parent_span_id", "span_0"),
        ("delegation_id", "action_9"),
    ],
)
def test_stable_metadata_is_promoted_beside_the_intact_original(key: str, value: Any) -> None:
    raw = TaskLLMStreamEvent("t", llm_event_type="policy_decision", metadata={key: value, "other": 1})
    before = copy.deepcopy(raw.to_dict())
    event = RunEvent.from_task_event(raw)
    assert event.payload[key] == value
    assert event.payload["metadata"] == {key: value, "other": 1}
    assert {name: event.payload[name] for name in before} == before
    if key.endswith("_id"):
        assert getattr(event, key) == value


@pytest.mark.parametrize(
    ("kind", "metadata", "delegated"),
    [
        ("action_requested", {"action": ACTION}, False),
        ("policy_decision", {"decision": {"effect": "allow"}, "action_id": "action_1"}, False),
        ("policy_decision", {"decision": {}, "action_id": "action_1", "action_kind": "agent.call"}, True),
        ("approval_required", {"request": {"action": ACTION}}, False),
        ("approval_required", {"request": {"action": ACTION | {"kind": "agent.call"}}}, True),
        ("approval_decision", {"decision": {"metadata": {"action_id": "action_1"}}}, False),
        ("tool_start", {"action_id": "action_1"}, False),
        ("agent_call_start", {"action_id": "action_1", "action": "infer"}, True),
        ("agent_call_error", {"action_id": "action_1"}, True),
    ],
)
def test_action_events_name_their_action_span_and_delegation(
    kind: str, metadata: dict[str, Any], delegated: bool
) -> None:
    event = llm(kind, **metadata)
    assert (event.action_id, event.span_id) == ("action_1", "action_1")
    assert event.delegation_id == ("action_1" if delegated else None)
    assert event.payload["action_id"] == "action_1"


def test_an_artifact_event_names_the_action_of_the_artifact() -> None:
    event = RunEvent.from_task_event(TaskArtifactUpdateEvent("t", Artifact(action_id="action_1")))
    assert (event.action_id, event.span_id) == ("action_1", None)


@pytest.mark.parametrize(
    "type_",
    [
        "action.requested",
        "approval.required",
        "approval.decided",
        "action.approved",
        "action.started",
        "action.completed",
        "action.rejected",
        "action.denied",
        "action.failed",
        "validation.completed",
    ],
)
def test_native_events_pass_through_as_they_are(type_: str) -> None:
    native = RunEvent(type_, action_id="action_1", sequence=4, payload={"action": ACTION})
    for source in (native, native.to_dict()):
        event = RunEvent.from_task_event(source, context=RunContext(run_id="run_1"))
        assert event is not native
        assert event == dataclasses.replace(native, run_id="run_1")
    assert native.run_id is None
    assert RunEvent.from_task_event(native, sequence=9).sequence == 9


@pytest.mark.claim("EVT-063")
def test_a_rejection_says_that_nothing_changed() -> None:
    event = llm("tool_rejected", tool="write", phase="preparation", action_id="action_1")
    assert "nothing changed" in str(event.summary)
    assert event.payload["metadata"]["phase"] == "preparation"
    assert event.type not in ("action.started", "action.completed")


@pytest.mark.claim("EVT-025")
@given(events)
def test_a_serialized_event_has_every_field_and_reads_back(event: RunEvent) -> None:
    found = event.to_dict()
    assert set(found) == {item.name for item in dataclasses.fields(RunEvent)}
    assert RunEvent.from_dict(loads(dumps(found))) == event


@pytest.mark.claim("EVT-026")
def test_a_redacted_event_masks_secrets_at_every_depth() -> None:
    event = RunEvent("x", payload={"a": [{"api_key": "sk-1"}]}, metadata={"password": "hunter2"})
    safe = event.to_dict(redaction_policy=RedactionPolicy())
    assert "sk-1" not in dumps(safe)
    assert "hunter2" not in dumps(safe)
    assert event.payload == {"a": [{"api_key": "sk-1"}]}
    assert "sk-1" in dumps(event.to_dict())


@pytest.mark.claim("EVT-027")
def test_numbers_are_restored_through_int() -> None:
    event = RunEvent.from_dict({"type": "x", "sequence": "7", "step": 2.0})
    assert (event.sequence, event.step) == (7, 2)
    assert type(event.step) is int
    assert RunEvent.from_dict({"type": "x", "sequence": None}).sequence is None


@pytest.mark.claim("EVT-028")
def test_restored_mappings_are_top_level_copies() -> None:
    source: dict[str, Any] = {"type": "x", "payload": {"nested": []}, "metadata": {"nested": []}}
    event = RunEvent.from_dict(source)
    for name in ("payload", "metadata"):
        found = getattr(event, name)
        assert found == source[name]
        assert found is not source[name]
        assert found["nested"] is source[name]["nested"]


@pytest.mark.claim("EVT-029")
def test_absent_identity_version_and_time_are_filled() -> None:
    event = RunEvent.from_dict({"type": "x"})
    assert uuid.UUID(event.event_id)
    assert event.version == "1.0"
    assert datetime.fromisoformat(event.timestamp).utcoffset() == timedelta(0)


@pytest.mark.parametrize(
    "hostile",
    [
        None,
        [],
        {},
        {"type": 5},
        {"type": "x", "sequence": "seven"},
        {"type": "x", "step": float("inf")},
        {"type": "x", "payload": []},
        {"type": "x", "final": "yes"},
        {"type": "x", "metadata": 3},
        {"type": "x", "run_id": {}},
        {"type": "x", "event_id": 4},
    ],
)
def test_malformed_events_are_refused(hostile: Any) -> None:
    with pytest.raises((ValueError, TypeError)):
        RunEvent.from_dict(hostile)


@pytest.mark.claim("EVT-032")
@pytest.mark.parametrize("typed", [True, False])
def test_the_run_is_recovered_from_an_embedded_task(typed: bool) -> None:
    task = Task.create("x")
    if typed:
        RunContext(run_id="run_7", agent_chain=["first", "last"]).attach_to_task(task)
    raw = TaskStatusUpdateEvent(task.id, "working", "completed", True, metadata={"task": task.to_dict()})
    event = RunEvent.from_task_event(raw)
    assert event.run_id == ("run_7" if typed else task.id)
    assert event.agent_name == ("last" if typed else None)
    given_context = RunEvent.from_task_event(raw, context=RunContext(run_id="run_8"), sequence=5)
    assert (given_context.run_id, given_context.sequence, given_context.agent_name) == ("run_8", 5, None)


def test_the_run_that_an_event_names_is_not_overridden_by_the_recorders() -> None:
    raw = TaskLLMStreamEvent("t", llm_event_type="llm_step", metadata={"run_id": "run_child"})
    assert RunEvent.from_task_event(raw, context=RunContext(run_id="run_root")).run_id == "run_child"


@pytest.mark.claim("EVT-033")
def test_payload_and_metadata_stay_mutable() -> None:
    event = llm("action_requested", action={"name": "write", "payload": {"list": [1]}})
    event.payload["action"]["payload"]["list"].append(2)
    event.metadata["more"] = {"x": []}
    event.metadata["more"]["x"].append(1)
    assert event.to_dict()["payload"]["action"]["payload"]["list"] == [1, 2]
    assert event.to_dict()["metadata"]["more"] == {"x": [1]}


junk = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=4), inner, max_size=2),
)
keys = st.sampled_from(
    [
        "action",
        "request",
        "decision",
        "manifest",
        "artifact",
        "task",
        "metadata",
        "step",
        "run_id",
        "latency_ms",
        "action_id",
        "delegation_id",
        "tool",
        "message",
        "content",
        "error",
        "metrics",
        "new_state",
        "event_id",
        "final",
    ]
)
kinds = st.sampled_from([kind for kind, *_ in MAPPING] + ["task_status_update", "task_artifact_update", "task_error"])


@given(kinds, st.dictionaries(keys, junk, max_size=4), st.dictionaries(keys, junk, max_size=4))
def test_no_event_is_too_malformed_to_be_shown(kind: str, own: dict[str, Any], metadata: dict[str, Any]) -> None:
    wrapped = {"type": "task_llm_stream", "llm_event_type": kind} | own | {"metadata": metadata}
    for raw in (wrapped, own | {"type": kind}):
        event = RunEvent.from_task_event(raw)
        assert event.severity in ("info", "warning", "error")
        assert RunEvent.from_dict(event.to_dict()) == event


def test_a_member_that_is_null_does_not_hide_what_the_metadata_tells() -> None:
    raw = {"type": "task_llm_stream", "llm_event_type": "llm_call_started", "step": None, "agent_name": None}
    event = RunEvent.from_task_event({**raw, "metadata": {"step": 3, "agent_name": "writer", "model": "small"}})
    assert (event.step, event.agent_name, event.summary) == (3, "writer", "LLM call started: small")
    shown = RunEvent.from_task_event({**raw, "step": 1, "metadata": {"step": 3}})
    assert shown.step == 1
