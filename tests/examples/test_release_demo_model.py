"""``make demo MODEL=... BASE_URL=...``: a model takes the decisions, over real HTTP, and may take other ones."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from tests.llms.conftest import ChatServer, completion, http

from protolink import Agent, RunContext

pytest.importorskip("typer")
pytest.importorskip("rich")
pytest.importorskip("openai")
if shutil.which("git") is None:
    pytest.skip("the demonstration needs git", allow_module_level=True)

# A plain pytest does not look for packages at the root of the repository.
sys.path.append(str(Path(__file__).resolve().parents[2]))

from examples.release_agent.agent import application
from examples.release_agent.course import Astray, until_approval, until_end, until_question
from examples.release_agent.model import chosen_model
from examples.release_agent.workspace import Workspace

ROOT = Path(__file__).resolve().parents[2]
DEMO = "examples.release_agent.demo"
KEY = "key-of-a-test-4711"
RUN = "release-1"


def says(*calls: tuple[str, dict[str, Any]], text: str | None = None) -> bytes:
    """A reply of the model with these tool calls."""
    named = [(f"call-{tool}-{n}", tool, json.dumps(args)) for n, (tool, args) in enumerate(calls)]
    return completion(text, *named, finish="tool_calls" if calls else "stop")


LOOKS = says(("git_log", {}), ("read_version", {}), ("list_tests", {}), text="Let me look.")
ASKS = says(("ask_user", {"question": "Which one shall it be?", "options": ["1.2.1", "1.3.0"]}))
RELEASES = says(("release", {"version": "1.3.0"}))
ENDS = says(text="Version 1.3.0 is out.")


def asks(question: str) -> bytes:
    return says(("ask_user", {"question": question}))


@dataclass
class Shown:
    code: int
    out: str
    err: str
    folder: Path | None
    requests: list[Any]

    @property
    def text(self) -> str:
        """What the screen showed, whatever the width broke into lines."""
        return " ".join(self.out.split())

    @property
    def exports(self) -> dict[str, str]:
        """The variables that the screen tells to set."""
        return dict(re.findall(r"export (\w+)=(\S+)", self.out))

    def git(self, *words: str) -> list[str]:
        assert self.folder is not None
        return Workspace(self.folder / "repository").git(*words).splitlines()


@contextmanager
def model(*replies: bytes) -> Iterator[ChatServer]:
    """A server that replies so, in a thread of its own, beside whatever loop or process asks it."""
    server, loop = ChatServer(*replies), asyncio.new_event_loop()
    loop.run_until_complete(server.__aenter__())
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        yield server
    finally:
        asyncio.run_coroutine_threadsafe(server.__aexit__(), loop).result()
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def play(folder: Path, *words: str, **more: str) -> Shown:
    """``python WORDS`` on a stranger's machine, at the root of the repository."""
    home, temporary = folder / "home", folder / "temporary"
    home.mkdir(exist_ok=True)
    temporary.mkdir(exist_ok=True)
    environment = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(ROOT / "src"),
        "HOME": str(home),
        "TMPDIR": str(temporary),
        "COLUMNS": "100",
        "PYTHONDONTWRITEBYTECODE": "1",
        "RELEASE_DEMO_MODEL": "openai-compatible:clever",
        "RELEASE_DEMO_API_KEY": KEY,
        **more,
    }
    done = subprocess.run([sys.executable, *words], cwd=ROOT, env=environment, capture_output=True, text=True)
    assert KEY not in done.stdout + done.stderr
    return Shown(done.returncode, done.stdout, done.stderr, next(temporary.iterdir(), None), [])


@pytest.fixture(scope="module")
def told(tmp_path_factory: pytest.TempPathFactory) -> Shown:
    """The whole story with a model that is clumsy at first, told once for all tests that only read it."""
    clumsy = says(("release", {"version": "v1.3"}))
    with model(LOOKS, ASKS, clumsy, asks("Are you sure?"), RELEASES, ENDS) as server:
        shown = play(tmp_path_factory.mktemp("model"), "-m", DEMO, RELEASE_DEMO_BASE_URL=server.url)
    shown.requests = server.requests
    return shown


class TestWholeStory:
    @pytest.mark.claim("DUR-005", "DUR-009")
    def test_model_takes_every_decision_across_processes_and_one_release_happens(self, told: Shown) -> None:
        assert (told.code, told.err) == (0, "")
        parts = (
            "openai-compatible:clever takes the decisions",
            "Which one shall it be?",
            "kill -9",
            "Version 1.3.0 is out.",
            "the run is completed",
        )
        places = [told.text.find(part) for part in parts]
        assert -1 not in places
        assert places == sorted(places)
        assert told.git("log", "--format=%s").count("Release 1.3.0") == 1
        assert told.git("tag", "--points-at", "HEAD") == ["v1.3.0"]

    def test_model_is_asked_with_the_tools_the_instructions_and_the_key(self, told: Shown) -> None:
        assert len(told.requests) == 6
        assert {request.headers["authorization"] for request in told.requests} == {f"Bearer {KEY}"}
        asked = told.requests[0].body
        names = {tool["function"]["name"] for tool in asked["tools"]}
        assert asked["model"] == "clever"
        assert names == {"git_log", "read_version", "list_tests", "ask_user", "release"}
        assert all(name in asked["messages"][0]["content"] for name in names)

    @pytest.mark.claim("DUR-016")
    def test_model_in_the_next_process_sees_the_answer(self, told: Shown) -> None:
        before, after = (json.dumps(request.body["messages"][1:]) for request in told.requests[1:3])
        assert "1.3.0" not in before
        assert "1.3.0" in after

    def test_clumsy_call_is_shown_and_another_question_gets_the_same_answer(self, told: Shown) -> None:
        assert "✗ release 'v1.3' is no version such as 1.3.0" in told.text
        assert "Are you sure?" in told.text
        assert "As I said: 1.3.0" in told.text

    def test_key_is_neither_exported_nor_stored(self, told: Shown) -> None:
        assert set(told.exports) == {
            "RELEASE_DEMO",
            "PROTOLINK_FACTORY",
            "RELEASE_DEMO_MODEL",
            "RELEASE_DEMO_BASE_URL",
        }
        assert told.folder is not None
        stores = list(told.folder.glob("runs.sqlite*"))
        assert stores
        assert all(KEY.encode() not in store.read_bytes() for store in stores)


class Course:
    """The way of one run, in this process, with a model that replies as it is told."""

    def __init__(self, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.workspace = Workspace(home / "repository")
        self.workspace.create()
        self.variables = monkeypatch
        self.again: list[str] = []
        self.variables.setenv("RELEASE_DEMO", str(home))
        self.variables.setenv("RELEASE_DEMO_MODEL", "openai-compatible:clever")

    def agent(self, server: ChatServer) -> Agent:
        self.variables.setenv("RELEASE_DEMO_BASE_URL", server.url)
        return application()

    def run(self, *replies: bytes) -> None:
        """From the task to the release that waits for approval, as the first two processes take it."""
        with model(*replies) as server:
            agent = self.agent(server)
            question = until_question(agent.invoke("Release.", context=RunContext(run_id=RUN)))
            pending = until_approval(agent, RUN, question, "1.3.0", lambda asked: self.again.append(asked["question"]))
            response = {"request_id": pending["request_id"], "fingerprint": pending["fingerprint"], "approved": True}
            until_end(agent.resume(RUN, **response))


@pytest.fixture
def course(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Course:
    return Course(tmp_path, monkeypatch)


class TestModelGoesElsewhere:
    @pytest.mark.parametrize(
        ("replies", "told"),
        [
            pytest.param(
                [LOOKS, says(text="All is well.")],
                "The model finished instead of asking which version to release. Its last words: All is well.",
                id="ends-before-asking",
            ),
            pytest.param(
                [RELEASES],
                "The model wants to release 1.3.0 without having asked. Nobody approved, nothing ran.",
                id="does-not-ask",
            ),
            pytest.param(
                [ASKS, says(text="Perhaps tomorrow.")],
                "The model finished instead of releasing 1.3.0. Its last words: Perhaps tomorrow.",
                id="ends-before-releasing",
            ),
            pytest.param(
                [ASKS, says(("release", {"version": "2.0.0"}))],
                "The model wants to release 2.0.0, and the answer was 1.3.0. Nobody approved, nothing ran.",
                id="releases-another-version",
            ),
            pytest.param(
                [ASKS, asks("Sure?"), asks("Really?"), asks("Truly?")],
                "The model asked 3 times more instead of releasing 1.3.0.",
                id="asks-for-ever",
            ),
            pytest.param(
                [says(("release", {"version": "soon"}))] * 9,
                "The run ended instead of asking which version to release:",
                id="does-not-learn",
            ),
        ],
    )
    def test_it_is_told_and_nothing_was_released(self, course: Course, replies: list[bytes], told: str) -> None:
        with pytest.raises(Astray, match=f"^{re.escape(told)}"):
            course.run(*replies)
        assert course.workspace.git("log", "-1", "--format=%s") == "Read stations from a file"
        assert course.workspace.git("tag") == "v1.2.0"
        assert course.workspace.git("status", "--porcelain") == ""

    def test_second_release_is_not_approved(self, course: Course) -> None:
        with pytest.raises(Astray, match=r"wants to release 1\.3\.1 instead of finishing"):
            course.run(ASKS, RELEASES, says(("release", {"version": "1.3.1"})))
        assert course.workspace.git("tag").split() == ["v1.2.0", "v1.3.0"]

    def test_another_question_after_the_release_is_told(self, course: Course) -> None:
        with pytest.raises(Astray, match="wants to ask once more instead of finishing"):
            course.run(ASKS, RELEASES, asks("Another one?"))


class TestWrongServer:
    @pytest.mark.claim("DUR-027")
    def test_refused_run_waits_and_plain_resume_goes_on_once_the_address_is_right(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with model(http(401, {"error": {"message": f"wrong key {KEY}"}})) as wrong:
            parked = play(tmp_path, "-m", DEMO, RELEASE_DEMO_BASE_URL=wrong.url)
        assert parked.code == 1
        assert "The model could not be asked:" in parked.text
        assert "Set what is wrong right (RELEASE_DEMO_BASE_URL, RELEASE_DEMO_API_KEY)" in parked.text
        assert f"protolink run resume {RUN}" in parked.text
        assert parked.err.strip() == f"The demonstration ends here, as told above. The folder stays: {parked.folder}"
        with model(LOOKS, ASKS) as right:
            for name, value in {**parked.exports, "RELEASE_DEMO_BASE_URL": right.url}.items():
                monkeypatch.setenv(name, value)
            question = until_question(application().resume(RUN))
        assert question["request"]["question"] == "Which one shall it be?"

    def test_address_without_a_model_is_told_in_words(self, course: Course) -> None:
        with pytest.raises(Astray, match=r"could not be asked: .*base_url.*resume it; it goes on from here"):
            course.run(http(404, "nothing here"))

    @pytest.mark.parametrize(
        ("named", "url", "key", "told"),
        [
            ("openai-compatible:clever", "", "", "RELEASE_DEMO_BASE_URL is not"),
            ("openai-compatible:clever", "nowhere", "", "base_url must be the http"),
            ("openai-compatible:clever", "http://127.0.0.1:9/v1", f"{KEY} ", "api_key must be"),
            ("", "http://127.0.0.1:9/v1", "", "name the model too"),
            ("clever", "http://127.0.0.1:9/v1", "", "it must be openai-compatible:NAME"),
        ],
    )
    def test_wrong_variable_is_named_and_the_key_is_not_shown(
        self, monkeypatch: pytest.MonkeyPatch, named: str, url: str, key: str, told: str
    ) -> None:
        monkeypatch.setenv("RELEASE_DEMO_MODEL", named)
        monkeypatch.setenv("RELEASE_DEMO_BASE_URL", url)
        monkeypatch.setenv("RELEASE_DEMO_API_KEY", key)
        with pytest.raises(ValueError, match=told) as caught:
            chosen_model()
        assert KEY not in str(caught.value)

    def test_demonstration_says_so_before_anything_is_made(self, tmp_path: Path) -> None:
        shown = play(tmp_path, "-m", DEMO)
        assert shown.code == 2
        assert "RELEASE_DEMO_BASE_URL is not" in shown.err
        assert "Traceback" not in shown.err
        assert shown.folder is None
