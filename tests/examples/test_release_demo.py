"""``make demo``: the release of a real repository through every interruption, and the same by hand."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("typer")
pytest.importorskip("rich")
if shutil.which("git") is None:
    pytest.skip("the demonstration needs git", allow_module_level=True)

ROOT = Path(__file__).resolve().parents[2]
DEMO = "examples.release_agent.demo"
FACTORY = "examples.release_agent.agent:application"


class Stage:
    """A stranger's machine: an empty home, no identity of git, temporary files where the test can see them."""

    def __init__(self, folder: Path) -> None:
        self.home = folder / "home"
        self.temporary = folder / "temporary"
        self.home.mkdir()
        self.temporary.mkdir()
        self.environment = {
            "PATH": os.environ["PATH"],
            "PYTHONPATH": str(ROOT / "src"),
            "HOME": str(self.home),
            "TMPDIR": str(self.temporary),
            "COLUMNS": "100",
            "PYTHONDONTWRITEBYTECODE": "1",
        }

    def run(self, *words: str, **more: str) -> Any:
        """``python WORDS`` at the root of the repository."""
        return subprocess.run(
            [sys.executable, *words], cwd=ROOT, env={**self.environment, **more}, capture_output=True, text=True
        )

    def protolink(self, *words: str, **more: str) -> Any:
        """``protolink run WORDS`` on the one folder of this stage."""
        known = {"RELEASE_DEMO": str(self.folder), "PROTOLINK_FACTORY": FACTORY}
        return self.run("-m", "protolink", "run", *words, **known, **more)

    def inspect(self) -> dict[str, Any]:
        """The run as the command line shows it to machines."""
        found: dict[str, Any] = json.loads(self.protolink("inspect", "release-1", "--json").stdout)
        return found

    def answer(self, *words: str, **more: str) -> Any:
        """Answer the pending request."""
        pending = self.inspect()["interruption"]
        binding = ("--request-id", pending["request_id"], "--fingerprint", pending["fingerprint"])
        return self.protolink("resume", "release-1", *binding, *words, **more)

    @property
    def folder(self) -> Path:
        """The only folder that was made."""
        [found] = self.temporary.iterdir()
        return found

    def git(self, *words: str) -> list[str]:
        """Lines that git prints about the repository."""
        done = subprocess.run(
            ["git", *words], cwd=self.folder / "repository", capture_output=True, text=True, check=True
        )
        return done.stdout.splitlines()


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> tuple[Stage, Any]:
    """The whole story, told once for all tests that only read it."""
    stage = Stage(tmp_path_factory.mktemp("demo"))
    return stage, stage.run("-m", DEMO)


class TestWholeStory:
    def test_story_ends_well(self, told: tuple[Stage, Any]) -> None:
        _, done = told
        assert (done.returncode, done.stderr) == (0, "")

    @pytest.mark.claim("DUR-005")
    def test_each_step_is_a_process_of_its_own(self, told: tuple[Stage, Any]) -> None:
        numbers = re.findall(r"process (\d+) ─", told[1].stdout)
        assert len(numbers) == len(set(numbers)) == 6

    def test_steps_are_told_in_order(self, told: tuple[Stage, Any]) -> None:
        parts = (
            "✓ git_log  Add low tides, Fix rounding at midnight, Read stations from a file",
            "Which version shall I release?",
            "waits for approval",
            '+__version__ = "1.3.0"',
            "Approved, exactly as shown.",
            "kill -9",
            "✗ tag v1.3.0   missing",
            "Refused: 'release' was started and left no receipt.",
            "protolink run reconcile release-1 action_",
            "$ git tag v1.3.0",
            "Released 1.3.0",
            "the run is completed",
            "By hand",
        )
        places = [told[1].stdout.find(part) for part in parts]
        assert -1 not in places
        assert places == sorted(places)

    def test_each_effect_happened_once(self, told: tuple[Stage, Any]) -> None:
        stage, done = told
        assert stage.git("log", "--format=%s").count("Release 1.3.0") == 1
        assert len([line for line in stage.git("reflog", "--format=%gs") if "Release 1.3.0" in line]) == 1
        assert stage.git("tag", "--points-at", "HEAD") == ["v1.3.0"]
        assert stage.git("show", "HEAD:src/tideline/_version.py") == ['__version__ = "1.3.0"']
        assert stage.git("status", "--porcelain") == []
        assert "✗" not in done.stdout.partition("What is on record")[2]

    def test_journal_knows_one_start_of_the_effect(self, told: tuple[Stage, Any]) -> None:
        stage, _ = told
        found = json.loads(stage.protolink("events", "release-1", "--json").stdout)["events"]
        assert [event["summary"] for event in found].count("Action started: release") == 1
        assert stage.inspect()["usage"]["tool_calls"] == 5

    def test_commands_that_are_printed_work(self, told: tuple[Stage, Any]) -> None:
        stage, done = told
        closing = done.stdout.partition("By hand")[2]
        exports = dict(re.findall(r"export (\w+)=(\S+)", closing))
        assert exports == {"RELEASE_DEMO": str(stage.folder), "PROTOLINK_FACTORY": FACTORY}
        commands = re.findall(r"protolink run (.+)", closing)
        assert [command.split()[0] for command in commands] == ["list", "inspect", "why", "events"]
        for command in commands:
            found = stage.run("-m", "protolink", "run", *command.split(), **exports)
            assert found.returncode == 0, found.stderr
            assert "release-1" in found.stdout or command.startswith("events")

    def test_nothing_but_the_folder_is_left(self, told: tuple[Stage, Any]) -> None:
        stage, _ = told
        assert {path.name for path in stage.folder.iterdir()} == {"repository", "runs.sqlite"} | {
            path.name for path in stage.folder.glob("runs.sqlite-*")
        }
        assert list(stage.home.iterdir()) == []


class TestByHand:
    def test_operator_can_play_the_whole_story(self, stage: Stage) -> None:
        assert stage.run("-m", DEMO, "--by-hand").returncode == 0
        assert stage.answer("--answer", "1.3.0").returncode == 3
        killed = stage.answer("--approve", RELEASE_DEMO_CRASH="after-commit")
        assert killed.returncode == -signal.SIGKILL
        assert stage.git("tag", "--list", "v1.3.0") == []
        assert "It had started 'release'" in stage.protolink("why", "release-1").stdout
        refused = stage.protolink("resume", "release-1")
        assert refused.returncode == 4
        assert "no tag v1.3.0: a part of it" in refused.stderr
        assert "proposes" not in refused.stderr
        action = stage.inspect()["uncertain_actions"][0]["action_id"]
        stage.git("tag", "v1.3.0")
        result = json.dumps({"version": "1.3.0", "commit": stage.git("rev-parse", "HEAD")[0], "tag": "v1.3.0"})
        assert f'proposes to record: {{"result": {result}}}' in stage.protolink("resume", "release-1").stderr
        assert stage.protolink("reconcile", "release-1", action, "--result", result).returncode == 0
        ended = stage.protolink("resume", "release-1")
        assert ended.returncode == 0
        assert "Released 1.3.0" in ended.stdout
        assert stage.git("log", "--format=%s").count("Release 1.3.0") == 1

    def test_declined_question_releases_nothing(self, stage: Stage) -> None:
        stage.run("-m", DEMO, "--by-hand")
        ended = stage.answer("--decline")
        assert ended.returncode == 0
        assert "Nothing was released" in ended.stdout
        assert stage.git("log", "-1", "--format=%s") == ["Read stations from a file"]

    def test_repository_that_moved_is_left_alone(self, stage: Stage) -> None:
        stage.run("-m", DEMO, "--by-hand")
        stage.answer("--answer", "1.3.0")
        identity = ("-c", "user.name=A", "-c", "user.email=a@example.invalid")
        stage.git(*identity, "commit", "--allow-empty", "-qm", "Somebody was faster")
        refused = stage.answer("--approve")
        assert refused.returncode == 1
        assert stage.git("log", "-1", "--format=%s") == ["Somebody was faster"]
        assert stage.git("tag", "--list", "v1.3.0") == []


class TestBadSurroundings:
    def test_missing_git_is_said_before_anything_is_made(self, stage: Stage, tmp_path: Path) -> None:
        done = stage.run("-m", DEMO, PATH=str(tmp_path / "nowhere"))
        assert done.returncode == 2
        assert "git is not installed" in done.stderr
        assert "Traceback" not in done.stderr
        assert list(stage.temporary.iterdir()) == []

    def test_folder_that_cannot_be_made_is_said(self, stage: Stage) -> None:
        sealed = "import tempfile; tempfile.mkdtemp = lambda **how: open('nowhere/at/all'); "
        done = stage.run("-c", f"{sealed}from {DEMO} import main; raise SystemExit(main([]))")
        assert done.returncode == 1
        assert "No folder can be made" in done.stderr
        assert "TMPDIR" in done.stderr
        assert "Traceback" not in done.stderr

    def test_unknown_words_are_usage(self, stage: Stage) -> None:
        done = stage.run("-m", DEMO, "--fast")
        assert done.returncode == 2
        assert done.stderr.startswith("usage: ")

    def test_interrupt_leaves_only_the_folder(self, stage: Stage) -> None:
        words = [sys.executable, "-m", DEMO]
        with subprocess.Popen(
            words, cwd=ROOT, env=stage.environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as demo:
            assert demo.stdout is not None
            assert demo.stderr is not None
            shown = ""
            while (line := demo.stdout.readline()) and not shown:
                shown = "".join(re.findall(r"process (\d+) ─", line))
            demo.send_signal(signal.SIGINT)
            demo.stdout.read()
            text = demo.stderr.read()
        assert demo.returncode == 130
        assert f"Stopped. What was done so far is in {stage.folder}" in text
        assert "Traceback" not in text
        with pytest.raises(ProcessLookupError):
            os.kill(int(shown), 0)

    def test_two_demonstrations_do_not_meet(self, stage: Stage) -> None:
        words = [sys.executable, "-m", DEMO, "--by-hand"]
        both = [subprocess.Popen(words, cwd=ROOT, env=stage.environment, stdout=subprocess.DEVNULL) for _ in range(2)]
        assert [demo.wait() for demo in both] == [0, 0]
        assert len(list(stage.temporary.iterdir())) == 2

    def test_factory_without_a_folder_says_what_to_set(self, stage: Stage) -> None:
        done = stage.run("-m", "protolink", "run", "list", "--factory", FACTORY)
        assert done.returncode == 1
        assert "RELEASE_DEMO must name the folder of a demonstration" in done.stderr
