"""The paragraph and the command for every state of a run, from what is shown of it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from protolink.cli.why import Commands, explain, program

COMMANDS = Commands("app:application")


def shown(status: str, **more: Any) -> dict[str, Any]:
    """A projection as RunManager makes it."""
    waiting = more.pop("waiting", [])
    return {
        "run_id": "run-1",
        "agent_name": "helper",
        "status": status,
        "interruption": waiting[0] if waiting else None,
        "interruptions": waiting,
        "usage": {"llm_calls": 2, "tool_calls": 1},
        "uncertain_actions": [],
        **more,
    }


def event(kind: str, action: str, name: str = "publish") -> dict[str, Any]:
    return {
        "type": kind,
        "action_id": action,
        "timestamp": "2026-01-02T03:04:05.678+00:00",
        "severity": "info",
        "summary": f"Action {kind.partition('.')[2]}: {name}",
    }


def request(kind: str, **body: Any) -> dict[str, Any]:
    return {"run_id": "run-1", "request_id": "r-1", "kind": kind, "request": body, "fingerprint": "f-1"}


def test_run_cut_off_names_what_it_had_started() -> None:
    events = [
        event("action.started", "a", "look"),
        event("action.completed", "a", "look"),
        event("action.started", "b"),
    ]
    found = explain(shown("working"), events, COMMANDS)
    assert "It had started 'publish' at 2026-01-02 03:04:05 UTC, of which no receipt is stored." in found.paragraph
    assert "look" not in found.paragraph
    assert found.command == "protolink run resume run-1 --factory app:application"


def test_uncertain_child_is_reconciled_by_its_own_id() -> None:
    actions = [{"run_id": "child-1", "action_id": key, "name": "publish", "state": "uncertain"} for key in ("a", "b")]
    found = explain(shown("uncertain", uncertain_actions=actions), [event("action.started", "a")], COMMANDS)
    assert found.command == "protolink run reconcile child-1 a --result JSON --factory app:application"
    assert "started at 2026-01-02 03:04:05 UTC" in found.paragraph
    assert "1 more of its actions" in found.paragraph


@pytest.mark.parametrize(
    ("kind", "body", "words"),
    [
        ("yield", {"steps": 3}, "has used up its work slice"),
        ("retry", {"code": "provider_error", "message": "overloaded"}, "its model or a preparation failed: overloaded"),
    ],
)
def test_waits_without_a_question_are_resumed(kind: str, body: dict[str, Any], words: str) -> None:
    waiting = [request(kind, **body), request("yield")]
    found = explain(shown("input-required", waiting=waiting), [], COMMANDS)
    assert words in found.paragraph
    assert "1 more of its requests are pending." in found.paragraph
    assert found.command == "protolink run resume run-1 --factory app:application"


def test_command_quotes_what_a_shell_would_split() -> None:
    found = explain(shown("ready"), [], Commands("app:make; rm", "protolink"))
    assert found.command == "protolink run resume run-1 --factory 'app:make; rm'"


@pytest.mark.parametrize("run_id", ["run-1", "--json", "it's \\ a\x1b[1m\u202eb\n", "x y", "ünï"])
def test_command_can_be_copied_whatever_the_id_is(run_id: str) -> None:
    command = Commands("app:make", "printf '<%s>'").run("reconcile", run_id, "--result", "{}", action="action-1")
    assert command.isprintable()
    shell = shutil.which("bash")
    if shell is None:
        pytest.skip("there is no bash to copy it into")
    words = subprocess.run([shell, "-c", command], capture_output=True, check=True).stdout.decode()[1:-1].split("><")
    assert words[:2] == ["run", "reconcile"]
    ids = words[words.index("--") + 1 :] if "--" in words else words[2:4]
    assert ids == [run_id, "action-1"]
    assert words.index("--result") + 1 == words.index("{}")


@pytest.mark.parametrize(
    ("called", "again"),
    [
        ("protolink", "protolink"),
        ("somewhere/else/pytest", "protolink"),
        ("lib/protolink/__main__.py", f"{sys.executable} -m protolink"),
        ("environment/bin/protolink", "environment/bin/protolink"),
    ],
)
def test_program_is_written_as_it_was_called(called: str, again: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    assert program(str(Path(called))) == again


def test_program_on_the_path_is_written_by_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = tmp_path / "protolink"
    script.touch(mode=0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert program(str(script)) == "protolink"


def test_own_words_of_a_failed_tool_are_told() -> None:
    actions = [{"run_id": "run-1", "action_id": "a", "name": "publish", "state": "uncertain"}]
    told = {**event("action.uncertain", "a"), "payload": {"error": {"code": "OSError", "message": "the line died."}}}
    found = explain(shown("uncertain", uncertain_actions=actions), [event("action.started", "a"), told], COMMANDS)
    assert "ended without a receipt: the line died. Its effect" in found.paragraph
    assert "--unchanged TEXT" in found.paragraph


def test_owner_at_work_is_waited_for_until_its_lease_ends() -> None:
    obstacles = {"owned_until": "2026-01-02T03:09:05.678+00:00", "changes": [], "problem": None}
    question = request("input", question="Which?", options=[])
    found = explain(shown("working", waiting=[question]), [event("action.started", "b")], COMMANDS, obstacles)
    assert "is being worked on. It had started 'publish'" in found.paragraph
    assert "until 2026-01-02 03:09:05 UTC" in found.paragraph
    assert found.command == "protolink run resume run-1 --factory app:application"


def test_application_that_cannot_be_compared_is_told() -> None:
    obstacles = {"owned_until": None, "changes": [], "problem": "LookupError: no key."}
    found = explain(shown("ready"), [], COMMANDS, obstacles)
    assert "cannot be told here: LookupError: no key." in found.paragraph
    assert found.command == "protolink run resume run-1 --factory app:application"


def test_changed_parts_are_named_with_what_they_break() -> None:
    changes = [{"part": "tool:publish", "old": "1", "new": "2", "breaking": True, "reason": "it may not fit"}]
    found = explain(shown("ready"), [], COMMANDS, {"owned_until": None, "changes": changes, "problem": None})
    assert "Changed: tool:publish (it may not fit). Restore that first." in found.paragraph


def test_idempotent_action_may_be_run_again_by_the_root() -> None:
    actions = [{"run_id": "child-1", "action_id": "a", "name": "publish", "state": "uncertain"}]
    run, events = shown("uncertain", uncertain_actions=actions), [event("action.started", "a")]
    again = "protolink run resume run-1 --rerun a --factory app:application"
    found = explain(run, events, COMMANDS, terms={"deadlines": {}, "rerunnable": ["a"]})
    assert f"declared idempotent, so that it may also be run again, policy permitting ({again})." in found.paragraph
    assert "reconcile child-1 a" in found.command
    for other in ([], ["b"]):
        found = explain(run, events, COMMANDS, terms={"deadlines": {}, "rerunnable": other})
        assert "idempotent" not in found.paragraph


PUBLISH = {"action": {"name": "publish", "payload": {}}, "policy_decision": {"reason": "it asks"}}


@pytest.mark.parametrize(
    ("kind", "body", "asked", "then"),
    [
        ("approval", PUBLISH, "a person's approval of 'publish'", "resuming denies the action."),
        ("input", {"question": "Which?"}, "an answer to: Which?", "resuming goes on without an answer."),
    ],
)
def test_expired_request_takes_no_response_any_more(kind: str, body: dict[str, Any], asked: str, then: str) -> None:
    waiting = [request(kind, **body), request("yield")]
    terms = {"deadlines": {"r-1": "2026-01-02T03:04:05.678000+00:00"}, "rerunnable": []}
    found = explain(shown("input-required", waiting=waiting), [], COMMANDS, terms=terms)
    assert f"waited for {asked}. The time for that ended at 2026-01-02 03:04:05 UTC" in found.paragraph
    assert then in found.paragraph
    assert "1 more of its requests are pending." in found.paragraph
    assert found.command == "protolink run resume run-1 --factory app:application"


def test_request_that_will_expire_tells_until_when_it_can_be_answered() -> None:
    terms = {"deadlines": {"r-1": "9999-01-02T03:04:05.678000+00:00"}, "rerunnable": []}
    waiting = [request("input", question="Which?")]
    found = explain(shown("input-required", waiting=waiting), [], COMMANDS, terms=terms)
    assert "It takes a response until 9999-01-02 03:04:05 UTC." in found.paragraph
    assert "--answer TEXT" in found.command
