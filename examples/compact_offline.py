"""A whole application in one file: private services, a model for each request, approvals, and what is kept.

A shop's desk answers two questions of one customer, the second one after a restart. The services and the customer's
token are handed over beside the runs and stored nowhere; the refund waits for a supervisor.

Run it at the root of the repository: .venv/bin/python examples/compact_offline.py
It needs no key and no network: the model is a scripted one, in whose place llm_factory may return any other.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from protolink import (
    Agent,
    AgentGroup,
    ApprovalBroker,
    ApprovalDecision,
    ApprovalScope,
    CapabilityPolicy,
    GroupLimits,
    RunHandle,
    SQLiteRunStore,
    Task,
    Tool,
    current_request_context,
    request_context,
)
from protolink.llms import MockLLM
from protolink.models import ConversationHistory
from protolink.storage import SQLiteStorage

TOKEN = "the-token-of-this-customer"


@dataclass
class Shop:
    """What belongs to the application: a database and a payment service, which no agent has a reference to."""

    orders: dict[str, int] = field(default_factory=lambda: {"7": 40})
    refunds: list[tuple[str, int]] = field(default_factory=list)

    def pay_back(self, token: str, order: str) -> int:
        assert token == TOKEN
        self.refunds.append((order, self.orders[order]))
        return self.orders[order]


def find_order(order: str) -> dict[str, Any]:
    """Look an order up. It blocks, as database drivers do, so it runs in a thread."""
    return {"order": order, "paid": current_request_context()["shop"].orders[order]}


def refund(order: str) -> str:
    """Pay an order back."""
    request = current_request_context()
    return f"{request['shop'].pay_back(request['token'], order)} EUR were paid back"


def make_model() -> MockLLM:
    """Called for each run, when it starts: here a real application reads the customer's key or picks a model."""
    print(f"  a model is made for {current_request_context()['customer']}")
    return MockLLM(response_callback=reply)


def reply(history: ConversationHistory, system_prompt: str) -> Any:
    """The script: look up, refund, report; and answer later questions from what was said before."""
    messages = history.messages
    start = max(index for index, message in enumerate(messages) if message["role"] == "user")
    if "refund" not in messages[start]["content"]:
        asked = [message["content"] for message in messages[:start] if message["role"] == "user"]
        return f"You asked before: {asked[-1]!r}"
    results = [json.loads(message["content"])["result"] for message in messages[start:] if message["role"] == "tool"]
    if len(results) < 2:
        return {"type": "tool_call", "tool": ("find_order", "refund")[len(results)], "args": {"order": "7"}}
    return f"Done: {results[-1]}."


def desk(place: Path, broker: ApprovalBroker) -> Agent:
    """The agent, made anew in every process from the same files."""
    return Agent(
        name="desk",
        llm_factory=make_model,
        tools=[find_order, Tool.from_callable(refund, capabilities=["money.refund"])],
        sync_execution="thread",
        policy=CapabilityPolicy({"money.refund": "require_approval"}),
        approval_handler=broker,
        run_store=SQLiteRunStore(place / "runs.db"),
        storage=SQLiteStorage(place / "application.db", namespace="conversations"),
        state=["conversation"],
    )


async def supervise(broker: ApprovalBroker, handle: RunHandle) -> None:
    """Somebody in front of a page. The scope is what the application knows that this person may decide."""
    scope = ApprovalScope(frozenset({handle.context.run_id}))
    async with broker.events(scope) as records:
        async for record in records:
            if record.status == "pending":
                action = record.request.action
                print(f"  approved: {action.name} {action.payload['arguments']}")
                decision = ApprovalDecision(True, record.request.request_id, decided_by="supervisor")
                broker.resolve(decision, scope=scope, fingerprint=record.fingerprint)


async def serve(place: Path, shop: Shop, question: str, request_id: str) -> None:
    """One request of one process. The page that sent it may send it again, or come back for the result."""
    broker = ApprovalBroker(storage=SQLiteStorage(place / "application.db", namespace="approvals"))
    limits = GroupLimits(max_concurrent_runs=4, max_queued_runs=64, queue_timeout=30)
    async with AgentGroup([desk(place, broker)], limits=limits, event_buffer_size=200) as group:
        with request_context({"customer": "ann", "token": TOKEN, "shop": shop}):
            task = Task.create_infer(prompt=question, session_id="ann-1")
            handle = group.run("desk", task, request_id=request_id)
        supervisor = asyncio.create_task(supervise(broker, handle))
        result = await handle.result()
        print(f"  {result.status}: {result.output}")
        assert group.get_run(handle.context.run_id) is handle
        supervisor.cancel()


async def main() -> None:
    shop = Shop()
    with tempfile.TemporaryDirectory() as directory:
        place = Path(directory)
        print("ann asks:")
        await serve(place, shop, "Please refund order 7", "request-1")
        print("after a restart she asks:")
        await serve(place, shop, "What did I want?", "request-2")
        print(f"refunds: {shop.refunds}")
        reports = SQLiteRunStore(place / "runs.db").list_report_records(session_id="ann-1")
        inspected = ApprovalBroker(storage=SQLiteStorage(place / "application.db", namespace="approvals"))
        scope = ApprovalScope(frozenset(report.run_id for report in reports))
        decided = [(record.request.action.name, record.status) for record in inspected.records(scope)]
        print(f"kept: {len(reports)} reports, the approvals {decided}")
        found = any(TOKEN.encode() in path.read_bytes() for path in place.iterdir())
        print(f"the token is in a file: {found}")


if __name__ == "__main__":
    asyncio.run(main())
