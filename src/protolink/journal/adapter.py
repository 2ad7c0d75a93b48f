"""Any store as the driver's journal.

Our own stores open a run themselves and append to it. A store of an application needs only get, acquire, save and
release: its data then holds the encoded facts and the view that they fold to, and is written anew each time. If it
offers ``append(run_id, token, status, facts)`` too, it is given the new facts alone.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from ..drive.commit import Commit
from ..engine.evolve import evolve
from ..engine.facts import Record, Resumed
from ..engine.fold import fold
from ..engine.state import Run
from ..engine.view import view
from ..errors import (
    CheckpointMismatchError,
    DurableExecutionError,
    RunBusyError,
    StoreCorruptError,
    StoreUnavailableError,
)
from ..models import json
from . import codec
from .codec import SCHEMA_VERSION
from .contract import DurableStore, OpenJournal, RunCheckpoint
from .store import RunStore, StoredJournal

T = TypeVar("T")

#: What an application may replace in one of our stores to watch or disturb it; what it replaced is then called.
_OVERRIDABLE = {name: getattr(RunStore, name) for name in ("get", "acquire", "save", "release")}


def open_journal(store: DurableStore, run_id: str, agent_name: str, *, create: bool) -> OpenJournal:
    """Own a run of any store; blocking.

    DurableExecutionError when it is not stored and ``create`` is False, RunBusyError while another owner is alive,
    CheckpointMismatchError for another agent's run or a child's.
    """
    if isinstance(store, RunStore) and _unchanged(store):
        return store.open(run_id, agent_name, create=create)
    if not create:
        _require(store, run_id)
    initial = {"version": SCHEMA_VERSION, "facts": []}
    token, found = _guarded(store, lambda: store.acquire(run_id, agent_name, initial))
    try:
        return StoreJournal(store, token, found, stored_records(found))
    except BaseException:
        _guarded(store, lambda: store.release(run_id, token))
        raise


def create_journal(store: DurableStore, run_id: str, agent_name: str) -> Commit[StoredJournal | None] | None:
    """``RunStore.create``; None for a store that is not ours: its methods block."""
    return store.create(run_id, agent_name) if isinstance(store, RunStore) and _unchanged(store) else None


def checkpoint_of(store: DurableStore, run_id: str) -> RunCheckpoint | None:
    """``store.get`` of any store: what a foreign one raises is StoreUnavailableError here, too."""
    if isinstance(store, RunStore) and _unchanged(store):
        return store.get(run_id)
    return _guarded(store, lambda: store.get(run_id))


def inventory_of(store: DurableStore, **how: Any) -> list[RunCheckpoint]:
    """``store.list`` likewise. DurableExecutionError when the store has none."""
    listing: Callable[..., list[RunCheckpoint]] | None = getattr(store, "list", None)
    if listing is None:
        raise DurableExecutionError(f"The store {type(store).__name__} offers no list()")
    return list(listing(**how) if isinstance(store, RunStore) else _guarded(store, lambda: listing(**how)))


def owned_until(store: DurableStore, run_id: str) -> float | None:
    """Until when (Unix seconds) a run belongs to somebody who may be alive; None also when the store cannot tell."""
    asking: Callable[[str], float | None] | None = getattr(store, "owned_until", None)
    return None if asking is None else _guarded(store, lambda: asking(run_id))


def stored_records(found: RunCheckpoint) -> list[Record]:
    """The facts in a checkpoint's data. CheckpointMismatchError for a child's, StoreCorruptError for anything else."""
    data, run_id = found.data, found.run_id
    _check_root(found)
    values = data.get("facts")
    if not isinstance(values, list):
        raise StoreCorruptError(f"Run '{run_id}' is stored without its facts", run_id=run_id, place="facts")
    try:
        records = [codec.from_value(value) for value in values]
    except StoreCorruptError as error:
        raise StoreCorruptError(f"Run '{run_id}' is damaged: {error}", run_id=run_id, place="facts") from error
    for index, record in enumerate(records):
        if record.n != records[0].n + index:
            raise StoreCorruptError(f"Run '{run_id}' misses facts before {record.n}", run_id=run_id, place="facts")
    return records


def point_to_root(store: DurableStore, run_id: str, agent_name: str, *, root_run_id: str, parent_run_id: str) -> None:
    """Record where a child's facts are: in its root's journal. Blocking; recording it again changes nothing.

    CheckpointMismatchError when the id belongs to another run already.
    """
    pointer = {"version": SCHEMA_VERSION, "root_run_id": root_run_id, "parent_run_id": parent_run_id}
    found: RunCheckpoint | None
    try:
        token, found = _guarded(store, lambda: store.acquire(run_id, agent_name, pointer))
    except RunBusyError:
        # Written before, by somebody who died, or lost the store, between owning it and giving it back. It never
        # changes, so that it is there is enough.
        found = checkpoint_of(store, run_id)
    else:
        _guarded(store, lambda: store.release(run_id, token))
    if found is None or found.data.get("root_run_id") != root_run_id:
        raise CheckpointMismatchError(f"Run '{run_id}' is stored already, and is no child of '{root_run_id}'")


class StoreJournal:
    """One run of an application's own store. See ``OpenJournal``."""

    durable = True

    def __init__(self, store: DurableStore, token: str, found: RunCheckpoint, records: list[Record]) -> None:
        self.run_id = found.run_id
        self.token = token
        self.records = records
        # Such a store counts no owners; a drive that wrote nothing needs no number of its own.
        self.epoch = 1 + max((record.fact.epoch for record in records if isinstance(record.fact, Resumed)), default=0)
        self._store = store
        # One of our own stores comes here because its four methods were replaced; then those are what is wanted.
        offers = None if isinstance(store, RunStore) else store
        self._append: Callable[..., Any] | None = getattr(offers, "append", None)
        self._renew: Callable[[str, str], None] | None = getattr(offers, "renew", None)
        self._status = found.status
        self._data = found.data
        self._run: Run | None = fold(records) if records else None
        # The heartbeat's thread must not put back what an append is about to replace.
        self._writing = threading.Lock()

    async def append(self, records: Sequence[Record], status: str) -> None:
        await asyncio.to_thread(self.append_now, records, status)

    def append_now(self, records: Sequence[Record], status: str) -> None:
        values = [json.loads(codec.encode(record)) for record in records]
        with self._writing:
            if self._append is not None:
                append = self._append
                _guarded(self._store, lambda: append(self.run_id, self.token, status, values))
            else:
                self._save(status, self._with(records, values))
            self._status = status

    def renew(self) -> None:
        with self._writing:
            if self._renew is not None:
                renew = self._renew
                _guarded(self._store, lambda: renew(self.run_id, self.token))
            elif self._append is not None:
                append = self._append
                _guarded(self._store, lambda: append(self.run_id, self.token, self._status, []))
            else:
                self._save(self._status, self._data)

    async def release(self) -> None:
        await asyncio.to_thread(self.release_now)

    def release_now(self) -> None:
        _guarded(self._store, lambda: self._store.release(self.run_id, self.token))

    def _with(self, records: Sequence[Record], values: list[Any]) -> dict[str, Any]:
        """The whole data after these records.

        A batch that could not be stored comes again; what was folded of it is not folded twice.
        """
        if self._run is None and records:
            self._run = fold(records)
        for record in records:
            if self._run is not None and record.n >= self._run.n:
                evolve(self._run, record)
        shown = view(self._run) if self._run is not None else {"version": SCHEMA_VERSION}
        found: dict[str, Any] = json.plain({**shown, "facts": [*self._data["facts"], *values]})
        return found

    def _save(self, status: str, data: dict[str, Any]) -> None:
        _guarded(self._store, lambda: self._store.save(self.run_id, self.token, status, data))
        self._data = data


def _unchanged(store: RunStore) -> bool:
    return all(getattr(getattr(store, name), "__func__", None) is original for name, original in _OVERRIDABLE.items())


def _require(store: DurableStore, run_id: str) -> None:
    """Asked before a foreign store is: it knows of children only that they belong to another agent."""
    found = checkpoint_of(store, run_id)
    if found is None:
        raise DurableExecutionError(f"There is no run '{run_id}' in this store")
    _check_root(found)


def _check_root(found: RunCheckpoint) -> None:
    if "root_run_id" in found.data:
        root = found.data["root_run_id"]
        raise CheckpointMismatchError(f"Run '{found.run_id}' is a child; use the id of its root, '{root}'")


def _guarded(store: DurableStore, call: Callable[[], T]) -> T:
    """What a foreign store raises, except for our own errors, means that it cannot be used now."""
    try:
        return call()
    except DurableExecutionError:
        raise
    except Exception as error:
        name = type(store).__name__
        # The text of a foreign error may hold addresses with passwords; it stays in the cause.
        raise StoreUnavailableError(
            f"The store {name} cannot be used now ({type(error).__name__}); what was stored before is not lost",
            store=name,
        ) from error
