"""Recording a run, reading it again."""

from __future__ import annotations

from typing import Any

import pytest
from recorded_runs import SCENARIOS, agent, call, infer, look, record, recorded, report_of

from protolink import (
    LLM,
    Agent,
    RedactionPolicy,
    RunContext,
    RunEvent,
    RunRecorder,
    RunReplay,
    RunReport,
    TaskProgressEvent,
    Tool,
)


def progress() -> TaskProgressEvent:
    return TaskProgressEvent("task-1", 50, "Halfway")


# ------------------------------------------------------------------------------------------------------ recorder


@pytest.mark.claim("REP-003")
async def test_recorder_reports_a_stream() -> None:
    task = infer()
    recorder = RunRecorder(context=RunContext.from_task(task))
    async for event in agent("done").handle_task_streaming(task):
        await recorder.record_task_event(event)
    report = recorder.to_report(metadata={"source": "test"})
    assert isinstance(report, RunReport)
    assert report.metadata == {"source": "test"}
    assert report.events == recorder.events
    assert report.context is recorder.context


@pytest.mark.claim("REP-033", "REP-034")
@pytest.mark.parametrize("given", [RunContext(run_id="r"), {"run_id": "r"}])
def test_context_may_be_a_mapping(given: Any) -> None:
    context = RunRecorder(context=given).context
    assert isinstance(context, RunContext)
    assert context.run_id == "r"


@pytest.mark.parametrize("given", [5, [], "run"])
def test_context_of_another_type_is_refused_when_the_recorder_is_made(given: Any) -> None:
    with pytest.raises(TypeError, match="context must be a RunContext"):
        RunRecorder(context=given)


@pytest.mark.claim("REP-033")
async def test_context_is_optional() -> None:
    recorder = RunRecorder()
    await recorder.emit_task_event(progress())
    assert recorder.context is None
    assert recorder.to_report().context is None


@pytest.mark.claim("REP-035", "REP-036")
async def test_emit_keeps_the_event_itself() -> None:
    recorder, event = RunRecorder(), RunEvent("custom")
    await recorder.emit(event)
    assert isinstance(recorder.events, tuple)
    assert recorder.events[0] is event
    assert event.sequence == 1


@pytest.mark.claim("REP-037", "REP-039")
@pytest.mark.parametrize("method", ["emit_task_event", "record_task_event"])
async def test_context_of_the_call_wins(method: str) -> None:
    recorder = RunRecorder(context=RunContext(run_id="own"))
    normalize = getattr(recorder, method)
    first, second = await normalize(progress()), await normalize(progress(), context=RunContext(run_id="given"))
    assert [first.run_id, second.run_id] == ["own", "given"]
    assert [event.type for event in recorder.events] == ["task.progress"] * 2
    assert recorder.events[1] is second


@pytest.mark.claim("REP-038")
async def test_record_event_returns_it() -> None:
    recorder, event = RunRecorder(), RunEvent("custom")
    assert await recorder.record_event(event) is event
    assert recorder.events == (event,)


@pytest.mark.claim("REP-040", "REP-041")
async def test_to_report_takes_what_it_is_given() -> None:
    recorder, other = RunRecorder(context=RunContext(run_id="own")), RunContext(run_id="other")
    await recorder.emit(RunEvent("custom"))
    report = recorder.to_report(context=other, final_task={"id": "t"}, metadata={"a": 1})
    assert (report.context, report.final_task, report.metadata) == (other, {"id": "t"}, {"a": 1})
    assert recorder.to_report() is not recorder.to_report()
    assert recorder.to_report().context is recorder.context


@pytest.mark.claim("REP-042")
async def test_to_report_masks_a_copy() -> None:
    recorder = RunRecorder()
    await recorder.emit(RunEvent("custom", payload={"password": "hunter2"}))
    assert recorder.to_report(redaction_policy=RedactionPolicy()).events[0].payload == {"password": "[REDACTED]"}
    assert recorder.events[0].payload == {"password": "hunter2"}


@pytest.mark.claim("REP-043")
async def test_clear_keeps_the_context() -> None:
    recorder = RunRecorder(context=RunContext(run_id="own"))
    await recorder.emit(RunEvent("custom"))
    recorder.clear()
    assert recorder.events == ()
    event = await recorder.record_task_event(progress())
    assert (event.sequence, event.run_id) == (1, "own")


# -------------------------------------------------------------------------------------------------------- replay


@pytest.mark.claim("REP-005", "REP-044", "REP-045", "REP-046")
@pytest.mark.parametrize("name", SCENARIOS)
def test_replay_reads_every_form_of_a_report(name: str) -> None:
    report = report_of(name)
    assert RunReplay(report).report is report
    assert RunReplay(report.to_dict()).report == report
    assert RunReplay(iter(report.events)).events == report.events
    assert RunReplay(event.to_dict() for event in report.events).events == report.events


@pytest.mark.claim("REP-045")
def test_mapping_is_never_an_event() -> None:
    replay = RunReplay(RunEvent("custom").to_dict())
    assert replay.events == ()
    assert isinstance(replay.report, RunReport)


@pytest.mark.parametrize("source", ["events", b"events", 3, None])
def test_replay_refuses_other_sources(source: Any) -> None:
    with pytest.raises(TypeError, match="RunReport"):
        RunReplay(source)


@pytest.mark.claim("REP-006")
async def test_replay_executes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    safe = (await record("child")).report.to_dict()

    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise AssertionError("something was executed")

    for target, method in ((Agent, "run_task"), (Agent, "handle_task_streaming"), (LLM, "infer"), (Tool, "__call__")):
        monkeypatch.setattr(target, method, refuse, raising=False)
    replay = RunReplay(safe)
    replay.assert_events(["context.prepared", "action.started", "task.status"])
    assert len(replay.find_events("action.completed")) == 2


@pytest.mark.claim("REP-047", "REP-048")
def test_events_and_types_are_in_recorded_order() -> None:
    replay = RunReplay(report_of("tool"))
    assert replay.events == recorded("tool").recorder.events
    assert replay.event_types == tuple(event.type for event in recorded("tool").recorder.events)
    assert isinstance(replay.event_types, tuple)


@pytest.mark.claim("REP-049")
def test_iter_events_is_lazy() -> None:
    events = (RunEvent("a"), RunEvent("b"), RunEvent("a"))
    replay = RunReplay(events)
    some = replay.iter_events("a")
    assert next(iter(some)) is events[0]
    assert list(some) == [events[2]]
    assert list(replay.iter_events()) == list(events)


@pytest.mark.claim("REP-050")
def test_find_events_gives_a_tuple() -> None:
    events = (RunEvent("a"), RunEvent("b"), RunEvent("a"))
    assert RunReplay(events).find_events("a") == (events[0], events[2])
    assert RunReplay(events).find_events("c") == ()


@pytest.mark.claim("REP-051")
def test_assert_events_takes_the_matching_mode() -> None:
    replay = RunReplay([RunEvent("a"), RunEvent("b")])
    replay.assert_events(["b", "a"], ordered=False, allow_extra=False)
    for expected, mode in ((["b", "a"], {}), (["a"], {"allow_extra": False}), (["a", "c"], {"ordered": False})):
        with pytest.raises(AssertionError):
            replay.assert_events(expected, **mode)


@pytest.mark.claim("REP-007")
async def test_offline_inference_records_its_call_in_order() -> None:
    replay = RunReplay((await record("answer")).report)
    told = [
        kind for kind in replay.event_types if kind in ("context.prepared", "llm.call.started", "llm.call.completed")
    ]
    assert told == ["context.prepared", "llm.call.started", "llm.call.completed"]


# -------------------------------------------------------------------------------------------------------- handles


async def test_handle_has_the_report_of_its_result() -> None:
    handle = agent(call("look", key="a"), "done", tools=[look]).start_run("go")
    seen = [event async for event in handle.events()]
    result = await handle.result()
    assert handle.report is result.report
    assert result.report is not None
    assert list(result.report.events) == seen
    assert result.report.final_task == handle.task.to_dict()
    assert [evidence.tool_name for evidence in result.tool_evidence] == ["look"]


async def test_handle_reports_a_run_under_way() -> None:
    handle = agent("done").start_run("go")
    async for event in handle.events():
        report = handle.report
        assert report.events[-1].sequence == len(report.events) >= (event.sequence or 0)
        assert report is not handle.report
        break
    assert handle.report.final_task is None
    assert (await handle.result()).report is handle.report


async def test_handle_tells_evidence_to_every_reader() -> None:
    handle = agent(call("look", key="a"), call("look", key="b"), "done", tools=[look]).start_run("go")
    live = [evidence async for evidence in handle.tool_evidence()]
    late = [evidence async for evidence in handle.tool_evidence()]
    assert [evidence.arguments for evidence in live] == [{"key": "a"}, {"key": "b"}]
    assert tuple(live) == tuple(late) == (await handle.result()).tool_evidence
