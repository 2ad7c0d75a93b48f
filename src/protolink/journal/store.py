"""The contract of a store of runs over tables in SQL: who owns a run, and what is kept of it.

Two kinds of run live side by side. One has facts, appended by the driver through ``open``, and its data is folded from
them. The other has a document instead: an application, or a wrapper that knows only the four methods, keeps it here.
"""

from __future__ import annotations

import os
import sqlite3
import time
import weakref
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import Any, Protocol, TypeVar

from ..drive.commit import Commit, undisturbed
from ..engine.facts import Record
from ..errors import CheckpointMismatchError, DurableExecutionError, RunBusyError, StoreCorruptError
from ..models import json
from . import checkpoint, codec, owner, rows
from .checkpoint import Stored
from .contract import RunCheckpoint, checked_filter, checked_lease, checked_limit, checked_name
from .lease import LeaseWatch
from .rows import FINISHED, Batch, Claim, RunRow
from .writer import Work

T = TypeVar("T")
# The method named ``list`` hides the type of that name inside the class.
Checkpoints = list[RunCheckpoint]


class Database(Protocol):
    """Where the tables are. Work that raises changes nothing; SQLite's errors arrive as ours."""

    def write(self, work: Work[T]) -> T:
        """Do it in a transaction; blocks until that is stored."""

    def submit(self, work: Work[T]) -> Awaitable[T] | None:
        """``write`` for a coroutine. None when it is done already."""

    def read(self, work: Work[T]) -> T:
        """Do it on one snapshot."""

    def close(self) -> None: ...


class RunStore:
    """Runs in a database. ``lease_seconds``: how long an owner may be silent. Safe to use from several threads.

    Every method raises StoreUnavailableError or StoreCorruptError when the database cannot be used.
    """

    def __init__(
        self,
        database: Database,
        *,
        lease_seconds: float = 300.0,
        clock: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self.lease_seconds = checked_lease(lease_seconds)
        self._database = database
        self._clock = clock
        self._watch = LeaseWatch(monotonic)
        self._closing = weakref.finalize(self, database.close)

    def get(self, run_id: str) -> RunCheckpoint | None:
        """Read a run without owning it; None when it is not stored. A child shows its part of the root's run."""
        checked_name("run id", run_id)
        stored = self._database.read(lambda db: _load(db, run_id))
        return None if stored is None else checkpoint.checkpoint(stored)

    def acquire(self, run_id: str, agent_name: str, initial: dict[str, Any]) -> tuple[str, RunCheckpoint]:
        """Become the owner; see ``DurableStore``. ``root_run_id`` in ``initial`` makes a new run a pointer to it."""
        document = json.plain(dict(initial))
        row = self._claim(run_id, agent_name, document)
        return str(row.owner), self._owned(row, checkpoint.checkpoint)

    def save(self, run_id: str, token: str, status: str, data: dict[str, Any]) -> None:
        """Renew the lease and set the status. A document is replaced; for a run with facts see ``checkpoint.news``.

        RunBusyError for a token that is no longer the owner's, TypeError for data that is no JSON.
        """
        given = json.plain(dict(data))
        checked_name("status", status)
        self._database.write(lambda db: self._save(db, run_id, token, status, given))

    def append(self, run_id: str, token: str, status: str, facts: Sequence[Any]) -> None:
        """``save`` of the new facts alone: encoded, in order, numbered after those that are stored."""
        checked_name("status", status)
        records = [codec.from_value(json.plain(value)) for value in facts]

        def work(db: sqlite3.Connection) -> None:
            row, now = rows.owned(db, run_id, token), self._clock()
            if records:
                rows.append(db, row, batch_of(records), status, now)
            else:
                rows.touch(db, row, status, now)

        self._database.write(work)

    def renew(self, run_id: str, token: str) -> None:
        """Extend the lease. RunBusyError when the token is no longer the owner's."""
        self._database.write(lambda db: rows.touch(db, rows.owned(db, run_id, token), None, self._clock()))

    def owned_until(self, run_id: str) -> float | None:
        """When the lease ends (Unix seconds) of an owner who may be alive; None when nobody has to be waited for."""
        checked_name("run id", run_id)
        row = self._database.read(lambda db: rows.find(db, run_id))
        if row is None or row.owner is None:
            return None
        return self._watch.held_until(run_id, row.lease, self._clock())

    def release(self, run_id: str, token: str) -> None:
        """Give up ownership. Nothing happens when it is gone already."""
        self._database.write(lambda db: rows.release(db, run_id, token))

    def list(self, *, status: str | None = None, agent_name: str | None = None, limit: int = 20) -> Checkpoints:
        """Root runs, the newest first, at most ``limit`` (1 to 1000). The data of a damaged one is an ``error``."""
        checked_limit(limit)
        checked_filter("status", status)
        checked_filter("agent_name", agent_name)
        found = self._database.read(lambda db: [_listed(db, row) for row in rows.roots(db, status, agent_name, limit)])
        return [item if isinstance(item, RunCheckpoint) else _shown(item) for item in found]

    def delete(self, run_id: str) -> bool:
        """Forget a finished run and its children. False when it is not stored; an unfinished one is refused."""
        checked_name("run id", run_id)
        return self._database.write(lambda db: self._delete(db, run_id))

    def prune(self, *, before: datetime | float) -> int:
        """Forget all runs that finished before a time (aware datetime or Unix seconds). Returns how many."""
        limit = _seconds(before)

        def work(db: sqlite3.Connection) -> int:
            found = rows.finished_before(db, limit)
            rows.delete(db, found)
            return len(found)

        return self._database.write(work)

    def open(self, run_id: str, agent_name: str, *, create: bool) -> StoredJournal:
        """Own a run and read its facts. DurableExecutionError when it is not stored and ``create`` is False.

        CheckpointMismatchError for a child's id: it is continued by its root.
        """
        row = self._claim(run_id, agent_name, {} if create else None, whole=True)
        return StoredJournal(self, row, self._owned(row, checkpoint.records))

    def create(self, run_id: str, agent_name: str) -> Commit[StoredJournal | None]:
        """``open`` of an id that is not stored yet, for a coroutine; what it waits for is None when the id is stored.

        No thread is blocked, so any number of runs that start together are claimed in one commit.
        """
        checked_name("run id", run_id)
        checked_name("agent name", agent_name)
        token = os.urandom(16).hex()
        made: StoredJournal | None = None

        def work(db: sqlite3.Connection) -> StoredJournal | None:
            nonlocal made
            new = rows.find(db, run_id) is None
            made = StoredJournal(self, self._inserted(db, run_id, agent_name, token, {}), []) if new else None
            return made

        waiting = self._database.submit(work)
        if waiting is not None:
            return undisturbed(waiting)
        done: Commit[StoredJournal | None] = Commit()
        done.set_result(made)
        return done

    def close(self) -> None:
        """Finish what is being written and close the database. Owned runs stay owned until their lease ends."""
        self._closing()

    def _claim(self, run_id: str, agent_name: str, document: dict[str, Any] | None, *, whole: bool = False) -> RunRow:
        """``document`` None: the run must exist. ``whole``: it must not be a child."""
        checked_name("run id", run_id)
        checked_name("agent name", agent_name)
        token = os.urandom(16).hex()
        try:
            return self._database.write(lambda db: self._claimed(db, run_id, agent_name, token, document, whole))
        except (KeyboardInterrupt, SystemExit):
            # The claim may be committed after all, and nobody would know its token.
            self._database.write(lambda db: rows.release(db, run_id, token))
            raise

    def _claimed(
        self,
        db: sqlite3.Connection,
        run_id: str,
        agent_name: str,
        token: str,
        document: dict[str, Any] | None,
        whole: bool,
    ) -> RunRow:
        row = rows.find(db, run_id)
        if row is None and document is None:
            raise DurableExecutionError(f"There is no run '{run_id}' in this store")
        if row is None:
            assert document is not None
            return self._inserted(db, run_id, agent_name, token, document)
        if whole and row.root_run_id is not None:
            raise CheckpointMismatchError(f"Run '{run_id}' is a child; use the id of its root, '{row.root_run_id}'")
        claim = self._new_claim(token)
        self._check_free(row, agent_name, claim.now)
        return rows.take(db, row, claim)

    def _inserted(
        self, db: sqlite3.Connection, run_id: str, agent_name: str, token: str, document: dict[str, Any]
    ) -> RunRow:
        root = document.get("root_run_id")
        return rows.insert(db, run_id, agent_name, self._new_claim(token), json.dumps(document), root)

    def _new_claim(self, token: str) -> Claim:
        return Claim(token, owner.current().to_text(), self.lease_seconds, self._clock())

    def _check_free(self, row: RunRow, agent_name: str, now: float) -> None:
        if row.agent_name != agent_name:
            reason = "a run is continued by the agent that started it"
            change = {"part": "agent", "old": row.agent_name, "new": agent_name, "breaking": True, "reason": reason}
            raise CheckpointMismatchError(
                f"Run '{row.run_id}' belongs to agent '{row.agent_name}', not to '{agent_name}'", changes=[change]
            )
        until = None
        if row.owner is not None:
            until = self._watch.held_until(row.run_id, row.lease, now)
        else:
            self._watch.forget(row.run_id)
        if until is not None:
            raise RunBusyError(
                f"Run '{row.run_id}' is owned by another worker, for {until - now:.0f} more seconds unless it renews",
                until=until,
            )

    def _owned(self, row: RunRow, read: Callable[[Stored], T]) -> T:
        """What ``read`` makes of a run that was just claimed; a run that cannot be read is given back."""
        try:
            return read(self._database.read(lambda db: _stored(db, row)))
        except BaseException:
            self._database.write(lambda db: rows.release(db, row.run_id, str(row.owner)))
            raise

    def _save(self, db: sqlite3.Connection, run_id: str, token: str, status: str, data: dict[str, Any]) -> None:
        now = self._clock()
        row = rows.owned(db, run_id, token)
        if row.next_n is None and not data.get("facts"):
            rows.put_document(db, row, status, json.dumps(data), now)
            return
        found = checkpoint.news(Stored(row, rows.batches(db, row)), data, now)
        if found:
            rows.append(db, row, batch_of(found), status, now)
        else:
            rows.touch(db, row, status, now)

    def _delete(self, db: sqlite3.Connection, run_id: str) -> bool:
        row = rows.find(db, run_id)
        if row is None:
            return False
        if row.root_run_id is not None:
            raise DurableExecutionError(f"Run '{run_id}' is a child; delete its root '{row.root_run_id}'")
        if row.status not in FINISHED:
            raise DurableExecutionError(f"Run '{run_id}' is {row.status}; only finished runs can be deleted")
        self._check_free(row, row.agent_name, self._clock())
        rows.delete(db, [row])
        return True


class StoredJournal:
    """One run of a store, owned by this process until it is released or taken over. See ``OpenJournal``."""

    durable = True

    def __init__(self, store: RunStore, row: RunRow, records: list[Record]) -> None:
        self.run_id = row.run_id
        self.epoch = row.epoch
        self.token = str(row.owner)
        self.records = records
        # Kept whole: a store that nobody refers to is closed.
        self._store = store
        self._row = row

    def append(self, records: Sequence[Record], status: str) -> Awaitable[None] | None:
        return self._store._database.submit(self._appending(records, status))

    def append_now(self, records: Sequence[Record], status: str) -> None:
        self._store._database.write(self._appending(records, status))

    def renew(self) -> None:
        self._store._database.write(lambda db: rows.touch(db, self._row, None, self._store._clock()))

    async def release(self) -> None:
        waiting = self._store._database.submit(self._releasing)
        if waiting is not None:
            await waiting

    def release_now(self) -> None:
        self._store._database.write(self._releasing)

    def _appending(self, records: Sequence[Record], status: str) -> Work[None]:
        """The records are encoded here, on the caller's thread: what has no JSON form is the caller's to hear of."""
        clock = self._store._clock
        if not records:
            return lambda db: rows.touch(db, self._row, status, clock())
        batch = batch_of(records)
        return lambda db: rows.append(db, self._row, batch, status, clock())

    def _releasing(self, db: sqlite3.Connection) -> None:
        rows.release(db, self.run_id, self.token)


def batch_of(records: Sequence[Record]) -> Batch:
    first = records[0].n
    if [record.n for record in records] != list(range(first, first + len(records))):
        raise ValueError("records of one batch must be numbered one after the other")
    return Batch(records[0].n, len(records), codec.to_lines(records))


def _load(db: sqlite3.Connection, run_id: str) -> Stored | None:
    row = rows.find(db, run_id)
    return None if row is None else _stored(db, row)


def _stored(db: sqlite3.Connection, row: RunRow) -> Stored:
    root = rows.find(db, row.root_run_id) if row.root_run_id is not None else None
    return Stored(row, rows.batches(db, root or row), root)


def _listed(db: sqlite3.Connection, row: RunRow) -> Stored | RunCheckpoint:
    try:
        rows.check(row)
        return _stored(db, row)
    except StoreCorruptError as error:
        return checkpoint.damaged(row, error)


def _shown(stored: Stored) -> RunCheckpoint:
    try:
        return checkpoint.checkpoint(stored)
    except DurableExecutionError as error:
        return checkpoint.damaged(stored.row, error)


def _seconds(moment: datetime | float) -> float:
    if isinstance(moment, datetime):
        if moment.tzinfo is None:
            raise ValueError("before needs a time zone, such as datetime.now(UTC)")
        return moment.timestamp()
    if isinstance(moment, bool) or not isinstance(moment, (int, float)):
        raise TypeError("before must be a datetime or Unix seconds")
    return float(moment)
