"""Journals that last as long as the process: for tests and simulations."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable
from typing import TypeVar

from . import schema
from .store import RunStore
from .writer import Work

T = TypeVar("T")


class InMemoryDurableStore(RunStore):
    """The same store, with the same tables and the same bytes, in memory. No thread, no file, no waiting."""

    def __init__(
        self,
        *,
        lease_seconds: float = 300.0,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(Memory(), lease_seconds=lease_seconds, clock=clock, monotonic=monotonic)


class Memory:
    """A database that is gone with the process. ``submit`` does its work at once and returns None."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        schema.create(self._connection, "in memory")

    def write(self, work: Work[T]) -> T:
        return self._transaction("BEGIN IMMEDIATE", work)

    def submit(self, work: Work[T]) -> None:
        self.write(work)

    def read(self, work: Work[T]) -> T:
        return self._transaction("BEGIN", work)

    def close(self) -> None:
        with self._lock:
            self._connection.close()

    def _transaction(self, begin: str, work: Work[T]) -> T:
        with self._lock:
            try:
                self._connection.execute(begin)
                try:
                    found = work(self._connection)
                    self._connection.execute("COMMIT")
                except BaseException:
                    if self._connection.in_transaction:
                        self._connection.execute("ROLLBACK")
                    raise
            except sqlite3.Error as error:
                raise schema.translated(error, "in memory") from error
            return found
