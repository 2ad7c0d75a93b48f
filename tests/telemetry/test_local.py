"""LocalTraceTelemetry and its recorder, alone and as agents tell it."""

from __future__ import annotations

import json
import logging
import stat
from pathlib import Path
from typing import Any

import pytest

from protolink import Agent, LocalTraceTelemetry, RunContext, RunEvent, Task, TaskExecutionError
from protolink.llms import MockLLM
from protolink.models import Part
from protolink.telemetry import LocalTraceRecorder, MultiTelemetry, Telemetry


def search(query: str, api_key: str = "") -> str:
    """Search."""
    if query == "fail":
        raise ValueError("no results")
    return f"found {query}"


def call(tool: str, **args: Any) -> dict[str, Any]:
    return {"type": "tool_call", "tool": tool, "args": args}


def agent(telemetry: Any, *responses: Any, **options: Any) -> Agent:
    llm = MockLLM(sequential_responses=list(responses) or ["done"])
    return Agent(name="worker", llm=llm, tools=[search], telemetry=telemetry, verbosity=0, **options)


def kinds(trace: dict[str, Any]) -> list[tuple[str, str, str]]:
    return [(span["kind"], span["name"], span["status"]) for span in trace["spans"]]


@pytest.fixture(params=["live", "durable", "streamed"])
def mode(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return request.param


async def perform(runner: Agent, task: Task, mode: str) -> None:
    if mode == "streamed":
        async for _ in runner.handle_task_streaming(task):
            pass
    else:
        await runner.run_task(task)


@pytest.mark.claim("INT-015")
async def test_a_run_becomes_one_trace_of_redacted_spans(mode: str, tmp_path: Path) -> None:
    telemetry = LocalTraceTelemetry(path=tmp_path / "traces.jsonl")
    options = {"durability": tmp_path / "d.db"} if mode == "durable" else {}
    runner = agent(telemetry, call("search", query="x", api_key="hunter2"), "done", **options)
    task = Task.create_infer(prompt="go")
    await perform(runner, task, mode)

    (trace,) = telemetry.recorder.replay()
    assert kinds(trace) == [
        ("task", "Task: worker", "ok"),
        ("llm", "LLM Call", "ok"),
        ("tool", "Tool: search", "ok"),
        ("llm", "LLM Call", "ok"),
    ]
    root, first, tool, second = trace["spans"]
    assert [span["parent_id"] for span in trace["spans"]] == [None, root["id"], root["id"], root["id"]]
    assert tool["input"] == {"query": "x", "api_key": "[REDACTED]"}
    assert second["output"] == [{"type": "final", "content": "done"}]
    assert first["output"][0]["tool"] == "search"
    assert root["output"] == "done"
    assert all(span["duration_ms"] >= 0 for span in trace["spans"])
    metrics = trace["metadata"]["llm_metrics"]
    assert (metrics["call_count"], metrics["estimated_token_calls"]) == (2, 2)
    assert metrics["total_tokens"] == metrics["total_input_tokens"] + metrics["total_output_tokens"] > 0
    assert "hunter2" not in (tmp_path / "traces.jsonl").read_text()
    assert LocalTraceRecorder.load_jsonl(tmp_path / "traces.jsonl") == [trace]
    assert telemetry.recorder.replay(trace["trace_id"]) == [trace]


@pytest.mark.claim("INT-016")
async def test_events_and_traces_agree_in_their_ids(mode: str, tmp_path: Path) -> None:
    telemetry = LocalTraceTelemetry()
    options = {"durability": tmp_path / "d.db"} if mode == "durable" else {}
    task = Task.create_infer(prompt="go")
    RunContext(run_id="run_1", session_id="session_1", trace_id="trace_1").attach_to_task(task)
    runner = agent(telemetry, call("search", query="x"), "done", **options)
    context = RunContext.from_task(task)
    events = [RunEvent.from_task_event(event, context=context) async for event in runner.handle_task_streaming(task)]
    (trace,) = telemetry.recorder.replay("trace_1")
    assert {event.run_id for event in events} == {trace["run_id"]} == {"run_1"}
    assert {event.task_id for event in events} == {trace["task_id"]} == {task.id}
    assert {event.agent_name for event in events if event.agent_name} == {trace["agent_name"]} == {"worker"}
    told = next(event for event in events if event.type == "action.started")
    assert told.action_id in {span["id"] for span in trace["spans"]}
    assert [event["type"] for event in trace["events"]] == [
        event.payload["llm_event_type"] for event in events if "llm_event_type" in event.payload
    ]


@pytest.mark.claim("INT-016")
async def test_a_run_without_a_trace_id_gets_one_before_its_first_event() -> None:
    telemetry = LocalTraceTelemetry()
    handle = agent(telemetry).start_run("go")
    await handle.result()
    (trace,) = telemetry.recorder.replay()
    assert RunContext.from_task(handle.task).trace_id == trace["trace_id"]
    assert handle.report.context is not None
    assert handle.report.context.trace_id == trace["trace_id"]


async def test_each_model_call_has_its_span_and_retries_are_counted() -> None:
    telemetry = LocalTraceTelemetry()
    runner = agent(telemetry, ConnectionError("gone"), "done", clock=Jumping())
    await runner.invoke("go")
    (trace,) = telemetry.recorder.replay()
    assert kinds(trace)[1:] == [("llm", "LLM Call", "error"), ("llm", "LLM Call", "ok")]
    assert trace["metadata"]["retry_count"] == 1


async def test_failures_end_spans_and_trace_as_errors() -> None:
    telemetry = LocalTraceTelemetry()
    task = Task.create_infer(prompt="go")
    with pytest.raises(TaskExecutionError):
        await agent(telemetry, call("search", query="fail")).run_task(task)
    (trace,) = telemetry.recorder.replay()
    assert task.state.value == trace["metadata"]["final_state"] == "failed"
    assert trace["status"] == "error"
    assert kinds(trace)[2] == ("tool", "Tool: search", "error")
    assert "no results" in trace["spans"][2]["error"]["message"]


async def test_children_hang_below_the_delegation() -> None:
    telemetry = LocalTraceTelemetry()
    child = Agent(name="child", llm=MockLLM(default_response="from child"), verbosity=0)
    delegation = {"type": "agent_call", "agent": "child", "action": "infer", "prompt": "do it"}
    await agent(telemetry, delegation, "done", subagents=[child]).invoke("go")
    (trace,) = telemetry.recorder.replay()
    assert [span["kind"] for span in trace["spans"]] == ["task", "llm", "agent_call", "llm", "llm"]
    delegated, inner = trace["spans"][2:4]
    assert inner["parent_id"] == delegated["id"]
    assert inner["metadata"]["agent_name"] == "child"


async def test_an_overridden_handler_has_a_trace_of_its_own() -> None:
    class Own(Agent):
        async def handle_task(self, task: Task) -> Task:
            return task.complete("mine")

    telemetry = LocalTraceTelemetry()
    await Own(name="own", telemetry=telemetry).run_task(Task.create("go"))
    (trace,) = telemetry.recorder.replay()
    assert kinds(trace) == [("task", "Task: own", "ok")]
    assert trace["metadata"]["final_state"] == "completed"


async def test_payloads_can_be_left_out() -> None:
    telemetry = LocalTraceTelemetry(capture_payloads=False)
    await agent(telemetry, call("search", query="private words"), "done").invoke("private prompt")
    (trace,) = telemetry.recorder.replay()
    assert "private" not in json.dumps(trace)
    assert all(span["input"] is None and span["output"] is None for span in trace["spans"])


async def test_an_own_redactor_is_used() -> None:
    telemetry = LocalTraceTelemetry(redactor=lambda trace: {"trace_id": trace["trace_id"]})
    await agent(telemetry).invoke("go")
    assert [list(trace) for trace in telemetry.recorder.replay()] == [["trace_id"]]


class Broken(Telemetry):
    def __init__(self) -> None:
        self.calls: list[str] = []

    def __getattribute__(self, name: str) -> Any:
        if not name.startswith("on_"):
            return super().__getattribute__(name)

        async def fail(*args: Any, **kwargs: Any) -> None:
            self.calls.append(name)
            raise RuntimeError("backend is down")

        return fail

    async def on_task_start(self, *args: Any) -> None: ...
    async def on_task_end(self, *args: Any) -> None: ...
    async def on_llm_start(self, *args: Any, **kwargs: Any) -> None: ...
    async def on_llm_end(self, *args: Any) -> None: ...
    async def on_tool_start(self, *args: Any) -> None: ...
    async def on_tool_end(self, *args: Any) -> None: ...


async def test_failing_telemetry_never_fails_the_run(mode: str, tmp_path: Path, caplog: Any) -> None:
    options = {"durability": tmp_path / "d.db"} if mode == "durable" else {}
    broken, local = Broken(), LocalTraceTelemetry()
    task = Task.create_infer(prompt="go")
    runner = agent(MultiTelemetry([broken, local]), call("search", query="x"), "done", **options)
    with caplog.at_level(logging.WARNING, "protolink.telemetry"):
        await perform(runner, task, mode)
    assert task.get_output() == "done"
    assert "backend is down" in caplog.text
    assert [name for name in broken.calls if name != "on_llm_event"] == [
        "on_task_start", "on_llm_start", "on_llm_end", "on_tool_start", "on_tool_end", "on_llm_start", "on_llm_end",
        "on_task_end",
    ]  # fmt: skip
    assert len(local.recorder.replay()) == 1
    alone = Broken()
    assert await agent(alone).invoke("go") == "done"
    assert alone.calls[0] == "on_task_start"


async def test_hooks_can_be_called_by_hand() -> None:
    telemetry = LocalTraceTelemetry()
    task = Task.create_infer(prompt="go")
    await telemetry.on_tool_start("search", {})
    await telemetry.on_task_start(task, "worker")
    await telemetry.on_llm_start("go", "model")
    await telemetry.on_llm_end(Part.infer_output(content="x"))
    await telemetry.on_tool_start("search", {"q": 1})
    await telemetry.on_tool_end("search", None, ValueError("bad"))
    task.begin()
    await telemetry.on_task_end(task, task.complete("x"), "worker")
    (trace,) = telemetry.recorder.replay()
    assert kinds(trace)[1:] == [("llm", "LLM Call", "ok"), ("tool", "Tool: search", "error")]
    assert RunContext.from_task(task).trace_id == trace["trace_id"]


def test_the_recorder_keeps_the_newest_and_writes_private_lines(tmp_path: Path) -> None:
    path = tmp_path / "t.jsonl"
    recorder = LocalTraceRecorder(path, max_traces=2)
    for number in range(3):
        recorder.record({"trace_id": f"t{number}"})
    assert [trace["trace_id"] for trace in recorder.replay()] == ["t1", "t2"]
    assert recorder.replay("t2") == [{"trace_id": "t2"}]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    recorder.clear()
    assert recorder.replay() == []
    assert len(LocalTraceRecorder.load_jsonl(path)) == 3
    path.write_text('{"trace_id": "t"}\n{"cut')
    with pytest.raises(ValueError, match="line 2"):
        LocalTraceRecorder.load_jsonl(path)
    with pytest.raises(ValueError, match="max_traces"):
        LocalTraceRecorder(max_traces=0)
    with pytest.raises(ValueError, match="recorder or a path"):
        LocalTraceTelemetry(recorder, path=path)


class Jumping:
    """A clock on which waiting takes no time."""

    def __init__(self) -> None:
        self.time = 1_700_000_000.0

    def now(self) -> float:
        return self.time

    async def sleep_until(self, when: float) -> None:
        self.time = max(self.time, when)

    def call_at(self, when: float, callback: Any) -> Any:
        return lambda: None
