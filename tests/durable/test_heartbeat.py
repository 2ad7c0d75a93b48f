"""A lease is renewed while a long tool runs, whether the tool leaves the event loop free or not."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from protolink import Agent, RunBusyError, SQLiteDurableStore
from protolink.agents.heartbeat import HEARTBEAT
from protolink.journal.store import StoredJournal
from protolink.tools import Tool

LEASE = 0.03


class Beats:
    """Counts renewals; ``third`` is set by the third."""

    def __init__(self) -> None:
        self.count = 0
        self.third = threading.Event()

    def __call__(self) -> None:
        self.count += 1
        if self.count >= 3:
            self.third.set()


@pytest.fixture
def beats(monkeypatch: pytest.MonkeyPatch) -> Beats:
    """The renewals of our own store."""
    found, renew = Beats(), StoredJournal.renew

    def counted(journal: StoredJournal) -> None:
        renew(journal)
        found()

    monkeypatch.setattr(StoredJournal, "renew", counted)
    return found


def waiting(beats: Beats, kind: str) -> Tool:
    """A tool that returns when its run's lease was renewed three times."""

    def blocking() -> bool:
        return beats.third.wait(30)

    async def awaiting() -> bool:
        return await asyncio.to_thread(beats.third.wait, 30)

    return Tool.from_callable(awaiting if kind == "async" else blocking, name="work", description="Work.")


@pytest.mark.parametrize("kind", ["async", "blocking"])
async def test_a_long_tool_keeps_its_lease(tmp_path: Any, beats: Beats, kind: str) -> None:
    store = SQLiteDurableStore(tmp_path / "runs.sqlite", lease_seconds=LEASE)
    agent = Agent(name="helper", tools=[waiting(beats, kind)], durability=store, verbosity=0)
    assert await agent.call_tool("work") is True


async def test_nobody_takes_a_run_whose_lease_is_renewed(tmp_path: Any, beats: Beats) -> None:
    store = SQLiteDurableStore(tmp_path / "runs.sqlite", lease_seconds=LEASE)
    moment = 1000.0
    watching = SQLiteDurableStore(tmp_path / "runs.sqlite", clock=lambda: moment, monotonic=lambda: moment)
    found: list[Any] = []

    def work() -> None:
        """Work; somebody else looks at the lease before it is renewed and after it, one lease later."""
        nonlocal moment
        run_id = watching.list()[0].run_id
        for _ in range(2):
            try:
                watching.acquire(run_id, "helper", {})
                found.append("taken")
            except RunBusyError:
                found.append("busy")
            moment += LEASE
            beats.third.wait(30)

    agent = Agent(name="helper", tools=[work], durability=store, verbosity=0)
    await agent.call_tool("work")
    assert found == ["busy", "busy"]


@pytest.mark.parametrize("offers", ["renew", "append", "save"])
async def test_a_store_of_an_application_is_renewed_by_what_it_offers(new_tape: Any, offers: str) -> None:
    beats, calls = Beats(), []

    class Store(type(new_tape())):  # type: ignore[misc]
        lease_seconds = LEASE

        def save(self, run_id: str, token: str, status: str, data: dict[str, Any]) -> None:
            before = self.runs[run_id]
            super().save(run_id, token, status, data)
            if before == self.runs[run_id]:
                calls.append("save")
                beats()

        def _renewed(self, run_id: str, token: str) -> None:
            calls.append("renew")
            beats()

        def _appended(self, run_id: str, token: str, status: str, facts: list[Any]) -> None:
            agent_name, _, data = self.runs[run_id]
            self.runs[run_id] = (agent_name, status, {**data, "facts": [*data["facts"], *facts]})
            if not facts:
                calls.append("append")
                beats()

    store = Store()
    if offers == "renew":
        store.renew = store._renewed
    if offers == "append":
        store.append = store._appended
    agent = Agent(name="helper", tools=[waiting(beats, "async")], durability=store, verbosity=0)
    assert await agent.call_tool("work") is True
    assert set(calls) == {offers}


async def test_nothing_is_renewed_after_the_run_came_to_rest(tmp_path: Any, beats: Beats) -> None:
    store = SQLiteDurableStore(tmp_path / "runs.sqlite", lease_seconds=LEASE)
    await Agent(name="helper", tools=[waiting(beats, "async")], durability=store, verbosity=0).call_tool("work")
    assert not any(journal.store is store for journal, _, _ in HEARTBEAT._watched.values())
