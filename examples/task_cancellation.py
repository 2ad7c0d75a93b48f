"""A running tool is canceled from outside, and its last effect never happens.

Run it at the root of the repository: .venv/bin/python examples/task_cancellation.py
It needs no key, no service and no port.
"""

from __future__ import annotations

import asyncio
import json

from protolink import Agent, RunContext, RunEvent, Task, ToolExecution
from protolink.runtime import RunAction
from protolink.tools.prepared import PreparedTool


class Archive:
    """What the tool changes: entries are copied one by one, and only a complete copy is committed."""

    def __init__(self) -> None:
        self.copied: list[str] = []
        self.committed = False
        self.under_way = asyncio.Event()


def archiving_tool(archive: Archive) -> PreparedTool:
    """The tool ``archive_all()``, which looks at its cancellation between its steps."""

    def archive_all() -> str:
        """Copy every entry, then commit the archive."""
        raise AssertionError("only its name and docstring are used")

    async def execute(execution: ToolExecution) -> str:
        archive.copied.append("entry 1")
        await execution.emit("archive.progress", copied=len(archive.copied))
        archive.under_way.set()
        await asyncio.Event().wait()  # a slow copy that only cancellation ends
        archive.committed = True
        return "archived"

    return PreparedTool(
        archive_all,
        prepare=lambda arguments, context: RunAction(kind="tool.call", name="archive_all"),
        execute=execute,
        capabilities=["archive.write"],
    )


async def main() -> None:
    """Stream the task, cancel it while the tool works, and look at what is left."""
    archive = Archive()
    agent = Agent(name="archivist", tools=[archiving_tool(archive)])
    task = Task.create_tool_call(tool_name="archive_all", args={}, context=RunContext(run_id="archive-1"))

    async def cancel_once_under_way() -> None:
        await archive.under_way.wait()
        print("canceling the task while its tool is at work")
        await agent.cancel_task(task.id, reason="the disk is needed for something else")

    canceling = asyncio.create_task(cancel_once_under_way())
    last: RunEvent | None = None
    number = 0
    async for event in agent.run_task_streaming(task):
        number += 1
        last = RunEvent.from_task_event(event, context=RunContext.from_task(task), sequence=number)
        print(f"{number:>3}  {last.type:<18} {last.summary or ''}")
    await canceling

    assert last is not None
    assert last.final
    assert last.payload["new_state"] == task.state.value == "canceled"
    assert archive.copied == ["entry 1"]
    assert not archive.committed
    print(f"copied: {archive.copied}; committed: {archive.committed}")
    shown = {name: getattr(last, name) for name in ("type", "run_id", "task_id", "sequence", "summary", "final")}
    print("the last event:", json.dumps({**shown, "new_state": last.payload["new_state"]}, indent=2))


if __name__ == "__main__":
    asyncio.run(main())
