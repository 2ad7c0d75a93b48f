"""SQLiteStorage: values in an SQLite file."""

from __future__ import annotations

import os
from typing import Any

from ..models.json import dumps, loads
from .file import PrivateFile, checked_identifier
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
            query = f'SELECT value FROM "{self.table_name}" WHERE key = ?'
            row = db.execute(query, (self.namespace,)).fetchone()
        return None if row is None else loads(row[0])

    def save(self, data: Any) -> None:
        text = dumps(data)
        with self._file.connection() as db:
            db.execute(f'INSERT OR REPLACE INTO "{self.table_name}" VALUES (?, ?)', (self.namespace, text))

    def delete(self) -> None:
        with self._file.connection() as db:
            db.execute(f'DELETE FROM "{self.table_name}" WHERE key = ?', (self.namespace,))
