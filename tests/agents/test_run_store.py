"""Agent(run_store=...): tasks are recorded at each change of their state, reports at the end of handles."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from typing import Any

import pytest

from protolink import Agent, LocalTraceTelemetry, RedactionPolicy, RunContext, SQLiteRunStore, Task
from protolink.llms import MockLLM


class Records:
    """A structural store: it subclasses nothing."""

    def __init__(self) -> None:
        self.states: list[tuple[str, str | None]] = []
        self.reports: list[Any] = []

    def save_task(self, task: Task, **how: Any) -> None:
        self.states.append((task.state.value, how["agent_name"]))

    def save_report(self, report: Any, **how: Any) -> None:
        self.reports.append((report, how["agent_name"]))


class Failing:
    def save_task(self, task: Task, **how: Any) -> None:
        raise OSError("disk is full")

    def save_report(self, report: Any, **how: Any) -> None:
        raise OSError("disk is full")


def agent_with(store: Any, **options: Any) -> Agent:
    return Agent(name="worker", llm=MockLLM(default_response="done"), verbosity=0, run_store=store, **options)


@pytest.fixture(params=["live", "durable"])
def options(request: pytest.FixtureRequest, tmp_path: Path) -> dict[str, Any]:
    return {"durability": tmp_path / "durable.db"} if request.param == "durable" else {}


@pytest.mark.claim("STO-001", "STO-002", "STO-003")
async def test_executed_tasks_are_found_by_id_and_session(tmp_path: Path, options: dict[str, Any]) -> None:
    store = SQLiteRunStore(tmp_path / "runs.db")
    task = Task.create_infer(prompt="go")
    RunContext(run_id="run_1", session_id="session_1").attach_to_task(task)
    result = await agent_with(store, **options).execute_task(task)
    record = store.get_task_record(result.id)
    assert record is not None
    assert (record.state, record.run_id, record.agent_name) == ("completed", "run_1", "worker")
    assert [found.task_id for found in store.list_task_records(session_id="session_1")] == [task.id]
    assert store.list_task_records(session_id="other") == []
    assert store.get_task(task.id) == result


@pytest.mark.claim("STO-001", "STO-026")
async def test_a_structural_store_gets_each_change_of_state(options: dict[str, Any]) -> None:
    store = Records()
    await agent_with(store, **options).invoke("go")
    assert store.states == [("working", "worker"), ("completed", "worker")]


@pytest.mark.claim("STO-001")
async def test_pauses_and_resumes_are_recorded(tmp_path: Path) -> None:
    store = Records()
    llm = MockLLM(sequential_responses=[{"type": "tool_call", "tool": "look", "args": {}}, "done"])

    def look() -> str:
        return "seen"

    agent = Agent(name="w", llm=llm, tools=[look], durability=tmp_path / "d.db", yield_after_steps=1, run_store=store)
    task = await agent.run_task(Task.create_infer(prompt="go"))
    assert task.state.value == "input-required"
    assert await agent.resume(RunContext.from_task(task).run_id) == "done"
    assert [state for state, _ in store.states] == ["working", "input-required", "working", "completed"]


async def test_an_overridden_handler_is_recorded_too() -> None:
    class Own(Agent):
        async def handle_task(self, task: Task) -> Task:
            return task.complete("mine")

    store = Records()
    await Own(name="own", run_store=store).run_task(Task.create("go"))
    assert [state for state, _ in store.states] == ["submitted", "completed"]


async def test_handles_record_their_report(tmp_path: Path) -> None:
    store = SQLiteRunStore(tmp_path / "runs.db")
    handle = agent_with(store).start_run("go")
    result = await handle.result()
    record = store.get_report_record(handle.context.run_id)
    assert record is not None
    assert record.agent_name == "worker"
    assert [event["type"] for event in record.report["events"]] == [event.type for event in result.report.events]


async def test_a_failing_store_changes_nothing_but_the_log(
    caplog: pytest.LogCaptureFixture, options: dict[str, Any]
) -> None:
    with caplog.at_level(logging.WARNING, "protolink.run_store"):
        assert await agent_with(Failing(), **options).invoke("go") == "done"
        assert (await agent_with(Failing(), **options).start_run("go").result()).output == "done"
    assert len([line for line in caplog.messages if "disk is full" in line]) == 5


@pytest.mark.claim("RED-017")
async def test_redaction_alters_neither_arguments_nor_what_recovery_needs(tmp_path: Path) -> None:
    given: list[str] = []

    def sign_in(password: str) -> str:
        given.append(password)
        return "in"

    store = SQLiteRunStore(tmp_path / "runs.db", redaction_policy=RedactionPolicy())
    llm = MockLLM(
        sequential_responses=[{"type": "tool_call", "tool": "sign_in", "args": {"password": "hunter2"}}, "ok"]
    )
    agent = Agent(
        name="w",
        llm=llm,
        tools=[sign_in],
        durability=tmp_path / "durable.db",
        yield_after_steps=1,
        run_store=store,
        telemetry=LocalTraceTelemetry(path=tmp_path / "traces.jsonl"),
    )
    task = await agent.run_task(Task.create_infer(prompt="go"))
    run_id = RunContext.from_task(task).run_id
    actions = agent.durability.get(run_id).data["actions"]
    assert "hunter2" in json.dumps(actions)
    assert await agent.resume(run_id) == "ok"
    assert given == ["hunter2"]
    for name in ("runs.db", "traces.jsonl"):
        assert b"hunter2" not in (tmp_path / name).read_bytes()


def test_what_cannot_store_tasks_is_refused() -> None:
    with pytest.raises(TypeError, match="save_task"):
        agent_with(object())
    with pytest.raises(TypeError, match="Telemetry"):
        Agent(name="a", telemetry=object())  # type: ignore[arg-type]
