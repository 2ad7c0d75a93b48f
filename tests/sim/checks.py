"""Checks of single moments that crashes alone do not reach. Each returns what is wrong, in sentences."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from tests.sim.scenes import NATIVE, SCENES, handed, turn
from tests.sim.world import World, call

from protolink import Agent, RunAction, RunContext, Task
from protolink.agents.drive import Drive
from protolink.engine import facts as f
from protolink.engine.fold import fold
from protolink.testing import FaultyStore, ScriptedModel, Theft
from protolink.testing.trial import Loop, Subject, Trial
from protolink.tools import Tool


def crashed(name: str) -> list[str]:
    """A crash at every commit of the scene."""
    scene = SCENES[name]
    return scene.problems(scene.crash_everywhere())


def stolen(name: str) -> list[str]:
    """The run is taken from its owner just before each commit of the scene, once in each run."""
    scene, found, commits = SCENES[name], [], 100
    world = scene.world
    subject = Subject(scene.make_agent, scene.make_task, scene.respond(world), world.reconcile, world.effects)
    with Loop() as loop:
        number = 0
        while number <= commits:
            trial = Trial(subject, [[Theft(number)]])
            loop.run(trial.run())
            found += [f"theft before commit {number}: {problem}" for problem in trial.problems]
            if sorted(world.effects.counts()) != sorted(scene.effects):
                found.append(f"theft before commit {number}: the effects are {sorted(world.effects.counts())}")
            commits = trial.store.commits
            number += 1
    return found


def answered_while_a_tool_runs() -> list[str]:
    """An answer that comes while a sibling runs is stored at once."""
    world, gate = World(), _Gate()
    store = FaultyStore()
    script = [turn(call("write", "a"), call("note", "b")), "done"]
    agent = world.agent(store, "root", script, "write note", **NATIVE)

    async def work() -> list[str]:
        drive, run_id = await _begin(agent)
        world.gate = gate.wait
        gate.open.set()  # for the model
        running = asyncio.create_task(drive.finish())
        await _until(lambda: drive.run.requests and gate.passed > 0)
        gate.open.clear()
        await _until(lambda: gate.waiting > 0)
        drive.driver.post(f.Answered(next(iter(drive.run.requests)), True))
        await _steps()
        stored = fold(store.disk.records(run_id)).responses
        gate.open.set()
        await running
        return [] if stored else ["the answer was not stored while the other tool ran"]

    return _run(work)


def answered_while_parking() -> list[str]:
    """An answer that comes while the run is being parked is not lost."""
    world, store = World(), FaultyStore()
    agent = world.agent(store, "root", [call("write", "a"), "done"], "write")
    drives: list[Drive] = []

    def answer(event: Any) -> None:
        if getattr(event, "new_state", None) == "input-required":
            drives[0].driver.post(f.Answered(next(iter(drives[0].run.requests)), True))

    async def work() -> list[str]:
        drive, _ = await _begin(agent, answer)
        drives.append(drive)
        await drive.finish()
        return [] if drive.run.outcome == "completed" else [f"the answer was lost: the run is {drive.run.phase}"]

    return _run(work)


def canceled_at_the_intent() -> list[str]:
    """A cancellation that comes while the intent is being stored is in time."""
    world, store = World(), FaultyStore()
    agent = world.agent(store, "root", [call("stamp", "a"), "done"], "stamp")
    drives: list[Drive] = []

    def cancel(event: Any) -> None:
        if "ToolStarted" in store.disk.commits[-1]:
            drives[0].driver.cancel("stop")

    async def work() -> list[str]:
        world.effects.begin(store.disk)
        drive, _ = await _begin(agent, cancel)
        drives.append(drive)
        await drive.finish()
        found = [f"'{effect.name}' was done in spite of it" for effect in world.effects.done]
        return found + ([] if drive.run.outcome == "canceled" else [f"the run is {drive.run.outcome}"])

    return _run(work)


def stored_beside_a_slow_read() -> list[str]:
    """A receipt is stored at once, also when everything else waits for a slow preparation."""
    world, gate, store = World(), _Gate(), FaultyStore()

    async def slow(arguments: dict[str, Any], context: RunContext) -> Any:
        await gate.wait()
        return RunAction("tool.call", "slow", {"arguments": arguments})

    tool = Tool.from_callable(lambda: None, name="slow", action_builder=slow)
    one = world.agent(None, "one", [], "note")
    two = Agent(name="two", llm=ScriptedModel([call("slow"), "done"]), tools=[tool])
    direct = {
        "tool": "agent_call",
        "args": {"agent": "one", "action": "tool_call", "tool": "note", "args": {"item": "a"}},
    }
    script = [turn(direct, handed("two", "help")), "done"]
    model = ScriptedModel(script, native=True)
    agent = world.agent(store, "root", [], lines=model, subagents=[one, two], parallel_tool_calls=True)

    async def last() -> None:
        await _until(lambda: gate.waiting > 0)

    async def work() -> list[str]:
        drive, run_id = await _begin(agent)
        world.effects.begin(store.disk)
        world.gate = last
        running = asyncio.create_task(drive.finish())
        await _until(lambda: gate.waiting > 0 and world.effects.done)
        await _steps()
        stored = [record for record in store.disk.records(run_id) if isinstance(record.fact, f.ToolReturned)]
        gate.open.set()
        await running
        return [] if stored else ["the receipt was held back"]

    return _run(work)


class _Gate:
    """Holds whoever comes while it is closed, as it is at first."""

    def __init__(self) -> None:
        self.open = asyncio.Event()
        self.waiting = 0
        self.passed = 0

    async def wait(self) -> None:
        self.waiting += 1
        await self.open.wait()
        self.waiting -= 1
        self.passed += 1


async def _begin(agent: Agent, *sinks: Any) -> tuple[Drive, str]:
    task = Task.create_infer(prompt="go")
    context = RunContext.ensure_task_context(task, agent_name=agent.name)
    drive = await agent.execution.begin(task, context, sinks=sinks)
    assert isinstance(drive, Drive)
    return drive, context.run_id


async def _steps() -> None:
    for _ in range(40):
        await asyncio.sleep(0)


async def _until(true: Callable[[], Any]) -> None:
    for _ in range(1000):
        if true():
            return
        await asyncio.sleep(0)
    raise AssertionError("it never came to that")


def _run(work: Callable[[], Any]) -> list[str]:
    with Loop() as loop:
        found: list[str] = loop.run(work())
        return found
