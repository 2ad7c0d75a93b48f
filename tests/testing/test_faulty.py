from __future__ import annotations

import pytest

from protolink import Agent, CapabilityPolicy, RunBudget, RunContext, Task
from protolink.engine import facts as f
from protolink.errors import RunBusyError, StoreUnavailableError, UncertainExecutionError
from protolink.testing import Crash, FaultyStore, Outage, ScriptedModel, SimulatedCrash, Theft
from protolink.tools import Tool

SCRIPT = [
    {"type": "tool_call", "tool": "note", "args": {"item": "a"}},
    {"type": "tool_call", "tool": "write", "args": {"item": "b"}},
    "done",
]


class Case:
    """One task, its store and what its tools did."""

    def __init__(self, *faults: Crash | Outage | Theft, budget: RunBudget | None = None) -> None:
        self.store = FaultyStore(faults)
        self.done: list[str] = []
        self.task = Task.create_infer(prompt="go", budget=budget)
        self.run_id = RunContext.ensure_task_context(self.task).run_id

    def agent(self, store: FaultyStore | None = None) -> Agent:
        def note(item: str) -> str:
            """Write it down."""
            self.done.append(item)
            return item

        def write(item: str) -> str:
            """Write it down where others read it."""
            return note(item)

        store = store or self.store
        tools = [Tool.from_callable(note), Tool.from_callable(write, capabilities=["write"])]
        policy = CapabilityPolicy({"write": "require_approval"})
        return Agent(
            name="a", llm=ScriptedModel(SCRIPT), tools=tools, policy=policy, durability=store, clock=store.clock
        )

    def facts(self) -> list[str]:
        return [type(record.fact).__name__ for record in self.store.disk.records(self.run_id)]


async def test_crash_before_a_commit_leaves_nothing_of_it() -> None:
    case = Case(Crash(3))
    with pytest.raises(SimulatedCrash):
        await case.agent().run_task(case.task)
    assert (case.facts(), case.done) == (["RunStarted", "FrameOpened", "Composed", "ModelStarted"], [])


async def test_crash_after_a_commit_leaves_all_of_it() -> None:
    case = Case(Crash(3, after=True))
    with pytest.raises(SimulatedCrash):
        await case.agent().run_task(case.task)
    assert (case.facts()[-1], case.done) == ("ToolStarted", [])


async def test_dead_process_can_do_nothing_more() -> None:
    case = Case(Crash(3))
    with pytest.raises(SimulatedCrash):
        await case.agent().run_task(case.task)
    commits = list(case.store.disk.commits)
    with pytest.raises(SimulatedCrash):
        case.store.get(case.run_id)
    with pytest.raises(SimulatedCrash):
        case.store.acquire("another", "a", {})
    assert case.store.dead
    assert case.store.disk.commits == commits


async def test_lease_of_the_dead_has_to_run_out() -> None:
    case = Case(Crash(3, after=True))
    with pytest.raises(SimulatedCrash):
        await case.agent().run_task(case.task)
    with pytest.raises(RunBusyError):
        await case.agent(case.store.beside()).resume_task(case.run_id)
    with pytest.raises(UncertainExecutionError):
        await case.agent(case.store.restart()).resume_task(case.run_id)


async def test_short_outage_only_delays() -> None:
    case = Case(Outage(4, times=3))
    began = case.store.clock.now()
    task = await case.agent().run_task(case.task)
    assert (task.state.value, case.done) == ("input-required", ["a"])
    assert case.store.clock.now() > began


async def test_receipt_in_hand_survives_a_long_outage() -> None:
    case = Case(Outage(4, times=20))
    agent = case.agent()
    with pytest.raises(StoreUnavailableError):
        await agent.run_task(case.task)
    case.store.clock.advance(60)
    task = await agent.resume_task(case.run_id)
    assert (task.state.value, case.done) == ("input-required", ["a"])
    assert "Reconciled" not in case.facts()


async def test_receipt_in_hand_gives_way_to_what_others_stored() -> None:
    case = Case(Outage(4, times=20))
    agent, other = case.agent(), case.agent(case.store.beside())
    with pytest.raises(StoreUnavailableError):
        await agent.run_task(case.task)
    case.store.clock.advance(60)
    with pytest.raises(UncertainExecutionError) as unknown:
        await other.resume_task(case.run_id)
    other.reconcile(case.run_id, unknown.value.action_id or "", result="a")
    await other.resume_task(case.run_id)
    task = await agent.resume_task(case.run_id)
    waiting = task.metadata["interruption"]["request_id"]
    assert await agent.resume(case.run_id, request_id=waiting, approved=True) == "done"
    assert case.done == ["a", "b"]


async def test_task_that_was_never_stored_is_submitted_again() -> None:
    case = Case(Outage(2, times=20))
    agent, submitted = case.agent(), case.task.to_dict()
    with pytest.raises(StoreUnavailableError):
        await agent.run_task(case.task)
    case.store.clock.advance(60)
    task = await agent.run_task(Task.from_dict(submitted))
    waiting = task.metadata["interruption"]["request_id"]
    assert await agent.resume(case.run_id, request_id=waiting, approved=True) == "done"


async def test_stolen_run_is_left_alone() -> None:
    case = Case(Theft(4))
    with pytest.raises(RunBusyError):
        await case.agent().run_task(case.task)
    assert case.facts()[-1] == "ToolStarted"
    assert case.store.disk.stale_commits == 0


@pytest.mark.claim("DUR-066")
async def test_time_between_processes_is_no_runtime() -> None:
    case = Case(Crash(4, after=True), budget=RunBudget(max_runtime_seconds=10))
    with pytest.raises(SimulatedCrash):
        await case.agent().run_task(case.task)
    store = case.store.restart()
    store.clock.advance(3600)
    task = await case.agent(store).resume_task(case.run_id)
    assert task.state.value == "input-required"
    assert not [r for r in store.disk.records(case.run_id) if isinstance(r.fact, f.BudgetDenied)]
