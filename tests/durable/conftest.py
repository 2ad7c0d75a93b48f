"""An application that is started again and again on one file, in this process or in its own ones."""

from __future__ import annotations

import copy
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from protolink import Agent, RunContext, RunInterrupted
from protolink.errors import CheckpointMismatchError, RunBusyError
from protolink.journal import RunCheckpoint, SQLiteDurableStore
from protolink.llms import Call, MockLLM, ModelTurn
from protolink.tools import Tool

RUN = "run-1"


class HandClock:
    """Unix time that only the test moves; waiting jumps to its end."""

    def __init__(self) -> None:
        self.time = 1_800_000_000.0
        self._calls: list[tuple[float, Callable[[], None]]] = []

    def now(self) -> float:
        return self.time

    async def sleep_until(self, when: float) -> None:
        self.advance(max(0.0, when - self.time))

    def call_at(self, when: float, callback: Callable[[], None]) -> Callable[[], None]:
        entry = (when, callback)
        self._calls.append(entry)
        return lambda: self._calls.remove(entry) if entry in self._calls else None

    def advance(self, seconds: float) -> None:
        self.time += seconds
        due = [entry for entry in self._calls if entry[0] <= self.time]
        for entry in due:
            self._calls.remove(entry)
            entry[1]()


class Script:
    """A model's turns by position: a (tool, arguments) pair, a list of pairs, text, a ModelTurn or an exception.

    The turn is told from the conversation, so a model that was made anew goes on where the stored one stopped.
    ``seen`` has the conversation of every request.
    """

    def __init__(self, turns: Any, native: bool) -> None:
        self.turns = list(turns)
        self.native = native
        self.seen: list[list[dict[str, Any]]] = []

    def __call__(self, history: Any, prompt: str) -> Any:
        self.seen.append(history.messages)
        turn = self.turns[sum(message["role"] == "assistant" for message in history.messages)]
        return self._spoken(turn)

    def _spoken(self, turn: Any) -> Any:
        if isinstance(turn, (str, ModelTurn, Exception)):
            return turn
        calls = turn if isinstance(turn, list) else [turn]
        if self.native:
            return ModelTurn("", tuple(Call(f"call-{n}", tool, args) for n, (tool, args) in enumerate(calls)))
        [(tool, args)] = calls
        if tool == "agent_call":
            return {"type": "agent_call", **args}
        return {"type": "tool_call", "tool": tool, "args": args}


class Scene:
    """The application: what it makes anew at each start, and the outside world that its tools change."""

    run_id = RUN

    def __init__(self, path: Path, mode: str) -> None:
        self.path = path
        self.mode = mode
        self.effects: list[Any] = []
        self.scripts: list[Script] = []
        self.calls: list[tuple[str, dict[str, Any]]] = []

    def publish(self, **traits: Any) -> Tool:
        """The tool ``publish(text)``; its effect is in ``effects``."""

        def publish(text: str) -> dict[str, str]:
            """Publish a text."""
            self.effects.append(text)
            return {"published": text}

        return Tool.from_callable(publish, capabilities=["content.publish"], **traits)

    def model(self, *turns: Any, native: bool | None = None) -> MockLLM:
        """A model that plays the turns."""
        native = self.mode == "native" if native is None else native
        script = Script(turns, native)
        self.scripts.append(script)
        return MockLLM(response_callback=script, tool_calling="native" if native else None)

    def agent(self, tools: Any, *calls: tuple[str, dict[str, Any]], **how: Any) -> Agent:
        """The agent as a new process makes it. ``calls``: what is called: one directly, or one a turn by the model."""
        if calls:
            self.calls = list(calls)
        how.setdefault("durability", str(self.path))
        if self.mode != "direct" and "llm" not in how:
            how["llm"] = self.model(*self.calls, "done")
        return Agent(name="helper", tools=tools, **how)

    async def begin(self, agent: Agent, *, run_id: str = RUN, **how: Any) -> Any:
        """Start the calls; the result is the tool's own or the model's "done"."""
        how["context"] = RunContext(run_id=run_id)
        if self.mode != "direct":
            return await agent.invoke("go", **how)
        [(tool, args)] = self.calls
        return await agent.invoke("go", part_type="tool_call", tool_name=tool, tool_args=args, **how)

    async def pause(self, agent: Agent, **how: Any) -> RunInterrupted:
        """Start, and return the interruption that it must come to."""
        with pytest.raises(RunInterrupted) as caught:
            await self.begin(agent, **how)
        return caught.value

    def result(self, value: Any) -> Any:
        """What the caller gets when the tool returned ``value``."""
        return value if self.mode == "direct" else "done"

    def observed(self) -> list[Any]:
        """The tool results that the newest model saw, in order."""
        last = self.scripts[-1].seen[-1]
        found = [json.loads(message["content"]) for message in last if message["role"] == "tool"]
        return [item["result"] for item in found]


@pytest.fixture(params=["direct", "json", "native"])
def mode(request: pytest.FixtureRequest) -> Any:
    """A direct tool call, a model that writes JSON actions, a model with tool calls of its own."""
    return request.param


@pytest.fixture
def scene(tmp_path: Path, mode: str) -> Scene:
    return Scene(tmp_path / "runs.sqlite", mode)


@pytest.fixture
def direct(tmp_path: Path) -> Scene:
    return Scene(tmp_path / "runs.sqlite", "direct")


@pytest.fixture(params=["json", "native"])
def inferred(request: pytest.FixtureRequest, tmp_path: Path) -> Scene:
    """Work that a model selects."""
    return Scene(tmp_path / "runs.sqlite", request.param)


@pytest.fixture
def native(tmp_path: Path) -> Scene:
    return Scene(tmp_path / "runs.sqlite", "native")


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


class Tape:
    """A store of the four methods alone that remembers every save, so that a crash after any of them can be played."""

    def __init__(self, saves: Any = ()) -> None:
        self.runs: dict[str, tuple[str, str, dict[str, Any]]] = {}
        self.owners: dict[str, str] = {}
        self.saves: list[tuple[str, str, str, dict[str, Any]]] = []
        self._tokens = 0
        for run_id, agent_name, status, data in saves:
            self._put(run_id, agent_name, status, data)

    def _put(self, run_id: str, agent_name: str, status: str, data: dict[str, Any]) -> None:
        kept = copy.deepcopy(data)
        self.runs[run_id] = (agent_name, status, kept)
        self.saves.append((run_id, agent_name, status, kept))

    def get(self, run_id: str) -> RunCheckpoint | None:
        found = self.runs.get(run_id)
        return None if found is None else RunCheckpoint(run_id, found[0], found[1], copy.deepcopy(found[2]))

    def acquire(self, run_id: str, agent_name: str, initial: dict[str, Any]) -> tuple[str, RunCheckpoint]:
        if run_id in self.owners:
            raise RunBusyError(f"run {run_id} is owned")
        if run_id not in self.runs:
            self._put(run_id, agent_name, "ready", initial)
        found = self.get(run_id)
        assert found is not None
        if found.agent_name != agent_name:
            raise CheckpointMismatchError(f"run {run_id} belongs to another agent")
        self._tokens += 1
        self.owners[run_id] = f"token-{self._tokens}"
        return self.owners[run_id], found

    def save(self, run_id: str, token: str, status: str, data: dict[str, Any]) -> None:
        if self.owners.get(run_id) != token:
            raise RunBusyError(f"run {run_id}: the lease is lost")
        json.dumps(data, allow_nan=False)
        self._put(run_id, self.runs[run_id][0], status, data)

    def release(self, run_id: str, token: str) -> None:
        if self.owners.get(run_id) == token:
            del self.owners[run_id]

    def after(self, count: int) -> Tape:
        """The store as a crash right after the save number ``count`` leaves it, its owner gone."""
        return Tape(self.saves[:count])

    def first(self, wanted: Callable[[str, dict[str, Any]], bool], run_id: str = RUN) -> int:
        """The number of the first save of the run whose status and data are wanted."""
        for number, (saved, _, status, data) in enumerate(self.saves, 1):
            if saved == run_id and "actions" in data and wanted(status, data):
                return number
        raise AssertionError("no save is like that")


@pytest.fixture
def tape() -> Tape:
    return Tape()


@pytest.fixture
def new_tape() -> Callable[[], Tape]:
    return Tape


def states(checkpoint: Any) -> list[str]:
    """The states of the stored actions, in order."""
    return [entry["state"] for entry in checkpoint.data["actions"].values()]


@pytest.fixture
def states_of() -> Callable[[Any], list[str]]:
    return states


@pytest.fixture
def later(tmp_path: Path) -> Callable[..., SQLiteDurableStore]:
    """Opens the store of the scene as it is seen ``seconds`` from now."""
    import time

    def opened(seconds: float, **how: Any) -> SQLiteDurableStore:
        return SQLiteDurableStore(
            tmp_path / "runs.sqlite",
            clock=lambda: time.time() + seconds,
            monotonic=lambda: time.monotonic() + seconds,
            **how,
        )

    return opened


# ---------------------------------------------------------------------------------------------------- processes

APPLICATION = '''
"""python app.py DATABASE WORLD MODE VERB DIE_AT [JSON]: one start of the application; prints what became of it."""
import asyncio, json, os, signal, sys
from protolink import (Agent, CapabilityPolicy, RunAction, RunContext, RunInterrupted, Task, TaskExecutionError,
                       ToolRejectedError)
from protolink.llms import Call, MockLLM, ModelTurn
from protolink.tools import Tool, ask_user_tool

database, world, mode, verb, die, *rest = sys.argv[1:]
how = json.loads(rest[0]) if rest else {}
tool, args = how.pop("call", ["publish", {"text": "hello"}])
ask = how.pop("ask", False)
kill = getattr(signal, how.pop("signal", "SIGKILL"))


def note(text):
    with open(world, "a") as file:
        file.write(text + "\\n")


def stop(place):
    if place == die:
        os.kill(os.getpid(), kill)


async def build(arguments, context):
    while die == "prepare" and not agent.durability.get("run-1").data.get("actions"):
        await asyncio.sleep(0)  # until the call is stored, as in every preparation that takes its time
    stop("prepare")
    return RunAction("tool.call", "publish", {"arguments": arguments})


def publish(text: str) -> dict:
    """Publish a text."""
    stop("before effect")
    note("published " + text)
    stop("after effect")
    if text == "interrupt":
        raise KeyboardInterrupt
    return {"published": text}


async def publish_later(text: str) -> dict:
    """Publish a text, in a coroutine."""
    if die == "waiting":
        os.kill(os.getpid(), kill)
        await asyncio.Event().wait()
    return publish(text)


def refuse(text: str) -> dict:
    """Refuse what is bad."""
    note("refused " + text)
    raise ToolRejectedError("bad text", code="bad_text")


def play(history, prompt):
    turn = sum(message["role"] == "assistant" for message in history.messages)
    note(f"model {turn}")
    stop(f"model {turn}")
    if turn:
        note("observed " + [m["content"] for m in history.messages if m["role"] == "tool"][-1])
        return "done"
    if mode == "native":
        return ModelTurn("", (Call("c", tool, args),))
    return {"type": "tool_call", "tool": tool, "args": args}


def main():
    global agent
    native = "native" if mode == "native" else None
    agent = Agent(
        name="helper",
        tools=[Tool.from_callable(publish, capabilities=["content.publish"], action_builder=build),
               Tool.from_callable(publish_later), Tool.from_callable(refuse), ask_user_tool()],
        llm=None if mode == "direct" else MockLLM(response_callback=play, tool_calling=native),
        policy=CapabilityPolicy({"content.publish": "require_approval"} if ask else {}),
        durability=database,
    )
    if verb == "start":
        context = RunContext(run_id="run-1")
        if mode == "direct":
            return agent.sync.invoke("go", part_type="tool_call", tool_name=tool, tool_args=args, context=context)
        return agent.sync.invoke("go", context=context)
    if verb == "reconcile":
        entry = next(iter(agent.durability.get("run-1").data["actions"].values()))
        return agent.reconcile("run-1", entry["action"]["action_id"], **how)
    return agent.sync.resume("run-1", **how)


try:
    print(json.dumps({"output": main()}))
except RunInterrupted as pause:
    found = pause.interruption
    print(json.dumps({"paused": found.kind, "request_id": found.request_id, "fingerprint": found.fingerprint}))
except BaseException as error:
    print(json.dumps({"error": type(error).__name__, "text": str(error)}))
'''


class Processes:
    """Starts of the application above, each a process of its own. ``world`` are the lines that its tools wrote."""

    def __init__(self, folder: Path, mode: str) -> None:
        self.database = folder / "runs.sqlite"
        self._world = folder / "world.txt"
        self._program = folder / "app.py"
        self._program.write_text(APPLICATION)
        self.mode = mode

    def run(self, verb: str, *, die: str = "", **how: Any) -> dict[str, Any]:
        """What one start printed; ``{"killed": signal}`` when it did not live to print."""
        command = [sys.executable, str(self._program), str(self.database), str(self._world), self.mode, verb, die]
        done = subprocess.run(
            [*command, json.dumps(how)], capture_output=True, text=True, env=dict(os.environ), timeout=60
        )
        if done.returncode < 0:
            return {"killed": -done.returncode}
        assert done.returncode == 0, done.stderr
        found: dict[str, Any] = json.loads(done.stdout)
        return found

    @property
    def world(self) -> list[str]:
        return self._world.read_text().splitlines() if self._world.exists() else []

    def published(self) -> int:
        return sum(line.startswith("published") for line in self.world)

    def checkpoint(self) -> RunCheckpoint:
        store = SQLiteDurableStore(self.database)
        found = store.get(RUN)
        store.close()
        assert found is not None
        return found


@pytest.fixture(params=["direct", "native"])
def processes(request: pytest.FixtureRequest, tmp_path: Path) -> Processes:
    """A process takes half a second; that JSON actions meet the same boundaries is told by the cheaper tests."""
    return Processes(tmp_path, request.param)


@pytest.fixture
def application(tmp_path: Path) -> Callable[[str], Processes]:
    """Processes of a chosen mode."""
    return lambda mode: Processes(tmp_path, mode)
