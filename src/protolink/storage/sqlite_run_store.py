"""SQLiteRunStore: tasks and reports as JSON in an SQLite file, found by indexed columns.

A listing picks its rows inside an index that has every filter and the order, and reads the payloads of those rows only.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from ..models import RedactionPolicy, Task, TaskState
from ..models.ids import utc_now
from ..models.json import dumps
from ..runtime import RunContext, RunReport
from ..runtime.report_source import serialized_report
from .file import PrivateFile, checked_identifier
from .run_store import RunReportRecord, TaskRecord

T = TypeVar("T")

_TASK_INDEX = ("task_id", "state", "run_id", "session_id", "trace_id", "agent_name", "created_at", "updated_at")
_REPORT_INDEX = ("run_id", "session_id", "trace_id", "agent_name", "created_at")


class SQLiteRunStore:
    """A RunStore in the file ``db_path``, which is created with mode 0600. Each operation has its own connection.

    ``table_prefix`` names the tables. ``read_only`` needs an existing file and changes nothing. ``redaction_policy`` is
    applied to everything before it is written; without it payloads are stored as they are.

    ValueError for a prefix that is no identifier; sqlite3.Error and OSError reach the caller, from operations too. What
    reads a payload that is damaged names its row: json.JSONDecodeError when it is no JSON, else ValueError.
    """

    def __init__(
        self,
        db_path: str | os.PathLike[str] = "runs.db",
        *,
        table_prefix: str = "protolink",
        read_only: bool = False,
        redaction_policy: RedactionPolicy | None = None,
    ) -> None:
        self.table_prefix = checked_identifier("table_prefix", table_prefix)
        self.tasks_table = f"{table_prefix}_tasks"
        self.reports_table = f"{table_prefix}_run_reports"
        self.read_only = read_only
        self.redaction_policy = redaction_policy
        self._file = PrivateFile(db_path, read_only=read_only)
        self.db_path = self._file.path
        self._open()

    # ------------------------------------------------------------------------------------------------ tasks

    def save_task(
        self,
        task: Task,
        *,
        context: RunContext | None = None,
        agent_name: str | None = None,
        metadata: dict[str, Any] | None = None,
    ) -> TaskRecord:
        """Store a snapshot in place of an earlier one. Without ``context`` the task's own metadata is indexed.

        TypeError or ValueError for what has no JSON form, sqlite3.Error when it cannot be written.
        """
        if not isinstance(task, Task):
            raise TypeError(f"save_task takes a Task, not {type(task).__name__}")
        context = context or RunContext.from_task(task)
        record = TaskRecord(
            task_id=task.id,
            state=task.state.value,
            run_id=context.run_id,
            session_id=context.session_id,
            trace_id=context.trace_id,
            agent_name=agent_name,
            task=self._masked(task.to_dict()),
            metadata=self._masked(dict(metadata or {})),
            created_at=task.created_at,
            updated_at=utc_now(),
        )
        self._write(self.tasks_table, _TASK_INDEX, record, {"task_json": record.task})
        return record

    def get_task(self, task_id: str) -> Task | None:
        """The task as it was stored last. ValueError for a payload that is no task."""
        record = self.get_task_record(task_id)
        return None if record is None else _restored("task", task_id, Task.from_dict, record.task)

    def get_task_record(self, task_id: str) -> TaskRecord | None:
        """The record of a task, None for one that is not stored."""
        return next(iter(self._tasks("t.task_id = ?", [task_id])), None)

    def list_task_records(
        self,
        *,
        limit: int = 100,
        session_id: str | None = None,
        run_id: str | None = None,
        state: str | TaskState | None = None,
        agent_name: str | None = None,
    ) -> list[TaskRecord]:
        """The newest first. ``limit`` goes to SQLite as it is; a negative one is no bound. Filters match exactly."""
        picked = self._pick(self.tasks_table, "updated_at", limit, _filters(session_id, run_id, state, agent_name))
        return self._tasks(f"t.rowid IN ({picked[0]})", picked[1])

    def list_task_record_summaries(self, *, limit: int = 100) -> list[dict[str, Any]]:
        """The indexed fields of the newest snapshots, without payloads."""
        return self._summaries(self.tasks_table, _TASK_INDEX, "updated_at", limit)

    def delete_task(self, task_id: str) -> None:
        """Forget a task. Harmless when it is not stored."""
        self._delete(self.tasks_table, "task_id", task_id)

    # ------------------------------------------------------------------------------------------------ reports

    def save_report(
        self,
        report: RunReport,
        *,
        run_id: str | None = None,
        agent_name: str | None = None,
        metadata: dict[str, Any] | None = None,
    ) -> RunReportRecord:
        """Store a report in place of an earlier one. ``run_id`` wins over the run of the report's context.

        ValueError when there is neither, TypeError for what has no JSON form, sqlite3.Error when it cannot be written.
        """
        if not isinstance(report, RunReport):
            raise TypeError(f"save_report takes a RunReport, not {type(report).__name__}")
        context = report.context
        key = run_id or (context.run_id if context is not None else None)
        if not key:
            raise ValueError("a report without a context needs a run_id to be stored under")
        record = RunReportRecord(
            run_id=key,
            session_id=context.session_id if context is not None else None,
            trace_id=context.trace_id if context is not None else None,
            agent_name=agent_name,
            report=report.redacted(self.redaction_policy).to_dict() if self.redaction_policy else report.to_dict(),
            metadata=self._masked(dict(metadata or {})),
            created_at=utc_now(),
        )
        self._write(self.reports_table, _REPORT_INDEX, record, {"report_json": record.report})
        return record

    def get_report(self, run_id: str) -> RunReport | None:
        """The report of a run. ValueError for a payload that is no report."""
        record = self.get_report_record(run_id)
        return None if record is None else _restored("report", run_id, serialized_report, record.report)

    def get_report_record(self, run_id: str) -> RunReportRecord | None:
        """The record of a run's report, None for one that is not stored."""
        return next(iter(self._reports("t.run_id = ?", [run_id])), None)

    def list_report_records(
        self, *, limit: int = 100, session_id: str | None = None, agent_name: str | None = None
    ) -> list[RunReportRecord]:
        """The newest first. ``limit`` goes to SQLite as it is; a negative one is no bound. Filters match exactly."""
        picked = self._pick(self.reports_table, "created_at", limit, _filters(session_id, None, None, agent_name))
        return self._reports(f"t.rowid IN ({picked[0]})", picked[1])

    def list_report_record_summaries(self, *, limit: int = 100) -> list[dict[str, Any]]:
        """The indexed fields of the newest reports, without payloads."""
        return self._summaries(self.reports_table, _REPORT_INDEX, "created_at", limit)

    def delete_report(self, run_id: str) -> None:
        """Forget a report. Harmless when it is not stored."""
        self._delete(self.reports_table, "run_id", run_id)

    # ------------------------------------------------------------------------------------------------ inside

    def _open(self) -> None:
        """Make what is missing; a file that is only read has to be there and readable."""
        with self._file.connection() as db:
            if self.read_only:
                db.execute("SELECT count(*) FROM sqlite_schema").fetchone()
                return
            for statement in _schema(self.tasks_table, self.reports_table):
                db.execute(statement)

    def _masked(self, data: dict[str, Any]) -> dict[str, Any]:
        return data if self.redaction_policy is None else dict(self.redaction_policy.redact(data))

    def _write(self, table: str, index: Iterable[str], record: TaskRecord | RunReportRecord, body: Any) -> None:
        columns = {name: getattr(record, name) for name in index}
        columns |= {name: dumps(value) for name, value in {**body, "metadata_json": record.metadata}.items()}
        places = ", ".join("?" * len(columns))
        with self._file.connection() as db:
            db.execute(
                f'INSERT OR REPLACE INTO "{table}" ({", ".join(columns)}) VALUES ({places})', list(columns.values())
            )

    def _tasks(self, where: str, values: list[Any]) -> list[TaskRecord]:
        rows = self._rows(self.tasks_table, [*_TASK_INDEX, "task_json", "metadata_json"], where, values, "updated_at")
        return [TaskRecord(**_unpacked(row, "task", row["task_id"])) for row in rows]

    def _reports(self, where: str, values: list[Any]) -> list[RunReportRecord]:
        columns = [*_REPORT_INDEX, "report_json", "metadata_json"]
        rows = self._rows(self.reports_table, columns, where, values, "created_at")
        return [RunReportRecord(**_unpacked(row, "report", row["run_id"])) for row in rows]

    def _pick(self, table: str, order: str, limit: int, filters: Mapping[str, str]) -> tuple[str, list[Any]]:
        """The rows of a listing, as a query that touches nothing but an index."""
        where = " AND ".join(f"{name} = ?" for name in filters)
        condition = f"WHERE {where} " if where else ""
        query = f'SELECT rowid FROM "{table}" {condition}ORDER BY {order} DESC, rowid DESC LIMIT ?'
        return query, [*filters.values(), limit]

    def _rows(self, table: str, columns: list[str], where: str, values: list[Any], order: str) -> list[dict[str, Any]]:
        query = f'SELECT {", ".join(columns)} FROM "{table}" t WHERE {where} ORDER BY {order} DESC, t.rowid DESC'
        with self._file.connection() as db:
            return [dict(zip(columns, row, strict=True)) for row in db.execute(query, values)]

    def _summaries(self, table: str, columns: tuple[str, ...], order: str, limit: int) -> list[dict[str, Any]]:
        query, values = self._pick(table, order, limit, {})
        return self._rows(table, list(columns), f"t.rowid IN ({query})", values, order)

    def _delete(self, table: str, column: str, value: str) -> None:
        with self._file.connection() as db:
            db.execute(f'DELETE FROM "{table}" WHERE {column} = ?', (value,))


def _filters(
    session_id: str | None, run_id: str | None, state: str | TaskState | None, agent_name: str | None
) -> dict[str, str]:
    wanted = {
        "session_id": session_id,
        "run_id": run_id,
        "state": state.value if isinstance(state, TaskState) else state,
        "agent_name": agent_name,
    }
    return {name: value for name, value in wanted.items() if value is not None}


def _unpacked(row: dict[str, Any], payload: str, key: str) -> dict[str, Any]:
    """A row as the arguments of a record."""
    body, metadata = row.pop(f"{payload}_json"), row.pop("metadata_json")
    return row | {payload: _loaded(payload, key, body), "metadata": _loaded(payload, key, metadata)}


def _loaded(payload: str, key: str, text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except json.JSONDecodeError as error:
        raise json.JSONDecodeError(_damaged(payload, key, error.msg), error.doc, error.pos) from None
    except (UnicodeDecodeError, RecursionError) as error:
        raise ValueError(_damaged(payload, key, str(error))) from None
    if not isinstance(found, dict):
        raise ValueError(_damaged(payload, key, f"it holds a {type(found).__name__} instead of a JSON object"))
    return found


def _restored(payload: str, key: str, restore: Callable[[dict[str, Any]], T], data: dict[str, Any]) -> T:
    try:
        return restore(data)
    except (ValueError, TypeError) as error:
        raise ValueError(_damaged(payload, key, str(error))) from error


def _damaged(payload: str, key: str, why: str) -> str:
    return f"The {payload} stored under {key!r} is damaged (delete_{payload}({key!r}) forgets it): {why}"


def _schema(tasks: str, reports: str) -> list[str]:
    """Every index ends with the order of listings, so that LIMIT ends the search as well as the result."""
    statements = [
        f'CREATE TABLE IF NOT EXISTS "{tasks}" (task_id TEXT PRIMARY KEY, state TEXT NOT NULL, run_id TEXT, '
        "session_id TEXT, trace_id TEXT, agent_name TEXT, task_json TEXT NOT NULL, metadata_json TEXT NOT NULL, "
        "created_at TEXT, updated_at TEXT NOT NULL)",
        f'CREATE TABLE IF NOT EXISTS "{reports}" (run_id TEXT PRIMARY KEY, session_id TEXT, trace_id TEXT, '
        "agent_name TEXT, report_json TEXT NOT NULL, metadata_json TEXT NOT NULL, created_at TEXT NOT NULL)",
    ]
    indexes = [(tasks, "updated_at", name) for name in ("run_id", "session_id", "state", "trace_id", "agent_name", "")]
    indexes += [(reports, "created_at", name) for name in ("session_id", "trace_id", "agent_name", "")]
    for table, order, name in indexes:
        columns = f"{name}, {order}" if name else order
        statements.append(f'CREATE INDEX IF NOT EXISTS "{table}_by_{name or order}" ON "{table}" ({columns})')
    return statements
