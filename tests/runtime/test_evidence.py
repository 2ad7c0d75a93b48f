"""How tool calls ended, read from events."""

from __future__ import annotations

import json
from typing import Any

import pytest
from recorded_runs import recorded, report_of

from protolink import RunEvent, RunReport, ToolEvidence, collect_tool_evidence

STARTED = "2026-01-01T00:00:00+00:00"
ENDED = "2026-01-01T00:00:01.5+00:00"


def event(
    type: str, action_id: str | None = "a", *, kind: str = "tool.call", at: str = ENDED, **payload: Any
) -> RunEvent:
    about = {"action_kind": kind, "tool": "look", "args": {"key": "k"}}
    return RunEvent(type, action_id=action_id, timestamp=at, payload={**about, **payload})


def started(action_id: str = "a") -> RunEvent:
    return event("action.started", action_id, at=STARTED)


@pytest.mark.parametrize(
    ("name", "outcomes"),
    [
        ("answer", []),
        ("tool", ["completed"]),
        ("rejected", ["rejected", "completed"]),
        ("failed", ["failed"]),
        ("canceled", ["canceled"]),
        ("granted", ["completed"]),
        ("refused", ["denied"]),
        ("denied", ["denied"]),
        ("unasked", []),
        ("parked", []),
        ("direct", ["completed"]),
        ("direct-failed", ["failed"]),
        ("child", ["completed"]),
    ],
)
def test_recorded_outcomes(name: str, outcomes: list[str]) -> None:
    """The watched run and the one that nobody watched prove the same."""
    streamed, kept = report_of(name), RunReport.from_task(recorded(name).task)
    assert [evidence.outcome for evidence in streamed.tool_evidence] == outcomes
    assert [evidence.outcome for evidence in kept.tool_evidence] == outcomes


def test_evidence_has_the_facts_of_the_call() -> None:
    [evidence] = report_of("direct").tool_evidence
    task = recorded("direct").task
    assert (evidence.tool_name, evidence.arguments, evidence.result) == ("look", {"key": "x"}, "X")
    assert (evidence.run_id, evidence.task_id, evidence.agent_name) == (task.id, task.id, "agent")
    assert evidence.action_id == report_of("direct").actions[0]["action_id"]
    assert evidence.error is None
    assert evidence.duration_seconds is not None
    assert evidence.duration_seconds >= 0
    assert json.loads(json.dumps(evidence.to_dict())) == evidence.to_dict()


@pytest.mark.parametrize(("name", "result", "omitted"), [("tool", None, True), ("exposed", "A", False)])
def test_results_of_models_tools_are_shown_when_exposed(name: str, result: Any, omitted: bool) -> None:
    [evidence] = report_of(name).tool_evidence
    assert (evidence.result, evidence.result_omitted) == (result, omitted)


def test_childs_tools_name_their_parent() -> None:
    report = report_of("child")
    [evidence] = report.tool_evidence
    delegation = next(action for action in report.actions if action["kind"] == "agent.call")
    assert evidence.agent_name == "kid"
    assert evidence.parent_action_id == evidence.delegation_id == delegation["action_id"]


def test_time_from_start_to_end() -> None:
    [evidence] = collect_tool_evidence([started(), event("action.completed", result=3)])
    assert (evidence.started_at, evidence.finished_at, evidence.duration_seconds) == (STARTED, ENDED, 1.5)
    assert evidence.result == 3


@pytest.mark.parametrize("at", ["yesterday", "2026-01-01T00:00:01"])
def test_unreadable_time_gives_no_duration(at: str) -> None:
    [evidence] = collect_tool_evidence([started(), event("action.completed", at=at)])
    assert evidence.duration_seconds is None


def test_call_that_never_started_has_no_duration() -> None:
    [evidence] = collect_tool_evidence([event("action.rejected", rejection={"code": "bad"})])
    assert (evidence.started_at, evidence.duration_seconds, evidence.error) == (None, None, {"code": "bad"})


def test_delegations_are_no_evidence() -> None:
    assert collect_tool_evidence([event("action.completed", kind="agent.call")]) == ()


def test_action_is_evidence_once() -> None:
    first, again = event("action.completed", result=1), event("action.completed", result=2)
    assert [evidence.result for evidence in collect_tool_evidence([first, again])] == [1]
    late = collect_tool_evidence([first, event("action.failed", error={"code": "late"})])
    assert [evidence.outcome for evidence in late] == ["completed"]


def test_settled_outcome_replaces_the_unknown_one() -> None:
    unknown = event("action.uncertain", error={"code": "lost"})
    assert [evidence.outcome for evidence in collect_tool_evidence([started(), unknown])] == ["uncertain"]
    settled = collect_tool_evidence([started(), unknown, event("action.completed", result=1)])
    assert [(evidence.outcome, evidence.result) for evidence in settled] == [("completed", 1)]


def test_actions_without_ids_are_told_apart() -> None:
    assert len(collect_tool_evidence([event("action.completed", None), event("action.completed", None)])) == 2


def test_description_may_come_from_an_earlier_event() -> None:
    action = {"kind": "tool.call", "name": "look", "payload": {"arguments": {"key": "k"}}}
    asked = RunEvent("action.requested", action_id="a", payload={"action": action})
    [evidence] = collect_tool_evidence([asked, RunEvent("action.denied", action_id="a", payload={"message": "no"})])
    assert (evidence.tool_name, evidence.arguments) == ("look", {"key": "k"})
    assert evidence.error == {"code": "denied", "message": "no"}


def test_mappings_are_read_as_events() -> None:
    events = report_of("rejected").events
    assert collect_tool_evidence(item.to_dict() for item in events) == collect_tool_evidence(events)


def test_evidence_cannot_be_changed() -> None:
    [evidence] = collect_tool_evidence([event("action.completed")])
    with pytest.raises(AttributeError):
        evidence.outcome = "failed"  # type: ignore[misc]
    assert isinstance(evidence, ToolEvidence)
