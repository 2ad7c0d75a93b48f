"""Run reports: what is read out of events, and the way through JSON and back."""

from __future__ import annotations

import copy
import dataclasses
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from recorded_runs import SCENARIOS, infer, recorded, report_of

from protolink import RedactionPolicy, RunContext, RunEvent, RunReport, Task

TEXT = st.text(max_size=8)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)
TABLES = st.dictionaries(TEXT, JSON, max_size=3)
RECORDS = st.lists(TABLES, max_size=2).map(tuple)
EVENTS = st.builds(
    RunEvent,
    type=st.sampled_from(["task.status", "action.requested", "approval.decided", "custom"]),
    run_id=st.none() | TEXT,
    sequence=st.none() | st.integers(0, 9),
    payload=TABLES,
    final=st.booleans(),
    metadata=TABLES,
)
REPORTS = st.builds(
    RunReport,
    context=st.none() | st.builds(RunContext, permissions=TABLES, metadata=TABLES, canceled=st.booleans()),
    context_manifests=RECORDS,
    events=st.lists(EVENTS, max_size=3).map(tuple),
    actions=RECORDS,
    approvals=RECORDS,
    artifacts=RECORDS,
    metrics=RECORDS,
    final_task=st.none() | TABLES,
    metadata=TABLES,
)


def requested(action: dict[str, Any], **fields: Any) -> RunEvent:
    return RunEvent("action.requested", payload={"action": action}, **fields)


def final(task: dict[str, Any]) -> RunEvent:
    return RunEvent("task.status", final=True, payload={"metadata": {"task": task}})


# ------------------------------------------------------------------------------------------------------- contents


@pytest.mark.claim("REP-001", "REP-002")
def test_recorded_run_fills_all_sections() -> None:
    run = recorded("granted")
    report = run.report
    assert [manifest["run_id"] for manifest in report.context_manifests] == [run.task.id] * 2
    assert [action["name"] for action in report.actions] == ["act"]
    assert [approval["type"] for approval in report.approvals] == ["approval.required", "approval.decided"]
    assert [artifact["kind"] for artifact in report.artifacts] == ["action_result", "result"]
    assert len(report.metrics) == 2
    assert report.final_task is not None
    assert report.final_task["id"] == run.task.id
    assert report.final_task["state"] == "completed"


@pytest.mark.claim("REP-019")
@pytest.mark.parametrize("name", SCENARIOS)
def test_events_are_in_order_of_time(name: str) -> None:
    times = [event.timestamp for event in report_of(name).events]
    assert times == sorted(times)
    assert len(times) > 3


@pytest.mark.claim("REP-020")
def test_actions_come_from_actions_and_requests() -> None:
    asked = RunEvent("approval.required", payload={"request": {"action": {"kind": "k", "name": "b", "action_id": "2"}}})
    report = RunReport.from_events([requested({"kind": "k", "name": "a", "action_id": "1"}), asked])
    assert [action["name"] for action in report.actions] == ["a", "b"]


@pytest.mark.claim("REP-026")
def test_action_ids_are_reported_once() -> None:
    first, second = {"name": "a", "action_id": "1", "n": 1}, {"name": "a", "action_id": "1", "n": 2}
    assert RunReport.from_events([requested(first), requested(second)]).actions == (first,)


@pytest.mark.claim("REP-026")
@pytest.mark.parametrize("action", [{"name": "a"}, {"name": "a", "action_id": ""}])
def test_actions_without_ids_are_all_kept(action: dict[str, Any]) -> None:
    assert RunReport.from_events([requested(action), requested(action)]).actions == (action, action)


def test_name_of_action_gives_way_to_its_description() -> None:
    named = RunEvent("action.started", action_id="1", payload={"action": {"name": "a"}})
    whole = {"name": "a", "action_id": "1", "payload": {}}
    assert RunReport.from_events([named]).actions == ({"name": "a", "action_id": "1"},)
    assert RunReport.from_events([named, requested(whole), named]).actions == (whole,)


@pytest.mark.claim("REP-021")
def test_approvals_project_requests_and_decisions() -> None:
    events = [
        RunEvent("approval.required", action_id="1", payload={"request": {"request_id": "r"}}),
        RunEvent("action.policy", payload={"decision": {"effect": "allow"}}),
        RunEvent("approval.decided", action_id="1", payload={"decision": {"approved": True}}),
    ]
    asked, answered = RunReport.from_events(events).approvals
    assert (asked["type"], asked["action_id"], asked["request"]) == ("approval.required", "1", {"request_id": "r"})
    assert (answered["event_id"], answered["decision"]) == (events[2].event_id, {"approved": True})


@pytest.mark.claim("REP-022")
def test_artifacts_come_from_artifact_events() -> None:
    events = [
        RunEvent("task.artifact", payload={"artifact": {"id": "a"}}),
        RunEvent("custom", payload={"artifact": {"id": "b"}}),
    ]
    assert RunReport.from_events(events).artifacts == ({"id": "a"},)


@pytest.mark.claim("REP-023")
@pytest.mark.parametrize(
    "kept", [{"llm_call_metrics"}, {"llm_call_completed"}, {"llm_call_metrics", "llm_call_completed"}]
)
def test_each_model_call_has_metrics_once(kept: set[str]) -> None:
    events = [event for event in report_of("child").events if event.payload.get("llm_event_type") in kept]
    metrics = RunReport.from_events(events).metrics
    assert metrics == report_of("child").metrics
    assert len(metrics) == 4
    assert all({"latency_ms", "usage"} <= measured.keys() for measured in metrics)


@pytest.mark.claim("REP-024", "REP-025")
def test_from_events_reads_objects_and_mappings() -> None:
    events, context = report_of("granted").events, RunContext(run_id="r")
    given = (event.to_dict() if index % 2 else event for index, event in enumerate(events))
    report = RunReport.from_events(given, context=context, metadata={"a": 1})
    assert report.events == events
    assert report.actions == report_of("granted").actions
    assert report.context is context
    assert report.metadata == {"a": 1}


@pytest.mark.claim("REP-027")
def test_newest_final_event_gives_the_task() -> None:
    events = [final({"id": "old"}), final({"id": "new"}), RunEvent("task.status", payload={"metadata": {"task": {}}})]
    assert RunReport.from_events(events).final_task == {"id": "new"}
    assert RunReport.from_events(events, final_task={}).final_task == {"id": "new"}
    assert RunReport.from_events(events, final_task={"id": "mine"}).final_task == {"id": "mine"}


def test_from_events_refuses_what_is_no_event() -> None:
    with pytest.raises(TypeError, match="not of int"):
        RunReport.from_events([3])  # type: ignore[list-item]
    with pytest.raises(ValueError, match="'type'"):
        RunReport.from_events([{"payload": {}}])


def test_task_keeps_the_report_of_an_unwatched_run() -> None:
    task = recorded("rejected").task
    report = RunReport.from_task(task)
    assert [event.type for event in report.events] == [e["type"] for e in task.metadata["run_events"]]
    assert [evidence.outcome for evidence in report.tool_evidence] == ["rejected", "completed"]
    assert report.final_task == task.to_dict()
    assert report.context is not None
    assert report.context.run_id == task.id


def test_task_without_events_gives_an_empty_report() -> None:
    assert RunReport.from_task(infer()).events == ()


def test_validations_are_read_from_events() -> None:
    passed = {"name": "tests", "status": "passed"}
    report = RunReport.from_events(
        [RunEvent("validation.completed", payload={"validation": passed}), RunEvent("other")]
    )
    assert report.validations == (passed,)
    assert RunReport.from_dict(report.to_dict()).validations == (passed,)


# ---------------------------------------------------------------------------------------------------------- value


@pytest.mark.claim("REP-008")
def test_fields_cannot_be_assigned() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        RunReport().events = ()  # type: ignore[misc]


@pytest.mark.claim("REP-009", "REP-010", "REP-011", "REP-012", "REP-013", "REP-014", "REP-015", "REP-016", "REP-017")
def test_empty_report_has_the_defaults() -> None:
    names = ("context_manifests", "events", "actions", "approvals", "artifacts", "metrics")
    report = RunReport()
    assert [getattr(report, name) for name in names] == [()] * 6
    assert (report.context, report.final_task, report.metadata) == (None, None, {})
    assert report.metadata is not RunReport().metadata
    assert [item.name for item in dataclasses.fields(RunReport)] == [
        "context", *names, "final_task", "metadata", "created_at"
    ]  # fmt: skip


@pytest.mark.claim("REP-018")
def test_report_has_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("time.time", lambda: 0.5)
    assert RunReport().created_at == "1970-01-01T00:00:00.500000+00:00"


@pytest.mark.claim("REP-028", "REP-030")
@given(REPORTS)
def test_report_survives_its_mapping(report: RunReport) -> None:
    data = report.to_dict()
    found = RunReport.from_dict(json.loads(json.dumps(data)))
    assert found == report
    assert found.to_dict() == data
    assert all(isinstance(event, RunEvent) for event in found.events)


@pytest.mark.claim("REP-028", "REP-030")
@pytest.mark.parametrize("name", SCENARIOS)
def test_recorded_report_survives_json(name: str) -> None:
    report = report_of(name)
    found = RunReport.from_dict(json.loads(json.dumps(report.to_dict())))
    assert found == report
    assert isinstance(found.context, RunContext)


@pytest.mark.claim("REP-029")
@pytest.mark.parametrize("section", ["context_manifests", "events", "actions", "approvals", "artifacts", "metrics"])
def test_only_mappings_are_kept_in_sections(section: str) -> None:
    entry = {"type": "custom", "event_id": "e"}
    report = RunReport.from_dict({section: [1, entry, None, ["x"], "y"]})
    [kept] = getattr(report, section)
    assert (kept.event_id if section == "events" else kept["event_id"]) == "e"


@pytest.mark.parametrize("data", [[], {"events": "x"}, {"context": 3}, {"final_task": []}, {"metadata": "x"}])
def test_malformed_mapping_is_refused(data: Any) -> None:
    with pytest.raises(ValueError, match="RunReport"):
        RunReport.from_dict(data)


@pytest.mark.parametrize(
    "name", ["events", "context_manifests", "actions", "approvals", "artifacts", "metrics", "context", "final_task"]
)
@pytest.mark.parametrize("value", [5, "text"])
def test_section_of_another_type_is_refused_by_its_name(name: str, value: Any) -> None:
    with pytest.raises(TypeError, match=f"RunReport {name} must"):
        RunReport(**{name: value})


@pytest.mark.parametrize(
    ("name", "value"), [("events", 5), ("events", None), ("context", {}), ("final_task", 5), ("metadata", 5)]
)
def test_what_a_report_is_made_from_is_refused_by_its_name(name: str, value: Any) -> None:
    arguments = {"events": [], name: value}
    with pytest.raises((TypeError, ValueError), match=f"RunReport {name} must"):
        RunReport.from_events(**arguments)


# ------------------------------------------------------------------------------------------------------- redaction


def secret() -> RunReport:
    event = RunEvent("custom", payload={"password": "hunter2"})
    return RunReport.from_events([event], context=RunContext(metadata={"api_key": "k"}), metadata={"token": "t"})


@pytest.mark.claim("REP-004", "REP-030")
def test_to_dict_masks_on_request_only() -> None:
    masked = json.dumps(secret().to_dict(redaction_policy=RedactionPolicy()))
    assert "hunter2" not in masked
    assert masked.count("[REDACTED]") == 3
    assert "hunter2" in json.dumps(secret().to_dict())


@pytest.mark.claim("REP-031", "REP-032")
def test_redacted_masks_a_copy() -> None:
    report = secret()
    before = copy.deepcopy(report)
    masked = report.redacted()
    assert masked.events[0].payload == {"password": "[REDACTED]"}
    assert masked.context is not None
    assert masked.context.metadata == {"api_key": "[REDACTED]"}
    assert masked.metadata == {"token": "[REDACTED]"}
    assert report == before
    assert report.redacted(RedactionPolicy(frozenset({"password"}), "***")).events[0].payload == {"password": "***"}


@pytest.mark.parametrize("key", ["payload", "metadata", "sequence", "final", "events", "context", "run_id"])
def test_redacted_is_a_report_whatever_is_masked(key: str) -> None:
    event = RunEvent("custom", "r", sequence=3, final=True, payload={"a": 1}, metadata={"b": 2})
    report = RunReport.from_events([event], context=RunContext())
    masked = report.redacted(RedactionPolicy(frozenset({key})))
    assert isinstance(masked, RunReport)
    assert json.dumps(masked.to_dict()) != json.dumps(report.to_dict())


def test_report_of_foreign_task_fails_clearly() -> None:
    with pytest.raises(ValueError, match="run_events"):
        RunReport.from_task(Task(metadata={"run_events": "none"}))
