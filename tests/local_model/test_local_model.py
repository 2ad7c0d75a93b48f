"""A small base model through the real client. Judged is that its steps are actions and that runs hold, not its wit."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field

from protolink import Agent, RunBudget, Task
from protolink.llms import create_llm
from protolink.tools import Tool

APPLICATION = Path(__file__).parent / "application.py"

#: The model proposes to publish with nearly every one of these.
SEEDS = range(1, 9)


#: Shows the model, which only continues texts, how an exchange goes; JSON without spaces saves it many tokens.
EXAMPLES = """
user: How many a are in banana?
assistant: {"type":"tool_call","tool":"count","args":{"word":"banana","letter":"a"}}
user: {"type":"tool_result","tool":"count","result":3}
assistant: {"type":"final","content":"Three."}
"""


class Place(BaseModel):
    row: Annotated[int, Field(ge=0, le=9)]
    side: Literal["left", "right"]


class Move(BaseModel):
    start: Place
    end: Place


def move(step: Move) -> str:
    """Move a piece."""
    return f"moved to {step.end.side}"


def count(word: Annotated[str, Field(max_length=12)], letter: Literal["a", "b", "c"] = "a") -> int:
    """Count a letter in a word."""
    return word.count(letter)


def told(events: list[Any]) -> Counter[str]:
    """How often each kind of event of the model's loop came."""
    return Counter(event.llm_event_type for event in events if hasattr(event, "llm_event_type"))


def test_the_server_is_there_and_lists_its_model(base_url: str) -> None:
    llm: Any = create_llm("openai-compatible:gemma", base_url=base_url)
    assert llm.validate_connection()
    assert len(llm.list_models()) == 1


async def test_text_streams_and_is_counted_by_the_server(base_url: str) -> None:
    llm = create_llm("openai-compatible:gemma", base_url=base_url, model_params={"max_tokens": 12, "seed": 1})
    pieces: list[str] = []
    turn = await llm.turn(llm.history.copy().add_user("One, two, three,"), emit=pieces.append)
    assert len(pieces) > 1
    assert turn.text == "".join(pieces)
    assert turn.usage is not None
    assert 1 <= turn.usage["completion_tokens"] <= 12


@pytest.mark.parametrize("seed", [1, 2])
async def test_every_constrained_step_is_a_valid_action(base_url: str, seed: int) -> None:
    llm = create_llm(
        "openai-compatible:gemma",
        base_url=base_url,
        tool_calling="json",
        answer_limit=40,
        model_params={"max_tokens": 300, "temperature": 0.7, "seed": seed},
    )
    tools = [Tool.from_callable(move), Tool.from_callable(count)]
    agent = Agent(name="clerk", llm=llm, system_prompt=EXAMPLES, tools=tools, verbosity=0)
    task = Task.create_infer(prompt="Move a piece, then count a letter.", budget=RunBudget(max_steps=6))
    events = [event async for event in agent.handle_task_streaming(task)]
    seen = told(events)
    assert seen["llm_response"] >= 1
    assert seen["llm_action"] == seen["llm_response"]
    assert not {"llm_parse_error", "llm_error", "tool_rejected", "tool_error"} & seen.keys()


# ------------------------------------------------------------------------------------------------ durable runs


class Application:
    """The application, each call of it a process of its own."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.folder = folder
        self.store = folder / "runs.sqlite"

    def __call__(self, base_url: str, *what: str) -> dict[str, Any]:
        command = [sys.executable, str(APPLICATION), str(self.store), base_url, *what]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        found: dict[str, Any] = json.loads(done.stdout)
        return found

    @property
    def effects(self) -> list[str]:
        file = self.folder / "effects"
        return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []

    def events(self, base_url: str) -> Counter[str]:
        """The kinds of all stored events."""
        agent = _application().agent(self.store, base_url, int((self.folder / "seed").read_text()))
        events = agent.run_events(_application().RUN)
        return Counter(
            event.payload["llm_event_type"] if event.type == "llm.stream" else event.type for event in events
        )


def _application() -> Any:
    spec = importlib.util.spec_from_file_location("application", APPLICATION)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def waiting(tmp_path: Path, base_url: str) -> tuple[Application, dict[str, Any]]:
    """An application whose run waits for approval, and what it printed. Other seeds are passed by."""
    for seed in SEEDS:
        application = Application(tmp_path / f"seed-{seed}")
        printed = application(base_url, "start", "Publish hello world.", str(seed))
        if printed["status"] == "approval":
            return application, printed
    raise AssertionError("the model never proposed to publish")


def test_approval_in_one_process_and_the_rest_in_others(tmp_path: Path, base_url: str) -> None:
    application, printed = waiting(tmp_path, base_url)
    assert application.effects == []
    assert application(base_url, "resume") == printed  # nobody has answered: the same request waits
    approved = 0
    while printed["status"] == "approval":
        printed = application(base_url, "resume", printed["request"])
        approved += 1
        assert len(application.effects) == approved
    assert printed["status"] == "completed" or "Maximum" in printed["error"] or "max_steps" in printed["error"]
    seen = application.events(base_url)
    assert seen["action.completed"] == seen["action.approved"] == approved
    assert seen["llm_action"] == seen["llm_response"]
    assert not {"llm_parse_error", "llm_error", "action.rejected", "action.failed"} & seen.keys()


def test_a_run_outlives_the_server_of_its_model(tmp_path: Path, model_server: Any) -> None:
    base_url = model_server.start()
    application, printed = waiting(tmp_path, base_url)
    model_server.stop()
    printed = application(base_url, "resume", printed["request"])
    assert printed["status"] == "retry"
    assert len(application.effects) == 1
    base_url = model_server.start()
    printed = application(base_url, "resume")
    assert printed["status"] in ("completed", "approval", "failed")
    assert len(application.effects) == 1
    assert application.events(base_url)["llm_response"] >= 2
