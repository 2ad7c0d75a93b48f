"""The tables, and how a file is recognized as ours before anything in it is touched.

``protolink_runs`` has one row a run. What every commit changes is in no index, so a commit rewrites one page of it: the
index of states leaves out the runs that are at work, and a run enters it when it comes to rest. ``protolink_facts`` has
one row a commit, under the key ``run number << 32 | number of its first fact``: measured against a key of run id and
number, that is one page less a commit, and no second copy of the run id.
"""

from __future__ import annotations

import sqlite3
from typing import NoReturn

from ..errors import DurableExecutionError, StoreCorruptError, StoreUnavailableError

#: Marks the file as ours ("plnk"); PRAGMA user_version has the version of the tables.
APPLICATION_ID = 0x706C6E6B
TABLES_VERSION = 1

_TABLES = """
CREATE TABLE protolink_runs (
    number INTEGER PRIMARY KEY AUTOINCREMENT CHECK (number < 2147483648),
    run_id TEXT NOT NULL UNIQUE,
    agent_name TEXT NOT NULL,
    status TEXT NOT NULL,
    root_run_id TEXT,
    schema INTEGER NOT NULL,
    epoch INTEGER NOT NULL,
    owner TEXT,
    owner_identity TEXT,
    lease_expires REAL NOT NULL,
    lease_seconds REAL NOT NULL,
    heartbeat INTEGER NOT NULL,
    created_at REAL NOT NULL,
    updated_at REAL NOT NULL,
    next_n INTEGER,
    document TEXT
);
CREATE INDEX protolink_children ON protolink_runs (root_run_id) WHERE root_run_id IS NOT NULL;
CREATE INDEX protolink_agents ON protolink_runs (agent_name);
CREATE INDEX protolink_at_rest ON protolink_runs (status) WHERE status <> 'working';
CREATE TABLE protolink_facts (place INTEGER PRIMARY KEY, body BLOB NOT NULL, checksum INTEGER NOT NULL);
CREATE TABLE protolink_epochs (highest_deleted INTEGER NOT NULL);
INSERT INTO protolink_epochs VALUES (0);
"""

_CORRUPT = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_ERROR, sqlite3.SQLITE_FORMAT})
_ADVICE = {
    sqlite3.SQLITE_BUSY: "another connection keeps it locked; try again when that is done",
    sqlite3.SQLITE_LOCKED: "another connection keeps it locked; try again when that is done",
    sqlite3.SQLITE_FULL: "make room on the disk, then resume",
    sqlite3.SQLITE_READONLY: "this process may not write it; check owner and mode of the file and its directory",
    sqlite3.SQLITE_CANTOPEN: "check that it is a file, and owner and mode of the file and its directory",
    sqlite3.SQLITE_PERM: "check owner and mode of the file and its directory",
}


def translated(error: sqlite3.Error, path: str) -> DurableExecutionError:
    """Our error for one of SQLite's, which is its cause: the file's fault, the world's, or the caller's."""
    found = _translated(error, path)
    found.__cause__ = error
    return found


def _translated(error: sqlite3.Error, path: str) -> DurableExecutionError:
    code = getattr(error, "sqlite_errorcode", None)
    primary = code & 0xFF if code is not None else None
    if primary == sqlite3.SQLITE_TOOBIG:
        return DurableExecutionError(f"Too large for one row of the store {path}: {error}")
    if primary in _CORRUPT or (primary is None and type(error) in (sqlite3.DatabaseError, sqlite3.OperationalError)):
        return StoreCorruptError(f"The store {path} is damaged or no store of runs: {error}", place=path)
    if primary is None:
        return DurableExecutionError(f"The store {path} is not open: {error}")
    advice = _ADVICE.get(primary, "nothing that was stored is lost; resume when it works again")
    return StoreUnavailableError(f"The store {path} cannot be used now: {error}; {advice}", store=path)


def is_new(connection: sqlite3.Connection, path: str) -> bool:
    """True for an empty database, False for ours. Everything else is refused and left as it was.

    To be asked inside a transaction: another process may be making the tables.
    """
    application = _pragma(connection, "application_id")
    if application == APPLICATION_ID:
        _check_version(_pragma(connection, "user_version"), path)
        return False
    names = [row[0] for row in connection.execute("SELECT name FROM sqlite_schema ORDER BY name LIMIT 4")]
    if names or application:
        _refuse_foreign(names, path)
    return True


def create(connection: sqlite3.Connection, path: str) -> None:
    """Make the tables, unless another process has made them meanwhile."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        if is_new(connection, path):
            for statement in filter(str.strip, _TABLES.split(";")):
                connection.execute(statement)
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version = {TABLES_VERSION}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _pragma(connection: sqlite3.Connection, name: str) -> int:
    value: int = connection.execute(f"PRAGMA {name}").fetchone()[0]
    return value


def _check_version(version: int, path: str) -> None:
    if version > TABLES_VERSION:
        raise DurableExecutionError(
            f"The store {path} was written by a newer protolink: its version is {version}, this one reads up to "
            f"{TABLES_VERSION}. Upgrade protolink, or use another file."
        )


def _refuse_foreign(names: list[str], path: str) -> NoReturn:
    tables = f" with {', '.join(names)}" if names else ""
    raise StoreCorruptError(
        f"{path} is a database of another application{tables}. Nothing was changed; use another file.", place=path
    )
