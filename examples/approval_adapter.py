"""An adapter beside an agent: it shows what waits for approval and decides, while the agent's run waits.

Run it at the root of the repository: .venv/bin/python examples/approval_adapter.py
It needs no key and no network. In an application the adapter is a page, a chat or a queue of tickets.
"""

from __future__ import annotations

import asyncio

from protolink import Agent, ApprovalBroker, ApprovalDecision, ApprovalScope, CapabilityPolicy, RunContext, Task, Tool
from protolink.storage import InMemoryStorage

RUNS = ("release-1", "release-2")


def publisher(broker: ApprovalBroker, published: list[str]) -> Agent:
    """The agent knows the broker only as the one whom it asks."""

    def publish(text: str) -> str:
        """Publish a text."""
        published.append(text)
        return f"published: {text}"

    return Agent(
        name="publisher",
        tools=[Tool.from_callable(publish, capabilities=["content.publish"])],
        policy=CapabilityPolicy({"content.publish": "require_approval"}),
        approval_handler=broker,
    )


async def adapter(broker: ApprovalBroker, scope: ApprovalScope) -> None:
    """Decide what is asked, as somebody in front of a page would: no rumours."""
    async with broker.events(scope) as records:
        async for record in records:
            text = record.request.action.payload["arguments"]["text"]
            print(f"{record.request.run_id}: {record.status}: {text}")
            if record.status == "pending":
                approved = "rumour" not in text
                decision = ApprovalDecision(approved, record.request.request_id, decided_by="editor")
                broker.resolve(decision, scope=scope, fingerprint=record.fingerprint)


async def main() -> None:
    published: list[str] = []
    broker = ApprovalBroker(storage=InMemoryStorage("approvals"), timeout_seconds=120)
    agent = publisher(broker, published)
    # The application derives the scope from the caller that it has authenticated.
    reader = asyncio.create_task(adapter(broker, ApprovalScope(frozenset(RUNS))))
    for run_id, text in zip(RUNS, ("Version 2 is out", "A rumour"), strict=True):
        args = {"text": text}
        task = Task.create_tool_call(tool_name="publish", args=args, context=RunContext(run_id=run_id))
        result = await agent.start_run(task).result()
        print(f"{run_id}: the run is {result.status}; published: {published}")
    reader.cancel()


if __name__ == "__main__":
    asyncio.run(main())
