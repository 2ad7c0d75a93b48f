"""Stores that applications bring, behind the journal that the driver writes to."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from protolink.engine import facts as f
from protolink.engine.facts import Record
from protolink.errors import (
    CheckpointMismatchError,
    DurableExecutionError,
    RunBusyError,
    StoreCorruptError,
    StoreUnavailableError,
)
from protolink.journal import (
    InMemoryDurableStore,
    RunCheckpoint,
    StoreJournal,
    open_journal,
    point_to_root,
    stored_records,
)


class FourMethods:
    """The smallest store there can be. ``trouble`` is raised by the next save; ``calls`` tells what was called."""

    def __init__(self) -> None:
        self.rows: dict[str, dict[str, Any]] = {}
        self.trouble: Exception | None = None
        self.calls: list[str] = []

    def get(self, run_id: str) -> RunCheckpoint | None:
        row = self.rows.get(run_id)
        return None if row is None else self._checkpoint(run_id, row)

    def acquire(self, run_id: str, agent_name: str, initial: dict[str, Any]) -> tuple[str, RunCheckpoint]:
        new = {"agent": agent_name, "status": "ready", "data": copy.deepcopy(initial), "owner": None, "count": 0}
        row = self.rows.setdefault(run_id, new)
        if row["owner"] is not None:
            raise RunBusyError("busy")
        row["count"] += 1
        row["owner"] = f"token-{row['count']}"
        return row["owner"], self._checkpoint(run_id, row)

    def save(self, run_id: str, token: str, status: str, data: dict[str, Any]) -> None:
        self.calls.append("save")
        if self.trouble is not None:
            trouble, self.trouble = self.trouble, None
            raise trouble
        self._owned(run_id, token).update(status=status, data=json.loads(json.dumps(data)))

    def release(self, run_id: str, token: str) -> None:
        row = self.rows[run_id]
        if row["owner"] == token:
            row["owner"] = None

    def _owned(self, run_id: str, token: str) -> dict[str, Any]:
        if self.rows[run_id]["owner"] != token:
            raise RunBusyError("Lease lost")
        return self.rows[run_id]

    def _checkpoint(self, run_id: str, row: dict[str, Any]) -> RunCheckpoint:
        return RunCheckpoint(run_id, row["agent"], row["status"], copy.deepcopy(row["data"]))


class Appending(FourMethods):
    """A store that takes new facts alone."""

    def append(self, run_id: str, token: str, status: str, facts: list[Any]) -> None:
        self.calls.append(f"append {len(facts)}")
        row = self._owned(run_id, token)
        row["status"] = status
        row["data"]["facts"] += facts


class Wrapping:
    """Only the four methods of one of our own stores."""

    def __init__(self) -> None:
        inner = InMemoryDurableStore()
        self.get, self.acquire, self.save, self.release = inner.get, inner.acquire, inner.save, inner.release


@pytest.fixture(params=[FourMethods, Appending, Wrapping, InMemoryDurableStore])
def any_store(request: pytest.FixtureRequest) -> Any:
    return request.param()


@pytest.mark.claim("STR-014")
async def test_four_methods_are_enough_for_a_journal(any_store: Any, one_call: Any) -> None:
    run = one_call()
    journal = open_journal(any_store, "run-1", "assistant", create=True)
    assert journal.durable
    assert journal.records == []
    for records, status in ((run.intent, "working"), (run.receipt, "completed")):
        waiting = journal.append(records, status)
        if waiting is not None:
            await waiting
    journal.renew()
    await journal.release()
    again = open_journal(any_store, "run-1", "assistant", create=False)
    assert again.records == run.intent + run.receipt
    assert any_store.get("run-1").status == "completed"


def test_blocking_appends_do_the_same(any_store: Any, one_call: Any) -> None:
    journal = open_journal(any_store, "run-1", "assistant", create=True)
    journal.append_now(one_call().intent, "working")
    journal.release_now()
    assert len(open_journal(any_store, "run-1", "assistant", create=False).records) == 5


@pytest.mark.parametrize("kind", [FourMethods, Wrapping, InMemoryDurableStore])
def test_data_has_the_view_and_the_facts(kind: Any, one_call: Any) -> None:
    store = kind()
    journal = open_journal(store, "run-1", "assistant", create=True)
    journal.append_now(one_call().intent, "working")
    journal.append_now(one_call().receipt, "completed")
    data = store.get("run-1").data
    assert data["task"]["state"] == "completed"
    assert data["actions"]["a-1"]["result"] == "written"
    assert [fact[0] for fact in data["facts"]] == list(range(8))


def test_a_second_owner_is_busy(any_store: Any) -> None:
    open_journal(any_store, "run-1", "assistant", create=True)
    with pytest.raises(RunBusyError):
        open_journal(any_store, "run-1", "assistant", create=True)


def test_a_run_that_must_exist_is_missed(any_store: Any) -> None:
    with pytest.raises(DurableExecutionError, match="no run 'run-1'"):
        open_journal(any_store, "run-1", "assistant", create=False)
    assert any_store.get("run-1") is None


def test_a_stale_journal_can_append_nothing(any_store: Any, one_call: Any) -> None:
    stale = open_journal(any_store, "run-1", "assistant", create=True)
    stale.append_now(one_call().intent, "working")
    any_store.release("run-1", stale.token)
    open_journal(any_store, "run-1", "assistant", create=True)
    with pytest.raises(RunBusyError):
        stale.append_now(one_call().receipt, "completed")
    with pytest.raises(RunBusyError):
        stale.renew()
    stale.release_now()
    with pytest.raises(RunBusyError):
        open_journal(any_store, "run-1", "assistant", create=True)


def test_a_store_that_appends_gets_only_what_is_new(one_call: Any) -> None:
    store = Appending()
    journal = open_journal(store, "run-1", "assistant", create=True)
    journal.append_now(one_call().intent, "working")
    journal.append_now(one_call().receipt, "completed")
    assert store.calls == ["append 5", "append 3"]


def test_failures_of_a_foreign_store_are_unavailability(one_call: Any) -> None:
    store = FourMethods()
    journal = open_journal(store, "run-1", "assistant", create=True)
    store.trouble = OSError("postgres://user:secret@host is away")
    with pytest.raises(StoreUnavailableError, match="FourMethods cannot be used now") as found:
        journal.append_now(one_call().intent, "working")
    assert found.value.store == "FourMethods"
    assert isinstance(found.value.__cause__, OSError)
    assert "secret" not in str(found.value)


def test_a_batch_that_failed_can_be_appended_again(one_call: Any) -> None:
    store = FourMethods()
    journal = open_journal(store, "run-1", "assistant", create=True)
    journal.append_now(one_call().intent, "working")
    store.trouble = OSError("away")
    with pytest.raises(StoreUnavailableError):
        journal.append_now(one_call().receipt, "completed")
    before = store.get("run-1")
    journal.renew()
    assert store.get("run-1") == before
    journal.append_now(one_call().receipt, "completed")
    found = store.get("run-1")
    assert found is not None
    assert len(found.data["facts"]) == 8
    assert found.data["usage"]["tool_calls"] == 1


def test_our_own_typed_errors_pass(one_call: Any) -> None:
    store = FourMethods()
    journal = open_journal(store, "run-1", "assistant", create=True)
    store.trouble = CheckpointMismatchError("mine")
    with pytest.raises(CheckpointMismatchError, match="mine"):
        journal.append_now(one_call().intent, "working")


def test_a_result_that_is_no_json_reaches_no_store(any_store: Any, one_call: Any) -> None:
    journal = open_journal(any_store, "run-1", "assistant", create=True)
    journal.append_now(one_call().intent, "working")
    with pytest.raises(TypeError):
        journal.append_now([Record(5, 5, 2.0, f.ToolReturned("a-1", object()))], "working")
    journal.append_now(one_call().receipt, "completed")


def test_a_replaced_method_of_our_store_is_called(one_call: Any) -> None:
    saved: list[str] = []

    class Watching(InMemoryDurableStore):
        def save(self, run_id: str, token: str, status: str, data: dict[str, Any]) -> None:
            saved.append(status)
            super().save(run_id, token, status, data)

    store = Watching()
    journal = open_journal(store, "run-1", "assistant", create=True)
    assert isinstance(journal, StoreJournal)
    journal.append_now(one_call().intent, "working")
    journal.append_now(one_call().receipt, "completed")
    assert saved == ["working", "completed"]
    found = store.get("run-1")
    assert found is not None
    assert found.data["actions"]["a-1"]["state"] == "succeeded"


def test_a_method_replaced_on_one_store_is_called(monkeypatch: pytest.MonkeyPatch, one_call: Any) -> None:
    store = InMemoryDurableStore()

    def refuse(*arguments: Any) -> None:
        raise OSError("no")

    monkeypatch.setattr(store, "save", refuse)
    journal = open_journal(store, "run-1", "assistant", create=True)
    with pytest.raises(StoreUnavailableError):
        journal.append_now(one_call().intent, "working")


def test_the_epoch_grows_with_the_drives_that_are_stored(one_call: Any) -> None:
    store = FourMethods()
    first = open_journal(store, "run-1", "assistant", create=True)
    first.append_now([*one_call().intent, Record(5, 5, 2.0, f.Resumed(4))], "uncertain")
    first.release_now()
    assert open_journal(store, "run-1", "assistant", create=True).epoch == 5


@pytest.mark.parametrize(
    "data",
    [
        {},
        {"facts": "none"},
        {"facts": [[0, 0, 0.0, "Unheard", {}]]},
        {"facts": [[0, 0, 0.0, "Parked", {}], [2, 0, 0.0, "Parked", {}]]},
    ],
    ids=["absent", "no list", "unknown", "gap"],
)
def test_data_without_sound_facts_is_corrupt_and_given_back(data: dict[str, Any]) -> None:
    store = FourMethods()
    token, _ = store.acquire("run-1", "assistant", data)
    store.release("run-1", token)
    for _ in range(2):
        with pytest.raises(StoreCorruptError, match="run-1"):
            open_journal(store, "run-1", "assistant", create=False)


def test_a_pointer_leads_to_the_root(any_store: Any) -> None:
    for _ in range(2):
        point_to_root(any_store, "child-1", "writer", root_run_id="run-1", parent_run_id="run-1")
    assert any_store.get("child-1").data["root_run_id"] == "run-1"
    with pytest.raises(CheckpointMismatchError, match="'run-1'"):
        open_journal(any_store, "child-1", "writer", create=False)
    with pytest.raises(CheckpointMismatchError, match="no child of 'run-2'"):
        point_to_root(any_store, "child-1", "writer", root_run_id="run-2", parent_run_id="run-2")


def test_a_child_is_told_by_its_root_though_the_store_sees_another_agent() -> None:
    class Strict(FourMethods):
        def acquire(self, run_id: str, agent_name: str, initial: dict[str, Any]) -> tuple[str, RunCheckpoint]:
            found = self.get(run_id)
            if found is not None and found.agent_name != agent_name:
                raise CheckpointMismatchError("another agent's")
            return super().acquire(run_id, agent_name, initial)

    store = Strict()
    point_to_root(store, "child-1", "writer", root_run_id="run-1", parent_run_id="run-1")
    with pytest.raises(CheckpointMismatchError, match="'run-1'"):
        open_journal(store, "child-1", "assistant", create=False)


def test_records_are_read_without_owning_a_run(any_store: Any, one_call: Any) -> None:
    run = one_call()
    open_journal(any_store, "run-1", "assistant", create=True).append_now(run.intent, "working")
    assert stored_records(any_store.get("run-1")) == run.intent
