"""ApprovalBroker at its edges: deciders that race, threads, two pages on one request, and an application's own desk."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from agent_support import until
from hypothesis import example, given, settings
from hypothesis import strategies as st

from protolink import (
    Agent,
    ApprovalBroker,
    ApprovalDecision,
    ApprovalRecord,
    ApprovalRequest,
    ApprovalScope,
    CapabilityPolicy,
    PolicyDecision,
    PolicyEffect,
    RunAction,
    RunContext,
    Task,
    Tool,
)
from protolink.storage import InMemoryStorage
from protolink.testing import FakeClock

MINE = ApprovalScope(frozenset({"run_mine"}))


def request(run_id: str = "run_mine") -> ApprovalRequest:
    made = RunAction(kind="tool.call", name="publish")
    return ApprovalRequest(made, PolicyDecision(PolicyEffect.REQUIRE_APPROVAL, "ask", "test"), run_id)


async def asked(broker: ApprovalBroker, wanted: ApprovalRequest) -> asyncio.Task[ApprovalDecision]:
    waiting = asyncio.ensure_future(broker(wanted, RunContext(run_id=wanted.run_id)))
    await asyncio.sleep(0)
    return waiting


def decide(broker: ApprovalBroker, record: ApprovalRecord, approved: bool = True, **more: Any) -> str:
    decision = ApprovalDecision(approved, record.request.request_id, **more)
    return broker.resolve(decision, scope=MINE, fingerprint=record.fingerprint).status


def publisher(broker: Any, done: list[str], **options: Any) -> Agent:
    def publish(text: str) -> str:
        """Publish."""
        done.append(text)
        return f"published {text}"

    return Agent(
        name="publisher",
        tools=[Tool.from_callable(publish, capabilities=["content"])],
        policy=CapabilityPolicy({"content": "require_approval"}),
        approval_handler=broker,
        verbosity=0,
        **options,
    )


def publish_task(text: str, run_id: str = "run_mine") -> Task:
    return Task.create_tool_call(tool_name="publish", args={"text": text}, context=RunContext(run_id=run_id))


# ---------------------------------------------------------------------------------------------------- races


@given(
    st.lists(st.sampled_from(["approve", "deny", "cancel", "expire"]), min_size=1, max_size=6),
    st.lists(st.integers(0, 2), min_size=6, max_size=6),
)
@example(["cancel", "approve"], [0] * 6)
@example(["cancel", "expire"], [0] * 6)
@settings(max_examples=80)
async def test_first_of_several_ends_settles_and_none_after_it(ends: list[str], turns: list[int]) -> None:
    """Approvals, refusals, cancellation and time, in any order and however close: one of them counts, everywhere."""
    clock, storage = FakeClock(), InMemoryStorage()
    broker = ApprovalBroker(storage=storage, timeout_seconds=5, clock=clock)
    waiting = await asked(broker, request())
    [record] = broker.pending(MINE)
    statuses: list[str] = []
    for end, pause in zip(ends, turns, strict=False):
        if end == "expire":
            clock.advance(6)
        elif end == "cancel":
            waiting.cancel()
        else:
            statuses.append(decide(broker, record, end == "approve"))
        for _ in range(pause):
            await asyncio.sleep(0)
    [outcome] = await asyncio.gather(waiting, return_exceptions=True)
    [found] = broker.records(MINE)
    won = [status for status in statuses if status in ("approved", "denied")]
    assert len(won) <= 1
    assert found.status == {"approve": "approved", "deny": "denied", "cancel": "canceled", "expire": "expired"}[ends[0]]
    assert (won[0] if won else found.status) == found.status
    if isinstance(outcome, ApprovalDecision):
        assert outcome.approved is (found.status == "approved")
    else:
        assert isinstance(outcome, asyncio.CancelledError)
    assert storage.load()[record.request.request_id]["status"] == found.status
    assert broker.pending(MINE) == ()


async def test_deciders_in_threads_have_one_winner() -> None:
    """They come through the run's loop; ``call_soon_threadsafe`` gives them an order."""
    broker = ApprovalBroker()
    waiting = await asked(broker, request())
    [record] = broker.pending(MINE)
    loop = asyncio.get_running_loop()
    statuses: list[str] = []

    def click(number: int) -> None:
        decision = {"approved": number % 2 == 0, "decided_by": f"person {number}"}
        loop.call_soon_threadsafe(lambda: statuses.append(decide(broker, record, **decision)))

    threads = [threading.Thread(target=click, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        await asyncio.to_thread(thread.join)
    await until(lambda: len(statuses) == 8)
    assert sum(status in ("approved", "denied") for status in statuses) == 1
    assert statuses[0] in ("approved", "denied")
    assert set(statuses[1:]) == {"already_resolved"}
    assert (await waiting).approved is (statuses[0] == "approved")


async def test_reading_in_a_thread_settles_nothing_there() -> None:
    """A deadline that a thread notices would be told to the loop from outside: the loop's own timer does it."""
    clock = FakeClock()
    broker = ApprovalBroker(timeout_seconds=5, clock=clock)
    waiting = await asked(broker, request())
    clock._timers.clear()  # the timer is late
    clock.advance(6)
    [shown] = await asyncio.to_thread(broker.records, MINE)
    assert (shown.status, waiting.done()) == ("pending", False)
    assert broker.records(MINE)[0].status == "expired"
    assert (await waiting).approved is False


async def test_two_pages_see_the_decision_of_one() -> None:
    broker = ApprovalBroker()
    waiting = await asked(broker, request())
    pages = [broker.events(MINE) for _ in range(2)]
    first = [await anext(page) for page in pages]
    assert decide(broker, first[0], decided_by="ann") == "approved"
    assert decide(broker, first[1], decided_by="bob") == "already_resolved"
    assert decide(broker, first[0], decided_by="ann") == "duplicate"
    later = [await anext(page) for page in pages]
    assert [record.decision and record.decision.decided_by for record in later] == ["ann", "ann"]
    for page in pages:
        await page.aclose()
    await waiting


async def test_subscription_has_one_reader() -> None:
    broker = ApprovalBroker()
    records = broker.events(MINE)
    first = asyncio.ensure_future(anext(records))
    await asyncio.sleep(0)
    with pytest.raises(RuntimeError, match="one reader"):
        await anext(records)
    waiting = await asked(broker, request())
    assert (await first).status == "pending"
    gone = asyncio.ensure_future(anext(records))
    await asyncio.sleep(0)
    gone.cancel()  # whoever leaves in between may come back
    await asyncio.sleep(0)
    decide(broker, broker.pending(MINE)[0])
    assert (await anext(records)).status == "approved"
    await waiting


async def test_ended_brokers_leave_no_task_and_no_timer() -> None:
    clock = FakeClock()
    broker = ApprovalBroker(timeout_seconds=5, clock=clock)
    ends = [await asked(broker, request()) for _ in range(3)]
    decide(broker, broker.pending(MINE)[0])
    ends[1].cancel()
    await asyncio.gather(*ends[:2], return_exceptions=True)
    clock.advance(6)
    await ends[2]
    assert clock._timers == {}
    assert asyncio.all_tasks() == {asyncio.current_task()}


# ---------------------------------------------------------------------------------------------------- row by row


ROWS = {
    "first valid decision": ["approved"],
    "first valid refusal": ["denied"],
    "identical decision again": ["approved", "duplicate"],
    "different decision": ["approved", "already_resolved"],
    "canceled record": ["already_resolved"],
    "expired record": ["expired"],
    "reopened record": ["already_resolved"],
    "wrong fingerprint": ["stale", "approved"],
    "unknown id": ["unknown"],
    "out of scope": ["unknown"],
}


@pytest.mark.parametrize("row", ROWS)
async def test_each_situation_has_its_status(row: str) -> None:
    clock, storage = FakeClock(), InMemoryStorage()
    broker = ApprovalBroker(storage=storage, timeout_seconds=5, clock=clock)
    waiting = await asked(broker, request())
    [record] = broker.pending(MINE)
    key, scope, shown = record.request.request_id, MINE, record.fingerprint
    first = ApprovalDecision(row != "first valid refusal", key)
    steps = [(first, scope, shown)] * len(ROWS[row])
    if row == "different decision":
        steps[1] = (ApprovalDecision(False, key), scope, shown)
    elif row == "canceled record":
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
    elif row == "expired record":
        clock.advance(6)
    elif row == "reopened record":
        broker = ApprovalBroker(storage=storage)
        assert [item.status for item in broker.records(MINE)] == ["uncertain"]
        assert broker.pending(MINE) == ()
    elif row == "wrong fingerprint":
        steps[0] = (first, scope, "0" * 64)
    elif row == "unknown id":
        steps = [(ApprovalDecision(True, "approval_other"), scope, shown)]
    elif row == "out of scope":
        steps = [(first, ApprovalScope(frozenset({"run_other"})), shown)]
    found = [broker.resolve(decision, scope=where, fingerprint=what) for decision, where, what in steps]
    assert [resolution.status for resolution in found] == ROWS[row]
    assert {resolution.request_id for resolution in found} == {steps[0][0].request_id}
    waiting.cancel()


# ---------------------------------------------------------------------------------------------------- applications


@pytest.mark.claim("INT-019")
async def test_live_adapter_settles_a_waiting_request_while_the_process_stays_up() -> None:
    done: list[str] = []
    broker = ApprovalBroker(timeout_seconds=120)
    target = publisher(broker, done)

    async def adapter() -> None:
        async with broker.events(MINE) as records:
            async for record in records:
                if record.status == "pending":
                    decide(broker, record, record.request.action.payload["arguments"]["text"] == "News")

    desk = asyncio.ensure_future(adapter())
    assert (await target.start_run(publish_task("News")).result()).output == "published News"
    refused = await target.start_run(publish_task("Rumour")).result()
    assert (refused.status, done) == ("failed", ["News"])
    desk.cancel()
    alone = await publisher(None, done).start_run(publish_task("Nobody to ask")).result()
    assert (alone.status, done) == ("failed", ["News"])


@dataclass
class Office:
    """An application's side: who is logged in, and which runs are theirs. No futures, no map of what is pending."""

    broker: ApprovalBroker
    runs: dict[str, set[str]] = field(default_factory=dict)

    def scope(self, person: str) -> ApprovalScope:
        return ApprovalScope(self.runs.get(person, set()))

    def inbox(self, person: str) -> Iterator[ApprovalRecord]:
        return iter(self.broker.pending(self.scope(person)))

    def click(self, person: str, key: str, shown: str, approved: bool) -> str:
        decision = ApprovalDecision(approved, key, decided_by=person)
        return self.broker.resolve(decision, scope=self.scope(person), fingerprint=shown).status


@pytest.mark.claim("INT-034")
async def test_broker_and_scope_are_all_that_an_application_needs_to_keep() -> None:
    done: list[str] = []
    office = Office(ApprovalBroker())
    target = publisher(office.broker, done)
    office.runs = {"ann": {"run_1", "run_2"}, "bob": {"run_3"}}
    handles = [target.start_run(publish_task(f"text {n}", f"run_{n}")) for n in (1, 2, 3)]
    await until(lambda: len(list(office.inbox("ann"))) == 2 and len(list(office.inbox("bob"))) == 1)
    one, two = office.inbox("ann")
    [three] = office.inbox("bob")
    assert office.click("bob", one.request.request_id, one.fingerprint, True) == "unknown"
    assert office.click("eve", three.request.request_id, three.fingerprint, True) == "unknown"
    assert list(office.inbox("eve")) == []
    assert done == []
    assert office.click("ann", two.request.request_id, two.fingerprint, True) == "approved"
    assert office.click("ann", one.request.request_id, one.fingerprint, False) == "denied"
    assert office.click("bob", three.request.request_id, three.fingerprint, True) == "approved"
    assert [(await handle.result()).status for handle in handles] == ["failed", "completed", "completed"]
    assert sorted(done) == ["text 2", "text 3"]
