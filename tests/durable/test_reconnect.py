"""A reader that reconnects from another process finds what the live stream showed: numbers, ids and contents."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

PROGRAM = '''
"""An application that is started again and again on one store. ``live`` prints events as they are shown."""

import asyncio, json, os, sys

from protolink import LLM, Agent, CapabilityPolicy, RunBudget, RunContext, RunInterrupted, RunManager
from protolink import UncertainExecutionError
from protolink.tools import Tool, ask_user_tool

database, verb, how = sys.argv[1], sys.argv[2], json.loads(sys.argv[3])


class Script(LLM):
    """Plays turns by the number of its earlier ones, and tells each of them in fragments."""

    def __init__(self, *turns):
        super().__init__("script", {})
        self.turns = turns

    async def call(self, history):
        turn = self.turns[sum(message["role"] == "assistant" for message in history.messages)]
        return json.dumps({"type": "final", "content": turn} if isinstance(turn, str) else turn)

    async def call_stream(self, history):
        text = await self.call(history)
        for start in range(0, len(text), 7):
            yield text[start : start + 7]

    def validate_connection(self):
        return True


def tool(name, **args):
    return {"type": "tool_call", "tool": name, "args": args}


def publish(text: str) -> dict:
    """Publish a text."""
    if how.get("die") == "in the tool":
        os._exit(9)
    return {"published": text}


def agent():
    act = Tool.from_callable(publish, capabilities=["publish"])
    kid = Agent(
        name="kid",
        llm=Script(tool("publish", text="from below"), tool("ask_user", question="Really?"), "kid is done"),
        tools=[act, ask_user_tool()],
        expose_tool_results=True,
        verbosity=0,
    )
    work = {"type": "agent_call", "agent": "kid", "action": "infer", "prompt": "publish it"}
    return Agent(
        name="desk",
        llm=Script(tool("ask_user", question="Which?"), work, tool("publish", text="on top"), "all is done"),
        tools=[act, ask_user_tool()],
        subagents=[kid],
        policy=CapabilityPolicy({"publish": "require_approval"}),
        durability=database,
        verbosity=0,
    )


def say(event):
    print(json.dumps(event), flush=True)


async def live():
    handle = agent().start_run("go", context=RunContext(run_id="run-1"), budget=RunBudget(max_llm_calls=10))
    async for event in handle.events():
        say(event.to_dict())


async def resume():
    """Answer what waits, or go on; say how that ended, then what a new agent reads of it."""
    desk = agent()
    waiting = desk.durability.get("run-1").data["interruption"]
    answer = {} if waiting is None else {"request_id": waiting["request_id"]}
    if waiting is not None:
        answer |= {"approved": True} if waiting["kind"] == "approval" else {"answer": "yes"}
    try:
        said = {"output": await desk.resume("run-1", **answer)}
    except RunInterrupted as pause:
        said = {"paused": pause.interruption.kind, "run_id": pause.interruption.run_id}
    say(said | {"events": [event.to_dict() for event in agent().run_events("run-1")]})


if verb == "live":
    asyncio.run(live())
elif verb == "resume":
    asyncio.run(resume())
elif verb == "mend":
    desk = agent()
    try:
        desk.sync.resume("run-1")
    except UncertainExecutionError as unknown:
        say({"unknown": unknown.action_id})
        desk.reconcile("run-1", unknown.action_id, result={"published": "as found"})
elif verb == "events":
    for event in agent().run_events(how["run_id"], after=how.get("after", 0)):
        say(event.to_dict())
elif verb == "shown":
    for event in RunManager(agent()).events(how["run_id"], after=how.get("after", 0)):
        say(event)
'''

RUN = "run-1"


class Application:
    """Each verb is a process of its own."""

    def __init__(self, folder: Path) -> None:
        self._program = folder / "app.py"
        self._program.write_text(PROGRAM)
        self._database = folder / "runs.sqlite"

    def run(self, verb: str, *, dies: bool = False, **how: Any) -> list[dict[str, Any]]:
        """The lines that it printed, until its end or its death."""
        done = subprocess.run(
            [sys.executable, str(self._program), str(self._database), verb, json.dumps(how)],
            capture_output=True,
            text=True,
            env=dict(os.environ),
            timeout=120,
        )
        assert done.returncode == (9 if dies else 0), done.stderr
        return [json.loads(line) for line in done.stdout.splitlines()]

    def events(self, run_id: str = RUN, after: int = 0) -> list[dict[str, Any]]:
        return self.run("events", run_id=run_id, after=after)


@pytest.fixture
def application(tmp_path: Path) -> Application:
    return Application(tmp_path)


def fragment(event: dict[str, Any]) -> bool:
    return event["payload"].get("llm_event_type") == "llm_chunk"


def numbers(events: list[dict[str, Any]]) -> list[int]:
    return [event["sequence"] for event in events]


def test_stored_events_are_those_that_were_shown_and_later_ones_go_on_above(application: Application) -> None:
    live = application.run("live")
    assert any(fragment(event) for event in live)
    assert numbers(live) == list(range(1, len(live) + 1))
    assert application.events() == [event for event in live if not fragment(event)]
    middle = len(live) // 2
    assert application.events(after=middle) == [e for e in live if not fragment(e) and e["sequence"] > middle]
    assert application.events(after=len(live)) == []

    known, pauses = application.events(), []
    while "output" not in (said := application.run("resume")[-1]):
        pauses.append(said)
        assert said["events"][: len(known)] == known
        assert min(numbers(said["events"][len(known) :])) > max(numbers(known))
        known = said["events"]
    assert [pause["paused"] for pause in pauses] == ["approval", "input", "approval"]
    assert said["output"] == "all is done"
    everything = application.events()
    assert everything == said["events"]
    assert numbers(everything) == sorted(set(numbers(everything)))
    ends = [e for e in everything if e["type"] == "task.status" and e["final"]]
    assert [e["payload"]["new_state"] for e in ends] == ["input-required"] * 4 + ["completed"]
    assert ends[-1] is everything[-1]
    assert ends[-1]["payload"]["metadata"]["task"]["state"] == "completed"
    for once in ("user_input.requested", "approval.required", "action.started"):
        keys = [event["action_id"] for event in everything if event["type"] == once]
        assert len(keys) == len(set(keys)), once

    child = pauses[0]["run_id"]
    assert child != RUN
    below = application.events(child)
    assert below == [event for event in everything if event["run_id"] == child]
    assert [e["metadata"]["source_final"] for e in below if e["type"] == "task.status"] == [False, True]
    assert {e["metadata"]["parent_run_id"] for e in below} == {RUN}
    assert application.events(child, after=below[3]["sequence"]) == below[4:]
    shown = application.run("shown", run_id=RUN)
    assert [(e["sequence"], e["event_id"], e["type"]) for e in shown] == [
        (e["sequence"], e["event_id"], e["type"]) for e in everything
    ]
    assert numbers(application.run("shown", run_id=child)) == numbers(below)


def test_reader_of_a_run_that_crashed_finds_all_it_was_shown_and_no_number_twice(application: Application) -> None:
    live = application.run("live")
    [said] = application.run("resume")
    assert said["paused"] == "approval"
    application.run("resume", dies=True, die="in the tool")
    crashed = application.events()
    assert crashed[: len(said["events"])] == said["events"]
    assert crashed[-1]["type"] == "action.started"
    [unknown] = application.run("mend")
    assert unknown["unknown"] == crashed[-1]["action_id"]
    while "output" not in (said := application.run("resume")[-1]):
        pass
    assert said["output"] == "all is done"
    everything = application.events()
    assert everything[: len(crashed)] == crashed
    assert numbers(everything) == sorted(set(numbers(everything)))
    above = numbers(everything[len(crashed) :])
    assert min(above) > max(numbers(crashed)) + 1000  # above fragments that nobody stored, too
    assert not set(numbers([event for event in live if fragment(event)])) & set(numbers(everything))
    settled = [
        e["type"] for e in everything if e["action_id"] == unknown["unknown"] and e["type"].startswith("action.")
    ]
    assert settled[-1] == "action.completed"
    assert settled.count("action.started") == settled.count("action.completed") == 1
