"""A small application in the working directory, and the command line over it, in this process and in its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("typer")

from typer.testing import CliRunner

from protolink.cli.app import app

ROOT = Path(__file__).resolve().parents[2]

SOURCE = '''
import os
from protolink import Agent, CapabilityPolicy, RunManager
from protolink.llms import MockLLM
from protolink.tools import Tool, ask_user_tool

SECRET = "s3cr3t-value"


def publish(text: str, api_key: str = SECRET) -> dict:
    """Publish a text."""
    with open("published.txt", "a") as out:
        out.write(text + "\\n")
    if text == "lost":
        raise ConnectionError("the line went dead")
    return {"published": text}


def reply(history, system_prompt):
    said = next(str(message["content"]) for message in history.messages if message["role"] == "user")
    if sum(message["role"] == "assistant" for message in history.messages):
        return "all done"
    if said == "ask":
        args = {"question": "Which one?", "options": ["CSV", "JSON"]}
        return {"type": "tool_call", "tool": "ask_user", "args": args}
    if said == "boom":
        raise ConnectionError("the provider is down")
    return {"type": "tool_call", "tool": "publish", "args": {"text": said}}


def agent(name="helper"):
    return Agent(
        name=name,
        llm=MockLLM(response_callback=reply),
        tools=[ask_user_tool(), Tool.from_callable(publish, capabilities=["content.publish"])],
        policy=CapabilityPolicy({"content.publish": os.environ.get("PUBLISH", "require_approval")}),
        durability="runs.sqlite",
        execution_version=os.environ.get("VERSION", "1"),
    )


def application():
    return agent()


def several():
    return (agent(name) for name in ("helper", "other"))


def managed():
    return RunManager([agent()])


def broken():
    raise OSError("no such service")


def wrong():
    return 7


def words():
    return ["helper"]


NUMBER = 7
'''


class Desk:
    """The operator's place: ``run`` types a command, ``start`` starts runs of the application."""

    def __init__(self, folder: Path, module: str) -> None:
        self.folder = folder
        self.module = module
        self.factory = f"{module}:application"

    def run(self, *words: str, factory: str | None = None) -> Any:
        """``protolink run ...`` in this process; a result with exit_code, stdout and stderr."""
        return CliRunner().invoke(app, ["run", *words, "--factory", factory or self.factory])

    def json(self, *words: str, code: int = 0) -> Any:
        """The JSON that ``protolink run ... --json`` prints, with the exit code checked."""
        found = self.run(*words, "--json")
        assert found.exit_code == code, found.output
        return json.loads(found.stdout)

    def process(self, *words: str, python: tuple[str, ...] = ("-m", "protolink"), **environment: str) -> Any:
        """``protolink ...`` as a process of its own, which has not the working directory on its path."""
        known = {"PYTHONPATH": str(ROOT / "src"), "COLUMNS": "100", "TERM": "dumb", **environment}
        return subprocess.run(
            [sys.executable, "-P", *python, *words],
            cwd=self.folder,
            env={**os.environ, **known},
            capture_output=True,
            text=True,
        )

    def start(self, prompt: str, run_id: str, agent: str = "helper") -> None:
        """Start a run that stops before its end, whatever stops it."""
        module = sys.modules.get(self.module) or __import__(self.module)
        from protolink import DurableExecutionError, RunContext

        with pytest.raises(DurableExecutionError):
            module.agent(agent).sync.invoke(prompt, context=RunContext(run_id=run_id))

    def pending(self, run_id: str) -> tuple[str, ...]:
        """The options that bind an answer to the pending request."""
        found = self.json("inspect", run_id)["interruption"]
        return "--request-id", found["request_id"], "--fingerprint", found["fingerprint"]

    @property
    def published(self) -> list[str]:
        """What the application did to the world."""
        path = self.folder / "published.txt"
        return path.read_text(encoding="utf-8").split() if path.exists() else []


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Iterator[Desk]:
    """The application lies in an empty working directory and is imported anew."""
    module = "cli_app"
    (tmp_path / f"{module}.py").write_text(SOURCE, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.delenv("PROTOLINK_FACTORY", raising=False)
    monkeypatch.setenv("COLUMNS", "200")
    sys.modules.pop(module, None)
    yield Desk(tmp_path, module)
    sys.modules.pop(module, None)
