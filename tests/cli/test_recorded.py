"""``protolink run replay`` and ``run diff`` over a store of reports."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from protolink import Agent, RunContext, RunEvent, RunReport, SQLiteRunStore, Task
from protolink.cli.app import app
from protolink.llms import MockLLM

SECRET = "hunter2-hunter2"


@pytest.fixture
def store(tmp_path: Path) -> Path:
    path = tmp_path / "reports.db"
    reports = SQLiteRunStore(path)
    for run_id, score in (("run_1", 1), ("run_2", 1), ("run_3", 2)):
        event = RunEvent(type="task.progress", run_id=run_id, summary="half way", payload={"score": score})
        report = RunReport.from_events([event], metadata={"score": score, "api_key": f"{SECRET}{score}"})
        reports.save_report(report, run_id=run_id)
    return path


def run(*words: str) -> Any:
    return CliRunner().invoke(app, ["run", *words])


@pytest.mark.claim("DIF-061")
def test_diff_as_text_shows_what_changed_with_values_redacted(store: Path) -> None:
    found = run("diff", "run_1", "run_3", "--store", str(store))
    assert found.exit_code == 1
    assert "/metadata/score" in found.stdout
    assert "/metadata/api_key" in found.stdout
    assert SECRET not in found.stdout


@pytest.mark.claim("DIF-062")
def test_diff_as_json_has_the_differences_with_values_redacted(store: Path) -> None:
    found = run("diff", "run_1", "run_3", "--store", str(store), "--json")
    told = json.loads(found.stdout)
    assert (found.exit_code, told["status"], told["matches"]) == (1, "changed", False)
    assert (told["baseline_run_id"], told["candidate_run_id"], told["missing_run_ids"]) == ("run_1", "run_3", [])
    assert told["difference_count"] == len(told["differences"]) > 0
    assert "metadata" in told["changed_sections"]
    assert SECRET not in found.stdout


@pytest.mark.parametrize("view", [(), ("--json",)])
def test_diff_masks_what_a_name_beside_it_tells(tmp_path: Path, view: tuple[str, ...]) -> None:
    reports = SQLiteRunStore(tmp_path / "pairs.db")
    for run_id in ("run_1", "run_2"):
        secret = f"{SECRET}-{run_id}"
        headers = [["Authorization", secret], ["Cookie", secret]]
        payload = {"headers": headers, "form": [{"name": "pwd", "value": secret}], "argv": ["--otp", secret]}
        event = RunEvent("task.progress", run_id=run_id, payload=payload)
        reports.save_report(RunReport.from_events([event], metadata={"tokens": [secret, run_id]}), run_id=run_id)
    found = run("diff", "run_1", "run_2", "--store", str(tmp_path / "pairs.db"), *view)
    assert found.exit_code == 1
    assert found.stdout.count("[REDACTED]") == 12
    assert SECRET not in found.stdout


def test_equal_reports_match(store: Path) -> None:
    assert run("diff", "run_1", "run_1", "--store", str(store)).exit_code == 0
    told = json.loads(run("diff", "run_1", "run_1", "--store", str(store), "--json").stdout)
    assert (told["status"], told["differences"]) == ("match", [])


@pytest.mark.parametrize("as_json", [False, True])
def test_a_missing_report_is_named(store: Path, as_json: bool) -> None:
    found = run("diff", "run_1", "run_9", "--store", str(store), *(["--json"] if as_json else []))
    assert found.exit_code == 2
    if as_json:
        assert json.loads(found.stdout)["missing_run_ids"] == ["run_9"]
    else:
        assert "run_9" in found.output


def test_replay_shows_the_events_of_a_report(store: Path) -> None:
    found = run("replay", "run_1", "--store", str(store))
    assert found.exit_code == 0
    assert "task.progress" in found.stdout
    assert "half way" in found.stdout
    told = json.loads(run("replay", "run_1", "--store", str(store), "--json").stdout)
    assert (told["source"], [event["sequence"] for event in told["events"]]) == ("report", [1])


async def test_replay_falls_back_to_the_tasks_snapshot(tmp_path: Path) -> None:
    def look() -> str:
        """Look."""
        return "seen"

    path = tmp_path / "reports.db"
    llm = MockLLM(sequential_responses=[{"type": "tool_call", "tool": "look", "args": {}}, "done"])
    agent = Agent(name="a", llm=llm, tools=[look], run_store=SQLiteRunStore(path), verbosity=0)
    task = Task.create_infer(prompt="go", context=RunContext(run_id="run_a"))
    await agent.run_task(task)
    told = json.loads(run("replay", task.id, "--store", str(path), "--json").stdout)
    assert told["source"] == "task"
    assert [event["type"] for event in told["events"]] == ["action.started", "action.completed"]


@pytest.mark.parametrize("name", ["reports.db", "nowhere.db"])
def test_an_unknown_run_is_told(store: Path, name: str) -> None:
    found = run("replay", "run_9", "--store", str(store.parent / name))
    assert found.exit_code == 1
    assert "run_9" in found.output


@pytest.mark.parametrize("damage", ["no database", "a directory", "no table", "a damaged report"])
def test_a_store_that_cannot_be_read_is_named_and_counts_as_no_difference(store: Path, damage: str) -> None:
    if damage == "no database":
        store.write_text("hello " * 200)
    elif damage == "a directory":
        store.unlink()
        store.mkdir()
    else:
        db = sqlite3.connect(store)
        damaged = "UPDATE protolink_run_reports SET report_json = '{'"
        db.execute("DROP TABLE protolink_run_reports" if damage == "no table" else damaged)
        db.commit()
        db.close()
    for command, code in ((("diff", "run_1", "run_2"), 2), (("replay", "run_1"), 1), (("list",), 1)):
        found = run(*command, "--store", str(store))
        assert found.exit_code == code
        assert str(store) in found.stderr
        assert found.stdout == ""


@pytest.mark.parametrize(("command", "code"), [(("diff", "run_1", "run_2"), 2), (("replay", "run_2"), 1)])
@pytest.mark.parametrize("damaged", ['{"foo": 1}', "[]", "{"])
def test_a_stored_report_that_is_none_is_named_with_its_run(
    store: Path, command: tuple[str, ...], code: int, damaged: str
) -> None:
    db = sqlite3.connect(store)
    db.execute("UPDATE protolink_run_reports SET report_json = ? WHERE run_id = 'run_2'", (damaged,))
    db.commit()
    db.close()
    found = run(*command, "--store", str(store))
    assert (found.exit_code, found.stdout) == (code, "")
    assert "The report stored under 'run_2' is damaged" in " ".join(found.stderr.split())
