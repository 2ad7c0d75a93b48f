"""The agent, as every process makes it anew: ``protolink run list --factory examples.release_agent.agent:application``.

The folder with the repository and the store of runs comes from the environment, since a factory has no arguments.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

from protolink import Agent, CapabilityPolicy, ConversationHistory
from protolink.llms import Call, MockLLM, ModelTurn
from protolink.tools import Tool, ask_user_tool

from .model import INSTRUCTIONS, chosen_model
from .release import release_tool
from .workspace import Workspace

#: Names the folder of one demonstration.
HOME = "RELEASE_DEMO"
NAME = "release-agent"
SCRIPTED = "You release software. Look at the repository first, ask which version to release, then release."


def application() -> Agent:
    """The release agent of the folder in RELEASE_DEMO, with the model that ``chosen_model`` finds or else the script.

    RuntimeError when that is not set or no demonstration.
    """
    home = Path(os.environ.get(HOME, ""))
    if not os.environ.get(HOME) or not (home / "repository").is_dir():
        raise RuntimeError(f"{HOME} must name the folder of a demonstration; make demo prints it")
    workspace = Workspace(home / "repository")
    model = chosen_model()
    return Agent(
        name=NAME,
        llm=model or MockLLM("scripted", response_callback=next_turn, tool_calling="native"),
        system_prompt=INSTRUCTIONS if model else SCRIPTED,
        tools=[*inspection_tools(workspace), ask_user_tool(), release_tool(workspace)],
        policy=CapabilityPolicy({"git.read": "allow", "git.write": "require_approval"}),
        durability=home / "runs.sqlite",
    )


def inspection_tools(workspace: Workspace) -> list[Tool]:
    """Three tools that only look; after a crash they may simply run again."""

    def git_log() -> list[str]:
        """The commits since the last release, the oldest first."""
        return workspace.subjects(f"v{workspace.version}")

    def read_version() -> str:
        """The version that the version file holds."""
        return workspace.version

    def list_tests() -> list[str]:
        """The names of all tests."""
        texts = (path.read_text(encoding="utf-8") for path in sorted((workspace.root / "tests").glob("test_*.py")))
        return [name for text in texts for name in re.findall(r"^def (test_\w+)", text, flags=re.MULTILINE)]

    return [
        Tool.from_callable(function, capabilities=["git.read"], read_only=True)
        for function in (git_log, read_version, list_tests)
    ]


def next_turn(history: ConversationHistory, system_prompt: str) -> ModelTurn:
    """What a model would say next, told from the conversation alone; so a restarted process says the same."""
    seen = observations(history)
    if "git_log" not in seen:
        return turn("I look at what has changed, what was released last, and what is tested.", ("git_log", {}),
                    ("read_version", {}), ("list_tests", {}))  # fmt: skip
    if "ask_user" not in seen:
        return turn("There is something to release. Which version it becomes is not mine to decide.", question(seen))
    if "release" not in seen:
        answer = seen["ask_user"].get("answer")
        if answer is None:
            return ModelTurn("Nothing was released: no version was chosen.")
        return turn(f"{answer} it is. I prepare the release.", ("release", {"version": answer.strip()}))
    return ModelTurn(closing(seen["release"]))


def question(seen: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    """Ask for the next version, with the three usual ones to choose from."""
    major, minor, patch = map(int, seen["read_version"].split("."))
    options = [f"{major}.{minor}.{patch + 1}", f"{major}.{minor + 1}.0", f"{major + 1}.0.0"]
    asked = f"{len(seen['git_log'])} commits since {seen['read_version']}. Which version shall I release?"
    return "ask_user", {"question": asked, "options": options}


def closing(released: dict[str, Any]) -> str:
    """The last word, by what the tool or the operator reported."""
    if "commit" not in released:
        return f"Nothing was released: {released.get('message', 'the release was refused')}"
    return f"Released {released['version']}: commit {released['commit'][:7]}, tag {released['tag']}."


def turn(text: str, *calls: tuple[str, dict[str, Any]]) -> ModelTurn:
    """One reply with its tool calls."""
    return ModelTurn(text, tuple(Call(f"{tool}-{n}", tool, args) for n, (tool, args) in enumerate(calls, 1)))


def observations(history: ConversationHistory) -> dict[str, Any]:
    """The newest result of each tool that has one, by the tool's name."""
    found = {}
    for message in history:
        if message.role == "tool" and message.tool_name is not None:
            found[message.tool_name] = json.loads(message.content)["result"]
    return found
