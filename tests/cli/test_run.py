"""``protolink run ...``: what each command does to stored runs, prints and exits with."""

from __future__ import annotations

import json
from typing import Any

import pytest

from protolink import RunContext, RunManager, SQLiteDurableStore, Task
from protolink.cli.exits import FAILED, OK, UNCERTAIN, USAGE, WAITS
from protolink.models.ids import iso_from_seconds
from protolink.runtime import RunReport
from protolink.storage import SQLiteRunStore


def action_of(desk: Any, run_id: str) -> str:
    return str(desk.json("inspect", run_id)["uncertain_actions"][0]["action_id"])


class TestReading:
    def test_list_shows_what_runs_wait_for(self, desk: Any) -> None:
        desk.start("ask", "run-1")
        desk.start("Hello", "run-2")
        shown = desk.run("list").stdout
        assert "answer: Which one?" in shown
        assert "approval of 'publish'" in shown

    def test_list_takes_status_and_limit(self, desk: Any) -> None:
        desk.start("ask", "run-1")
        desk.start("ask", "run-2")
        assert [run["run_id"] for run in desk.json("list", "--limit", "1")["runs"]] == ["run-2"]
        assert desk.json("list", "--status", "completed") == {"runs": []}

    def test_list_of_nothing_says_none(self, desk: Any) -> None:
        assert desk.run("list").stdout == "(none)\n"

    def test_list_wants_exactly_one_source(self, desk: Any) -> None:
        both = desk.run("list", "--store", "reports.db")
        neither = desk.process("run", "list")
        assert both.exit_code == neither.returncode == USAGE
        for text in (both.stderr, neither.stderr):
            assert "exactly one of --factory MODULE:FUNCTION (durable runs) and --store FILE (run reports)" in text

    def test_list_of_reports_shows_records(self, desk: Any) -> None:
        store = SQLiteRunStore(desk.folder / "reports.db")
        task = Task.create_infer(prompt="Hello", metadata={"api_key": "s3cr3t-value"})
        store.save_task(task, context=RunContext(run_id="run-7"), agent_name="helper")
        store.save_report(RunReport(), run_id="run-8", agent_name="helper")
        words = ("run", "list", "--store", "reports.db")
        shown = desk.process(*words, PROTOLINK_FACTORY="cli_app:application").stdout
        assert shown.index("Task snapshots") < shown.index(task.id) < shown.index("Run reports") < shown.index("run-8")
        printed = desk.process(*words, "--json").stdout
        assert "[REDACTED]" in printed
        assert "s3cr3t-value" not in printed
        found = json.loads(printed)
        assert [record["run_id"] for record in found["tasks"]] == ["run-7"]
        assert [record["run_id"] for record in found["reports"]] == ["run-8"]

    def test_list_of_missing_reports_says_none(self, desk: Any) -> None:
        found = desk.process("run", "list", "--store", "nowhere.db")
        assert (found.returncode, found.stdout) == (0, "Task snapshots\n(none)\nRun reports\n(none)\n")
        assert not (desk.folder / "nowhere.db").exists()

    def test_list_of_foreign_file_fails_in_one_line(self, desk: Any) -> None:
        (desk.folder / "notes.db").write_text("not a database, but quite long enough to be looked at as one")
        found = desk.process("run", "list", "--store", "notes.db")
        assert found.returncode == FAILED
        assert found.stderr.startswith("Durable run operation failed: ")
        assert "Traceback" not in found.stderr

    def test_inspect_shows_the_prepared_action(self, desk: Any) -> None:
        desk.start("Hello", "run-1")
        shown = desk.run("inspect", "run-1").stdout
        assert "Asks for approval of 'publish'" in shown
        assert desk.pending("run-1")[1] in shown

    def test_everything_shown_is_redacted(self, desk: Any) -> None:
        desk.start("Hello", "run-1")
        commands = (["inspect", "run-1"], ["why", "run-1"], ["events", "run-1"], ["list"])
        shown = [desk.run(*words, *how).stdout for words in commands for how in ((), ("--json",))]
        pending = ["run", "pending", "--durability", "runs.sqlite"]
        shown += [desk.process(*pending, *how).stdout for how in ((), ("--json",))]
        assert "REDACTED" in shown[0]
        assert not any("s3cr3t-value" in text for text in shown)

    def test_pending_needs_no_application(self, desk: Any) -> None:
        desk.start("ask", "run-1")
        desk.start("Hello", "run-2", agent="other")
        (desk.folder / "cli_app.py").unlink()
        found = desk.process("run", "pending", "--durability", "runs.sqlite", "--json")
        assert [run["agent_name"] for run in json.loads(found.stdout)["runs"]] == ["other", "helper"]
        shown = desk.process("run", "pending", "--durability", "runs.sqlite").stdout
        assert "Asks: Which one?" in shown
        assert "Asks for approval of 'publish'" in shown

    def test_pending_changes_nothing(self, desk: Any) -> None:
        desk.start("ask", "run-1")
        before = (desk.folder / "runs.sqlite").read_bytes()
        names = sorted(path.name for path in desk.folder.iterdir())
        assert desk.process("run", "pending", "--durability", "runs.sqlite").returncode == OK
        assert (desk.folder / "runs.sqlite").read_bytes() == before
        assert sorted(path.name for path in desk.folder.iterdir()) == names

    def test_pending_in_missing_file_fails(self, desk: Any) -> None:
        found = desk.process("run", "pending", "--durability", "nowhere.sqlite")
        assert found.returncode == FAILED
        assert found.stderr == "Durable run operation failed: There is no store to read at nowhere.sqlite\n"
        assert not (desk.folder / "nowhere.sqlite").exists()

    def test_events_after_a_number(self, desk: Any) -> None:
        desk.start("ask", "run-1")
        everything = desk.json("events", "run-1")["events"]
        assert everything[0]["type"] == "task.status"
        number = everything[-2]["sequence"]
        assert desk.json("events", "run-1", "--after", str(number))["events"] == everything[-1:]
        assert "Task paused: input" in desk.run("events", "run-1", "--after", str(number)).stdout

    @pytest.mark.parametrize("command", ["inspect", "why", "events", "resume", "cancel"])
    def test_unknown_run_is_told_in_one_line(self, desk: Any, command: str) -> None:
        found = desk.run(command, "nobody")
        assert found.exit_code == FAILED
        assert found.stderr == "Durable run operation failed: No configured agent has a stored run 'nobody'\n"

    def test_control_characters_cannot_steer_the_terminal(self, desk: Any) -> None:
        desk.start("\x1b[2Jgone", "run-1")
        shown = desk.run("inspect", "run-1").stdout
        assert "\x1b" not in shown


class TestResuming:
    def test_answer_completes_the_run(self, desk: Any) -> None:
        desk.start("ask", "run-1")
        found = desk.run("resume", "run-1", *desk.pending("run-1"), "--answer", "CSV")
        assert found.exit_code == OK
        assert "completed" in found.stdout
        assert "all done" in found.stdout

    def test_answer_is_read_without_an_echo(self, desk: Any) -> None:
        desk.start("ask", "run-1")
        from typer.testing import CliRunner

        from protolink.cli.app import app

        words = ["run", "resume", "run-1", *desk.pending("run-1"), "--answer", "-", "--factory", desk.factory]
        found = CliRunner().invoke(app, words, input="hunter-2\n")
        assert found.exit_code == OK
        assert "hunter-2" not in found.output
        answered = [e for e in desk.json("events", "run-1")["events"] if e["type"] == "user_input.answered"]
        assert answered[0]["payload"]["result"]["answer"] == "hunter-2"

    def test_decline_is_an_answer(self, desk: Any) -> None:
        desk.start("ask", "run-1")
        assert desk.json("resume", "run-1", *desk.pending("run-1"), "--decline")["status"] == "completed"

    def test_approval_runs_the_action_once(self, desk: Any) -> None:
        desk.start("Hello", "run-1")
        response = ("resume", "run-1", *desk.pending("run-1"), "--approve")
        assert desk.json(*response)["task"]["state"] == "completed"
        assert desk.published == ["Hello"]
        assert desk.run(*response).exit_code == FAILED
        assert desk.published == ["Hello"]

    def test_denial_ends_the_run_as_asked(self, desk: Any) -> None:
        desk.start("Hello", "run-1")
        found = desk.run("resume", "run-1", *desk.pending("run-1"), "--deny", "--reason", "too early")
        assert found.exit_code == OK
        assert "failed" in found.stdout
        assert desk.published == []

    def test_edited_arguments_are_asked_again(self, desk: Any) -> None:
        desk.start("Hello", "run-1")
        edit = ("--approve", "--arguments", '{"text": "Edited"}')
        found = desk.json("resume", "run-1", *desk.pending("run-1"), *edit, code=WAITS)
        assert found["interruption"]["request"]["action"]["payload"]["arguments"]["text"] == "Edited"
        assert desk.run("resume", "run-1", *desk.pending("run-1"), "--approve").exit_code == OK
        assert desk.published == ["Edited"]

    def test_waiting_run_exits_with_three(self, desk: Any) -> None:
        desk.start("ask", "run-1")
        found = desk.run("resume", "run-1")
        assert found.exit_code == WAITS
        assert "Next: protolink run why run-1 --factory cli_app:application" in found.stdout

    def test_provider_that_is_down_exits_with_three(self, desk: Any) -> None:
        desk.start("boom", "run-1")
        assert desk.json("resume", "run-1", code=WAITS)["interruption"]["kind"] == "retry"

    def test_wrong_fingerprint_is_refused(self, desk: Any) -> None:
        desk.start("Hello", "run-1")
        request = desk.pending("run-1")[1]
        found = desk.run("resume", "run-1", "--request-id", request, "--fingerprint", "0" * 64, "--approve")
        assert found.exit_code == FAILED
        assert found.stderr.startswith("Durable run operation failed: ")
        assert desk.published == []

    @pytest.mark.parametrize(
        ("words", "reason"),
        [
            (("--approve", "--deny", "--request-id", "r"), "only one of"),
            (("--answer", "a", "--decline", "--request-id", "r"), "only one of"),
            (("--approve",), "needs --request-id"),
            (("--answer", "CSV"), "needs --request-id"),
            (("--approve", "--request-id", "r", "--arguments", "{"), "--arguments is no JSON"),
        ],
    )
    def test_contradictory_options_are_usage_errors(self, desk: Any, words: tuple[str, ...], reason: str) -> None:
        found = desk.run("resume", "run-1", *words)
        assert found.exit_code == USAGE
        assert reason in found.stderr


class TestSettling:
    def lost(self, desk: Any) -> None:
        """A run whose effect is not known."""
        desk.start("lost", "run-1")
        assert desk.run("resume", "run-1", *desk.pending("run-1"), "--approve").exit_code == UNCERTAIN

    def test_uncertain_run_exits_with_four(self, desk: Any) -> None:
        self.lost(desk)
        found = desk.run("resume", "run-1")
        assert found.exit_code == UNCERTAIN
        assert found.stderr.startswith("Durable run operation failed: The outcome of 'publish'")
        assert "Next: protolink run why run-1" in found.stderr
        assert desk.published == ["lost"]

    def test_why_gives_the_command_that_settles(self, desk: Any) -> None:
        self.lost(desk)
        found = desk.json("why", "run-1")
        action = action_of(desk, "run-1")
        expected = f"protolink run reconcile run-1 {action} --result JSON --factory cli_app:application"
        assert found["command"] == expected
        assert "'publish' was started at " in found["why"]

    def test_reconcile_records_and_executes_nothing(self, desk: Any) -> None:
        self.lost(desk)
        words = ("reconcile", "run-1", action_of(desk, "run-1"), "--result", '{"published": "lost"}')
        assert desk.json(*words)["uncertain_actions"] == []
        assert desk.json("resume", "run-1")["status"] == "completed"
        assert desk.published == ["lost"]
        again = desk.run(*words)
        assert again.exit_code == FAILED
        assert again.stderr.startswith("Durable run operation failed: ")

    def test_action_that_did_nothing_is_recorded_as_such(self, desk: Any) -> None:
        self.lost(desk)
        words = ("reconcile", "run-1", action_of(desk, "run-1"), "--unchanged", "the service never got it")
        assert desk.json(*words)["status"] == "ready"
        assert desk.json("resume", "run-1")["status"] == "completed"
        events = desk.json("events", "run-1")["events"]
        assert [event["payload"]["metadata"]["message"] for event in events if event["type"] == "action.rejected"] == [
            "the service never got it"
        ]
        assert desk.published == ["lost"]

    @pytest.mark.parametrize("outcome", [(), ("--result", "1", "--unchanged", "nothing")])
    def test_exactly_one_outcome_is_recorded(self, desk: Any, outcome: tuple[str, ...]) -> None:
        self.lost(desk)
        found = desk.run("reconcile", "run-1", action_of(desk, "run-1"), *outcome)
        assert found.exit_code == USAGE
        assert "exactly one of --result JSON" in found.stderr
        assert desk.json("inspect", "run-1")["status"] == "uncertain"

    def test_result_that_is_no_json_changes_nothing(self, desk: Any) -> None:
        self.lost(desk)
        found = desk.run("reconcile", "run-1", action_of(desk, "run-1"), "--result", "done")
        assert found.exit_code == USAGE
        assert "--result is no JSON" in found.stderr
        assert desk.json("inspect", "run-1")["status"] == "uncertain"

    def test_rerun_is_refused_unless_idempotent(self, desk: Any) -> None:
        self.lost(desk)
        found = desk.run("resume", "run-1", "--rerun", action_of(desk, "run-1"))
        assert found.exit_code == FAILED
        assert "is not declared idempotent" in found.stderr
        assert desk.published == ["lost"]

    def test_cancel_refuses_an_uncertain_run(self, desk: Any) -> None:
        self.lost(desk)
        assert desk.run("cancel", "run-1").exit_code == UNCERTAIN
        assert desk.json("inspect", "run-1")["status"] == "uncertain"

    def test_cancel_ends_a_waiting_run(self, desk: Any) -> None:
        desk.start("ask", "run-1")
        assert desk.json("cancel", "run-1")["status"] == "canceled"
        found = desk.run("resume", "run-1")
        assert found.exit_code == FAILED
        assert "cannot be resumed" in found.stderr


class TestWhy:
    @pytest.mark.parametrize(
        ("prompt", "paragraph", "option"),
        [("ask", "asks a person: Which one?", "--answer TEXT"), ("Hello", "a person's approval", "--approve")],
    )
    def test_command_answers_the_pending_request(self, desk: Any, prompt: str, paragraph: str, option: str) -> None:
        desk.start(prompt, "run-1")
        found = desk.json("why", "run-1")
        assert paragraph in found["why"]
        binding = " ".join(desk.pending("run-1"))
        expected = f"protolink run resume run-1 {binding} {option} --factory cli_app:application"
        assert found["command"] == expected

    def test_printed_command_works_as_it_is(self, desk: Any) -> None:
        desk.start("Hello", "run-1")
        command = desk.json("why", "run-1")["command"].split()
        assert command[0] == "protolink"
        assert desk.process(*command[1:]).returncode == OK
        assert desk.published == ["Hello"]

    def test_tools_own_words_are_told(self, desk: Any) -> None:
        TestSettling().lost(desk)
        assert "ended without a receipt: the line went dead." in desk.json("why", "run-1")["why"]

    def test_owner_at_work_is_named_with_the_end_of_its_lease(self, desk: Any) -> None:
        desk.start("ask", "run-1")
        store = SQLiteDurableStore("runs.sqlite", lease_seconds=300)
        store.acquire("run-1", "helper", {})
        until = store.owned_until("run-1")
        assert until is not None
        told = desk.json("why", "run-1")["why"]
        assert f"has to wait until {iso_from_seconds(until)[:17].replace('T', ' ')}" in told
        assert desk.run("resume", "run-1").exit_code == FAILED
        store.close()

    def test_changed_application_is_told_with_the_parts(self, desk: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        desk.start("ask", "run-1")
        monkeypatch.setenv("VERSION", "2")
        told = desk.json("why", "run-1")["why"]
        assert "Changed: version (the application declares another execution_version)." in told
        monkeypatch.delenv("VERSION")
        assert "Changed" not in desk.json("why", "run-1")["why"]

    def test_end_of_a_request_is_told(self, desk: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        desk.start("Hello", "run-1")
        _, request, *_ = desk.pending("run-1")
        terms = {"deadlines": {request: "2026-01-02T03:04:05.678000+00:00"}, "rerunnable": []}
        monkeypatch.setattr(RunManager, "terms", lambda manager, run_id: terms)
        found = desk.json("why", "run-1")
        assert "The time for that ended at 2026-01-02 03:04:05 UTC" in found["why"]
        assert found["command"] == "protolink run resume run-1 --factory cli_app:application"

    def test_completed_run_points_to_its_events(self, desk: Any) -> None:
        desk.start("Hello", "run-1")
        desk.run("resume", "run-1", *desk.pending("run-1"), "--approve")
        found = desk.json("why", "run-1")
        assert "is completed" in found["why"]
        assert found["command"] == "protolink run events run-1 --factory cli_app:application"

    def test_failed_run_says_its_reason(self, desk: Any) -> None:
        desk.start("Hello", "run-1")
        desk.run("resume", "run-1", *desk.pending("run-1"), "--deny", "--reason", "too early")
        assert "ended failed: too early" in desk.json("why", "run-1")["why"]
