"""ApprovalBroker: who may see and decide what waits, what each decision comes to, and what a restart leaves."""

from __future__ import annotations

import asyncio
import gc
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from agent_support import agent, call, infer, outcome, turn, until
from hypothesis import given
from hypothesis import strategies as st

from protolink import (
    ActionDeniedError,
    Agent,
    ApprovalBroker,
    ApprovalDecision,
    ApprovalRecord,
    ApprovalRequest,
    ApprovalResolution,
    ApprovalScope,
    Artifact,
    CapabilityPolicy,
    InMemoryDurableStore,
    Part,
    PolicyDecision,
    PolicyEffect,
    RunAction,
    RunContext,
    Task,
    Tool,
)
from protolink.storage import InMemoryStorage, SQLiteStorage, Storage
from protolink.testing import FakeClock

MINE = ApprovalScope(frozenset({"run_mine"}))
OTHER = ApprovalScope(frozenset({"run_other"}))


class Desk:
    """An agent whose tool needs approval, its broker, and what the tool did."""

    def __init__(self, **options: Any) -> None:
        self.done: list[str] = []
        self.broker = ApprovalBroker(**options)
        self.agent = self.made(self.broker)

    def made(self, broker: ApprovalBroker, **options: Any) -> Agent:
        def publish(text: str) -> str:
            self.done.append(text)
            return text

        return Agent(
            name="publisher",
            approval_handler=broker,
            policy=CapabilityPolicy({"content": "require_approval"}),
            tools=[Tool.from_callable(publish, capabilities=["content"])],
            **options,
        )

    def start(self, text: str = "News", run_id: str = "run_mine") -> asyncio.Task[Any]:
        task = Task.create_tool_call(tool_name="publish", args={"text": text})
        RunContext(run_id=run_id).attach_to_task(task)
        self.task = task
        return asyncio.ensure_future(outcome(self.agent, task))

    async def waiting(self, count: int = 1, scope: ApprovalScope = MINE) -> tuple[ApprovalRecord, ...]:
        await until(lambda: len(self.broker.pending(scope)) == count)
        return self.broker.pending(scope)


def decide(
    broker: ApprovalBroker,
    record: ApprovalRecord,
    approved: bool = True,
    *,
    scope: ApprovalScope = MINE,
    fingerprint: str | None = None,
    **more: Any,
) -> str:
    decision = ApprovalDecision(approved, record.request.request_id, **more)
    shown = record.fingerprint if fingerprint is None else fingerprint
    return broker.resolve(decision, scope=scope, fingerprint=shown).status


def request(run_id: str = "run_mine", **action: Any) -> ApprovalRequest:
    made = RunAction(kind="tool.call", name="publish", **action)
    return ApprovalRequest(made, PolicyDecision(PolicyEffect.REQUIRE_APPROVAL, "ask", "test"), run_id)


async def asked(broker: ApprovalBroker, wanted: ApprovalRequest) -> asyncio.Task[ApprovalDecision]:
    waiting = asyncio.ensure_future(broker(wanted, RunContext(run_id=wanted.run_id)))
    await asyncio.sleep(0)
    return waiting


# ---------------------------------------------------------------------------------------------------- deciding


@pytest.mark.claim("BRK-001", "BRK-002", "BRK-004", "BRK-005")
async def test_approved_request_releases_the_action(tmp_path: Path) -> None:
    storage = SQLiteStorage(tmp_path / "application.db", namespace="approvals")
    desk = Desk(storage=storage, timeout_seconds=120)
    running = desk.start()
    [record] = await desk.waiting()
    assert desk.done == []
    assert record.request.action.payload["arguments"] == {"text": "News"}
    assert record.fingerprint == record.request.action.fingerprint
    resolution = desk.broker.resolve(
        ApprovalDecision(True, record.request.request_id), scope=MINE, fingerprint=record.fingerprint
    )
    assert resolution == ApprovalResolution(record.request.request_id, "approved")
    assert await running is None
    assert desk.done == ["News"]
    assert desk.broker.pending(MINE) == ()


@pytest.mark.claim("BRK-011")
async def test_denied_request_fails_the_run() -> None:
    desk = Desk()
    running = desk.start()
    [record] = await desk.waiting()
    assert decide(desk.broker, record, False, reason="not today") == "denied"
    error = await running
    assert isinstance(error, ActionDeniedError)
    assert str(error) == "not today"
    assert desk.done == []
    [found] = desk.broker.records(MINE)
    assert (found.status, found.decision and found.decision.reason) == ("denied", "not today")


@pytest.mark.claim("BRK-012", "BRK-013", "BRK-024")
async def test_later_decisions_change_nothing() -> None:
    desk = Desk()
    running = desk.start()
    [record] = await desk.waiting()
    assert decide(desk.broker, record) == "approved"
    assert decide(desk.broker, record) == "duplicate"
    assert decide(desk.broker, record, False) == "already_resolved"
    assert decide(desk.broker, record, decided_by="somebody else") == "already_resolved"
    await running
    assert decide(desk.broker, record) == "duplicate"
    assert desk.done == ["News"]
    assert desk.broker.records(MINE)[0].status == "approved"


@pytest.mark.claim("BRK-014", "BRK-009")
async def test_decision_on_another_action_leaves_the_request_pending() -> None:
    desk = Desk()
    running = desk.start()
    [record] = await desk.waiting()
    assert decide(desk.broker, record, fingerprint="0" * 64) == "stale"
    assert decide(desk.broker, record, False, fingerprint="0" * 64) == "stale"
    assert [found.status for found in desk.broker.pending(MINE)] == ["pending"]
    assert (desk.done, running.done()) == ([], False)
    assert decide(desk.broker, record) == "approved"
    await running


@pytest.mark.claim("BRK-008", "BRK-009")
async def test_fingerprint_covers_payload_and_artifacts() -> None:
    def wanted(text: str, content: str) -> ApprovalRequest:
        preview = Artifact(parts=[Part.text(content)], id="a", timestamp="2026-01-01T00:00:00Z")
        fixed = {"action_id": "action_1", "created_at": "2026-01-01T00:00:00Z"}
        return request(payload={"text": text}, artifacts=(preview,), **fixed)

    broker = ApprovalBroker()
    waits = [await asked(broker, wanted(*how)) for how in (("a", "x"), ("b", "x"), ("a", "y"), ("a", "x"))]
    prints = [record.fingerprint for record in broker.pending(MINE)]
    assert len(set(prints)) == 3
    assert prints[0] == prints[3]
    assert decide(broker, broker.pending(MINE)[0], fingerprint=prints[2]) == "stale"
    for wait in waits:
        wait.cancel()


@pytest.mark.claim("BRK-009")
async def test_action_that_changed_since_it_was_displayed_is_not_released() -> None:
    payload = {"arguments": {"text": "News"}}
    broker = ApprovalBroker()
    waiting = await asked(broker, request(payload=payload))
    [record] = broker.pending(MINE)
    payload["arguments"]["text"] = "Something else"
    assert decide(broker, record) == "stale"
    assert not waiting.done()
    assert broker.pending(MINE)[0].request.action.payload["arguments"] == {"text": "News"}
    waiting.cancel()


@pytest.mark.claim("BRK-003", "BRK-016")
async def test_caller_sees_and_decides_only_runs_of_its_scope() -> None:
    desk = Desk()
    running = desk.start()
    [record] = await desk.waiting()
    nowhere = replace(record, request=replace(record.request, request_id="approval_nowhere"))
    for scope in (OTHER, ApprovalScope(frozenset())):
        assert (desk.broker.pending(scope), desk.broker.records(scope)) == ((), ())
        assert decide(desk.broker, record, scope=scope) == decide(desk.broker, nowhere, scope=scope) == "unknown"
    assert decide(desk.broker, nowhere) == "unknown"
    assert not running.done()
    assert decide(desk.broker, record, scope=ApprovalScope(frozenset({"run_mine", "run_other"}))) == "approved"
    await running


@pytest.mark.claim("BRK-010", "BRK-007")
async def test_several_requests_are_decided_in_any_order() -> None:
    broker = ApprovalBroker()
    waits = [await asked(broker, request(payload={"n": n})) for n in range(3)]
    first = broker.pending(MINE)
    assert [record.request.request_id for record in broker.pending(MINE)] == [r.request.request_id for r in first]
    assert decide(broker, first[2]) == "approved"
    assert decide(broker, first[0], False) == "denied"
    assert [r.request.request_id for r in broker.pending(MINE)] == [first[1].request.request_id]
    assert ((await waits[2]).approved, (await waits[0]).approved, waits[1].done()) == (True, False, False)
    waits[1].cancel()


@pytest.mark.claim("BRK-010")
async def test_calls_of_one_turn_wait_side_by_side() -> None:
    done: list[int] = []
    broker = ApprovalBroker()
    tool = Tool.from_callable(lambda n: done.append(n), name="act", capabilities=["act"], input_schema={"n": {}})
    both = turn(("act", {"n": 1}), ("act", {"n": 2}))
    found = agent(
        both, "done", native=True, tools=[tool], policy=CapabilityPolicy({"act": "ask"}), approval_handler=broker
    )
    task = infer()
    scope = ApprovalScope(frozenset({task.id}))
    running = asyncio.ensure_future(outcome(found, task))
    await until(lambda: len(broker.pending(scope)) == 2)
    one, two = broker.pending(scope)
    assert decide(broker, two, scope=scope) == "approved"
    await until(lambda: done == [2])
    assert decide(broker, one, scope=scope) == "approved"
    assert await running is None
    assert done == [2, 1]


@given(st.lists(st.tuples(st.booleans(), st.sampled_from(["ann", "bob", None])), min_size=1, max_size=6))
async def test_of_several_deciders_exactly_one_wins(choices: list[tuple[bool, str | None]]) -> None:
    broker = ApprovalBroker()
    waiting = await asked(broker, request())
    [record] = broker.pending(MINE)
    statuses = [decide(broker, record, approved, decided_by=by) for approved, by in choices]
    assert statuses[0] == ("approved" if choices[0][0] else "denied")
    assert statuses[1:] == ["duplicate" if other == choices[0] else "already_resolved" for other in choices[1:]]
    assert (await waiting).approved is choices[0][0]


# ---------------------------------------------------------------------------------------------------- no decision


@pytest.mark.claim("BRK-015")
async def test_request_expires_and_denies_the_action() -> None:
    clock = FakeClock()
    desk = Desk(timeout_seconds=120, clock=clock)
    running = desk.start()
    [record] = await desk.waiting()
    assert record.expires_at == clock.now() + 120
    clock.advance(119)
    assert desk.broker.pending(MINE) == (record,)
    clock.advance(1)
    error = await running
    assert isinstance(error, ActionDeniedError)
    assert str(error) == "Approval expired"
    assert decide(desk.broker, record) == decide(desk.broker, record, False) == "expired"
    [found] = desk.broker.records(MINE)
    assert (found.status, found.decision and found.decision.approved) == ("expired", False)
    assert desk.done == []


@pytest.mark.claim("BRK-015")
async def test_deadline_counts_even_when_the_timer_is_late() -> None:
    class LateClock(FakeClock):
        def call_at(self, when: float, callback: Any) -> Any:
            return lambda: None

    clock = LateClock()
    broker = ApprovalBroker(timeout_seconds=5, clock=clock)
    waiting = await asked(broker, request())
    [record] = broker.pending(MINE)
    clock.advance(5)
    assert decide(broker, record) == "expired"
    assert (await waiting).approved is False
    assert broker.pending(MINE) == ()


async def test_decision_takes_the_timer_back() -> None:
    clock = FakeClock()
    broker = ApprovalBroker(timeout_seconds=5, clock=clock)
    waiting = await asked(broker, request())
    assert decide(broker, broker.pending(MINE)[0]) == "approved"
    clock.advance(10)
    assert broker.records(MINE)[0].status == "approved"
    assert (await waiting).approved


@pytest.mark.claim("BRK-017")
async def test_canceled_task_ends_the_wait() -> None:
    desk = Desk()
    handle = desk.agent.start_run(
        Task.create_tool_call(tool_name="publish", args={"text": "News"}, context=RunContext(run_id="run_mine"))
    )
    [record] = await desk.waiting()
    await handle.cancel("changed my mind")
    assert (await handle.result()).status == "canceled"
    [found] = desk.broker.records(MINE)
    assert (found.status, found.decision) == ("canceled", None)
    assert decide(desk.broker, record) == "already_resolved"
    assert desk.done == []


async def test_decision_after_the_cancellation_was_asked_for_comes_too_late() -> None:
    broker = ApprovalBroker()
    waiting = await asked(broker, request())
    [record] = broker.pending(MINE)
    waiting.cancel()
    assert decide(broker, record) == "already_resolved"
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert broker.records(MINE)[0].status == "canceled"


@pytest.mark.claim("BRK-024")
async def test_request_that_was_here_before_is_denied() -> None:
    broker = ApprovalBroker()
    wanted = request()
    waiting = await asked(broker, wanted)
    assert (await broker(wanted, RunContext())).approved is False
    assert decide(broker, broker.pending(MINE)[0]) == "approved"
    assert (await waiting).approved
    again = await broker(wanted, RunContext())
    assert again.approved is False
    assert "before" in (again.reason or "")


# ---------------------------------------------------------------------------------------------------- looking


@pytest.mark.claim("BRK-018", "BRK-023")
async def test_records_are_detached() -> None:
    broker = ApprovalBroker()
    waiting = await asked(broker, request(payload={"arguments": {"text": "News"}}))
    [record] = broker.records(MINE)
    record.request.action.payload["arguments"]["text"] = "changed"
    [found] = broker.records(MINE)
    assert found.request.action.payload["arguments"] == {"text": "News"}
    assert decide(broker, found) == "approved"
    assert record.status == "pending"
    assert {record.effect_state, broker.records(MINE)[0].effect_state} == {"unknown"}
    await waiting


@pytest.mark.claim("BRK-006", "BRK-019", "BRK-020", "INT-028")
async def test_adapter_gets_what_is_pending_and_then_each_change() -> None:
    desk = Desk()
    first = desk.start("one")
    await desk.waiting()
    seen: list[tuple[str, str]] = []

    async def adapter() -> None:
        async for record in desk.broker.events(MINE):
            seen.append((record.request.action.payload["arguments"]["text"], record.status))
            if record.status == "pending" and len(seen) > 1:
                decide(desk.broker, record)

    reader = asyncio.ensure_future(adapter())
    await until(lambda: len(seen) == 1)
    [record] = desk.broker.pending(MINE)
    decide(desk.broker, record, False)
    await first
    await desk.start("two")
    hidden = desk.start("hidden", "run_other")
    await desk.waiting(scope=OTHER)
    await until(lambda: len(seen) == 4)
    assert seen == [("one", "pending"), ("one", "denied"), ("two", "pending"), ("two", "approved")]
    assert desk.done == ["two"]
    for running in (reader, hidden):
        running.cancel()


@pytest.mark.claim("BRK-020")
async def test_reconnecting_keeps_the_wait() -> None:
    broker = ApprovalBroker()
    waiting = await asked(broker, request())
    async with broker.events(MINE) as gone:
        first = await anext(gone)
    again = broker.events(MINE)
    record = await anext(again)
    assert record == first
    assert not waiting.done()
    assert decide(broker, record) == "approved"
    assert (await anext(again)).status == "approved"
    assert (await waiting).approved
    await again.aclose()


@pytest.mark.claim("BRK-025")
async def test_closed_subscription_ends_for_its_reader() -> None:
    broker = ApprovalBroker()
    reader = broker.events(MINE)
    reading = asyncio.ensure_future(anext(reader, None))
    await asyncio.sleep(0)
    await reader.aclose()
    assert await reading is None
    waiting = await asked(broker, request())
    assert [record async for record in reader] == []
    waiting.cancel()


async def test_dropped_subscription_is_forgotten() -> None:
    broker = ApprovalBroker()
    kept, dropped = broker.events(MINE), broker.events(MINE)
    del dropped
    gc.collect()
    assert list(broker._readers) == [kept]


# ---------------------------------------------------------------------------------------------------- storage


def reopened(storage: Storage) -> ApprovalBroker:
    return ApprovalBroker(storage=storage)


@pytest.mark.claim("BRK-022", "BRK-024", "BRK-026")
async def test_reopened_storage_only_shows_what_was(tmp_path: Path) -> None:
    storage = SQLiteStorage(tmp_path / "approvals.db", namespace="approvals")
    desk = Desk(storage=storage)
    running = desk.start("decided")
    [decided] = await desk.waiting()
    decide(desk.broker, decided)
    await running
    orphan = desk.start("orphan")
    [left] = await desk.waiting()

    again = reopened(SQLiteStorage(tmp_path / "approvals.db", namespace="approvals"))
    assert again.pending(MINE) == ()
    assert [record.status for record in again.records(MINE)] == ["approved", "uncertain"]
    assert decide(again, left) == "already_resolved"
    assert decide(again, decided) == "duplicate"
    await asyncio.sleep(0)
    assert desk.done == ["decided"]
    orphan.cancel()


@pytest.mark.claim("BRK-022", "BRK-024")
async def test_repeated_request_of_an_earlier_process_releases_nothing() -> None:
    storage = InMemoryStorage()
    wanted = request()
    waiting = await asked(reopened(storage), wanted)
    assert (await reopened(storage)(wanted, RunContext())).approved is False
    waiting.cancel()


@pytest.mark.claim("BRK-001", "BRK-026")
async def test_storage_holds_the_records_by_request() -> None:
    storage = InMemoryStorage("approvals")
    broker = ApprovalBroker(storage=storage)
    waiting = await asked(broker, request())
    [record] = broker.pending(MINE)
    assert storage.load() == {record.request.request_id: record.to_dict()}
    decide(broker, record)
    [stored] = storage.load().values()
    assert ApprovalRecord.from_dict(stored) == broker.records(MINE)[0]
    assert stored["effect_state"] == "unknown"
    await waiting


class Failing(InMemoryStorage):
    failing = False

    def save(self, data: Any) -> None:
        if self.failing:
            raise OSError("disk full")
        super().save(data)


async def test_storage_that_fails_releases_nothing() -> None:
    storage = Failing()
    broker = ApprovalBroker(storage=storage)
    waiting = await asked(broker, request())
    [record] = broker.pending(MINE)
    storage.failing = True
    with pytest.raises(OSError, match="disk full"):
        decide(broker, record)
    assert (broker.pending(MINE), waiting.done()) == ((record,), False)
    with pytest.raises(OSError, match="disk full"):
        await broker(request(), RunContext())
    assert broker.records(MINE) == (record,)
    storage.failing = False
    assert decide(broker, record) == "approved"
    assert (await waiting).approved


async def test_cancellation_stands_when_the_storage_fails(caplog: pytest.LogCaptureFixture) -> None:
    storage = Failing()
    broker = ApprovalBroker(storage=storage)
    waiting = await asked(broker, request())
    storage.failing = True
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert broker.records(MINE)[0].status == "canceled"
    assert "not stored" in caplog.text


@pytest.mark.parametrize("found", [[1], {"a": 1}, {"a": {"status": "pending"}}, {"a": {"status": "sure"}}])
def test_storage_of_something_else_is_refused(found: Any) -> None:
    storage = InMemoryStorage()
    storage.save(found)
    with pytest.raises(ValueError, match="approval storage holds"):
        ApprovalBroker(storage=storage)
    assert storage.load() == found


async def test_settled_records_are_pruned_and_then_unknown() -> None:
    storage = InMemoryStorage()
    broker = ApprovalBroker(storage=storage)
    for _ in range(3):
        waiting = await asked(broker, request())
        decide(broker, broker.pending(MINE)[0])
        await waiting
    pending = await asked(broker, request())
    oldest, _, newest, left = broker.records(MINE)
    assert broker.prune(keep=1) == 2
    assert broker.records(MINE) == (newest, left)
    assert decide(broker, oldest) == "unknown"
    assert broker.prune() == 1
    assert list(storage.load()) == [left.request.request_id]
    assert decide(broker, left) == "approved"
    await pending


async def test_cost_of_a_decision_does_not_grow_with_earlier_ones() -> None:
    class Counting(InMemoryStorage):
        sizes: list[int] = []

        def save(self, data: Any) -> None:
            self.sizes.append(len(data))
            super().save(data)

    storage = Counting()
    broker = ApprovalBroker(storage=storage, keep_resolved=5)
    for _ in range(40):
        waiting = await asked(broker, request())
        decide(broker, broker.pending(MINE)[0])
        await waiting
    assert max(storage.sizes) == 6
    assert len(broker.records(MINE)) == 5


# ---------------------------------------------------------------------------------------------------- misuse


@pytest.mark.parametrize("seconds", [0, -1, float("inf"), float("nan"), True, "5"])
def test_timeout_must_be_finite_and_above_zero(seconds: Any) -> None:
    with pytest.raises(ValueError, match="timeout_seconds"):
        ApprovalBroker(timeout_seconds=seconds)


@pytest.mark.claim("BRK-003")
def test_scope_takes_any_iterable_of_run_ids_but_no_text() -> None:
    assert ApprovalScope(["a", "b", "a"]).run_ids == frozenset({"a", "b"})  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="iterable"):
        ApprovalScope("run_mine")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="nonblank"):
        ApprovalScope([""])  # type: ignore[arg-type]


@pytest.mark.parametrize("decision", [True, {"approved": True}, ApprovalDecision("yes", "approval_1")])  # type: ignore[arg-type]
def test_only_a_yes_or_no_decides(decision: Any) -> None:
    with pytest.raises(TypeError, match="ApprovalDecision"):
        ApprovalBroker().resolve(decision, scope=MINE, fingerprint="")


@pytest.mark.claim("BRK-021")
async def test_broker_serves_one_event_loop() -> None:
    broker = ApprovalBroker()
    waiting = await asked(broker, request())
    [record] = broker.pending(MINE)
    with pytest.raises(RuntimeError, match="event loop of the run"):
        await asyncio.to_thread(decide, broker, record)
    with pytest.raises(RuntimeError, match="another event loop"):
        await asyncio.to_thread(lambda: asyncio.run(asked(broker, request())).result())
    assert broker.pending(MINE) == (record,)
    assert decide(broker, record) == "approved"
    await waiting


async def test_durable_agent_parks_instead_of_asking_the_broker() -> None:
    desk = Desk()
    store = InMemoryDurableStore()
    task = Task.create_tool_call(tool_name="publish", args={"text": "News"}, context=RunContext(run_id="run_mine"))
    assert await outcome(desk.made(desk.broker, durability=store), task) is None
    assert task.state.value == "input-required"
    assert desk.broker.records(MINE) == ()


@pytest.mark.claim("BRK-002")
async def test_model_run_waits_for_the_broker_too() -> None:
    desk = Desk()
    found = agent(call("publish", text="Hello"), "done")
    writer = desk.made(desk.broker, llm=found.llm, verbosity=0)
    handle = writer.start_run("go", context=RunContext(run_id="run_mine"))
    [record] = await desk.waiting()
    decide(desk.broker, record)
    assert (await handle.result()).output == "done"
    assert desk.done == ["Hello"]


async def test_decision_costs_the_same_however_many_came_before(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[Any] = []
    original = ApprovalRecord.from_dict
    monkeypatch.setattr(ApprovalRecord, "from_dict", lambda data: read.append(data) or original(data))

    async def cost(broker: ApprovalBroker) -> int:
        read.clear()
        waiting = await asked(broker, request())
        [record] = broker.pending(MINE)
        assert decide(broker, record) == "approved"
        assert (await waiting).approved
        return len(read)

    broker = ApprovalBroker(keep_resolved=None)
    first = await cost(broker)
    for _ in range(20):
        await cost(broker)
    assert await cost(broker) == first
    assert len(broker.records(MINE)) == 22


async def test_request_that_could_not_be_stored_waits_for_nobody() -> None:
    storage = Failing()
    broker = ApprovalBroker(storage=storage)
    storage.failing = True
    with pytest.raises(OSError):
        await broker(request(), RunContext(run_id="run_mine"))
    assert broker.pending(MINE) == broker.records(MINE) == ()
