"""Policy, preview, approval and events in one script: what is allowed depends on the run as well as on the agent.

Run it at the root of the repository: .venv/bin/python examples/runtime_policy_and_approvals.py
It needs no key, no service and no port. A real application would ask a person where this one says yes.
"""

from __future__ import annotations

import asyncio
from typing import Any

from protolink import (
    ActionDeniedError,
    Agent,
    ApprovalDecision,
    ApprovalRequest,
    Artifact,
    CapabilityPolicy,
    InMemoryEventSink,
    Part,
    RunAction,
    RunContext,
    RunEvent,
    Task,
)
from protolink.llms import MockLLM
from protolink.tools import Tool

RECORDS = {"greeting": "Hello"}


def update_record(name: str, value: str) -> dict[str, str]:
    """Change one record."""
    RECORDS[name] = value
    return {name: value}


def with_preview(arguments: dict[str, Any], context: RunContext) -> RunAction:
    """The exact change, with a preview of it for whoever approves."""
    name, value = arguments["name"], arguments["value"]
    action = RunAction(kind="tool.call", name="update_record", payload={"arguments": arguments})
    preview = Artifact(kind="preview", name=f"{name}.diff", media_type="text/x-diff")
    preview.add_part(Part.text(f"-{RECORDS[name]}\n+{value}\n"))
    return action.with_artifacts([preview])


async def approve(request: ApprovalRequest, context: RunContext) -> ApprovalDecision:
    """Show the preview and say yes."""
    preview = request.action.artifacts[0]
    print(f"approval of '{request.action.name}' is asked for; its preview {preview.name}:")
    print("".join(f"    {line}\n" for line in preview.parts[0].content.splitlines()), end="")
    return ApprovalDecision(approved=True, request_id=request.request_id, decided_by="example")


def editor() -> Agent:
    """An agent whose model asks for one change. Its policy wants every change approved."""
    change = {"type": "tool_call", "tool": "update_record", "args": {"name": "greeting", "value": "Good morning"}}
    return Agent(
        name="editor",
        llm=MockLLM(sequential_responses=[change, "The record is changed."]),
        tools=[Tool.from_callable(update_record, capabilities=["records.write"], action_builder=with_preview)],
        policy=CapabilityPolicy({"records.write": "require_approval"}),
        approval_handler=approve,
    )


async def run(context: RunContext) -> InMemoryEventSink:
    """One run, its events captured. Raises what the run raises."""
    sink = InMemoryEventSink()
    task = Task.create_infer(prompt="Change the greeting.", context=context)
    async for event in editor().run_task_streaming(task):
        await sink.emit(RunEvent.from_task_event(event, context=context))
    print(f"the task is {task.state.value}")
    return sink


async def main() -> None:
    """A change that is approved, then the same one in a run that may not change anything."""
    sink = await run(RunContext(run_id="approved"))
    for event in sink.events:
        if event.type.startswith(("action.", "approval.")):
            print(f"    {event.type:<18} {event.summary}")
    assert RECORDS == {"greeting": "Good morning"}

    RECORDS["greeting"] = "Hello"
    strict = RunContext(run_id="read-only", permissions={"records.write": "deny"})
    try:
        await editor().invoke("Change the greeting.", context=strict)
    except ActionDeniedError as error:
        print(f"the run with stricter permissions is denied: {error}")
    assert RECORDS == {"greeting": "Hello"}
    print(f"the record is untouched: {RECORDS['greeting']}")


if __name__ == "__main__":
    asyncio.run(main())
