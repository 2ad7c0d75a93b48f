"""Assertions over recorded runs."""

from __future__ import annotations

from typing import Any

import pytest
from recorded_runs import report_of

from protolink import (
    RunEvent,
    RunReplay,
    RunReport,
    assert_budget_under,
    assert_no_denied_actions,
    assert_run_events,
)


def events(*types: str) -> list[RunEvent]:
    return [RunEvent(type) for type in types]


def holds(observed: list[RunEvent], expected: list[str], **mode: bool) -> bool:
    try:
        assert_run_events(observed, expected, **mode)
    except AssertionError:
        return False
    return True


FORMS = [
    lambda report: report,
    RunReplay,
    lambda report: report.to_dict(),
    lambda report: report.events,
    lambda report: (event.to_dict() for event in report.events),
]


@pytest.mark.claim("ASR-001", "ASR-002")
@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_a_run_can_be_checked(form: Any) -> None:
    assert assert_run_events(form(report_of("tool")), ["action.requested", "action.completed"]) is None
    with pytest.raises(AssertionError, match=r"action\.denied"):
        assert_run_events(form(report_of("tool")), ["action.denied"])


@pytest.mark.claim("ASR-003", "ASR-007")
@pytest.mark.parametrize(
    ("expected", "met"),
    [
        ([], True),
        (["a", "c"], True),
        (["a", "b", "a"], True),
        (["c", "a", "a"], False),
        (["b", "b"], False),
        (["x"], False),
    ],
)
def test_types_come_in_order_among_others(expected: list[str], met: bool) -> None:
    assert holds(events("a", "b", "c", "a"), expected) is met


@pytest.mark.claim("ASR-004", "ASR-007")
@pytest.mark.parametrize(
    ("expected", "met"),
    [(["a", "b"], True), (["b", "a"], False), (["a"], False), (["a", "b", "b"], False), ([], False)],
)
def test_types_are_exactly_these(expected: list[str], met: bool) -> None:
    assert holds(events("a", "b"), expected, allow_extra=False) is met


@pytest.mark.claim("ASR-005", "ASR-007")
@pytest.mark.parametrize(
    ("expected", "met"), [(["b", "a"], True), (["a", "a", "a"], True), (["a", "x"], False), ([], True)]
)
def test_types_are_among_the_events(expected: list[str], met: bool) -> None:
    assert holds(events("a", "b", "c"), expected, ordered=False) is met


@pytest.mark.claim("ASR-006", "ASR-007")
@pytest.mark.parametrize(
    ("expected", "met"),
    [(["b", "a", "a"], True), (["a", "b"], False), (["a", "a", "a"], False), (["a", "b", "b"], False)],
)
def test_types_occur_as_often_as_expected(expected: list[str], met: bool) -> None:
    assert holds(events("a", "b", "a"), expected, ordered=False, allow_extra=False) is met


def test_one_text_is_no_list_of_types() -> None:
    with pytest.raises(TypeError, match="one text"):
        assert_run_events(events("a"), "a")


@pytest.mark.claim("ASR-008")
@pytest.mark.parametrize("name", ["answer", "tool", "granted", "rejected", "failed", "canceled"])
def test_runs_without_denials_pass(name: str) -> None:
    assert assert_no_denied_actions(report_of(name)) is None


@pytest.mark.claim("ASR-008", "ASR-009", "ASR-010", "ASR-011")
@pytest.mark.parametrize("name", ["denied", "refused"])
def test_recorded_denials_are_found(name: str) -> None:
    report = report_of(name)
    with pytest.raises(AssertionError, match=rf"action\.denied: {report.actions[0]['action_id']}"):
        assert_no_denied_actions(report)


DENIALS = {
    "action.denied": {},
    "action.policy": {"decision": {"effect": "deny"}},
    "approval.decided": {"decision": {"approved": False}},
}


@pytest.mark.claim("ASR-009", "ASR-010", "ASR-011", "ASR-012")
@pytest.mark.parametrize("type", DENIALS)
def test_each_denial_is_labelled(type: str) -> None:
    named = RunEvent(type, action_id="act-1", payload=DENIALS[type])
    unnamed = RunEvent(type, event_id="event-2", payload=DENIALS[type])
    with pytest.raises(AssertionError) as caught:
        assert_no_denied_actions([named, unnamed, RunEvent("action.started", action_id="act-3")])
    assert f"{type}: act-1" in str(caught.value)
    assert f"{type}: event-2" in str(caught.value)
    assert "act-3" not in str(caught.value)


@pytest.mark.claim("ASR-010", "ASR-011")
def test_other_decisions_are_no_denials() -> None:
    allowed = [
        RunEvent("action.policy", payload={"decision": {"effect": "require_approval"}}),
        RunEvent("approval.decided", payload={"decision": {"approved": True}}),
        RunEvent("approval.decided", payload={"decision": {}}),
    ]
    assert_no_denied_actions(allowed)


def measured(*usages: dict[str, Any], manifests: tuple[int, ...] = ()) -> RunReport:
    metrics = tuple({"usage": usage, "latency_ms": 250.5} for usage in usages)
    return RunReport(
        metrics=metrics, context_manifests=tuple({"total_estimated_tokens": tokens} for tokens in manifests)
    )


@pytest.mark.claim("ASR-013", "ASR-014", "ASR-016", "ASR-019")
def test_usage_of_all_calls_is_added() -> None:
    report = measured(
        {"input_tokens": 10, "output_tokens": 2, "total_tokens": 13},
        {"input_tokens": 5, "total_tokens": 5},
        manifests=(99,),
    )
    used = assert_budget_under(report)
    assert used == {"input_tokens": 15, "output_tokens": 2, "total_tokens": 18, "runtime_seconds": 0.501}


@pytest.mark.claim("ASR-014")
def test_runtime_is_rounded() -> None:
    used = assert_budget_under(RunReport(metrics=({"latency_ms": 0.1}, {"latency_ms": 0.2})))
    assert used["runtime_seconds"] == 0.0003


@pytest.mark.claim("ASR-015")
@pytest.mark.parametrize(
    ("limit", "value", "less"),
    [
        ("max_input_tokens", 10, 9),
        ("max_output_tokens", 2, 1),
        ("max_total_tokens", 12, 11),
        ("max_runtime_seconds", 0.2505, 0.2504),
    ],
)
def test_limits_may_be_reached_not_exceeded(limit: str, value: float, less: float) -> None:
    report = measured({"input_tokens": 10, "output_tokens": 2})
    assert_budget_under(report, **{limit: value})
    with pytest.raises(AssertionError, match=limit.removeprefix("max_")):
        assert_budget_under(report, **{limit: less})


@pytest.mark.claim("ASR-017", "ASR-018")
def test_manifests_stand_in_for_reported_input() -> None:
    used = assert_budget_under(measured({"output_tokens": 2}, manifests=(30, 12)))
    assert (used["input_tokens"], used["total_tokens"]) == (42, 44)
    used = assert_budget_under(measured({"input_tokens": 1, "output_tokens": 2}, manifests=(30, 12)))
    assert (used["input_tokens"], used["total_tokens"]) == (1, 3)


def test_other_spellings_of_usage_are_understood() -> None:
    used = assert_budget_under(measured({"prompt_tokens": 3, "completion_tokens": 4}))
    assert (used["input_tokens"], used["output_tokens"]) == (3, 4)


@pytest.mark.claim("ASR-013", "ASR-016")
def test_recorded_usage_is_that_of_the_run() -> None:
    report = report_of("tool")
    used = assert_budget_under(report, max_total_tokens=8_000)
    assert used["input_tokens"] == sum(measured["usage"]["input_tokens"] for measured in report.metrics) > 0
    assert used["total_tokens"] == used["input_tokens"] + used["output_tokens"]


@pytest.mark.claim("ASR-019")
def test_wall_clock_does_not_count() -> None:
    early, late = "2026-01-01T00:00:00+00:00", "2026-01-02T00:00:00+00:00"
    run = [
        RunEvent("task.status", timestamp=early),
        RunEvent("llm.call.completed", timestamp=early, payload={"latency_ms": 1500, "metrics": {"usage": {}}}),
        RunEvent("task.status", timestamp=late, final=True),
    ]
    assert assert_budget_under(run)["runtime_seconds"] == 1.5
