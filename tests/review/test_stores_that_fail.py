"""Stores of applications that raise: at every call, before and after it took effect, for a while or once.

Nothing is done twice, nothing is lost, nothing is stuck; and what reaches a caller is a typed error of protolink.
"""

from __future__ import annotations

import copy
import json
import sqlite3
from collections.abc import Callable
from typing import Any, TypeVar

import pytest

from protolink import (
    Agent,
    CapabilityPolicy,
    CheckpointMismatchError,
    DurableExecutionError,
    RunBusyError,
    RunContext,
    RunInterrupted,
    RunManager,
    StoreUnavailableError,
    Task,
    UncertainExecutionError,
)
from protolink.journal import RunCheckpoint, point_to_root
from protolink.llms import MockLLM
from protolink.testing import FakeClock, FaultyStore
from protolink.tools import Tool, ask_user_tool

T = TypeVar("T")
RUN = "run-1"


class Shelf:
    """A store of the four methods over a mapping. It cannot tell that an owner is dead: ``free`` is its lease's end."""

    def __init__(self) -> None:
        self.runs: dict[str, tuple[str, str, dict[str, Any]]] = {}
        self.owners: dict[str, str] = {}
        self._tokens = 0

    def get(self, run_id: str) -> RunCheckpoint | None:
        return self._read(run_id) if run_id in self.runs else None

    def acquire(self, run_id: str, agent_name: str, initial: dict[str, Any]) -> tuple[str, RunCheckpoint]:
        if run_id in self.owners:
            raise RunBusyError(f"run {run_id} is owned")
        self.runs.setdefault(run_id, (agent_name, "ready", copy.deepcopy(initial)))
        self._tokens += 1
        self.owners[run_id] = f"token-{self._tokens}"
        return self.owners[run_id], self._read(run_id)

    def save(self, run_id: str, token: str, status: str, data: dict[str, Any]) -> None:
        if self.owners.get(run_id) != token:
            raise RunBusyError(f"run {run_id}: the lease is lost")
        json.dumps(data, allow_nan=False)
        self.runs[run_id] = (self.runs[run_id][0], status, copy.deepcopy(data))

    def release(self, run_id: str, token: str) -> None:
        if self.owners.get(run_id) == token:
            del self.owners[run_id]

    def free(self) -> None:
        self.owners.clear()

    def _read(self, run_id: str) -> RunCheckpoint:
        agent_name, status, data = self.runs[run_id]
        return RunCheckpoint(run_id, agent_name, status, copy.deepcopy(data))


class Failing(Shelf):
    """Calls number ``first`` to ``first + times - 1`` raise; ``late``: after they took effect."""

    def __init__(self, first: int = 0, times: int = 1, late: bool = False) -> None:
        super().__init__()
        self.calls: list[str] = []
        self._bad = range(first, first + times)
        self._late = late

    def get(self, run_id: str) -> RunCheckpoint | None:
        return self._call("get", lambda: super(Failing, self).get(run_id))

    def acquire(self, run_id: str, agent_name: str, initial: dict[str, Any]) -> tuple[str, RunCheckpoint]:
        return self._call("acquire", lambda: super(Failing, self).acquire(run_id, agent_name, initial))

    def save(self, run_id: str, token: str, status: str, data: dict[str, Any]) -> None:
        self._call("save", lambda: super(Failing, self).save(run_id, token, status, data))

    def release(self, run_id: str, token: str) -> None:
        self._call("release", lambda: super(Failing, self).release(run_id, token))

    def _call(self, name: str, work: Callable[[], T]) -> T:
        self.calls.append(name)
        if len(self.calls) not in self._bad:
            return work()
        if self._late:
            work()
        raise OSError("no route to postgres://user:secret@host")


class Office:
    """The application: a tree that is approved, asks, and loses one receipt. ``effects``: what it did to the world."""

    def __init__(self, store: Failing, *, restarts: bool) -> None:
        self.store = store
        self.restarts = restarts
        self.effects: list[str] = []
        self.raised: list[Exception] = []
        self.clock = FakeClock()
        self._agent = self._made()
        self._submitted = Task.create_infer(prompt="go", context=RunContext(run_id=RUN)).to_dict()

    def _made(self) -> Agent:
        how: dict[str, Any] = {"clock": self.clock, "store_patience": 1.0, "verbosity": 0}
        child = Agent(
            name="child", llm=_model(("write", {"text": "c"}), ("lose", {}), "ok"), tools=self._tools(), **how
        )
        work = {"type": "agent_call", "agent": "child", "action": "infer", "prompt": "go"}
        return Agent(
            name="root",
            llm=_model(work, ("ask_user", {"question": "Which?"}), "done"),
            tools=[ask_user_tool()],
            policy=CapabilityPolicy({"content.write": "require_approval"}),
            subagents=[child],
            durability=self.store,
            **how,
        )

    def _tools(self) -> list[Any]:
        def write(text: str) -> str:
            """Write a text."""
            self.effects.append(text)
            return text

        def lose() -> str:
            """Do something and lose the answer."""
            self.effects.append("lost")
            raise ConnectionError("reset")

        return [Tool.from_callable(write, capabilities=["content.write"]), lose]

    async def to_its_end(self) -> str:
        """What an operator does with it, step by step, from what is stored."""
        for _ in range(40):
            agent = self._made() if self.restarts else self._agent
            stored = self.store.runs.get(RUN)
            if stored is not None and stored[1] in ("completed", "failed", "canceled"):
                return stored[1]
            try:
                await self._step(agent, stored)
            except UncertainExecutionError:
                continue
            except RunBusyError as error:
                self.raised.append(error)
                self.store.free()
            except Exception as error:  # what kind it is is what the test asks
                self.raised.append(error)
        return "stuck"

    async def _step(self, agent: Agent, stored: tuple[str, str, dict[str, Any]] | None) -> None:
        if stored is None or not stored[2]["facts"]:
            await agent.run_task(Task.from_dict(copy.deepcopy(self._submitted)))
            return
        _, status, data = stored
        if status == "uncertain":
            [action] = RunManager(agent).inspect(RUN)["uncertain_actions"]
            agent.reconcile(action["run_id"], action["action_id"], result="looked up")
            return
        asked = next((item for item in data["interruptions"] if item["kind"] in ("approval", "input")), None)
        response: dict[str, Any] = {}
        if status != "working" and asked is not None:
            answer = {"approved": True} if asked["kind"] == "approval" else {"answer": "CSV"}
            response = {"request_id": asked["request_id"], **answer}
        await agent.resume_task(RUN, **response)


def _model(*turns: Any) -> MockLLM:
    def play(history: Any, prompt: str) -> Any:
        turn = turns[sum(message["role"] == "assistant" for message in history.messages)]
        return {"type": "tool_call", "tool": turn[0], "args": turn[1]} if isinstance(turn, tuple) else turn

    return MockLLM(response_callback=play)


@pytest.mark.parametrize(
    ("times", "late", "restarts"),
    [(1, False, True), (1, True, True), (1, False, False), (3, False, False)],
    ids=["before", "after", "before, same process", "three times, same process"],
)
async def test_a_store_may_raise_at_any_call(times: int, late: bool, restarts: bool) -> None:
    quiet = Office(Failing(), restarts=restarts)
    assert (await quiet.to_its_end(), quiet.raised) == ("completed", [])
    assert sorted(quiet.effects) == ["c", "lost"]
    for first in range(1, len(quiet.store.calls) + 1):
        office = Office(Failing(first, times, late), restarts=restarts)
        assert (first, await office.to_its_end()) == (first, "completed")
        assert (first, sorted(office.effects)) == (first, ["c", "lost"])
        for error in office.raised:
            assert isinstance(error, (StoreUnavailableError, RunBusyError)), (first, office.store.calls, error)
            assert "secret" not in str(error)
        if not restarts:
            # This process knows what it owns; only an answer that was lost leaves a lease to be waited for.
            assert not any(isinstance(error, RunBusyError) for error in office.raised), (first, office.store.calls)


# ---------------------------------------------------------------------------------------------------- one by one


def asking(store: Any, name: str = "helper") -> Agent:
    return Agent(name=name, tools=[ask_user_tool()], durability=store, verbosity=0)


async def paused(store: Any) -> RunInterrupted:
    with pytest.raises(RunInterrupted) as caught:
        await asking(store).call_tool("ask_user", question="Which?")
    return caught.value


async def test_reading_through_a_store_that_is_away_is_a_typed_error() -> None:
    class Away(Shelf):
        away = False

        def get(self, run_id: str) -> RunCheckpoint | None:
            if self.away:
                raise sqlite3.OperationalError("unable to open postgres://user:secret@host")
            return super().get(run_id)

        def list(self, **how: Any) -> list[RunCheckpoint]:
            raise KeyError("secret")

    store = Away()
    pause = await paused(store)
    store.away = True
    agent = asking(store)
    reads: list[Callable[[], Any]] = [
        lambda: agent.run_events(pause.run_id),
        lambda: agent.reconcile(pause.run_id, "action", result=1),
        RunManager(agent).list,
        lambda: RunManager(agent).inspect(pause.run_id),
        lambda: RunManager(agent).cancel(pause.run_id),
        lambda: RunManager(agent).events(pause.run_id),
    ]
    for read in reads:
        with pytest.raises(StoreUnavailableError) as caught:
            read()
        assert "secret" not in str(caught.value)
        assert caught.value.store == "Away"


async def test_what_was_recorded_counts_although_the_store_does_not_let_go() -> None:
    class Clinging(Shelf):
        away = False

        def release(self, run_id: str, token: str) -> None:
            if self.away:
                raise OSError("away")
            super().release(run_id, token)

    def lose() -> str:
        """Lose the answer."""
        raise ConnectionError("reset")

    store = Clinging()
    agent = Agent(name="helper", tools=[lose], durability=store, verbosity=0)
    with pytest.raises(UncertainExecutionError) as caught:
        await agent.call_tool("lose")
    store.away = True
    agent.reconcile(caught.value.run_id, caught.value.action_id, result="looked up")
    assert store.runs[caught.value.run_id][1] == "ready"
    store.away = False
    # Nobody drives it; the process that could not let go of it is not kept out by itself.
    assert await agent.resume(caught.value.run_id) == "looked up"
    pause = await paused(store)
    store.away = True
    assert RunManager(asking(store)).cancel(pause.run_id)["status"] == "canceled"


@pytest.mark.parametrize("method", ["acquire", "release"])
async def test_a_pointer_that_was_left_owned_keeps_nobody_waiting(method: str) -> None:
    """A process that dies, or loses its store, between writing a child's pointer and giving it back."""

    class Dying(Shelf):
        def acquire(self, run_id: str, agent_name: str, initial: dict[str, Any]) -> tuple[str, RunCheckpoint]:
            known = run_id in self.runs
            found = super().acquire(run_id, agent_name, initial)
            if method == "acquire" and "root_run_id" in initial and not known:
                raise OSError("the answer is lost")
            return found

        def release(self, run_id: str, token: str) -> None:
            if method == "release" and "root_run_id" in self.runs[run_id][2]:
                raise OSError("away")
            super().release(run_id, token)

    work = {"type": "agent_call", "agent": "child", "action": "infer", "prompt": "go"}
    store, clock = Dying(), FakeClock()
    child = Agent(name="child", llm=_model("child done"), verbosity=0)
    agent = Agent(name="root", llm=_model(work, "done"), subagents=[child], durability=store, clock=clock, verbosity=0)
    assert await agent.invoke("go") == "done"
    assert len(store.owners) == 1  # the pointer's lease; nobody ever needs it


async def test_a_pointer_is_not_taken_for_another_roots() -> None:
    store = Shelf()
    store.acquire("child-1", "child", {"root_run_id": "somebody-else"})
    with pytest.raises(CheckpointMismatchError, match="no child of"):
        point_to_root(store, "child-1", "child", root_run_id="root-1", parent_run_id="root-1")


@pytest.mark.parametrize("make", [Shelf, FaultyStore], ids=["four methods", "ours"])
async def test_another_agents_run_is_not_read(make: Callable[[], Any]) -> None:
    store = make()
    pause = await paused(store)
    other = asking(store, "other")
    with pytest.raises(CheckpointMismatchError, match="belongs to agent 'helper', not to 'other'"):
        other.run_events(pause.run_id)
    with pytest.raises(DurableExecutionError, match="No configured agent"):
        RunManager(other).events(pause.run_id)
    assert asking(store).run_events(pause.run_id)
