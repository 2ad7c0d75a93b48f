"""Runs of real agents, recorded: one of every way in which a run can go."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from protolink import (
    Agent,
    CapabilityPolicy,
    RunBudget,
    RunContext,
    RunRecorder,
    RunReport,
    Task,
    Tool,
    ToolRejectedError,
)
from protolink.journal import InMemoryDurableStore
from protolink.llms import MockLLM
from protolink.tools.builtins import ask_user_tool


def look(key: str) -> str:
    """Look something up."""
    return key.upper()


def pick(n: int) -> int:
    """Pick a number."""
    if n == 0:
        raise ToolRejectedError(code="zero", message="Zero is taken.")
    return n


def boom() -> None:
    """Fail."""
    raise KeyError("no row")


async def hang() -> None:
    """Never end."""
    await asyncio.Event().wait()


async def answer_blue(request: Any) -> str:
    return "blue"


ACT = Tool.from_callable(look, name="act", capabilities={"act"})
ASKING = CapabilityPolicy({"act": "ask"})


def call(tool: str, **args: Any) -> dict[str, Any]:
    return {"type": "tool_call", "tool": tool, "args": args}


def delegate(agent: str) -> dict[str, Any]:
    return {"type": "agent_call", "agent": agent, "action": "infer", "prompt": "do it"}


def agent(*responses: Any, name: str = "agent", **options: Any) -> Agent:
    llm = MockLLM(sequential_responses=list(responses)) if responses else None
    return Agent(name=name, llm=llm, verbosity=0, **options)


def acting(**options: Any) -> Agent:
    return agent(call("act", key="a"), "done", tools=[ACT], policy=ASKING, **options)


def infer(**limits: Any) -> Task:
    return Task.create_infer(prompt="go", budget=RunBudget(**limits) if limits else None)


def direct(tool: str, **args: Any) -> Callable[[], Task]:
    return lambda: Task.create_tool_call(tool_name=tool, args=args)


def with_child(*responses: Any) -> Agent:
    kid = agent(*responses, name="kid", tools=[look, boom])
    return agent(delegate("kid"), "done", subagents=[kid])


Scenario = tuple[Callable[[], Agent], Callable[[], Task]]

SCENARIOS: dict[str, Scenario] = {
    "answer": (lambda: agent("done"), infer),
    "tool": (lambda: agent(call("look", key="a"), "done", tools=[look]), infer),
    "exposed": (lambda: agent(call("look", key="a"), "done", tools=[look], expose_tool_results=True), infer),
    "rejected": (lambda: agent(call("pick", n=0), call("pick", n=1), "done", tools=[pick]), infer),
    "failed": (lambda: agent(call("boom"), "done", tools=[boom]), infer),
    "canceled": (lambda: agent(call("hang"), "done", tools=[hang]), infer),
    "granted": (lambda: acting(approval_handler=lambda request, context: True), infer),
    "refused": (lambda: acting(approval_handler=lambda request, context: False), infer),
    "unasked": (lambda: acting(), infer),
    "denied": (lambda: agent(call("act", key="a"), tools=[ACT], policy=CapabilityPolicy({"act": "deny"})), infer),
    "parked": (lambda: acting(durability=InMemoryDurableStore()), infer),
    "slice": (
        lambda: agent(call("look", key="a"), tools=[look], yield_after_steps=1, durability=InMemoryDurableStore()),
        infer,
    ),
    "child": (lambda: with_child(call("look", key="q"), "kid done"), infer),
    "child-failed": (lambda: with_child(call("boom")), infer),
    "direct": (lambda: agent(tools=[look]), direct("look", key="x")),
    "direct-failed": (lambda: agent(tools=[boom]), direct("boom")),
    "direct-granted": (
        lambda: agent(tools=[ACT], policy=ASKING, approval_handler=lambda request, context: True),
        direct("act", key="x"),
    ),
    "budget": (lambda: agent(call("look", key="a"), "done", tools=[look]), lambda: infer(max_llm_calls=1)),
    "out-of-time": (lambda: agent("done"), lambda: infer(max_runtime_seconds=1e-9)),
    "no-model": (lambda: agent(), infer),
    "asked": (
        lambda: agent(
            call("ask_user", question="Color?"), "done", tools=[ask_user_tool(answer_blue)], expose_tool_results=True
        ),
        infer,
    ),
    "question": (
        lambda: agent(call("ask_user", question="Color?"), tools=[ask_user_tool()], durability=InMemoryDurableStore()),
        infer,
    ),
}


@dataclass(frozen=True)
class Recorded:
    task: Task
    recorder: RunRecorder
    report: RunReport


async def record(name: str) -> Recorded:
    """Run a scenario under a recorder. One that hangs is canceled when its tool has started."""
    make_agent, make_task = SCENARIOS[name]
    runner, task = make_agent(), make_task()
    recorder = RunRecorder(context=RunContext.from_task(task))
    async for event in runner.handle_task_streaming(task):
        seen = await recorder.record_task_event(event)
        if seen.type == "action.started" and name == "canceled":
            await runner.cancel_task(task.id, "enough")
    return Recorded(task, recorder, recorder.to_report())


@lru_cache
def _recorded(name: str, number: int) -> Recorded:
    return asyncio.run(record(name))


def recorded(name: str, number: int = 0) -> Recorded:
    """A run of the scenario, made once; ``number`` tells several runs apart. Not to be changed."""
    return _recorded(name, number)


def report_of(name: str, number: int = 0) -> RunReport:
    return recorded(name, number).report
