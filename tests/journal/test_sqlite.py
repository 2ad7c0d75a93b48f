"""The file: what it may be, who may read it, what it costs, and what happens when it is not what it was."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import stat
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from protolink.engine import facts as f
from protolink.engine.facts import Record
from protolink.errors import DurableExecutionError, RunBusyError, StoreCorruptError, StoreUnavailableError
from protolink.journal import SQLiteDurableStore, schema


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "runs.sqlite"


@pytest.fixture
def open_store(path: Path) -> Iterator[Callable[..., SQLiteDurableStore]]:
    opened: list[SQLiteDurableStore] = []

    def open_it(**options: Any) -> SQLiteDurableStore:
        opened.append(SQLiteDurableStore(path, **options))
        return opened[-1]

    yield open_it
    for store in opened:
        store.close()


def write(store: Any, run: Any, run_id: str = "run-1") -> None:
    journal = store.open(run_id, "assistant", create=True)
    journal.append_now(run.intent, "working")
    journal.append_now(run.receipt, "completed")
    journal.release_now()


def held(store: Any) -> threading.Event:
    """Keeps the writer busy until the event is set, so that what comes meanwhile waits together."""
    gate, begun = threading.Event(), threading.Event()

    def wait(db: sqlite3.Connection) -> None:
        begun.set()
        gate.wait()

    store._database.submit(wait)
    begun.wait()
    return gate


def statement(path: Path, text: str, *values: Any) -> None:
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute(text, values)


# ------------------------------------------------------------------------------------------- opening


@pytest.mark.claim("STR-001")
def test_a_path_is_all_it_takes(path: Path, one_call: Any) -> None:
    for form in (path, str(path)):
        store = SQLiteDurableStore(form)
        write(store, one_call())
        assert store.path == path
        assert store.get("run-1").status == "completed"  # type: ignore[union-attr]
        store.delete("run-1")
        store.close()


@pytest.mark.claim("STR-002")
def test_the_lease_is_five_minutes_unless_set(open_store: Any) -> None:
    assert open_store().lease_seconds == 300.0
    assert open_store(lease_seconds=10).lease_seconds == 10.0


@pytest.mark.parametrize("seconds", [0, -1, float("inf"), float("nan"), "5", True, None])
def test_unusable_leases_are_refused_before_a_file_is_made(path: Path, seconds: Any) -> None:
    with pytest.raises(ValueError):
        SQLiteDurableStore(path, lease_seconds=seconds)
    assert not path.exists()


def test_a_relative_path_follows_no_change_of_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, one_call: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    store = SQLiteDurableStore("runs.sqlite")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    write(store, one_call())
    store.close()
    assert os.listdir(".") == []


@pytest.mark.claim("STR-011")
@pytest.mark.skipif(os.name != "posix", reason="modes are POSIX")
def test_new_files_belong_to_their_owner_alone(path: Path, open_store: Any, one_call: Any) -> None:
    before = os.umask(0)
    try:
        write(open_store(), one_call())
        modes = {found.name: stat.S_IMODE(found.stat().st_mode) for found in path.parent.iterdir()}
    finally:
        os.umask(before)
    assert modes == {"runs.sqlite": 0o600, "runs.sqlite-wal": 0o600, "runs.sqlite-shm": 0o600}


def test_odd_characters_in_a_path_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "a?b#c%20 'd'.sqlite"
    SQLiteDurableStore(path).close()
    assert [found.name for found in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize("path", ["", "  "])
def test_a_blank_path_is_refused(path: str) -> None:
    with pytest.raises(ValueError, match="blank"):
        SQLiteDurableStore(path)


def test_a_missing_directory_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="create it first"):
        SQLiteDurableStore(tmp_path / "none" / "runs.sqlite")


def test_memory_is_refused_as_a_path() -> None:
    with pytest.raises(ValueError, match="InMemoryDurableStore"):
        SQLiteDurableStore(":memory:")


def test_an_unknown_durability_is_refused(path: Path) -> None:
    with pytest.raises(ValueError, match="synchronous"):
        SQLiteDurableStore(path, synchronous="OFF")


def test_an_empty_file_becomes_a_store(path: Path, open_store: Any, one_call: Any) -> None:
    path.touch()
    write(open_store(), one_call())


def test_many_may_create_the_file_at_once(path: Path) -> None:
    start = threading.Barrier(6)
    found: list[Any] = []

    def create() -> None:
        start.wait()
        store = SQLiteDurableStore(path)
        store.acquire(threading.current_thread().name, "assistant", {})
        found.append(store)

    threads = [threading.Thread(target=create) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found[0].list()) == 6
    for store in found:
        store.close()


# ------------------------------------------------------------------------------------------- other files


def test_random_bytes_are_no_store(path: Path) -> None:
    path.write_bytes(bytes(range(256)) * 64)
    content = path.read_bytes()
    for read_only in (False, True):
        with pytest.raises(StoreCorruptError, match=r"runs\.sqlite") as found:
            SQLiteDurableStore(path, read_only=read_only)
        assert isinstance(found.value.__cause__, sqlite3.DatabaseError)
    assert path.read_bytes() == content


def test_another_applications_database_is_left_alone(path: Path) -> None:
    statement(path, "CREATE TABLE invoices (id INTEGER)")
    content = path.read_bytes()
    for read_only in (False, True):
        with pytest.raises(StoreCorruptError, match="another application with invoices"):
            SQLiteDurableStore(path, read_only=read_only)
    assert path.read_bytes() == content
    assert [found.name for found in path.parent.iterdir()] == [path.name]


def test_a_newer_file_names_both_versions(path: Path) -> None:
    SQLiteDurableStore(path).close()
    statement(path, f"PRAGMA user_version = {schema.TABLES_VERSION + 1}")
    for read_only in (False, True):
        with pytest.raises(DurableExecutionError, match="its version is 2, this one reads up to 1"):
            SQLiteDurableStore(path, read_only=read_only)


def test_a_run_of_a_newer_schema_names_both_versions(path: Path, open_store: Any, one_call: Any) -> None:
    write(open_store(), one_call())
    statement(path, "UPDATE protolink_runs SET schema = 2")
    with pytest.raises(DurableExecutionError, match="its schema is 2, this one reads up to 1"):
        open_store().get("run-1")


def test_a_truncated_file_is_corrupt(path: Path, one_call: Any) -> None:
    store = SQLiteDurableStore(path)
    write(store, one_call(result="x" * 50_000))
    store.close()
    os.truncate(path, 8192)
    with pytest.raises(StoreCorruptError, match=r"runs\.sqlite"):
        SQLiteDurableStore(path).get("run-1")


def test_a_directory_is_no_store(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailableError):
        SQLiteDurableStore(tmp_path)


def test_tables_that_are_gone_are_corruption(path: Path, open_store: Any) -> None:
    store = open_store()
    statement(path, "DROP TABLE protolink_runs")
    with pytest.raises(StoreCorruptError):
        store.get("run-1")
    with pytest.raises(StoreCorruptError):
        store.acquire("run-1", "assistant", {})


# ------------------------------------------------------------------------------------------- damage


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE protolink_facts SET body = replace(body, 'hello', 'hallo') WHERE place & 0xFFFFFFFF = 0",
        "UPDATE protolink_facts SET place = place + 1 WHERE place & 0xFFFFFFFF = 5",
        "DELETE FROM protolink_facts WHERE place & 0xFFFFFFFF = 0",
        "DELETE FROM protolink_facts WHERE place & 0xFFFFFFFF = 5",
    ],
    ids=["changed", "moved", "first missing", "last missing"],
)
def test_damage_is_told_and_other_runs_stay_readable(path: Path, open_store: Any, one_call: Any, damage: str) -> None:
    store = open_store()
    write(store, one_call())
    statement(path, damage)
    write(store, one_call("run-2"), "run-2")
    with pytest.raises(StoreCorruptError, match="'run-1' is damaged at") as found:
        store.get("run-1")
    assert found.value.run_id == "run-1"
    assert found.value.place
    assert store.get("run-2").status == "completed"
    assert ["error" in listed.data for listed in store.list()] == [False, True]


@pytest.mark.parametrize("value", ["x'ff'", "CAST(x'ff' AS TEXT)"], ids=["bytes", "no Unicode"])
@pytest.mark.parametrize("column", ["run_id", "agent_name", "status", "schema", "epoch", "lease_expires", "document"])
def test_a_damaged_record_is_listed_with_its_error_beside_the_others(
    path: Path, open_store: Any, one_call: Any, column: str, value: str
) -> None:
    store = open_store()
    write(store, one_call())
    write(store, one_call("run-2"), "run-2")
    statement(path, f"UPDATE protolink_runs SET {column} = {value} WHERE run_id = 'run-1'")
    sound, damaged = store.list()
    assert (sound.run_id, sound.status, "error" in sound.data) == ("run-2", "completed", False)
    assert f"damaged at its record ({column})" in damaged.data["error"]
    assert all(isinstance(text, str) for text in (damaged.run_id, damaged.agent_name, damaged.status))
    if column != "run_id":
        for read in (store.get, lambda run_id: store.open(run_id, "assistant", create=False)):
            with pytest.raises(StoreCorruptError, match="Other runs of the store can still be read"):
                read("run-1")


@pytest.mark.parametrize("document", ["{", "[]", "7"])
def test_a_document_that_is_none_is_told(path: Path, open_store: Any, document: str) -> None:
    store = open_store()
    store.release("run-1", store.acquire("run-1", "assistant", {"version": 1})[0])
    statement(path, f"UPDATE protolink_runs SET document = '{document}'")
    with pytest.raises(StoreCorruptError, match="'run-1' is damaged at its document"):
        store.get("run-1")
    assert ["error" in listed.data for listed in store.list()] == [True]


def test_opening_a_damaged_run_gives_it_back(path: Path, open_store: Any, one_call: Any) -> None:
    store = open_store()
    write(store, one_call())
    body = store._database.read(lambda db: db.execute("SELECT body FROM protolink_facts LIMIT 1").fetchone()[0])
    statement(path, "UPDATE protolink_facts SET body = x'5b' WHERE place & 0xFFFFFFFF = 0")
    for _ in range(2):
        with pytest.raises(StoreCorruptError):
            store.open("run-1", "assistant", create=False)
    statement(path, "UPDATE protolink_facts SET body = ? WHERE place & 0xFFFFFFFF = 0", body)
    assert len(store.open("run-1", "assistant", create=False).records) == 8


# ------------------------------------------------------------------------------------------- trouble


def test_a_lock_held_elsewhere_is_unavailability(path: Path, open_store: Any, one_call: Any) -> None:
    store = open_store(busy_seconds=0.01)
    journal = store.open("run-1", "assistant", create=True)
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreUnavailableError, match="locked") as found:
            journal.append_now(one_call().intent, "working")
        assert str(path) in str(found.value)
        assert found.value.store == str(path)
        assert store.get("run-1").status == "ready"
        other.execute("ROLLBACK")
    journal.append_now(one_call().intent, "working")
    assert len(store.get("run-1").data["facts"]) == 5


async def test_a_full_disk_fails_only_what_does_not_fit(open_store: Any, one_call: Any) -> None:
    store = open_store()
    small, large = (store.open(name, "assistant", create=True) for name in ("run-1", "run-2"))
    pages = store._database.write(lambda db: db.execute("PRAGMA page_count").fetchone()[0])
    connection = store._database._writer._connection
    connection.execute(f"PRAGMA max_page_count = {pages + 2}")
    gate = held(store)
    receipt = [Record(0, 1, 1.0, f.ToolReturned("a", "x" * 100_000))]
    waiting = [large.append(receipt, "working"), small.append(one_call().intent, "working")]
    gate.set()
    outcomes = await asyncio.gather(*waiting, return_exceptions=True)
    assert isinstance(outcomes[0], StoreUnavailableError)
    assert "full" in str(outcomes[0])
    assert outcomes[1] is None
    connection.execute("PRAGMA max_page_count = 1000000")
    await large.append(receipt, "working")


def test_a_removed_file_is_noticed_before_anything_is_lost_in_it(path: Path, open_store: Any, one_call: Any) -> None:
    store = open_store()
    journal = store.open("run-1", "assistant", create=True)
    kept = path.rename(path.with_name("moved"))
    with pytest.raises(StoreUnavailableError, match="removed or replaced"):
        journal.append_now(one_call().intent, "working")
    kept.rename(path)
    journal.append_now(one_call().intent, "working")


def test_a_row_beyond_sqlites_limit_is_no_outage(open_store: Any) -> None:
    store = open_store()
    token, _ = store.acquire("run-1", "assistant", {})
    store._database._writer._connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, 1000)
    with pytest.raises(DurableExecutionError, match="Too large") as found:
        store.save("run-1", token, "working", {"x": "y" * 2000})
    assert not isinstance(found.value, StoreUnavailableError)


# ------------------------------------------------------------------------------------------- read only


def snapshot(directory: Path) -> dict[str, tuple[bytes, int]]:
    return {found.name: (found.read_bytes(), found.stat().st_mtime_ns) for found in directory.iterdir()}


def test_reading_only_needs_a_file(path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        SQLiteDurableStore(path, read_only=True)
    assert not path.exists()


def test_reading_only_changes_no_file(path: Path, open_store: Any, one_call: Any) -> None:
    writer = open_store()
    write(writer, one_call())
    writer.close()
    before = snapshot(path.parent)
    reader = open_store(read_only=True)
    assert reader.read_only
    assert reader.get("run-1").status == "completed"
    assert len(reader.list()) == 1
    reader.close()
    assert snapshot(path.parent) == before


def test_reading_only_sees_what_a_writer_stores_meanwhile(path: Path, open_store: Any, one_call: Any) -> None:
    open_store().close()
    reader = open_store(read_only=True)
    assert reader.list() == []
    writer = open_store()
    write(writer, one_call())
    assert reader.get("run-1").status == "completed"
    names = {found.name for found in path.parent.iterdir()}
    assert names == {"runs.sqlite", "runs.sqlite-wal", "runs.sqlite-shm"}
    writer.delete("run-1")
    writer.close()
    assert reader.list() == []


def test_a_log_without_its_index_is_not_read_past(path: Path, tmp_path: Path, open_store: Any, one_call: Any) -> None:
    write(open_store(), one_call())
    copy = tmp_path / "copy" / "runs.sqlite"
    copy.parent.mkdir()
    for suffix in ("", "-wal"):
        Path(str(copy) + suffix).write_bytes(Path(str(path) + suffix).read_bytes())
    with pytest.raises(StoreUnavailableError, match="without read_only"):
        SQLiteDurableStore(copy, read_only=True)


def test_reading_only_refuses_to_write(path: Path, open_store: Any, one_call: Any) -> None:
    write(open_store(), one_call())
    reader = open_store(read_only=True)
    for call in (
        lambda: reader.acquire("run-1", "assistant", {}),
        lambda: reader.open("run-1", "assistant", create=False),
        lambda: reader.save("run-1", "token", "working", {}),
        lambda: reader.delete("run-1"),
        lambda: reader.prune(before=0),
        lambda: reader.release("run-1", "token"),
    ):
        with pytest.raises(DurableExecutionError, match="read-only"):
            call()


# ------------------------------------------------------------------------------------------- cost


async def test_waiting_commits_are_stored_together(open_store: Any, one_call: Any) -> None:
    store = open_store()
    journals = [store.open(f"run-{index}", "assistant", create=True) for index in range(30)]
    before = store._database.transactions
    gate = held(store)
    waiting = [journal.append(one_call(journal.run_id).intent, "working") for journal in journals]
    gate.set()
    await asyncio.gather(*waiting)
    assert store._database.transactions - before <= 2
    assert all(len(found.data["facts"]) == 5 for found in store.list(limit=30))


async def test_a_stale_owner_in_a_group_fails_alone(path: Path, open_store: Any, one_call: Any, clock: Any) -> None:
    store = open_store(clock=clock, monotonic=clock.monotonic)
    stale = store.open("run-0", "assistant", create=True)
    clock.advance(300)
    store.open("run-0", "assistant", create=True)
    journals = [stale, *(store.open(f"run-{index}", "assistant", create=True) for index in range(1, 6))]
    gate = held(store)
    waiting = [journal.append(one_call(journal.run_id).intent, "working") for journal in journals]
    gate.set()
    outcomes = await asyncio.gather(*waiting, return_exceptions=True)
    assert isinstance(outcomes[0], RunBusyError)
    assert outcomes[1:] == [None] * 5


async def test_a_canceled_wait_does_not_take_the_commit_back(open_store: Any, one_call: Any) -> None:
    store = open_store()
    journal = store.open("run-1", "assistant", create=True)
    waiting = asyncio.ensure_future(journal.append(one_call().intent, "working"))
    waiting.cancel()
    await journal.append(one_call().receipt, "completed")
    assert len(store.get("run-1").data["facts"]) == 8


def test_a_turn_costs_few_bytes(path: Path, open_store: Any, one_call: Any) -> None:
    store = open_store()
    journal = store.open("run-1", "assistant", create=True)
    journal.append_now(one_call().intent, "working")
    log = Path(f"{path}-wal")
    before, turns = log.stat().st_size, 20
    for turn in range(turns):
        first = 5 + 2 * turn
        journal.append_now([Record(first, first, 2.0, f.Emitted("a-1", "intent", {"text": "x" * 300}))], "working")
        journal.append_now([Record(first + 1, first, 2.0, f.ToolReturned("a-1", "x" * 1024))], "working")
    written = (log.stat().st_size - before) / turns
    store.close()
    assert written < 30_000
    assert path.stat().st_size / turns < 5_000


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_child_writes_on_its_own_connection(path: Path, open_store: Any, one_call: Any) -> None:
    store = open_store()
    child = os.fork()
    if child == 0:
        try:
            write(store, one_call())
            os._exit(0)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert store.get("run-1").status == "completed"
    write(store, one_call("run-2"), "run-2")


def test_a_store_that_nobody_uses_is_closed(path: Path, one_call: Any) -> None:
    write(SQLiteDurableStore(path), one_call())
    journal = SQLiteDurableStore(path).open("run-2", "assistant", create=True)
    journal.append_now(one_call("run-2").intent, "working")
    names = {thread.name for thread in threading.enumerate()}
    assert "protolink-store" in names
    del journal
    assert [found.name for found in path.parent.iterdir()] == ["runs.sqlite"]


async def test_refused_work_takes_back_what_it_wrote_and_nothing_else(open_store: Any) -> None:
    store = open_store()
    tokens = {name: store.acquire(name, "assistant", {})[0] for name in ("run-1", "run-2")}

    def refused(db: sqlite3.Connection) -> None:
        db.execute("UPDATE protolink_runs SET status = 'half done' WHERE run_id = 'run-1'")
        raise DurableExecutionError("refused")

    def done(db: sqlite3.Connection) -> None:
        db.execute("UPDATE protolink_runs SET status = 'done' WHERE run_id = 'run-2'")

    gate = held(store)
    waiting = [store._database.submit(refused), store._database.submit(done)]
    gate.set()
    outcomes = await asyncio.gather(*waiting, return_exceptions=True)
    assert isinstance(outcomes[0], DurableExecutionError)
    assert (store.get("run-1").status, store.get("run-2").status) == ("ready", "done")
    store.save("run-1", tokens["run-1"], "working", {})


def test_a_read_that_a_writer_overtook_is_done_again(path: Path, open_store: Any, one_call: Any) -> None:
    open_store().close()
    reader = open_store(read_only=True)
    seen: list[int] = []

    def count(db: sqlite3.Connection) -> int:
        seen.append(db.execute("SELECT count(*) FROM protolink_runs").fetchone()[0])
        if len(seen) == 1:
            writer = SQLiteDurableStore(path)
            write(writer, one_call())
            writer.close()
        return seen[-1]

    assert reader._database.read(count) == 1
    assert seen == [0, 1]


async def test_runs_that_start_together_are_claimed_in_one_commit(open_store: Any, one_call: Any) -> None:
    store = open_store()
    gate = held(store)
    before = store._database.transactions
    claims = [store.create(f"run-{index}", "assistant") for index in range(20)]
    gate.set()
    journals = await asyncio.gather(*claims)
    assert store._database.transactions == before + 1
    assert [journal.records for journal in journals] == [[]] * 20
    for journal in journals:
        with pytest.raises(RunBusyError):
            store.open(journal.run_id, "assistant", create=True)
        await journal.append(one_call(journal.run_id).intent, "working")
