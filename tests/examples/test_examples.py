"""Every example, as a reader runs it: as a process at the root of the repository, with nothing set up for it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
#: Ends only when it is stopped; it has tests of its own.
SERVER = "fastapi_app.py"
EXAMPLES = sorted(path for path in (ROOT / "examples").glob("*.py") if path.name != SERVER)

# An example that wanted a network would fail at its first connection.
_OFFLINE = """
import runpy, socket, sys
def refuse(*arguments):
    raise OSError("this example must not use the network")
socket.socket.connect = socket.socket.bind = refuse
sys.argv = sys.argv[1:]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def run(name: str, tmp_path: Path, *, offline: bool = False) -> str:
    """The output of an example. It must end well, say nothing on standard error and leave nothing behind."""
    before = stores()
    path = str(Path("examples") / name)
    words = [sys.executable, "-c", _OFFLINE, path] if offline else [sys.executable, path]
    done = subprocess.run(words, cwd=ROOT, env=environment(tmp_path), capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert list(tmp_path.iterdir()) == []
    assert stores() == before
    return done.stdout


def stores() -> list[str]:
    """Files at the root that a run may have been stored in."""
    return sorted(path.name for pattern in ("*.sqlite*", "*.db*") for path in ROOT.glob(pattern))


def environment(tmp_path: Path) -> dict[str, str]:
    """A stranger's: no keys, no home, temporary files where the test can see them."""
    kept = {name: os.environ[name] for name in ("PATH", "SYSTEMROOT") if name in os.environ}
    known = {"PYTHONPATH": str(ROOT / "src"), "TMPDIR": str(tmp_path), "PYTHONDONTWRITEBYTECODE": "1"}
    return {**kept, **known, "PYTHONWARNINGS": "error"}


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_every_example_runs_as_it_is(path: Path, tmp_path: Path) -> None:
    assert run(path.name, tmp_path).strip()


@pytest.mark.claim("INT-006", "INT-007", "INT-008")
def test_policy_example_approves_once_and_denies_once(tmp_path: Path) -> None:
    lines = run("runtime_policy_and_approvals.py", tmp_path, offline=True).splitlines()
    preview = lines.index("approval of 'update_record' is asked for; its preview greeting.diff:")
    assert lines[preview + 1 : preview + 4] == ["    -Hello", "    +Good morning", "the task is completed"]
    told = [line.split()[0] for line in lines if line.startswith(("    action.", "    approval."))]
    wanted = ["action.requested", "action.policy", "approval.required", "approval.decided", "action.started"]
    assert [kind for kind in told if kind in wanted] == wanted
    assert told[-1] == "action.completed"
    assert lines[-2:] == [
        "the run with stricter permissions is denied: Denied by rule: records.write",
        "the record is untouched: Hello",
    ]


@pytest.mark.claim("INT-009", "INT-010")
def test_cancellation_example_stops_before_the_last_effect(tmp_path: Path) -> None:
    text = run("task_cancellation.py", tmp_path, offline=True)
    assert text.index("action.started") < text.index("canceling the task while its tool is at work")
    assert "copied: ['entry 1']; committed: False" in text
    last = text.partition("the last event:")[2]
    assert '"type": "task.status"' in last
    assert '"new_state": "canceled"' in last
    assert '"final": true' in last


@pytest.mark.claim("INT-026", "DUR-005")
def test_durable_example_takes_three_processes(tmp_path: Path) -> None:
    lines = run("durable_execution.py", tmp_path, offline=True).splitlines()
    said = [re.fullmatch(r"\[process (\d+)\] (.*)", line) for line in lines[:4]]
    assert all(said)
    numbers, texts = zip(*(found.groups() for found in said if found), strict=True)
    assert len(set(numbers)) == 3
    assert texts == (
        "waits for approval: publish {'text': 'Version 2 is out'}",
        "approved and done; now it asks: Whom shall I tell about it? ['users', 'partners']",
        "answered: Published, and the list is chosen.",
        "all three together: 3 model calls, 2 tool calls",
    )
    assert lines[4:] == ["published 1 time: ['Version 2 is out']"]


@pytest.mark.claim("INT-038")
def test_worker_example_shows_workers_correction_and_continuation(tmp_path: Path) -> None:
    text = run("worker_execution.py", tmp_path, offline=True)
    first, _, second = text.partition(
        "the application grants another slice: Evidence E2 is found, and lint is selected."
    )
    events = [re.split(r"\s{2,}", line.strip()) for line in first.splitlines()]
    assert ["coordinator", "action.started", "Action started: researcher"] in events
    assert ["researcher", "task.status", "Task finished with state completed"] in events
    assert ["catalog", "action.completed"] in events
    assert ["coordinator", "action.rejected", "Tool 'select_check' rejected the request; nothing changed."] in events
    # The worker's own end is seen before the parent has its result.
    ended = events.index(["researcher", "task.status", "Task finished with state completed"])
    assert ended < events.index(["coordinator", "action.completed", "Action completed: researcher"])
    assert "the slice ended after 3 steps and 4 model calls; selected: []" in first
    assert "Action completed: select_check" in second
    assert "selected: ['lint']; in all 6 model calls and 2 tool calls" in second


@pytest.mark.claim("INT-027")
def test_group_example_cancels_its_process_after_the_first_output(tmp_path: Path) -> None:
    lines = run("embedded_group.py", tmp_path).splitlines()
    assert lines[-2] == "process.output tick 1"
    assert lines[-1].startswith("the run is canceled; ")
    assert "'active': 0" in lines[-1]


@pytest.mark.claim("INT-028")
def test_approval_example_decides_in_a_coroutine_of_its_own(tmp_path: Path) -> None:
    assert run("approval_adapter.py", tmp_path).splitlines() == [
        "release-1: pending: Version 2 is out",
        "release-1: approved: Version 2 is out",
        "release-1: the run is completed; published: ['Version 2 is out']",
        "release-2: pending: A rumour",
        "release-2: denied: A rumour",
        "release-2: the run is failed; published: ['Version 2 is out']",
    ]


def test_compact_example_keeps_everything_but_what_is_private(tmp_path: Path) -> None:
    assert run("compact_offline.py", tmp_path, offline=True).splitlines() == [
        "ann asks:",
        "  a model is made for ann",
        "  approved: refund {'order': '7'}",
        "  completed: Done: 40 EUR were paid back.",
        "after a restart she asks:",
        "  a model is made for ann",
        "  completed: You asked before: 'Please refund order 7'",
        "refunds: [('7', 40)]",
        "kept: 2 reports, the approvals [('refund', 'approved')]",
        "the token is in a file: False",
    ]


@pytest.mark.claim("GRP-020", "GRP-033", "GRP-034")
def test_streaming_example_reads_on_after_a_break_and_from_another_process(tmp_path: Path) -> None:
    lines = run("embedded_streaming.py", tmp_path, offline=True).splitlines()
    assert [line for line in lines if line.startswith("answer")] == [
        "answer delta: It is ",
        "answer delta: It is 12 degrees i",
        "answer delta: It is 12 degrees in Kiel.",
        "answer completed: It is 12 degrees in Kiel.",
    ]
    numbers = [int(found[1]) for line in lines if (found := re.match(r"activity (\d+):", line))]
    assert numbers == sorted(set(numbers))
    broken = next(index for index, line in enumerate(lines) if "connection breaks" in line)
    assert lines[broken - 1].endswith("measure started")
    assert lines[broken + 1].endswith("measure completed")
    stored = [line.removeprefix("stored ") for line in lines if line.startswith("stored")]
    seen = [line.removeprefix("activity ") for line in lines if line.startswith("activity")]
    assert stored == seen[-len(stored) :]
    assert len(stored) > 1
    assert lines[-2] == "event 2 is gone; the report knows completed as the state"
    assert lines[-1] == "then 5 events, the last one task.status"
