"""What both stores of ours promise to everybody who uses them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any

import pytest

from protolink.engine import facts as f
from protolink.engine.facts import Record
from protolink.errors import (
    CheckpointMismatchError,
    DurableExecutionError,
    RunBusyError,
    StoreCorruptError,
)
from protolink.journal import DurableStore, RunCheckpoint, stored_records

MISSING = "nothing like it"


def write(store: Any, run: Any, run_id: str = "run-1", *, finish: bool = True) -> None:
    journal = store.open(run_id, "assistant", create=True)
    journal.append_now(run.intent, "working")
    if finish:
        journal.append_now(run.receipt, "completed")
    journal.release_now()


# ------------------------------------------------------------------------------------------- documents


def test_it_is_a_durable_store(store: Any) -> None:
    assert isinstance(store, DurableStore)


def test_a_new_run_is_ready_with_its_initial_data(store: Any) -> None:
    token, found = store.acquire("run-1", "assistant", {"step": 0})
    assert token
    assert found == RunCheckpoint("run-1", "assistant", "ready", {"step": 0})
    assert store.get("run-1") == found


def test_an_unknown_run_is_none(store: Any) -> None:
    assert store.get("run-1") is None


def test_saved_data_replaces_what_was_stored(store: Any) -> None:
    token, _ = store.acquire("run-1", "assistant", {"step": 0})
    store.save("run-1", token, "working", {"step": 1, "when": (1, 2)})
    assert store.get("run-1") == RunCheckpoint("run-1", "assistant", "working", {"step": 1, "when": [1, 2]})


def test_read_data_is_detached(store: Any) -> None:
    store.acquire("run-1", "assistant", {"items": [1]})
    store.get("run-1").data["items"].append(2)
    assert store.get("run-1").data == {"items": [1]}


def test_initial_data_of_a_stored_run_is_ignored(store: Any) -> None:
    token, _ = store.acquire("run-1", "assistant", {"step": 0})
    store.release("run-1", token)
    _, found = store.acquire("run-1", "assistant", {"step": 99})
    assert found.data == {"step": 0}


@pytest.mark.parametrize("data", [{"x": object()}, {"x": float("nan")}])
def test_data_that_is_no_json_is_refused_and_changes_nothing(store: Any, data: dict[str, Any]) -> None:
    token, _ = store.acquire("run-1", "assistant", {"step": 0})
    with pytest.raises(TypeError):
        store.save("run-1", token, "working", data)
    assert store.get("run-1").data == {"step": 0}


@pytest.mark.parametrize("name", ["", "  ", None, 7, "x" * 513, "\ud800"])
def test_unusable_names_are_refused(store: Any, name: Any) -> None:
    for call in (
        lambda: store.get(name),
        lambda: store.acquire(name, "assistant", {}),
        lambda: store.acquire("run-1", name, {}),
        lambda: store.open(name, "assistant", create=True),
        lambda: store.delete(name),
    ):
        with pytest.raises(ValueError):
            call()


def test_names_may_hold_anything_else(store: Any) -> None:
    name = "run/1 ' ü\x00🚀" + "x" * 500
    token, _ = store.acquire(name, name, {})
    store.release(name, token)
    assert store.get(name).run_id == name


# ------------------------------------------------------------------------------------------- ownership


@pytest.mark.claim("STR-004", "STR-005")
def test_a_second_worker_on_an_owned_run_is_told_that_it_is_busy(new_store: Callable[[], Any], clock: Any) -> None:
    token, _ = new_store().acquire("run-1", "assistant", {})
    with pytest.raises(RunBusyError) as found:
        new_store().acquire("run-1", "assistant", {})
    assert found.value.until == clock.wall + 60
    with pytest.raises(RunBusyError):
        new_store().open("run-1", "assistant", create=False)
    new_store().release("run-1", token)
    assert new_store().acquire("run-1", "assistant", {})[0] != token


@pytest.mark.claim("STR-007")
def test_abandoned_ownership_ends_with_the_lease(store: Any, clock: Any) -> None:
    token, _ = store.acquire("run-1", "assistant", {})
    clock.advance(59)
    with pytest.raises(RunBusyError):
        store.acquire("run-1", "assistant", {})
    clock.advance(1)
    assert store.acquire("run-1", "assistant", {})[0] != token


def test_the_end_of_a_lease_is_told_while_its_owner_may_be_alive(store: Any, clock: Any) -> None:
    assert store.owned_until("run-1") is None
    token, _ = store.acquire("run-1", "assistant", {})
    assert store.owned_until("run-1") == clock() + 60
    clock.advance(59)
    assert store.owned_until("run-1") == clock() + 1
    clock.advance(1)
    assert store.owned_until("run-1") is None
    store.renew("run-1", token)
    assert store.owned_until("run-1") == clock() + 60
    store.release("run-1", token)
    assert store.owned_until("run-1") is None


@pytest.mark.claim("STR-002")
def test_the_owner_sets_the_length_of_its_lease(new_store: Callable[[], Any], clock: Any) -> None:
    store = new_store()
    store.lease_seconds = 5
    store.acquire("run-1", "assistant", {})
    clock.advance(4.9)
    with pytest.raises(RunBusyError):
        new_store().acquire("run-1", "assistant", {})
    clock.advance(0.1)
    new_store().acquire("run-1", "assistant", {})


@pytest.mark.claim("STR-008")
@pytest.mark.parametrize("way", ["save", "append", "open journal", "renew"])
def test_writes_renew_the_lease(store: Any, clock: Any, one_call: Any, way: str) -> None:
    journal = store.open("run-1", "assistant", create=True)
    journal.append_now(one_call().intent, "working")
    clock.advance(50)
    if way == "save":
        store.save("run-1", journal.token, "working", store.get("run-1").data)
    elif way == "append":
        store.append("run-1", journal.token, "working", [])
    elif way == "open journal":
        journal.append_now(one_call().receipt, "completed")
    else:
        journal.renew()
    clock.advance(59)
    with pytest.raises(RunBusyError):
        store.acquire("run-1", "assistant", {})


@pytest.mark.claim("STR-009", "STR-015")
@pytest.mark.parametrize("way", ["save", "append", "open journal", "renew"])
def test_a_former_owner_can_write_nothing(store: Any, clock: Any, one_call: Any, way: str) -> None:
    former = store.open("run-1", "assistant", create=True)
    former.append_now(one_call().intent, "working")
    clock.advance(60)
    store.open("run-1", "assistant", create=False)
    stored = store.get("run-1")
    with pytest.raises(RunBusyError, match="Lease lost"):
        if way == "save":
            store.save("run-1", former.token, "failed", stored.data)
        elif way == "append":
            store.append("run-1", former.token, "failed", [[5, 5, 2.0, "ToolReturned", {"action": "a-1"}]])
        elif way == "open journal":
            former.append_now(one_call().receipt, "completed")
        else:
            former.renew()
    assert store.get("run-1") == stored


def test_a_released_token_can_write_nothing(store: Any) -> None:
    token, _ = store.acquire("run-1", "assistant", {})
    store.release("run-1", token)
    with pytest.raises(RunBusyError, match="released"):
        store.save("run-1", token, "working", {})


def test_releasing_with_a_wrong_token_changes_nothing(store: Any) -> None:
    token, _ = store.acquire("run-1", "assistant", {})
    store.release("run-1", "another")
    store.release(MISSING, token)
    store.save("run-1", token, "working", {})


@pytest.mark.claim("STR-015")
def test_of_many_concurrent_acquires_one_succeeds(store: Any) -> None:
    start = threading.Barrier(8)

    def attempt(_: int) -> str | None:
        start.wait()
        try:
            return str(store.acquire("run-1", "assistant", {})[0])
        except RunBusyError:
            return None

    with ThreadPoolExecutor(8) as pool:
        tokens = [token for token in pool.map(attempt, range(8)) if token is not None]
    assert len(tokens) == 1
    store.save("run-1", tokens[0], "working", {})


def test_another_agents_run_is_refused(store: Any) -> None:
    token, _ = store.acquire("run-1", "assistant", {})
    store.release("run-1", token)
    for call in (
        lambda: store.acquire("run-1", "other", {}),
        lambda: store.open("run-1", "other", create=True),
    ):
        with pytest.raises(CheckpointMismatchError) as found:
            call()
        assert (found.value.changes[0]["old"], found.value.changes[0]["new"]) == ("assistant", "other")


def test_every_owner_has_a_higher_epoch(store: Any) -> None:
    epochs = []
    for _ in range(3):
        journal = store.open("run-1", "assistant", create=True)
        epochs.append(journal.epoch)
        journal.release_now()
    assert epochs == [1, 2, 3]


def test_a_clock_set_back_does_not_lock_a_run_for_long(store: Any, clock: Any) -> None:
    store.acquire("run-1", "assistant", {})
    clock.wall -= 1_000_000
    with pytest.raises(RunBusyError) as found:
        store.acquire("run-1", "assistant", {})
    assert found.value.until == clock.wall + 60
    clock.steady += 60
    store.acquire("run-1", "assistant", {})


# ------------------------------------------------------------------------------------------- facts


def test_a_run_that_must_exist_is_missed(store: Any) -> None:
    with pytest.raises(DurableExecutionError, match="no run 'run-1'"):
        store.open("run-1", "assistant", create=False)
    assert store.get("run-1") is None


def test_appended_facts_are_read_back(new_store: Callable[[], Any], one_call: Any) -> None:
    run = one_call()
    write(new_store(), run)
    journal = new_store().open("run-1", "assistant", create=False)
    assert journal.records == run.intent + run.receipt
    assert journal.durable


async def test_facts_can_be_awaited(new_store: Callable[[], Any], one_call: Any) -> None:
    journal = new_store().open("run-1", "assistant", create=True)
    for records, status in ((one_call().intent, "working"), (one_call().receipt, "completed")):
        waiting = journal.append(records, status)
        if waiting is not None:
            await waiting
    await journal.release()
    assert new_store().get("run-1").status == "completed"


@pytest.mark.claim("STR-010")
def test_an_intent_without_receipt_is_uncertain_for_the_next_owner(new_store: Callable[[], Any], one_call: Any) -> None:
    journal = new_store().open("run-1", "assistant", create=True)
    journal.append_now(one_call().intent, "working")
    journal.release_now()
    taken = new_store().open("run-1", "assistant", create=False)
    taken.append_now([Record(5, 5, 3.0, f.Resumed(taken.epoch))], "uncertain")
    entry = new_store().get("run-1").data["actions"]["a-1"]
    assert entry["state"] == "uncertain"


@pytest.mark.claim("STR-016")
def test_data_is_stored_as_it_is(new_store: Callable[[], Any], one_call: Any) -> None:
    write(new_store(), one_call(result={"api_key": "sk-12345678901234567890", "text": "Bearer abcdefghijklmnop"}))
    data = new_store().get("run-1").data
    assert data["actions"]["a-1"]["result"] == {"api_key": "sk-12345678901234567890", "text": "Bearer abcdefghijklmnop"}
    assert data["task"]["messages"][0]["parts"][0]["content"] == "write hello"
    assert data["actions"]["a-1"]["action"]["payload"] == {"arguments": {"text": "hello"}}


def test_data_has_the_view_and_the_facts(store: Any, one_call: Any) -> None:
    write(store, one_call(), finish=False)
    data = store.get("run-1").data
    assert {"version", "configuration", "task", "actions", "interruption", "responses", "usage"} <= data.keys()
    assert [fact[3] for fact in data["facts"]] == ["RunStarted", "FrameOpened", "Prepared", "Decided", "ToolStarted"]


def test_a_repeated_batch_is_stored_once(store: Any, one_call: Any) -> None:
    journal = store.open("run-1", "assistant", create=True)
    journal.append_now(one_call().intent, "working")
    stored = store.get("run-1")
    journal.append_now(stored_records(stored), "working")
    assert store.get("run-1").data["facts"] == stored.data["facts"]


def test_a_batch_out_of_place_is_refused(store: Any, one_call: Any) -> None:
    journal = store.open("run-1", "assistant", create=True)
    journal.append_now(one_call().intent, "working")
    with pytest.raises(DurableExecutionError, match="fact 6 was to be appended, and 5 is the next"):
        journal.append_now(one_call().receipt[1:], "completed")
    with pytest.raises(ValueError):
        journal.append_now([one_call().receipt[0], one_call().receipt[2]], "completed")
    assert len(store.get("run-1").data["facts"]) == 5


def test_a_result_that_is_no_json_leaves_the_run_as_it_was(store: Any, one_call: Any) -> None:
    journal = store.open("run-1", "assistant", create=True)
    journal.append_now(one_call().intent, "working")
    with pytest.raises(TypeError):
        journal.append_now([Record(5, 5, 2.0, f.ToolReturned("a-1", object()))], "working")
    journal.append_now(one_call().receipt, "completed")


# ------------------------------------------------------------------------------------------- repairs


def test_saving_an_equal_view_changes_no_fact(store: Any, one_call: Any) -> None:
    journal = store.open("run-1", "assistant", create=True)
    journal.append_now(one_call().intent, "working")
    before = store.get("run-1")
    store.save("run-1", journal.token, "working", before.data)
    assert store.get("run-1") == before


def test_a_repaired_action_becomes_a_fact(store: Any, one_call: Any) -> None:
    journal = store.open("run-1", "assistant", create=True)
    journal.append_now(
        [*one_call().intent, Record(5, 5, 2.0, f.Resumed(2)), Record(6, 5, 2.0, f.Parked())], "uncertain"
    )
    data = store.get("run-1").data
    assert data["actions"]["a-1"]["state"] == "uncertain"
    data["actions"]["a-1"] |= {"state": "succeeded", "result": "found outside"}
    data["task"]["metadata"]["ticket"] = "T-1"
    store.save("run-1", journal.token, "ready", data)
    found = store.get("run-1")
    assert found.status == "ready"
    assert found.data["actions"]["a-1"]["state"] == "succeeded"
    assert found.data["actions"]["a-1"]["result"] == "found outside"
    assert found.data["task"]["metadata"]["ticket"] == "T-1"
    assert found.data["facts"][-1][3] == "Adopted"


def test_a_nested_repair_leaves_the_facts_alone(store: Any, one_call: Any) -> None:
    run = one_call(result={"rows": [1, 2]})
    journal = store.open("run-1", "assistant", create=True)
    journal.append_now(run.intent, "working")
    journal.append_now(run.receipt[:1], "working")
    data = store.get("run-1").data
    data["actions"]["a-1"]["result"]["rows"].append(3)
    store.save("run-1", journal.token, "working", data)
    assert store.get("run-1").data["actions"]["a-1"]["result"] == {"rows": [1, 2, 3]}


@pytest.mark.parametrize(
    ("edit", "named"),
    [
        (lambda data: data.update(version=2), "version"),
        (lambda data: data.pop("responses"), "responses"),
        (lambda data: data.update(mine=1), "mine"),
        (lambda data: data["task"].update(id="another"), "task.id"),
        (lambda data: data["actions"].clear(), "actions"),
        (lambda data: data["actions"]["a-1"].update(step=9), "actions.a-1.step"),
        (lambda data: data["actions"]["a-1"].update(state="prepared"), "actions.a-1.state"),
        (lambda data: data["facts"].pop(), "facts"),
        (lambda data: data["facts"][0].__setitem__(2, 7.0), "facts"),
    ],
)
def test_other_edits_are_refused_by_name(store: Any, one_call: Any, edit: Any, named: str) -> None:
    journal = store.open("run-1", "assistant", create=True)
    journal.append_now(one_call().intent, "working")
    data = store.get("run-1").data
    edit(data)
    with pytest.raises(DurableExecutionError, match=f"'{named}'"):
        store.save("run-1", journal.token, "working", data)
    assert len(store.get("run-1").data["facts"]) == 5


# ------------------------------------------------------------------------------------------- children


def test_a_child_is_read_from_its_roots_facts(store: Any, one_call: Any) -> None:
    token, _ = store.acquire("child-1", "writer", {"root_run_id": "run-1", "parent_run_id": "run-1"})
    store.release("child-1", token)
    assert store.get("child-1").data == {"root_run_id": "run-1", "parent_run_id": "run-1"}
    write(store, one_call(), finish=False)
    assert store.get("child-1").data["parent_run_id"] == "run-1"
    assert [found.run_id for found in store.list()] == ["run-1"]


def test_a_child_is_not_opened_by_itself(store: Any) -> None:
    token, _ = store.acquire("child-1", "writer", {"root_run_id": "run-1", "parent_run_id": "run-1"})
    store.release("child-1", token)
    with pytest.raises(CheckpointMismatchError, match="'run-1'"):
        store.open("child-1", "writer", create=False)


# ------------------------------------------------------------------------------------------- inventory


def test_lists_the_newest_runs_first(store: Any, one_call: Any) -> None:
    for name in ("a", "b", "c"):
        write(store, one_call(name), name, finish=name != "b")
    assert [found.run_id for found in store.list()] == ["c", "b", "a"]
    assert [found.run_id for found in store.list(limit=2)] == ["c", "b"]
    assert [found.run_id for found in store.list(status="working")] == ["b"]
    assert [found.run_id for found in store.list(agent_name="other")] == []
    assert store.list(limit=1)[0] == store.get("c")


def test_listing_needs_no_lease(store: Any) -> None:
    store.acquire("run-1", "assistant", {})
    assert len(store.list()) == 1


@pytest.mark.parametrize("wrong", [7, [], b"completed", {}])
@pytest.mark.parametrize("name", ["status", "agent_name"])
def test_a_list_is_narrowed_by_text(store: Any, name: str, wrong: Any) -> None:
    with pytest.raises(TypeError, match=f"{name} must be text or None"):
        store.list(**{name: wrong})


@pytest.mark.parametrize("limit", [0, 1001, -1, True, 1.0, "5"])
def test_unusable_limits_are_refused(store: Any, limit: Any) -> None:
    with pytest.raises(ValueError):
        store.list(limit=limit)


def test_a_finished_run_can_be_deleted(store: Any, one_call: Any) -> None:
    token, _ = store.acquire("child-1", "writer", {"root_run_id": "run-1", "parent_run_id": "run-1"})
    store.release("child-1", token)
    write(store, one_call())
    with pytest.raises(DurableExecutionError, match="root 'run-1'"):
        store.delete("child-1")
    assert store.delete("run-1")
    assert store.get("run-1") is None
    assert store.get("child-1") is None
    assert not store.delete("run-1")


def test_an_unfinished_or_owned_run_cannot_be_deleted(store: Any, one_call: Any) -> None:
    journal = store.open("run-1", "assistant", create=True)
    journal.append_now(one_call().intent, "working")
    with pytest.raises(DurableExecutionError, match="only finished"):
        store.delete("run-1")
    journal.append_now(one_call().receipt, "completed")
    with pytest.raises(RunBusyError):
        store.delete("run-1")


def test_an_id_used_again_starts_with_a_higher_epoch(store: Any, one_call: Any) -> None:
    write(store, one_call())
    former = store.open("run-1", "assistant", create=False)
    former.release_now()
    store.delete("run-1")
    again = store.open("run-1", "assistant", create=True)
    assert again.epoch > former.epoch
    assert again.records == []


def test_pruning_forgets_what_finished_before_a_time(store: Any, clock: Any, one_call: Any) -> None:
    write(store, one_call("old"), "old")
    write(store, one_call("open"), "open", finish=False)
    clock.advance(100)
    write(store, one_call("new"), "new")
    assert store.prune(before=datetime.fromtimestamp(clock.wall - 50, UTC)) == 1
    assert {found.run_id for found in store.list()} == {"open", "new"}
    assert store.prune(before=clock.wall + 1) == 1


@pytest.mark.parametrize(
    ("before", "error"), [(datetime(2026, 1, 1), ValueError), ("now", TypeError), (True, TypeError)]
)
def test_pruning_needs_a_definite_time(store: Any, before: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        store.prune(before=before)


def test_a_closed_store_says_so(new_store: Callable[[], Any]) -> None:
    store = new_store()
    store.close()
    store.close()
    for call in (lambda: store.get("run-1"), lambda: store.acquire("run-1", "assistant", {})):
        with pytest.raises(DurableExecutionError):
            call()


def test_refused_work_leaves_the_store_usable(store: Any, one_call: Any) -> None:
    journal = store.open("run-1", "assistant", create=True)
    journal.append_now(one_call().intent, "working")
    for _ in range(3):
        with pytest.raises(DurableExecutionError):
            journal.append_now(one_call().receipt[1:], "completed")
    journal.append_now(one_call().receipt, "completed")
    assert store.get("run-1").status == "completed"


async def test_runs_side_by_side_do_not_disturb_each_other(store: Any, one_call: Any) -> None:
    async def drive(name: str) -> None:
        journal = await asyncio.to_thread(store.open, name, "assistant", create=True)
        for records, status in ((one_call(name).intent, "working"), (one_call(name).receipt, "completed")):
            waiting = journal.append(records, status)
            if waiting is not None:
                await waiting
        await journal.release()

    await asyncio.gather(*(drive(f"run-{index}") for index in range(20)))
    assert [found.status for found in store.list()] == ["completed"] * 20


def test_a_run_that_does_not_start_is_corrupt(store: Any, one_call: Any) -> None:
    journal = store.open("run-1", "assistant", create=True)
    journal.append_now([Record(0, 1, 1.0, f.Parked())], "working")
    with pytest.raises(StoreCorruptError, match="start of a run"):
        store.get("run-1")
    assert "error" in store.list()[0].data


async def test_creating_a_run_that_is_stored_leaves_it_alone(new_store: Any, one_call: Any) -> None:
    store = new_store()
    made = await store.create("run-1", "assistant")
    made.append_now(one_call().intent, "working")
    assert await store.create("run-1", "assistant") is None
    made.append_now(one_call().receipt, "completed")
    made.release_now()
    assert await store.create("run-1", "another") is None
    assert store.open("run-1", "assistant", create=False).epoch == made.epoch + 1
