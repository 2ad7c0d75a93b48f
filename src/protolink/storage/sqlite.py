"""SQLiteStorage: values in an SQLite file."""

from __future__ import annotations

import copy
import os
import sqlite3
from collections.abc import Callable
from typing import Any

from ..models.json import dumps, loads
from .file import PrivateFile, checked_identifier
from .part_names import name_in, namespace_of, span
from .storage import Storage


class SQLiteStorage(Storage):
    """A value in the SQLite file ``db_path``, which is created with mode 0600 and may hold many namespaces.

    ValueError for a ``table_name`` that is no identifier; OSError or sqlite3.Error when the file cannot be used.
    """

    def __init__(
        self, db_path: str | os.PathLike[str] = "storage.db", table_name: str = "storage", namespace: str = "default"
    ) -> None:
        self.table_name = checked_identifier("table_name", table_name)
        self.namespace = namespace
        self._file = PrivateFile(db_path)
        self.db_path = self._file.path
        with self._file.connection() as db:
            db.execute(f'CREATE TABLE IF NOT EXISTS "{table_name}" (key TEXT PRIMARY KEY, value TEXT NOT NULL)')

    def load(self) -> Any:
        with self._file.connection() as db:
            text = self._text(db)
        return None if text is None else loads(text)

    def save(self, data: Any) -> None:
        text = dumps(data)
        with self._file.connection() as db:
            self._put(db, text)

    def change(self, change: Callable[[Any], Any]) -> Any:
        """``Storage.change`` in one transaction: nobody in between, in no other process either."""
        with self._file.connection() as db:
            db.execute("BEGIN IMMEDIATE")
            text = self._text(db)
            data = change(None if text is None else loads(text))
            if data is None:
                self._forget(db)
            else:
                self._put(db, dumps(data))
        return data

    def delete(self) -> None:
        with self._file.connection() as db:
            self._forget(db)

    def part(self, name: str) -> SQLiteStorage:
        """A storage of its own, in a row of its own: what it costs does not depend on the other parts."""
        found = copy.copy(self)
        found.namespace = namespace_of(self.namespace, name)
        return found

    def parts(self) -> list[str]:
        # A row that is written again gets a new rowid, the highest.
        query = f'SELECT key FROM "{self.table_name}" WHERE key >= ? AND key < ? ORDER BY rowid'
        with self._file.connection() as db:
            keys = [str(key) for (key,) in db.execute(query, span(self.namespace))]
        return [name for key in keys if (name := name_in(self.namespace, key)) is not None]

    def _forget(self, db: sqlite3.Connection) -> None:
        db.execute(f'DELETE FROM "{self.table_name}" WHERE key = ?', (self.namespace,))

    def _text(self, db: sqlite3.Connection) -> str | None:
        query = f'SELECT value FROM "{self.table_name}" WHERE key = ?'
        row = db.execute(query, (self.namespace,)).fetchone()
        return None if row is None else str(row[0])

    def _put(self, db: sqlite3.Connection, text: str) -> None:
        db.execute(f'INSERT OR REPLACE INTO "{self.table_name}" VALUES (?, ?)', (self.namespace, text))
