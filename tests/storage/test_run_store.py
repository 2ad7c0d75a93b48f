"""SQLiteRunStore: records of tasks and reports, found by their indexed fields."""

from __future__ import annotations

import dataclasses
import inspect
import json
import sqlite3
import stat
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from protolink import RedactionPolicy, RunContext, RunReport, RunReportRecord, SQLiteRunStore, Task, TaskRecord
from protolink.models import TaskState
from protolink.storage import RunStore, Storage

TASK_FIELDS = ["task_id", "state", "run_id", "session_id", "trace_id", "agent_name", "task", "metadata", "created_at",
               "updated_at"]  # fmt: skip
REPORT_FIELDS = ["run_id", "session_id", "trace_id", "agent_name", "report", "metadata", "created_at"]


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SQLiteRunStore:
    """An empty store, on a clock that moves a second at each save."""
    seconds = iter(range(10, 100))
    monkeypatch.setattr("protolink.storage.sqlite_run_store.utc_now", lambda: f"2026-01-01T00:00:{next(seconds)}+00:00")
    return SQLiteRunStore(tmp_path / "runs.db")


def task_of(run: str, session: str | None = None, trace: str | None = None, **fields: Any) -> Task:
    task = Task.create("hello", context=RunContext(run_id=run, session_id=session, trace_id=trace))
    for name, value in fields.items():
        setattr(task, name, value)
    return task


def report_of(run: str, session: str | None = None, trace: str | None = None, **metadata: Any) -> RunReport:
    return RunReport(context=RunContext(run_id=run, session_id=session, trace_id=trace), metadata=metadata)


def rows(store: SQLiteRunStore, query: str, *values: Any) -> list[Any]:
    with sqlite3.connect(store.db_path) as db:
        found = db.execute(query, values).fetchall()
    db.close()
    return found


@pytest.mark.claim("STO-007", "STO-008", "STO-009", "STO-010", "STO-015")
def test_task_record_is_frozen_with_documented_defaults() -> None:
    record = TaskRecord("t", "working")
    assert [field.name for field in dataclasses.fields(TaskRecord)] == TASK_FIELDS
    assert (record.run_id, record.session_id, record.trace_id, record.agent_name, record.created_at) == (None,) * 5
    assert (record.task, record.metadata) == ({}, {})
    assert TaskRecord("t", "working").updated_at >= record.updated_at > "2026"
    with pytest.raises(dataclasses.FrozenInstanceError):
        record.state = "x"  # type: ignore[misc]
    with pytest.raises(TypeError):
        TaskRecord("t")  # type: ignore[call-arg]
    raw = TaskRecord("t", "working", task={"token": "s"})
    assert raw.to_dict() == dataclasses.asdict(raw)
    assert raw.to_dict()["task"] == {"token": "s"}


@pytest.mark.claim("STO-012", "STO-013", "STO-014", "STO-015")
def test_report_record_is_frozen_with_documented_defaults() -> None:
    record = RunReportRecord("r")
    assert [field.name for field in dataclasses.fields(RunReportRecord)] == REPORT_FIELDS
    assert (record.session_id, record.trace_id, record.agent_name) == (None, None, None)
    assert (record.report, record.metadata) == ({}, {})
    assert record.created_at > "2026"
    with pytest.raises(dataclasses.FrozenInstanceError):
        record.run_id = "x"  # type: ignore[misc]
    with pytest.raises(TypeError):
        RunReportRecord()  # type: ignore[call-arg]
    assert RunReportRecord("r", report={"secret": "s"}).to_dict()["report"] == {"secret": "s"}


@pytest.mark.claim("STO-016", "STO-017", "STO-018", "STO-019", "STO-020", "STO-021", "STO-022", "STO-023", "STO-024")
def test_protocol_methods_are_synchronous_with_documented_signatures() -> None:
    expected = {
        "save_task": "(self, task, *, context=None, agent_name=None, metadata=None)",
        "get_task": "(self, task_id)",
        "get_task_record": "(self, task_id)",
        "list_task_records": "(self, *, limit=100, session_id=None, run_id=None, state=None, agent_name=None)",
        "save_report": "(self, report, *, run_id=None, agent_name=None, metadata=None)",
        "get_report": "(self, run_id)",
        "get_report_record": "(self, run_id)",
        "list_report_records": "(self, *, limit=100, session_id=None, agent_name=None)",
    }
    for owner in (RunStore, SQLiteRunStore):
        for name, signature in expected.items():
            method = getattr(owner, name)
            bare = [
                p.replace(annotation=inspect.Parameter.empty) for p in inspect.signature(method).parameters.values()
            ]
            assert str(inspect.Signature(bare)) == signature
            assert not inspect.iscoroutinefunction(method)
    assert issubclass(SQLiteRunStore, RunStore)
    assert RunStore not in SQLiteRunStore.__mro__


@pytest.mark.claim("STO-017", "STO-018", "STO-019", "STO-020", "STO-021", "STO-022", "STO-023", "STO-024", "STO-016")
def test_protocol_methods_return_what_they_say(store: SQLiteRunStore) -> None:
    task = task_of("r")
    assert [type(store.save_task(task)), type(store.save_report(report_of("r")))] == [TaskRecord, RunReportRecord]
    assert [type(store.get_task(task.id)), type(store.get_task_record(task.id))] == [Task, TaskRecord]
    assert [type(store.get_report("r")), type(store.get_report_record("r"))] == [RunReport, RunReportRecord]
    assert [type(record) for record in store.list_task_records()] == [TaskRecord]
    assert [type(record) for record in store.list_report_records()] == [RunReportRecord]
    lookups = (store.get_task, store.get_task_record, store.get_report, store.get_report_record)
    assert [lookup("unknown") for lookup in lookups] == [None] * 4


@pytest.mark.claim("STO-025")
def test_deletion_is_no_part_of_the_protocol() -> None:
    assert not hasattr(RunStore, "delete_task")
    assert not hasattr(RunStore, "delete_report")


@pytest.mark.claim("STO-027", "STO-029", "STO-030", "STO-031")
def test_constructor_takes_path_and_prefix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert SQLiteRunStore().db_path == "runs.db"
    assert (tmp_path / "runs.db").is_file()
    store = SQLiteRunStore(tmp_path / "other.db", table_prefix="mine")
    assert store.db_path == str(tmp_path / "other.db")
    assert (store.table_prefix, store.tasks_table, store.reports_table) == ("mine", "mine_tasks", "mine_run_reports")
    names = {name for (name,) in rows(store, "SELECT name FROM sqlite_schema WHERE type = 'table'")}
    assert names == {"mine_tasks", "mine_run_reports"}


@pytest.mark.claim("STO-004", "STO-005", "STO-006", "STO-028")
def test_construction_makes_tables_with_json_payloads_and_indexes(store: SQLiteRunStore) -> None:
    def columns(table: str) -> set[str]:
        return {row[1] for row in rows(store, f"PRAGMA table_info({table})")}

    def leading(table: str) -> set[str]:
        names = [row[1] for row in rows(store, f"PRAGMA index_list({table})")]
        return {rows(store, f"PRAGMA index_info({name})")[0][2] for name in names}

    assert columns("protolink_tasks") == {*TASK_FIELDS, "task_json", "metadata_json"} - {"task", "metadata"}
    assert columns("protolink_run_reports") == {*REPORT_FIELDS, "report_json", "metadata_json"} - {"report", "metadata"}
    assert leading("protolink_tasks") >= {*TASK_FIELDS} - {"task", "metadata", "created_at"}
    assert leading("protolink_run_reports") >= {*REPORT_FIELDS} - {"report", "metadata"}
    store.save_task(task_of("r"))
    assert SQLiteRunStore(store.db_path).list_task_records() == store.list_task_records()


@pytest.mark.claim("STO-032")
@pytest.mark.parametrize("prefix", ["", "a-b", "1a", "x; DROP TABLE y", None])
def test_prefix_that_is_no_identifier_is_refused(tmp_path: Path, prefix: Any) -> None:
    with pytest.raises(ValueError, match="table_prefix"):
        SQLiteRunStore(tmp_path / "r.db", table_prefix=prefix)


@pytest.mark.claim("STO-033")
def test_unopenable_database_raises_sqlite_or_os_errors(tmp_path: Path) -> None:
    (tmp_path / "text.db").write_text("no database, but long enough to be looked at")
    for path in (tmp_path, tmp_path / "missing" / "r.db", tmp_path / "text.db"):
        with pytest.raises((sqlite3.Error, OSError)):
            SQLiteRunStore(path)


def test_the_file_is_private(store: SQLiteRunStore) -> None:
    assert stat.S_IMODE(Path(store.db_path).stat().st_mode) == 0o600


@pytest.mark.claim("STO-034")
def test_each_operation_opens_its_own_connection(store: SQLiteRunStore, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    connect = sqlite3.connect

    def counted(*args: Any, **kwargs: Any) -> sqlite3.Connection:
        opened.append(args[0])
        return connect(*args, **kwargs)

    monkeypatch.setattr(sqlite3, "connect", counted)
    task = task_of("r")
    store.save_task(task)
    store.get_task(task.id)
    store.list_task_records()
    store.delete_task(task.id)
    assert len(opened) == 4


@pytest.mark.claim("STO-035")
def test_values_are_bound_as_parameters(store: SQLiteRunStore) -> None:
    evil = "x'); DROP TABLE protolink_tasks; --"
    task = task_of(evil, session=evil)
    store.save_task(task, agent_name=evil)
    store.save_report(report_of(evil), agent_name=evil)
    assert [record.task_id for record in store.list_task_records(session_id=evil, run_id=evil, agent_name=evil)] == [
        task.id
    ]
    assert store.get_report_record(evil) is not None
    store.delete_report(evil)
    assert store.list_report_records() == []


@pytest.mark.claim("STO-036", "STO-051")
def test_payloads_are_stored_raw_without_a_policy(store: SQLiteRunStore) -> None:
    task = task_of("r")
    task.metadata["password"] = "hunter2"
    store.save_task(task, metadata={"token": "abc"})
    store.save_report(report_of("r", secret="s"))
    assert rows(store, "SELECT task_json, metadata_json FROM protolink_tasks") == [
        (json.dumps(task.to_dict(), separators=(",", ":")), '{"token":"abc"}')
    ]
    assert store.get_report("r").metadata == {"secret": "s"}  # type: ignore[union-attr]


def test_a_policy_masks_before_writing(tmp_path: Path) -> None:
    store = SQLiteRunStore(tmp_path / "r.db", redaction_policy=RedactionPolicy())
    task = task_of("r")
    task.metadata["password"] = "hunter2"
    record = store.save_task(task, metadata={"token": "hunter2"})
    store.save_report(report_of("r", secret="hunter2"), metadata={"api_key": "hunter2"})
    assert record.metadata == {"token": "[REDACTED]"}
    assert b"hunter2" not in (tmp_path / "r.db").read_bytes()
    assert store.get_report("r").metadata == {"secret": "[REDACTED]"}  # type: ignore[union-attr]
    assert task.metadata["password"] == "hunter2"


@pytest.mark.claim("STO-037", "STO-011")
def test_ids_come_from_the_tasks_own_metadata(store: SQLiteRunStore) -> None:
    task = task_of("run_1", "session_1", "trace_1")
    record = store.save_task(task, agent_name="worker", metadata={"note": 1})
    assert record == store.get_task_record(task.id)
    assert (record.run_id, record.session_id, record.trace_id) == ("run_1", "session_1", "trace_1")
    assert (record.agent_name, record.metadata, record.created_at) == ("worker", {"note": 1}, task.created_at)
    assert record.task == task.to_dict()


@pytest.mark.claim("STO-038")
def test_explicit_context_wins(store: SQLiteRunStore) -> None:
    task = task_of("run_1", "session_1", "trace_1")
    store.save_task(task, context=RunContext(run_id="run_2", session_id="session_2"))
    record = store.get_task_record(task.id)
    assert record is not None
    assert (record.run_id, record.session_id, record.trace_id) == ("run_2", "session_2", None)
    assert store.list_task_records(session_id="session_1") == []


@pytest.mark.claim("STO-039")
def test_saving_again_replaces_and_renews_the_time(store: SQLiteRunStore) -> None:
    task = task_of("r")
    first = store.save_task(task, metadata={"n": 1})
    task.begin()
    second = store.save_task(task)
    assert second.updated_at > first.updated_at
    assert store.list_task_records() == [second]
    assert (second.state, second.metadata) == ("working", {})


@pytest.mark.claim("STO-040", "STO-050")
def test_what_is_no_json_is_refused(store: SQLiteRunStore) -> None:
    for wrong in (object(), float("nan")):
        task = task_of("r")
        with pytest.raises((TypeError, ValueError)):
            store.save_task(task, metadata={"x": wrong})
        task.metadata["x"] = wrong
        with pytest.raises((TypeError, ValueError)):
            store.save_task(task)
        with pytest.raises(TypeError):
            store.save_report(report_of("r", x=wrong))
    assert store.list_task_records() == store.list_report_records() == []


@pytest.mark.claim("STO-041", "STO-050")
def test_failing_writes_raise_sqlite_errors(store: SQLiteRunStore) -> None:
    rows(store, "DROP TABLE protolink_tasks")
    rows(store, "DROP TABLE protolink_run_reports")
    with pytest.raises(sqlite3.Error):
        store.save_task(task_of("r"))
    with pytest.raises(sqlite3.Error):
        store.save_report(report_of("r"))
    with pytest.raises(sqlite3.Error):
        store.list_task_records()


@pytest.mark.claim("STO-020", "STO-024", "STO-042", "STO-045", "STO-056")
def test_listings_are_newest_first_and_limited_by_sql(store: SQLiteRunStore) -> None:
    tasks = [task_of(f"r{number}") for number in range(4)]
    for task in tasks:
        store.save_task(task)
        store.save_report(report_of(task.metadata["run_id"]))
    store.save_task(tasks[0])
    order = [tasks[index].id for index in (0, 3, 2, 1)]
    assert [record.task_id for record in store.list_task_records()] == order
    assert [record.task_id for record in store.list_task_records(limit=2)] == order[:2]
    assert [record.task_id for record in store.list_task_records(limit=-1)] == order
    assert store.list_task_records(limit=0) == []
    assert [record.run_id for record in store.list_report_records()] == ["r3", "r2", "r1", "r0"]
    assert [record.run_id for record in store.list_report_records(limit=-5)] == ["r3", "r2", "r1", "r0"]
    assert store.list_report_records(limit=0) == []
    with pytest.raises(sqlite3.Error):
        store.list_task_records(limit="many")  # type: ignore[arg-type]


@pytest.mark.claim("STO-042")
def test_limit_is_100_unless_given(store: SQLiteRunStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("protolink.storage.sqlite_run_store.utc_now", lambda: "2026-01-01T00:00:00+00:00")
    for number in range(101):
        store.save_task(task_of(f"r{number}"))
    assert len(store.list_task_records()) == 100
    assert len(store.list_task_records(limit=-1)) == 101


@pytest.mark.claim("STO-043", "STO-044")
def test_task_filters_match_exactly(store: SQLiteRunStore) -> None:
    one, two = task_of("r1", "s1").begin(), task_of("r2", "s2")
    store.save_task(one, agent_name="a1")
    store.save_task(two, agent_name="a2")
    wanted: list[dict[str, Any]] = [
        {"session_id": "s1"}, {"run_id": "r1"}, {"agent_name": "a1"}, {"state": "working"},
        {"state": TaskState.WORKING}, {"state": TaskState.WORKING, "session_id": "s1", "run_id": "r1"},
    ]  # fmt: skip
    for filters in wanted:
        assert [record.task_id for record in store.list_task_records(**filters)] == [one.id]
    for filters in (
        {"session_id": "s"},
        {"agent_name": "A1"},
        {"state": "WORKING"},
        {"run_id": "r1", "session_id": "s2"},
    ):
        assert store.list_task_records(**filters) == []


@pytest.mark.claim("STO-055")
def test_report_filters_match_exactly(store: SQLiteRunStore) -> None:
    store.save_report(report_of("r1", "s1"), agent_name="a1")
    store.save_report(report_of("r2", "s2"), agent_name="a2")
    store.save_report(report_of("r3", "s1"), agent_name="a1")
    assert [record.run_id for record in store.list_report_records(session_id="s1")] == ["r3", "r1"]
    assert [record.run_id for record in store.list_report_records(agent_name="a2")] == ["r2"]
    assert store.list_report_records(session_id="s1", agent_name="a2") == []


@pytest.mark.claim("STO-046", "STO-047")
def test_report_is_indexed_by_its_context_and_an_explicit_run_wins(store: SQLiteRunStore) -> None:
    record = store.save_report(report_of("r1", "s1", "t1"), agent_name="a", metadata={"n": 1})
    assert record == store.get_report_record("r1")
    assert (record.session_id, record.trace_id, record.agent_name, record.metadata) == ("s1", "t1", "a", {"n": 1})
    store.save_report(report_of("r1", "s1", "t1"), run_id="other")
    store.save_report(report_of("r2", "s2", "t2"))
    assert [found.run_id for found in store.list_report_records(session_id="s1")] == ["other", "r1"]
    traced = rows(store, "SELECT run_id, session_id, trace_id FROM protolink_run_reports ORDER BY run_id")
    assert traced == [("other", "s1", "t1"), ("r1", "s1", "t1"), ("r2", "s2", "t2")]
    assert store.get_report_record("other").session_id == "s1"  # type: ignore[union-attr]


@pytest.mark.claim("STO-048")
def test_saving_a_report_again_replaces_it(store: SQLiteRunStore) -> None:
    store.save_report(report_of("r", n=1))
    store.save_report(report_of("r", n=2))
    assert [record.report["metadata"] for record in store.list_report_records()] == [{"n": 2}]


@pytest.mark.claim("STO-049")
def test_report_without_a_run_is_refused(store: SQLiteRunStore) -> None:
    for report in (RunReport(), RunReport(context=RunContext(run_id=""))):
        with pytest.raises(ValueError, match="run_id"):
            store.save_report(report)
        with pytest.raises(ValueError, match="run_id"):
            store.save_report(report, run_id="")
    assert store.save_report(RunReport(), run_id="r").run_id == "r"


@pytest.mark.claim("STO-052", "STO-053", "STO-054")
def test_lookups_return_typed_objects_or_none(store: SQLiteRunStore) -> None:
    task, report = task_of("r"), report_of("r", "s", n=1)
    assert store.get_task(task.id) is store.get_task_record(task.id) is None
    assert store.get_report("r") is store.get_report_record("r") is None
    store.save_task(task)
    store.save_report(report)
    assert store.get_task(task.id) == task
    assert store.get_report("r") == report


@pytest.mark.claim("STO-057", "STO-058")
def test_deleting_removes_one_row_and_forgives_unknown_ids(store: SQLiteRunStore) -> None:
    one, two = task_of("r1"), task_of("r2")
    for task in (one, two):
        store.save_task(task)
        store.save_report(report_of(task.metadata["run_id"]))
    store.delete_task(one.id)
    store.delete_task("unknown")
    store.delete_report("r1")
    store.delete_report("unknown")
    assert [record.task_id for record in store.list_task_records()] == [two.id]
    assert [record.run_id for record in store.list_report_records()] == ["r2"]


@pytest.mark.claim("STO-059")
def test_damaged_payloads_raise_on_lookup(store: SQLiteRunStore) -> None:
    task = task_of("r")
    store.save_task(task)
    store.save_report(report_of("r"))
    rows(store, "UPDATE protolink_tasks SET task_json = '{'")
    rows(store, "UPDATE protolink_run_reports SET report_json = '{'")
    with pytest.raises(json.JSONDecodeError):
        store.get_task(task.id)
    with pytest.raises(json.JSONDecodeError):
        store.get_report("r")
    rows(store, 'UPDATE protolink_tasks SET task_json = \'{"state": "nowhere"}\'')
    rows(store, "UPDATE protolink_run_reports SET report_json = '{\"events\": 5}'")
    with pytest.raises(ValueError):
        store.get_task(task.id)
    with pytest.raises(ValueError):
        store.get_report("r")


@pytest.mark.claim("STO-059")
@pytest.mark.parametrize("column", ["{0}_json", "metadata_json"])
@pytest.mark.parametrize("damage", ["{", "[]", "5", "[" * 100_000], ids=["cut", "list", "number", "deep"])
def test_damaged_row_is_named_with_the_way_to_forget_it(store: SQLiteRunStore, column: str, damage: str) -> None:
    task = task_of("r")
    store.save_task(task)
    store.save_report(report_of("r"))
    for table, kind in (("protolink_tasks", "task"), ("protolink_run_reports", "report")):
        with closing(sqlite3.connect(store.db_path)) as db, db:
            db.execute(f"UPDATE {table} SET {column.format(kind)} = ?", (damage,))
    reads: list[tuple[str, str, Callable[[], Any]]] = [
        ("task", task.id, lambda: store.get_task(task.id)),
        ("task", task.id, lambda: store.get_task_record(task.id)),
        ("task", task.id, store.list_task_records),
        ("report", "r", lambda: store.get_report("r")),
        ("report", "r", lambda: store.get_report_record("r")),
        ("report", "r", store.list_report_records),
    ]
    for kind, key, read in reads:
        with pytest.raises(json.JSONDecodeError if damage == "{" else ValueError) as caught:
            read()
        assert str(caught.value).startswith(f"The {kind} stored under '{key}' is damaged (delete_{kind}('{key}')")


@pytest.mark.claim("STO-059")
@pytest.mark.parametrize("payload", ['{"events": 5}', '{"foo": 1}'])
def test_payload_that_cannot_be_restored_is_named(store: SQLiteRunStore, payload: str) -> None:
    store.save_report(report_of("r"))
    store.save_task(task_of("r"))
    rows(store, "UPDATE protolink_tasks SET task_id = 't', task_json = '{\"state\": \"nowhere\"}'")
    rows(store, f"UPDATE protolink_run_reports SET report_json = '{payload}'")
    with pytest.raises(ValueError, match="The report stored under 'r' is damaged"):
        store.get_report("r")
    with pytest.raises(ValueError, match="The task stored under 't' is damaged"):
        store.get_task("t")


@pytest.mark.claim("STO-060")
def test_run_store_is_no_storage(store: SQLiteRunStore) -> None:
    assert not isinstance(store, Storage)
    assert not hasattr(store, "load")


def test_listings_do_not_read_what_they_do_not_return(store: SQLiteRunStore) -> None:
    """A damaged payload outside the listing would raise if it were read; the query plan shows why it is not."""
    store.save_task(task_of("r1", "s"))
    rows(store, "UPDATE protolink_tasks SET task_json = '{'")
    kept = task_of("r2", "s")
    store.save_task(kept)
    assert [record.task_id for record in store.list_task_records(limit=1, session_id="s")] == [kept.id]
    picked, values = store._pick(store.tasks_table, "updated_at", 5, {"session_id": "s"})
    plan = [row[3] for row in rows(store, f"EXPLAIN QUERY PLAN {picked}", *values)]
    assert plan == ["SEARCH protolink_tasks USING COVERING INDEX protolink_tasks_by_session_id (session_id=?)"]
    assert [row["run_id"] for row in store.list_task_record_summaries()] == ["r2", "r1"]


def test_summaries_have_no_payloads(store: SQLiteRunStore) -> None:
    store.save_task(task_of("r1"))
    store.save_report(report_of("r1"))
    assert list(store.list_task_record_summaries(limit=1)[0]) == [
        n for n in TASK_FIELDS if n not in ("task", "metadata")
    ]
    assert list(store.list_report_record_summaries()[0]) == [
        n for n in REPORT_FIELDS if n not in ("report", "metadata")
    ]


def test_read_only_store_reads_and_refuses_to_write(store: SQLiteRunStore, tmp_path: Path) -> None:
    task = task_of("r")
    store.save_task(task)
    reader = SQLiteRunStore(store.db_path, read_only=True)
    assert reader.get_task(task.id) == task
    with pytest.raises(sqlite3.Error):
        reader.save_task(task)
    with pytest.raises((sqlite3.Error, OSError)):
        SQLiteRunStore(tmp_path / "missing.db", read_only=True)
    assert not (tmp_path / "missing.db").exists()


def test_what_is_neither_task_nor_report_is_refused(store: SQLiteRunStore) -> None:
    with pytest.raises(TypeError, match="a Task, not str"):
        store.save_task("hello")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="a RunReport, not dict"):
        store.save_report({}, run_id="run_1")  # type: ignore[arg-type]
    assert store.list_task_records() == store.list_report_records() == []
