"""Comparing reports: what is the same in two runs, and what is not."""

from __future__ import annotations

import asyncio
import copy
import dataclasses
import json
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from recorded_runs import SCENARIOS, agent, call, infer, look, recorded, report_of

from protolink import (
    ALL_RUN_REPORT_SECTIONS,
    LLM,
    Agent,
    RedactionPolicy,
    RunContext,
    RunEvent,
    RunRecorder,
    RunReplay,
    RunReport,
    RunReportDiff,
    RunReportDiffConfig,
    RunReportDifferenceKind,
    RunReportSection,
    RunReportTolerance,
    Task,
    assert_run_matches,
    diff_run_reports,
    normalize_run_report,
)

CALL = "llm.call.completed"


def changes(baseline: Any, candidate: Any, **rules: Any) -> list[tuple[str, str]]:
    found = diff_run_reports(baseline, candidate, config=RunReportDiffConfig(**rules))
    return [(difference.kind, difference.path) for difference in found.differences]


def noted(value: Any) -> RunReport:
    return RunReport(metadata={"value": value})


def story(*types: str) -> RunReport:
    return RunReport(events=tuple(RunEvent(type) for type in types))


# --------------------------------------------------------------------------------------------------- whole runs


@pytest.mark.claim("DIF-004", "DIF-005", "DIF-055")
@pytest.mark.parametrize("name", SCENARIOS)
def test_runs_of_the_same_work_match(name: str) -> None:
    first, second = report_of(name), report_of(name, 1)
    assert first.events[0].event_id != second.events[0].event_id
    found = diff_run_reports(first, second)
    assert found.matches, found.format(redaction_policy=None)
    assert normalize_run_report(first) == normalize_run_report(second)


@pytest.mark.parametrize("name", SCENARIOS)
def test_kept_reports_of_the_same_work_match(name: str) -> None:
    found = diff_run_reports(*(RunReport.from_task(recorded(name, number).task) for number in (0, 1)))
    assert found.matches, found.format(redaction_policy=None)


@pytest.mark.parametrize("name", SCENARIOS)
def test_report_matches_itself(name: str) -> None:
    report = report_of(name)
    assert diff_run_reports(report, report).matches
    assert diff_run_reports(report, report, config=RunReportDiffConfig(normalize_volatile=False)).matches


@pytest.mark.parametrize(
    ("one", "other"), [("tool", "exposed"), ("granted", "refused"), ("answer", "tool"), ("child", "child-failed")]
)
def test_runs_of_other_work_differ(one: str, other: str) -> None:
    assert {"events", "final_task"} <= set(diff_run_reports(report_of(one), report_of(other)).changed_sections)


@pytest.mark.claim("DIF-052")
@pytest.mark.parametrize("name", SCENARIOS)
def test_normalisation_is_idempotent(name: str) -> None:
    once = normalize_run_report(report_of(name))
    assert normalize_run_report(once) == once
    assert json.loads(json.dumps(once)) == once
    assert list(once) == list(ALL_RUN_REPORT_SECTIONS)


@pytest.mark.claim("DIF-050")
@pytest.mark.parametrize(
    "rules", [{}, {"ignore_paths": ("/events/*/payload", "/metadata"), "normalize_volatile": False}]
)
def test_source_is_not_touched(rules: dict[str, Any]) -> None:
    report = copy.deepcopy(report_of("child"))
    before = copy.deepcopy(report)
    projection = normalize_run_report(report, config=RunReportDiffConfig(**rules))
    diff_run_reports(report, report_of("tool"), config=RunReportDiffConfig(**rules))
    projection["final_task"]["metadata"].clear()
    projection["actions"][0]["payload"]["arguments"] = "changed"
    assert report == before


@pytest.mark.claim("DIF-050")
def test_events_inside_a_task_are_not_touched() -> None:
    report = RunReport(
        final_task={"metadata": {"run_events": [{"type": "action.started", "payload": {"action_id": "1"}}]}}
    )
    before = copy.deepcopy(report)
    normalize_run_report(report)
    diff_run_reports(report, report)
    assert report == before


@pytest.mark.claim("DIF-002")
def test_unfinished_reports_are_compared() -> None:
    half = [RunReport.from_events(report_of("tool", number).events[:9]) for number in (0, 1)]
    assert half[0].final_task is None
    assert diff_run_reports(*half).matches
    assert changes(half[0], RunReport.from_events(half[1].events[:8]), sections=["events"]) == [
        ("removed", "/events/8")
    ]


@pytest.mark.claim("DIF-001", "DIF-017", "DIF-049", "DIF-054")
def test_every_form_of_a_report_is_a_source() -> None:
    report = report_of("granted")
    for source in (RunReplay(report), report.to_dict(), json.loads(json.dumps(report.to_dict()))):
        assert diff_run_reports(report, source).matches
        assert normalize_run_report(source) == normalize_run_report(report)
    for events in (report.events, iter(report.events), (event.to_dict() for event in report.events)):
        assert diff_run_reports(report, events, config=RunReportDiffConfig(sections=["events", "metrics"])).matches


@pytest.mark.claim("DIF-054")
def test_the_config_is_given_by_name() -> None:
    with pytest.raises(TypeError):
        diff_run_reports(noted(1), noted(1), RunReportDiffConfig())  # type: ignore[misc]
    assert isinstance(diff_run_reports(noted(1), noted(2), config=None), RunReportDiff)


@pytest.mark.claim("DIF-018", "DIF-053")
@pytest.mark.parametrize(
    "source", ["events", b"events", 3, None, {"events": "x"}, {"events": [{}]}, [{"no": "type"}], [3]]
)
def test_other_sources_are_refused(source: Any) -> None:
    for use in (lambda: normalize_run_report(source), lambda: diff_run_reports(RunReport(), source)):
        with pytest.raises(TypeError):
            use()


@pytest.mark.claim("DIF-018", "DIF-053")
@pytest.mark.parametrize(
    "source",
    [
        {"foo": 1},
        {"metadata": {}, "foo": 1},
        RunEvent("custom").to_dict(),
        Task.create_infer(prompt="go").to_dict(),
        {"run_id": "r", "report": {}, "metadata": {}},
        {5: 6},
    ],
    ids=["other", "metadata-and-other", "event", "task", "stored-record", "no-text"],
)
def test_mapping_that_is_another_record_is_no_empty_report(source: Any) -> None:
    with pytest.raises(TypeError, match="no run report"):
        normalize_run_report(source)
    for compare in (diff_run_reports, assert_run_matches):
        with pytest.raises(TypeError, match=r"the baseline .* list"):
            compare(source, RunReport())
        with pytest.raises(TypeError, match=r"the candidate .* list"):
            compare(RunReport(), source)


@pytest.mark.parametrize("source", ["events", 3, None, [3], {"events": 5}, {"context": []}])
def test_side_that_is_no_report_is_named(source: Any) -> None:
    with pytest.raises(TypeError, match="the baseline cannot be compared: "):
        diff_run_reports(source, RunReport())
    with pytest.raises(TypeError, match="the candidate cannot be compared: "):
        diff_run_reports(RunReport(), source)


@pytest.mark.parametrize("part", [{}, {"metadata": {"a": 1}}, {"events": []}, {"metrics": [], "later": 1}])
def test_sections_of_a_serialized_report_may_be_absent(part: Any) -> None:
    assert diff_run_reports(part, RunReport(metadata=part.get("metadata", {}))).matches


@pytest.mark.claim("DIF-052", "DIF-053")
def test_values_are_compared_as_json() -> None:
    reports = [
        RunReport(metadata={"pair": (1, number), "context": RunContext("r", created_at="t")}) for number in (2, 3)
    ]
    assert diff_run_reports(reports[0], json.loads(json.dumps(normalize_run_report(reports[0])))).matches
    assert changes(*reports) == [("changed", "/metadata/pair/1")]
    with pytest.raises(TypeError, match="metadata"):
        normalize_run_report(RunReport(metadata={"n": float("nan")}))


@pytest.mark.claim("DIF-014")
def test_comparing_executes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = report_of("child"), report_of("child", 1)

    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise AssertionError("something was executed")

    for target, method in ((Agent, "run_task"), (Agent, "handle_task_streaming"), (LLM, "infer")):
        monkeypatch.setattr(target, method, refuse)
    monkeypatch.setattr("socket.socket", refuse)
    monkeypatch.setattr(asyncio, "new_event_loop", refuse)
    normalize_run_report(first)
    assert_run_matches(first, second)


# ----------------------------------------------------------------------------------------------------- single places


@pytest.mark.claim("DIF-001")
def test_each_comparison_takes_a_config() -> None:
    one, two = noted(1), noted(2)
    elsewhere = RunReportDiffConfig(sections=["events"])
    assert "metadata" in normalize_run_report(one)
    assert "metadata" not in normalize_run_report(one, config=elsewhere)
    assert not diff_run_reports(one, two).matches
    assert diff_run_reports(one, two, config=elsewhere).matches
    assert assert_run_matches(one, two, config=elsewhere).compared_sections == ("events",)
    with pytest.raises(AssertionError):
        assert_run_matches(one, two)


@pytest.mark.claim("DIF-003", "DIF-058")
def test_matching_outcome() -> None:
    found = assert_run_matches(noted(1), noted(1))
    assert (found.matches, found.changed_sections, found.differences) == (True, (), ())
    assert found.compared_sections == ALL_RUN_REPORT_SECTIONS


@pytest.mark.claim("DIF-003", "DIF-059", "DIF-060")
def test_differing_outcome() -> None:
    found = diff_run_reports(noted({"password": "a"}), noted({"password": "b"}))
    assert (found.matches, found.changed_sections) == (False, ("metadata",))
    with pytest.raises(AssertionError) as caught:
        assert_run_matches(noted({"password": "a"}), noted({"password": "b"}))
    assert str(caught.value) == found.format()
    assert "/metadata/value/password" in str(caught.value)


@pytest.mark.claim("DIF-009")
@pytest.mark.parametrize(
    ("baseline", "candidate", "expected"),
    [
        (1, 2, ("changed", "/metadata/value")),
        (1, 1.5, ("changed", "/metadata/value")),
        ("a", "b", ("changed", "/metadata/value")),
        ("1", 1, ("changed", "/metadata/value")),
        (None, 0, ("changed", "/metadata/value")),
        ({"a": 1}, {"a": 1, "b": None}, ("added", "/metadata/value/b")),
        ({"a": 1, "b": None}, {"a": 1}, ("removed", "/metadata/value/b")),
        ([], {}, ("changed", "/metadata/value")),
        ([1, 2], [1], ("removed", "/metadata/value/1")),
        ({"x/y": {"~": 1}}, {"x/y": {"~": 2}}, ("changed", "/metadata/value/x~1y/~0")),
    ],
)  # fmt: skip
def test_values_compare_strictly(baseline: Any, candidate: Any, expected: tuple[str, str]) -> None:
    assert changes(noted(baseline), noted(candidate)) == [expected]


def test_equal_numbers_and_orders_of_members_match() -> None:
    assert changes(noted({"a": 1, "b": 2.0}), noted({"b": 2, "a": 1.0})) == []


@pytest.mark.claim("DIF-027")
@pytest.mark.parametrize(("baseline", "candidate"), [(True, 1), (0, False), (1.0, True)])
def test_booleans_are_no_numbers(baseline: Any, candidate: Any) -> None:
    rules = [RunReportTolerance("/metadata/value", absolute_tolerance=5)]
    assert changes(noted(baseline), noted(candidate), tolerances=rules) == [("changed", "/metadata/value")]
    event = RunEvent("custom", payload={"n": baseline})
    other = dataclasses.replace(event, payload={"n": candidate})
    assert changes([event], [other], sections=["events"]) == [("changed", "/events/0/payload/n")]


@pytest.mark.claim("DIF-020")
def test_time_of_the_report_does_not_count() -> None:
    assert changes(RunReport(created_at="a"), RunReport(created_at="b"), normalize_volatile=False) == []
    assert "created_at" not in normalize_run_report(RunReport())


@pytest.mark.claim("DIF-057")
def test_ordinary_lists_compare_by_position() -> None:
    assert changes(noted(["a", "b"]), noted(["x", "a", "b"])) == [
        ("changed", "/metadata/value/0"),
        ("changed", "/metadata/value/1"),
        ("added", "/metadata/value/2"),
    ]


# -------------------------------------------------------------------------------------------------------- alignment


@pytest.mark.claim("DIF-056")
@pytest.mark.parametrize("position", [0, 2, 4])
def test_inserted_event_is_added(position: int) -> None:
    types = ["a", "b", "b", "c"]
    longer = [*types[:position], "new", *types[position:]]
    assert changes(story(*types), story(*longer)) == [("added", f"/events/{position}")]
    assert changes(story(*longer), story(*types)) == [("removed", f"/events/{position}")]


@pytest.mark.claim("DIF-056")
@pytest.mark.parametrize("position", range(28))
def test_event_inserted_into_a_run_is_the_only_difference(position: int) -> None:
    baseline, events = report_of("tool"), list(report_of("tool", 1).events)
    events.insert(position, RunEvent("custom", run_id=events[0].run_id))
    assert changes(baseline, events, sections=["events"]) == [("added", f"/events/{position}")]


@pytest.mark.claim("DIF-056")
@pytest.mark.parametrize("section", ["context_manifests", "actions", "approvals", "artifacts", "metrics"])
def test_other_sequences_are_aligned_too(section: str) -> None:
    records = [{"name": name, "n": number} for number, name in enumerate("abc")]
    shorter, longer = ({section: tuple(items)} for items in (records, [{"name": "new", "n": 9}, *records]))
    assert changes(RunReport(**shorter), RunReport(**longer)) == [("added", f"/{section}/0")]


@pytest.mark.claim("DIF-056")
def test_lists_inside_the_final_task_are_aligned() -> None:
    artifacts = [{"id": str(number), "kind": "result", "name": str(number)} for number in range(3)]
    reports = [RunReport(final_task={"artifacts": items}) for items in (artifacts, artifacts[1:])]
    assert changes(*reports) == [("removed", "/final_task/artifacts/0")]


def test_changed_event_shows_its_place() -> None:
    events = list(report_of("tool").events)
    where = next(index for index, event in enumerate(events) if event.type == "action.requested")
    changed = copy.deepcopy(events)
    changed[where].payload["action"]["payload"]["arguments"]["key"] = "other"
    assert changes(events, changed, sections=["events"]) == [
        ("changed", f"/events/{where}/payload/{holder}action/payload/arguments/key") for holder in ("", "metadata/")
    ]


def test_changed_event_after_an_inserted_one_has_the_candidates_index() -> None:
    before = [RunEvent("a"), RunEvent("b", payload={"n": 1}), RunEvent("c")]
    after = [RunEvent("new"), RunEvent("a"), RunEvent("b", payload={"n": 2}), RunEvent("c")]
    assert changes(before, after) == [("added", "/events/0"), ("changed", "/events/2/payload/n")]


# --------------------------------------------------------------------------------------------------------- identity


def acting(*ids: str) -> list[RunEvent]:
    return [RunEvent(f"step.{number}", action_id=action_id) for number, action_id in enumerate(ids)]


@pytest.mark.claim("DIF-004")
def test_ids_may_be_others_but_relate_the_same_events() -> None:
    assert changes(acting("1", "1", "2"), acting("x", "x", "y")) == []
    assert changes(acting("1", "1", "2"), acting("x", "y", "y")) == [("changed", "/events/1/action_id")]
    assert changes(acting("1", "2", "2"), acting("x", "x", "y")) == [("changed", "/events/1/action_id")]
    assert changes(acting("1", "2"), acting("x", "x")) == [("changed", "/events/1/action_id")]


def test_absent_id_is_no_other_id() -> None:
    absent = [RunEvent("a", action_id=None)]
    assert changes([RunEvent("a", action_id="1")], absent) == [("changed", "/events/0/action_id")]


def test_identities_are_shown_by_name() -> None:
    [difference] = diff_run_reports(acting("1", "2"), acting("x", "x")).differences
    assert (difference.baseline, difference.candidate) == ("<action:2>", "<action:1>")


def test_one_more_action_moves_no_identity() -> None:
    """Ids are numbered, and yet an action that comes first does not make all others differ."""
    plain = [RunEvent("old", action_id=action_id, payload={"n": n}) for n, action_id in enumerate(["1", "2", "3", "1"])]
    more = [RunEvent("new", action_id="0"), *plain]
    assert changes(plain, more) == [("added", "/events/0")]


def test_child_of_another_run_is_noticed() -> None:
    events = list(report_of("child").events)
    stray = copy.deepcopy(events)
    moved = next(event for event in stray if event.metadata.get("parent_run_id"))
    moved.metadata["parent_run_id"] = "another"
    found = changes(events, stray, sections=["events"])
    assert [kind for kind, _ in found] == ["changed"]
    assert found[0][1].endswith("/metadata/parent_run_id")


async def two_tools(*keys: str) -> RunReport:
    runner = agent(*(call("look", key=key) for key in keys), "done", tools=[look])
    task, recorder = infer(), RunRecorder()
    async for event in runner.handle_task_streaming(task):
        await recorder.record_task_event(event)
    return recorder.to_report()


async def test_one_more_tool_call_adds_its_own_records() -> None:
    found = diff_run_reports(
        await two_tools("a"), await two_tools("a", "b"), config=RunReportDiffConfig(sections=["actions"])
    )
    assert [(difference.kind, difference.path) for difference in found.differences] == [("added", "/actions/1")]


# ---------------------------------------------------------------------------------------------------- what is volatile


def completed(latency: float, **payload: Any) -> RunEvent:
    raw = {
        "type": "task_llm_stream",
        "llm_event_type": "llm_call_completed",
        "task_id": "t",
        "metadata": {"latency_ms": latency, "metrics": {"model": "m", "latency_ms": latency}, "model": "m"},
    }
    return RunEvent.from_task_event(raw | payload)


@pytest.mark.claim("DIF-005")
def test_timings_and_summaries_of_the_stream_are_normalized() -> None:
    first, second = completed(1.5), completed(99)
    assert first.summary != second.summary
    assert changes([first], [second]) == []
    [event] = normalize_run_report([first])["events"]
    assert event["payload"]["metadata"]["latency_ms"] == 0
    assert "1.5" not in json.dumps(event)


@pytest.mark.claim("DIF-005")
def test_summaries_of_other_events_are_exact() -> None:
    assert changes([RunEvent("custom", summary="in 5 ms")], [RunEvent("custom", summary="in 6 ms")]) == [
        ("changed", "/events/0/summary")
    ]


@pytest.mark.claim("DIF-051")
def test_volatile_values_have_canonical_forms() -> None:
    event = RunEvent("custom", run_id="r", action_id="a", sequence=7)
    report = RunReport.from_events([event, RunEvent("custom", run_id="r", action_id="b")], context=RunContext("r"))
    projection = normalize_run_report(report)
    first, second = projection["events"]
    assert (first["run_id"], first["action_id"], first["sequence"]) == ("<run:1>", "<action:1>", None)
    assert (second["run_id"], second["action_id"], second["event_id"]) == ("<run:1>", "<action:2>", "<event:2>")
    assert first["timestamp"] == projection["context"]["created_at"] == "<time>"
    assert projection["context"]["run_id"] == "<run:1>"


@pytest.mark.claim("DIF-006")
@pytest.mark.parametrize(
    "key", ["run_id", "timestamp", "latency_ms", "sequence", "action_id", "created_at", "event_id"]
)
@pytest.mark.parametrize("place", ["arguments", "result", "report", "context", "custom", "task"])
def test_values_of_the_application_are_exact(place: str, key: str) -> None:
    reports = [_with_value(place, {key: value}) for value in (1, 2)] + [_with_value(place, {key: "x"})]
    assert diff_run_reports(reports[0], _with_value(place, {key: 1})).matches
    for other in reports[1:]:
        found = diff_run_reports(reports[0], other)
        assert found.differences
        assert all(difference.path.endswith(f"/{key}") for difference in found.differences)


def _with_value(place: str, value: dict[str, Any]) -> RunReport:
    action = {"kind": "tool.call", "name": "t", "payload": {"arguments": value}}
    match place:
        case "arguments":
            return RunReport.from_events([RunEvent("action.requested", payload={"action": action})])
        case "result":
            raw = {"type": "task_llm_stream", "llm_event_type": "tool_result", "metadata": {"result": value}}
            return RunReport.from_events([RunEvent.from_task_event(raw)])
        case "report":
            return RunReport(metadata=value)
        case "context":
            return RunReport(context=RunContext(metadata=value))
        case "custom":
            return RunReport.from_events([RunEvent("app.custom", payload=value)])
        case _:
            return RunReport(final_task={"id": "t", "metadata": {"app": value}})


@pytest.mark.claim("DIF-033")
def test_exact_comparison_sees_ids_and_times() -> None:
    first, second = RunEvent("custom", sequence=1), RunEvent("custom", sequence=2)
    assert {path for _, path in changes([first], [second], normalize_volatile=False)} >= {
        "/events/0/event_id",
        "/events/0/sequence",
    }
    assert changes([first], [first], normalize_volatile=False) == []
    assert changes([{"type": "custom"}], [{"type": "custom"}], normalize_volatile=False) == []


def test_members_that_are_not_known_are_compared() -> None:
    events = [[{"type": "custom", "color": color}] for color in ("red", "blue")]
    assert changes(*events) == [("changed", "/events/0/color")]
    assert changes({"events": events[0]}, {"events": events[1]}) == [("changed", "/events/0/color")]


# ------------------------------------------------------------------------------------------------- ignore, tolerate


@pytest.mark.claim("DIF-034", "DIF-051")
def test_ignored_places_are_left_out_with_all_they_hold() -> None:
    rules = RunReportDiffConfig(ignore_paths=["/metadata/value/a", "/events/*/payload"])
    report = RunReport(events=(RunEvent("x", payload={"n": 1}),), metadata={"value": {"a": {"b": 1}, "c": 2}})
    projection = normalize_run_report(report, config=rules)
    assert projection["metadata"] == {"value": {"c": 2}}
    assert "payload" not in projection["events"][0]
    assert changes(noted({"a": 1}), noted({"a": [2]}), ignore_paths=["/metadata/value/a"]) == []
    assert changes(noted(1), noted(2), ignore_paths=["/metadata"]) == []


@pytest.mark.claim("DIF-034")
def test_ignored_items_leave_their_list() -> None:
    rules = RunReportDiffConfig(ignore_paths=["/metadata/value/0", "/metadata/value/2"])
    assert normalize_run_report(noted(["a", "b", "c", "d"]), config=rules)["metadata"] == {"value": ["b", "d"]}


@pytest.mark.claim("DIF-010", "DIF-011")
@pytest.mark.parametrize(
    ("path", "met"),
    [
        ("/metadata/value/list/1/n", True),
        ("/metadata/value/*/1/n", True),
        ("/metadata/*/list/*/n", True),
        ("/metadata/value/list/*", False),
        ("/metadata/*/n", False),
        ("/metadata/value/list/01/n", False),
        ("/*/*/*/*/*", True),
    ],
)  # fmt: skip
def test_star_stands_for_one_key_or_index(path: str, met: bool) -> None:
    values = [{"list": [{"n": 0}, {"n": number}, *range(10)]} for number in (1, 2)]
    rules = [RunReportTolerance(path, absolute_tolerance=1)]
    assert (changes(noted(values[0]), noted(values[1]), tolerances=rules) == []) is met
    if path != "/metadata/value/list/*":  # ignoring takes what is inside along
        assert (changes(noted(values[0]), noted(values[1]), ignore_paths=[path]) == []) is met


@pytest.mark.claim("DIF-012")
def test_two_stars_are_an_ordinary_key() -> None:
    rules = {"ignore_paths": ["/metadata/**"]}
    assert changes(noted(1), noted(2), **rules) == [("changed", "/metadata/value")]
    assert changes(RunReport(metadata={"**": 1}), RunReport(metadata={"**": 2}), **rules) == []


@pytest.mark.claim("DIF-013")
def test_brackets_are_ordinary_text() -> None:
    events = [[RunEvent("a", payload={"n": n})] for n in (1, 2)]
    assert changes(*events, ignore_paths=["/events[0]/payload"]) == [("changed", "/events/0/payload/n")]
    assert changes(*events, ignore_paths=["/events/0/payload"]) == []


@pytest.mark.claim("DIF-010")
def test_escapes_are_decoded() -> None:
    values = [noted({"a/b": {"~x": n}}) for n in (1, 2)]
    assert changes(*values, ignore_paths=["/metadata/value/a~1b/~0x"]) == []
    assert changes(*values, ignore_paths=["/metadata/value/a/b"]) != []


@pytest.mark.claim("DIF-007")
def test_first_tolerance_decides() -> None:
    strict, loose = RunReportTolerance("/metadata/value"), RunReportTolerance("/metadata/*", absolute_tolerance=9)
    assert changes(noted(1), noted(2), tolerances=[strict, loose]) == [("changed", "/metadata/value")]
    assert changes(noted(1), noted(2), tolerances=[loose, strict]) == []


@pytest.mark.claim("DIF-008")
def test_tolerance_brings_a_timing_back() -> None:
    rules = {"tolerances": [RunReportTolerance("/metrics/*/latency_ms", absolute_tolerance=5)]}
    slow, slower, slowest = (RunReport(metrics=({"latency_ms": value},)) for value in (10, 14, 99))
    assert changes(slow, slowest) == []
    assert changes(slow, slower, **rules) == []
    assert changes(slow, slowest, **rules) == [("changed", "/metrics/0/latency_ms")]
    assert normalize_run_report(slow, config=RunReportDiffConfig(**rules))["metrics"] == [{"latency_ms": 10}]


@pytest.mark.claim("DIF-008")
def test_tolerance_brings_a_number_inside_an_event_back() -> None:
    events = [[RunEvent("a", sequence=number)] for number in (1, 3)]
    assert changes(*events) == []
    rules = [RunReportTolerance("/events/0/sequence", absolute_tolerance=1)]
    assert changes(*events, tolerances=rules) == [("changed", "/events/0/sequence")]


def test_tolerance_is_for_numbers_only() -> None:
    rules = [RunReportTolerance("/metadata/value", absolute_tolerance=9)]
    for baseline, candidate in ((1, "1"), (1, None), ("1", "2")):
        assert changes(noted(baseline), noted(candidate), tolerances=rules) == [("changed", "/metadata/value")]


def test_sections_choose_what_is_compared() -> None:
    first, second = RunReport(metadata={"a": 1}, metrics=({"a": 1},)), RunReport(metadata={"a": 2}, metrics=({"a": 2},))
    assert changes(first, second, sections=["metrics"]) == [("changed", "/metrics/0/a")]
    assert list(normalize_run_report(first, config=RunReportDiffConfig(sections=["metrics", "events"]))) == [
        "metrics",
        "events",
    ]


# ------------------------------------------------------------------------------------------------------- properties

VOLATILE = {
    "timestamp", "created_at", "decided_at", "expires_at", "sequence", "source_sequence", "latency_ms",
    "runtime_seconds", "summary", "id",
}  # fmt: skip
Place = tuple[Any, ...]


@lru_cache
def base(name: str) -> tuple[dict[str, Any], list[Place]]:
    """A recorded report as JSON, and its leaves that are not volatile."""
    data = json.loads(json.dumps(report_of(name).to_dict()))
    del data["created_at"]
    places = [place for place in leaves(data) if not (place[-1] in VOLATILE or str(place[-1]).endswith("_id"))]
    return data, [place for place in places if isinstance(place[-1], str)]


def leaves(value: Any, at: Place = ()) -> Iterator[Place]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield from leaves(item, (*at, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from leaves(item, (*at, index))
    else:
        yield at


def replaced(data: dict[str, Any], place: Place) -> dict[str, Any]:
    """The data with another value at one place."""
    found = copy.deepcopy(data)
    holder = found
    for key in place[:-1]:
        holder = holder[key]
    value = holder[place[-1]]
    match value:
        case bool():
            holder[place[-1]] = not value
        case int() | float():
            holder[place[-1]] = value + 1
        case str():
            holder[place[-1]] = f"{value}!"
        case _:
            holder[place[-1]] = "7"
    return found


@settings(max_examples=60)
@given(st.sampled_from(["child", "granted", "rejected", "direct-failed", "question"]), st.data())
def test_any_change_of_one_value_is_found(name: str, draw: st.DataObject) -> None:
    data, places = base(name)
    place = draw.draw(st.sampled_from(places))
    assert diff_run_reports(data, replaced(data, place)).differences
    assert diff_run_reports(report_of(name, 1), replaced(data, place)).differences


@lru_cache
def members(name: str) -> tuple[dict[str, Any], list[Place]]:
    """A recorded report as JSON, with members of the application, and its places that are not volatile."""
    data = json.loads(json.dumps(report_of(name).to_dict() | {"metadata": {"score": 1, "tags": ["a", {"b": None}]}}))
    del data["created_at"]
    every = [place for place in leaves(data) if not (place[-1] in VOLATILE or str(place[-1]).endswith("_id"))]
    return data, every


def lost(data: dict[str, Any], place: Place) -> dict[str, Any]:
    return edited(data, place, lambda holder, key: holder.pop(key))


def other_type(data: dict[str, Any], place: Place) -> dict[str, Any]:
    return edited(data, place, lambda holder, key: holder.__setitem__(key, {"was": holder[key]}))


def new_beside(data: dict[str, Any], place: Place) -> dict[str, Any]:
    def add(holder: Any, key: Any) -> None:
        if isinstance(holder, dict):
            holder["never seen"] = None
        else:
            holder.append("never seen")

    return edited(data, place, add)


def edited(data: dict[str, Any], place: Place, edit: Callable[[Any, Any], Any]) -> dict[str, Any]:
    found = copy.deepcopy(data)
    holder = found
    for key in place[:-1]:
        holder = holder[key]
    edit(holder, place[-1])
    return found


def typed(place: Place) -> bool:
    """Whether the place belongs to a typed envelope: there a lost member reads as its default, a new one not at all."""
    return place[0] == "context" or (place[0] == "events" and len(place) == 3)


@settings(max_examples=150, deadline=None)
@given(
    st.sampled_from(["child", "granted", "rejected", "direct-failed", "question"]),
    st.sampled_from([replaced, lost, other_type, new_beside]),
    st.data(),
)
def test_any_change_of_one_member_is_found(name: str, change: Any, draw: st.DataObject) -> None:
    """Values, lost and new members and other types, in mappings and in lists, of every section."""
    data, every = members(name)
    section = draw.draw(
        st.sampled_from(sorted({place[0] for place in every if change is replaced or not typed(place)}))
    )
    places = [place for place in every if place[0] == section and (change is replaced or not typed(place))]
    changed = change(data, draw.draw(st.sampled_from(places)))
    found = diff_run_reports(data, changed)
    assert section in found.changed_sections
    assert diff_run_reports(changed, data).changed_sections == found.changed_sections


@settings(max_examples=40)
@given(st.sampled_from(["child", "granted", "direct"]), st.data())
def test_any_lost_or_new_record_is_found(name: str, draw: st.DataObject) -> None:
    data = base(name)[0]
    sections = [section for section, value in data.items() if isinstance(value, list) and value]
    section = draw.draw(st.sampled_from(sections))
    index = draw.draw(st.integers(0, len(data[section]) - 1))
    shorter = {**data, section: [item for number, item in enumerate(data[section]) if number != index]}
    assert [kind for kind, path in changes(report_of(name, 1), shorter)] == ["removed"]
    assert [kind for kind, path in changes(shorter, report_of(name, 1))] == ["added"]


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
EVENTS = st.builds(
    RunEvent,
    type=st.sampled_from(["task.status", "action.requested", "budget.warning", "custom"]),
    action_id=st.none() | st.sampled_from(["1", "2", "3"]),
    payload=st.dictionaries(st.text(max_size=5), JSON, max_size=3),
)


@given(st.lists(EVENTS, max_size=6), st.dictionaries(st.text(max_size=5), JSON, max_size=3))
def test_any_report_matches_itself_and_its_projection(events: list[RunEvent], metadata: dict[str, Any]) -> None:
    report = RunReport.from_events(events, metadata=metadata)
    once = normalize_run_report(report)
    assert diff_run_reports(report, report).matches
    assert diff_run_reports(report, once).matches
    assert normalize_run_report(once) == once


@given(JSON, JSON)
def test_differences_tell_equal_from_unequal(left: Any, right: Any) -> None:
    same = json.dumps(left, sort_keys=True) == json.dumps(right, sort_keys=True)
    found = diff_run_reports(noted(left), noted(right)).differences
    if same:
        assert found == ()
    elif left != right:
        assert found


@pytest.mark.claim("DIF-016")
def test_vocabulary_is_public() -> None:
    assert get_args(RunReportDifferenceKind) == ("added", "removed", "changed")
    assert get_args(RunReportSection) == ALL_RUN_REPORT_SECTIONS


PLACES = {
    "key": lambda secret: {"apiKey": secret},
    "below a key": lambda secret: {"credentials": {"of": ["somebody", secret]}},
    "flag": lambda secret: ["deploy", "--token", secret, "--verbose"],
    "flag and value in one": lambda secret: [f"--token={secret}"],
    "header pair": lambda secret: [["Accept", "text/plain"], ["Authorization", secret]],
    "below a header pair": lambda secret: [["Accept", "text/plain"], ["Authorization", [secret]]],
    "name beside": lambda secret: {"name": "Cookie", "value": secret},
    "name beside, below": lambda secret: [{"value": {"text": secret}, "key": "password"}],
    "address": lambda secret: f"https://app:{secret}@example.org/?token={secret}",
    "environment": lambda secret: ["PATH=/bin", f"API_KEY={secret}"],
    "text of JSON": lambda secret: json.dumps({"password": secret}),
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("one_sided", [False, True])
def test_no_secret_is_shown_in_a_difference(place: str, one_sided: bool) -> None:
    """What stands beside a value may tell that it is a secret, also where it is the only thing that differs."""
    left = noted(PLACES[place]("s3cret-of-mine"))
    right = noted({}) if one_sided else noted(PLACES[place]("s3cret-of-theirs"))
    found = diff_run_reports(left, right)
    shown = found.format() + json.dumps(found.to_dict(redaction_policy=RedactionPolicy()))
    assert not found.matches
    assert "[REDACTED]" in shown
    assert "s3cret" not in shown
    assert "s3cret" in found.format(redaction_policy=None)


def test_neighbours_hide_nothing_that_is_no_secret() -> None:
    left, right = (
        {"argv": ["--page", page], "name": "page", "value": page, "pairs": [["Page", page]]} for page in "12"
    )
    shown = diff_run_reports(noted(left), noted(right)).format()
    assert shown.count('"1"') == shown.count('"2"') == 3


def test_names_that_are_masked_alike_hide_what_they_name() -> None:
    policy = RedactionPolicy(sensitive_values=frozenset({"name", "value"}))
    found = diff_run_reports(noted({"name": "x", "value": "first"}), noted({"name": "x", "value": "other"}))
    assert "first" not in found.format(redaction_policy=policy)


@pytest.mark.parametrize("shape", ["deep", "cycle"])
def test_report_that_is_nested_too_deep_is_refused(shape: str) -> None:
    value: dict[str, Any] = {}
    inner = value
    for _ in range(5000 if shape == "deep" else 0):
        inner = inner.setdefault("in", {})
    if shape == "cycle":
        value["in"] = value
    for work in (lambda: diff_run_reports(noted(value), noted(1)), lambda: normalize_run_report(noted(value))):
        with pytest.raises(TypeError, match="nested too deep"):
            work()
