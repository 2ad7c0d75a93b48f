"""One thread that writes for everybody.

A commit costs a sync of the disk, whatever is in it, so all that waits while one commit runs goes into the next one
together. Work that is refused (a stale owner, say) takes nothing back from the others: where it has changed something
already, they are done again without it.
Work runs on this thread and nowhere else, so a signal that interrupts a caller never leaves half a transaction.

Whoever waits in one event loop is told by one call. Every statement and every call into a loop gives up the interpreter
lock, and a busy loop is slow to hand it back; so this thread makes as few of them as it can.
"""

from __future__ import annotations

import asyncio
import queue
import sqlite3
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Generic, TypeVar

from ..drive.commit import Commit
from ..errors import DurableExecutionError

T = TypeVar("T")
Work = Callable[[sqlite3.Connection], T]
Connect = Callable[[], sqlite3.Connection]
_Outcome = tuple[Any, BaseException | None]
Translate = Callable[[sqlite3.Error], Exception]

#: Bounds the time that the first of a group waits for the last.
_MAX_GROUP = 256


class _Job(Generic[T]):
    """Work, and the future of whoever waits: in ``loop``, or in a thread (None)."""

    def __init__(self, work: Work[T], future: Future[T] | Commit[T], loop: asyncio.AbstractEventLoop | None) -> None:
        self.work = work
        self.future = future
        self.loop = loop


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
        self._put(_Job(work, future, None))
        return future.result()

    def submit(self, work: Work[T]) -> Commit[T]:
        """``call`` for a coroutine."""
        loop = asyncio.get_running_loop()
        future: Commit[T] = Commit(loop=loop)
        self._put(_Job(work, future, loop))
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
        _tell(batch, outcomes)

    def _together(self, batch: list[_Job[Any]]) -> list[_Outcome]:
        """In one transaction. Work that is refused after it changed something is left out, and the rest done again."""
        self._check()
        found: dict[_Job[Any], _Outcome] = {}
        while not self._attempt([job for job in batch if job not in found], found):
            pass
        return [found[job] for job in batch]

    def _attempt(self, batch: list[_Job[Any]], found: dict[_Job[Any], _Outcome]) -> bool:
        """True when all is committed. Else nothing was, and ``found`` tells what came of the work not to try again."""
        connection = self._connection
        done: dict[_Job[Any], _Outcome] = {}
        before = connection.total_changes
        connection.execute("BEGIN IMMEDIATE")
        try:
            for job in batch:
                changes = connection.total_changes
                try:
                    done[job] = job.work(connection), None
                except sqlite3.Error:
                    raise
                except Exception as error:
                    done[job] = None, error
                    if connection.total_changes != changes:
                        connection.execute("ROLLBACK")
                        found[job] = None, error
                        return False
            if connection.in_transaction:
                connection.execute("COMMIT")
        except BaseException:
            # SQLite itself takes the transaction back after some errors.
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
        self.transactions += connection.total_changes != before
        found.update(done)
        return True


def _tell(batch: list[_Job[Any]], outcomes: list[_Outcome]) -> None:
    waiting: dict[asyncio.AbstractEventLoop, list[tuple[Any, _Outcome]]] = {}
    for job, outcome in zip(batch, outcomes, strict=True):
        if job.loop is None:
            _fulfil(job.future, outcome)
        else:
            waiting.setdefault(job.loop, []).append((job.future, outcome))
    for loop, settled in waiting.items():
        try:
            loop.call_soon_threadsafe(_fulfil_all, settled)
        except RuntimeError:
            pass  # The loop is closed: nobody waits any more. The work itself is done.


def _is_lock(error: sqlite3.Error) -> bool:
    return (getattr(error, "sqlite_errorcode", 0) or 0) & 0xFF in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def _fulfil_all(settled: list[tuple[Any, _Outcome]]) -> None:
    for future, outcome in settled:
        _fulfil(future, outcome)


def _fulfil(future: Any, outcome: _Outcome) -> None:
    """For both kinds of future."""
    result, error = outcome
    if error is None:
        future.set_result(result)
    else:
        future.set_exception(error)
