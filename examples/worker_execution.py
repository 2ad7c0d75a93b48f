"""Two workers, seen while they work; a correction before anything runs; and work that is granted slice by slice.

Run it at the root of the repository: .venv/bin/python examples/worker_execution.py
It needs no key and no network; the models' replies are scripted. The checkpoints are temporary.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from protolink import (
    Agent,
    ConversationHistory,
    RunAction,
    RunBudget,
    RunContext,
    RunEvent,
    RunHandoff,
    ToolExecution,
    ToolRejectedError,
)
from protolink.llms import MockLLM
from protolink.tools.prepared import PreparedTool

CHECKS = {"lint", "tests"}
SHOWN = ("task.status", "action.started", "action.completed", "action.rejected")


def scripted(*replies: Any) -> MockLLM:
    """A model that says its lines by their place in the conversation, whichever process asks."""

    def line(history: ConversationHistory, system_prompt: str) -> Any:
        return replies[sum(message.role == "assistant" for message in history)]

    return MockLLM(response_callback=line)


def call(tool: str, **arguments: Any) -> dict[str, Any]:
    """A tool call as a model writes it."""
    return {"type": "tool_call", "tool": tool, "args": arguments}


def lookup(item_id: int) -> str:
    """Return one item of the catalog."""
    return {1: "evidence E1", 2: "evidence E2"}[item_id]


def checking_tool(selected: list[str]) -> PreparedTool:
    """The tool ``select_check(check_id)``; what it does not know is refused before it could run."""

    def select_check(check_id: str) -> str:
        """Select one check for the plan."""
        raise AssertionError("only its name, its docstring and its parameters are used")

    def prepare(arguments: Mapping[str, Any], context: RunContext) -> RunAction:
        if arguments["check_id"] not in CHECKS:
            raise ToolRejectedError(
                f"There is no check '{arguments['check_id']}'; nothing changed.",
                code="unknown_check",
                details={"known": sorted(CHECKS)},
                suggestion="Choose one of the known checks.",
            )
        return RunAction(kind="tool.call", name="select_check", payload={"arguments": dict(arguments)})

    def execute(execution: ToolExecution) -> str:
        selected.append(execution.authorization.action.payload["arguments"]["check_id"])
        return f"selected {selected[-1]}"

    return PreparedTool(select_check, prepare=prepare, execute=execute, capabilities=["plan.select"])


def coordinator(folder: Path, selected: list[str]) -> Agent:
    """The parent: a researcher that thinks for itself, a catalog that is only its tool, and a tool of its own."""
    researcher = Agent(name="researcher", llm=scripted("The catalog is worth a look: item 2."))
    catalog = Agent(name="catalog", tools=[lookup])
    agent = Agent(
        name="coordinator",
        subagents=[researcher, catalog],
        tools=[checking_tool(selected)],
        llm=scripted(
            call("researcher", task="Where would evidence be?"),
            call("lookup_evidence", item_id=2),
            call("select_check", check_id="typo"),
            call("select_check", check_id="lint"),
            "Evidence E2 is found, and lint is selected.",
        ),
        yield_after_steps=3,
        durability=folder / "runs.sqlite",
    )
    agent.add_worker_tool("researcher", description="Ask for a lead.")
    agent.add_worker_tool("catalog", tool="lookup", name="lookup_evidence")
    return agent


async def first_slice(agent: Agent, context: RunContext) -> RunHandoff | None:
    """The first three turns, shown as they happen."""
    handle = agent.start_run("Find evidence, then select a check.", context=context)
    async for event in handle.events():
        if event.type in SHOWN:
            print(line_of(event))
    return (await handle.result()).handoff


def line_of(event: RunEvent) -> str:
    """One event; a worker's stand further to the right."""
    indent = "" if event.agent_name == "coordinator" else "    "
    return f"  {indent}{event.agent_name:<12} {event.type:<17} {event.summary or ''}"


async def main() -> None:
    """Start, see the workers, read the handoff, and go on from the checkpoint with an agent made anew."""
    selected: list[str] = []
    context = RunContext(run_id="evidence-1", budget=RunBudget(max_steps=12, max_llm_calls=8, max_tool_calls=4))
    with tempfile.TemporaryDirectory(prefix="protolink-") as folder:
        handoff = await first_slice(coordinator(Path(folder), selected), context)
        assert handoff is not None
        used = f"{handoff.steps} steps and {handoff.usage.llm_calls} model calls"
        print(f"the slice ended after {used}; selected: {selected}")
        agent = coordinator(Path(folder), selected)
        seen = len(agent.run_events("evidence-1"))
        print(f"the application grants another slice: {await agent.resume('evidence-1')}")
        for event in agent.run_events("evidence-1")[seen:]:
            if event.type in SHOWN:
                print(line_of(event))
        usage = agent.durability.get("evidence-1").data["usage"]
    assert selected == ["lint"]
    print(f"selected: {selected}; in all {usage['llm_calls']} model calls and {usage['tool_calls']} tool calls")


if __name__ == "__main__":
    asyncio.run(main())
