"""Whose runs are whose: the application's own table, beside the store of runs."""

from __future__ import annotations

import hashlib
import secrets
import sqlite3
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_SCHEMA = """
CREATE TABLE IF NOT EXISTS users (token_hash TEXT PRIMARY KEY, user TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS runs (
    run_id TEXT PRIMARY KEY, user TEXT NOT NULL, request_id TEXT NOT NULL, prompt TEXT NOT NULL,
    canceled INTEGER NOT NULL DEFAULT 0, settled INTEGER NOT NULL DEFAULT 0, UNIQUE (user, request_id)
);
"""
_COLUMNS = "run_id, user, request_id, prompt, canceled"


@dataclass(frozen=True, slots=True)
class Record:
    """A run as it was asked for. ``request_id`` is the client's. ``canceled``: somebody asked for its end."""

    run_id: str
    user: str
    request_id: str
    prompt: str
    canceled: bool


class Records:
    """Users and their runs in one SQLite file. Blocking; may be used from several threads."""

    def __init__(self, path: Path) -> None:
        self._file = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
        self._lock = threading.Lock()
        self._file.executescript(f"PRAGMA journal_mode=WAL; {_SCHEMA}")

    def close(self) -> None:
        self._file.close()

    def add_user(self) -> tuple[str, str]:
        """A new user: ``(user, token)``. Only a hash of the token is stored."""
        user, token = f"user-{secrets.token_hex(3)}", secrets.token_urlsafe(32)
        self._do("INSERT INTO users VALUES (?, ?)", _hash(token), user)
        return user, token

    def user_of(self, token: str) -> str | None:
        """Who has this token."""
        found = self._do("SELECT user FROM users WHERE token_hash = ?", _hash(token))
        return found[0][0] if found else None

    def add_run(self, user: str, request_id: str, prompt: str) -> tuple[Record, bool]:
        """The run of a request, and whether it is new. The same request of a user always gives the same run."""
        row = (f"run_{secrets.token_hex(12)}", user, request_id, prompt)
        added = self._do(
            "INSERT INTO runs (run_id, user, request_id, prompt) VALUES (?, ?, ?, ?) "
            "ON CONFLICT (user, request_id) DO NOTHING RETURNING run_id",
            *row,
        )
        [record] = self._read("user = ? AND request_id = ?", user, request_id)
        return record, bool(added)

    def run(self, run_id: str, user: str) -> Record | None:
        """A run of this user; None for somebody else's too."""
        return next(iter(self._read("run_id = ? AND user = ?", run_id, user)), None)

    def runs(self, user: str) -> list[Record]:
        """The user's latest 20 runs, the newest first."""
        return self._read("user = ? ORDER BY rowid DESC LIMIT 20", user)

    def wanted(self) -> list[Record]:
        """All runs that may have to go on, the oldest first."""
        return self._read("NOT canceled AND NOT settled ORDER BY rowid")

    def settle(self, run_id: str) -> None:
        """Note that the run has ended, so that nobody looks for it at the next start."""
        self._do("UPDATE runs SET settled = 1 WHERE run_id = ?", run_id)

    def cancel(self, run_id: str) -> None:
        """Note that the run is not wanted any more."""
        self._do("UPDATE runs SET canceled = 1 WHERE run_id = ?", run_id)

    def remove(self, run_id: str) -> None:
        """Forget a run that never began."""
        self._do("DELETE FROM runs WHERE run_id = ?", run_id)

    def _read(self, where: str, *values: str) -> list[Record]:
        rows = self._do(f"SELECT {_COLUMNS} FROM runs WHERE {where}", *values)
        return [Record(*row[:4], bool(row[4])) for row in rows]

    def _do(self, statement: str, *values: str) -> list[tuple[Any, ...]]:
        with self._lock:
            return self._file.execute(statement, values).fetchall()


def _hash(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()
