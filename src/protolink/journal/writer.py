"""One thread that writes for everybody.

A commit costs a sync of the disk, whatever is in it, so all that waits while one commit runs goes into the next one
together. Each piece of work has its own savepoint: one that is refused (a stale owner, say) takes nothing back from the
others. Work runs on this thread and nowhere else, so a signal that interrupts a caller never leaves half a transaction.
"""

from __future__ import annotations

import asyncio
import queue
import sqlite3
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Generic, TypeVar

from ..errors import DurableExecutionError

T = TypeVar("T")
Work = Callable[[sqlite3.Connection], T]
Connect = Callable[[], sqlite3.Connection]
_Outcome = tuple[Any, BaseException | None]
Translate = Callable[[sqlite3.Error], Exception]

#: Bounds the time that the first of a group waits for the last.
_MAX_GROUP = 256


class _Job(Generic[T]):
    """Work, and how its outcome reaches whoever waits."""

    def __init__(self, work: Work[T], settle: Callable[[T | None, BaseException | None], None]) -> None:
        self.work = work
        self.settle = settle


class Writer:
    """Owns the writing connection. ``transactions`` counts commits that wrote something, for tests and tuning.

    ``check`` runs before each transaction and raises when the file is not what it was.
    """

    def __init__(self, connect: Connect, translate: Translate, check: Callable[[], None]) -> None:
        self._connect = connect
        self._translate = translate
        self._check = check
        self._jobs: queue.SimpleQueue[_Job[Any] | None] = queue.SimpleQueue()
        self._closing = threading.Lock()
        self._closed = False
        self.transactions = 0
        self._connection = connect()
        self._thread = threading.Thread(target=self._run, name="protolink-store", daemon=True)
        self._thread.start()

    def call(self, work: Work[T]) -> T:
        """Do the work in a transaction and return its result once that is committed."""
        future: Future[T] = Future()
        self._put(_Job(work, lambda result, error: _fulfil(future, result, error)))
        return future.result()

    def submit(self, work: Work[T]) -> asyncio.Future[T]:
        """``call`` for a coroutine. Canceling the future does not take the work back."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()

        def settle(result: T | None, error: BaseException | None) -> None:
            try:
                loop.call_soon_threadsafe(_fulfil, future, result, error)
            except RuntimeError:
                pass  # The loop is closed: nobody waits any more. The work itself is done.

        self._put(_Job(work, settle))
        return future

    def close(self) -> None:
        """Finish what waits, then close the connection. Calling it again does nothing."""
        with self._closing:
            if not self._closed:
                self._closed = True
                self._jobs.put(None)
        # A store that nobody uses any more is closed by the garbage collector, on whatever thread that runs.
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def _put(self, job: _Job[Any]) -> None:
        with self._closing:
            if self._closed:
                raise DurableExecutionError("The store is closed; open it again to go on")
            self._jobs.put(job)

    def _run(self) -> None:
        while self._group():
            pass
        self._connection.close()

    def _group(self) -> bool:
        """Commit what waits. A method of its own, so that no group is kept alive while the next is awaited."""
        batch = [self._jobs.get()]
        while len(batch) < _MAX_GROUP and not self._jobs.empty():
            batch.append(self._jobs.get())
        self._commit([job for job in batch if job is not None])
        return None not in batch

    def _commit(self, batch: list[_Job[Any]]) -> None:
        outcomes: list[_Outcome]
        try:
            outcomes = self._together(batch) if batch else []
        except sqlite3.Error as error:
            # One too large or a full disk need not fail the others; a lock would, and each would wait for it again.
            if len(batch) > 1 and not _is_lock(error):
                for job in batch:
                    self._commit([job])
                return
            outcomes = [(None, self._translate(error)) for _ in batch]
        except BaseException as error:
            # Whatever it is, those who wait must hear of it, and this thread must go on for the others.
            outcomes = [(None, error)] * len(batch)
        for job, outcome in zip(batch, outcomes, strict=True):
            job.settle(*outcome)

    def _together(self, batch: list[_Job[Any]]) -> list[_Outcome]:
        self._check()
        connection = self._connection
        connection.execute("BEGIN IMMEDIATE")
        try:
            before = connection.total_changes
            outcomes = [_attempt(connection, job) for job in batch] if len(batch) > 1 else [_alone(connection, *batch)]
            if connection.in_transaction:
                connection.execute("COMMIT")
            self.transactions += connection.total_changes != before
        except BaseException:
            # SQLite itself takes the transaction back after some errors.
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
        return outcomes


def _alone(connection: sqlite3.Connection, job: _Job[Any]) -> _Outcome:
    """Work that shares its transaction with nobody needs no savepoint: a refusal takes all of it back."""
    try:
        return job.work(connection), None
    except sqlite3.Error:
        raise
    except Exception as error:
        connection.execute("ROLLBACK")
        return None, error


def _attempt(connection: sqlite3.Connection, job: _Job[Any]) -> _Outcome:
    connection.execute("SAVEPOINT job")
    try:
        result = job.work(connection)
    except sqlite3.Error:
        raise
    except Exception as error:
        connection.execute("ROLLBACK TO job")
        connection.execute("RELEASE job")
        return None, error
    connection.execute("RELEASE job")
    return result, None


def _is_lock(error: sqlite3.Error) -> bool:
    return (getattr(error, "sqlite_errorcode", 0) or 0) & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def _fulfil(future: Any, result: Any, error: BaseException | None) -> None:
    """For both kinds of future. A canceled one has nobody who waits."""
    if future.done():
        return
    if error is None:
        future.set_result(result)
    else:
        future.set_exception(error)
