"""Deciding an approval after many that were decided before: it is asked for, listed for a person, and decided."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from time import process_time

from protolink import (
    ApprovalBroker,
    ApprovalDecision,
    ApprovalRequest,
    ApprovalScope,
    PolicyDecision,
    PolicyEffect,
    RunAction,
    RunContext,
)
from protolink.storage import InMemoryStorage

from .row import Row
from .timing import alternated

FEW, SOME, MANY = 100, 1_000, 10_000
RUN = "run_1"
SCOPE = ApprovalScope(frozenset({RUN}))
CALLS, ROUNDS = 50, 15


def rows(directory: Path) -> list[Row]:
    """``directory`` is not needed."""
    early, late, stored, later = alternated(
        _timed(_used(ApprovalBroker(keep_resolved=None), FEW)),
        _timed(_used(ApprovalBroker(keep_resolved=None), MANY)),
        _timed(_used(ApprovalBroker(storage=InMemoryStorage()), FEW)),
        _timed(_used(ApprovalBroker(storage=InMemoryStorage()), SOME)),
        times=ROUNDS,
    )
    return [
        Row(f"decide an approval: {MANY:,} earlier against {FEW}, CPU", late * 1e6, "us", 1.2, floor=early * 1e6),
        Row(f"  stored, the latest 100 kept: {SOME:,} against {FEW}", later * 1e6, "us", 1.2, floor=stored * 1e6),
    ]


def _used(broker: ApprovalBroker, decisions: int) -> ApprovalBroker:
    asyncio.run(_decide(broker, decisions))
    return broker


def _timed(broker: ApprovalBroker) -> Callable[[], float]:
    def measure() -> float:
        began = process_time()
        asyncio.run(_decide(broker, CALLS))
        return (process_time() - began) / CALLS

    return measure


async def _decide(broker: ApprovalBroker, times: int) -> None:
    context = RunContext(run_id=RUN)
    for number in range(times):
        action = RunAction(kind="tool.call", name="publish", payload={"arguments": {"number": number}})
        wanted = ApprovalRequest(action, PolicyDecision(PolicyEffect.REQUIRE_APPROVAL, "ask", "bench"), RUN)
        waiting = asyncio.ensure_future(broker(wanted, context))
        await asyncio.sleep(0)
        [shown] = broker.pending(SCOPE)
        decision = ApprovalDecision(True, shown.request.request_id)
        assert broker.resolve(decision, scope=SCOPE, fingerprint=shown.fingerprint).status == "approved"
        await waiting
