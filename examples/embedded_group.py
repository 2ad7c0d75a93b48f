"""An application that embeds agents: a group starts a harmless process and cancels it after its first output.

Run it at the root of the repository: .venv/bin/python examples/embedded_group.py
It needs no key and no network.
"""

from __future__ import annotations

import asyncio
import sys

from protolink import Agent, AgentGroup, GroupLimits, RunAction, RunContext, Task
from protolink.tools import PreparedTool, ToolExecution

COUNT = "import itertools, time\nfor n in itertools.count(1):\n    print('tick', n, flush=True)\n    time.sleep(0.05)"


def count() -> int:
    """Count aloud until somebody stops it."""
    raise NotImplementedError


def prepare(arguments: dict[str, object], context: RunContext) -> RunAction:
    """The exact operation, before it runs."""
    return RunAction(kind="tool.call", name="count", payload={"arguments": arguments})


async def execute(execution: ToolExecution) -> int:
    """Run the process and tell each line that it prints. A cancellation ends the process too."""
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", COUNT, stdout=asyncio.subprocess.PIPE)
    try:
        assert process.stdout is not None
        async for line in process.stdout:
            await execution.emit("process.output", text=line.decode().strip())
        return await process.wait()
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def main() -> None:
    tool = PreparedTool(count, prepare=prepare, execute=execute, capabilities=["process.execute"])
    agent = Agent(name="commands", tools=[tool])
    async with AgentGroup([agent], limits=GroupLimits(max_concurrent_runs=4, max_queued_runs=64)) as group:
        handle = group.run("commands", Task.create_tool_call(tool_name="count", args={}))
        async for event in handle.events():
            print(event.type, event.payload.get("text", ""))
            if event.type == "process.output":
                await handle.cancel("the application has seen enough")
                break
        result = await handle.result()
        print(f"the run is {result.status}; snapshot: {group.snapshot()['runs']}")


if __name__ == "__main__":
    asyncio.run(main())
