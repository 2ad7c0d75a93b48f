"""The records of a broker in memory and in its storage."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from ..runtime import ApprovalRequest
from ..storage import Storage
from .record import ApprovalRecord, ApprovalScope


@dataclass(eq=False)
class Entry:
    """One approval. ``live`` is the object that the run holds; None for what was read from storage."""

    number: int
    record: ApprovalRecord
    stored: dict[str, Any]
    live: ApprovalRequest | None = None
    answer: asyncio.Future[Any] | None = None
    forget_timer: Callable[[], None] | None = None


class ApprovalLedger:
    """Entries by request and by run. At most ``keep_resolved`` of them are resolved; None keeps all.

    A storage holds one value, so each change writes all of it: the bound is what keeps a change from getting dearer
    with every approval that ever was. Records that are left in it as pending have nobody who waits: they turn
    uncertain. ValueError when the storage holds something else.
    """

    def __init__(self, storage: Storage | None, keep_resolved: int | None) -> None:
        self._storage = storage
        self._keep = keep_resolved
        self._entries: dict[str, Entry] = {}
        self._runs: dict[str, dict[str, Entry]] = {}
        self._open: dict[str, Entry] = {}
        self._resolved: dict[str, None] = {}
        self._number = 0
        self._read()

    def get(self, request_id: str) -> Entry | None:
        return self._entries.get(request_id)

    def within(self, scope: ApprovalScope) -> list[Entry]:
        """The entries of these runs, the oldest first."""
        found = [entry for run_id in scope.run_ids for entry in self._runs.get(run_id, {}).values()]
        return sorted(found, key=lambda entry: entry.number)

    def unresolved(self, scope: ApprovalScope) -> list[Entry]:
        """Those that wait, the oldest first. It costs the same however many were resolved before."""
        found = [entry for entry in self._open.values() if entry.record.request.run_id in scope.run_ids]
        return sorted(found, key=lambda entry: entry.number)

    def add(self, request: ApprovalRequest, record: ApprovalRecord) -> Entry:
        """Take up a new request; it is stored when this returns. What the storage raises leaves nothing behind."""
        entry = self._enter(record, record.to_dict())
        entry.live = request
        self._open[request.request_id] = entry
        try:
            self._write()
        except BaseException:
            self._drop(entry)
            raise
        return entry

    def change(self, entry: Entry, record: ApprovalRecord, *, undo: bool) -> None:
        """Settle an entry and store it. When the storage fails, it is as before if ``undo``; the error is raised."""
        key, before, stored = record.request.request_id, entry.record, entry.stored
        decision = None if record.decision is None else record.decision.to_dict()
        entry.record, entry.stored = record, {**stored, "status": record.status, "decision": decision}
        self._resolved[key] = None
        self._open.pop(key, None)
        try:
            self._trim()
            self._write()
        except BaseException:
            if undo:
                entry.record, entry.stored = before, stored
                self._resolved.pop(key, None)
                self._open[key] = entry
                self._restore(entry)
            raise

    def prune(self, keep: int) -> int:
        """Forget resolved entries but the newest ``keep``; returns how many that were."""
        gone = list(self._resolved)[: max(0, len(self._resolved) - keep)]
        for key in gone:
            self._drop(self._entries[key])
        if gone:
            self._write()
        return len(gone)

    # ------------------------------------------------------------------------------------------------ inside

    def _read(self) -> None:
        found = self._storage.load() if self._storage is not None else None
        if found is None:
            return
        if not isinstance(found, dict):
            raise ValueError("the approval storage holds something else; give the broker a namespace of its own")
        for key, data in found.items():
            record = _readable(key, data)
            if record.status == "pending":
                record = replace(record, status="uncertain")
            self._enter(record, record.to_dict())
            self._resolved[key] = None
        self._trim()
        self._write()

    def _enter(self, record: ApprovalRecord, stored: dict[str, Any]) -> Entry:
        self._number += 1
        entry = Entry(self._number, record, stored)
        self._restore(entry)
        return entry

    def _restore(self, entry: Entry) -> None:
        request = entry.record.request
        self._entries[request.request_id] = entry
        self._runs.setdefault(request.run_id, {})[request.request_id] = entry

    def _drop(self, entry: Entry) -> None:
        request = entry.record.request
        del self._entries[request.request_id]
        self._open.pop(request.request_id, None)
        self._resolved.pop(request.request_id, None)
        of_run = self._runs[request.run_id]
        del of_run[request.request_id]
        if not of_run:
            del self._runs[request.run_id]

    def _trim(self) -> None:
        while self._keep is not None and len(self._resolved) > self._keep:
            self._drop(self._entries[next(iter(self._resolved))])

    def _write(self) -> None:
        if self._storage is not None:
            self._storage.save({key: entry.stored for key, entry in self._entries.items()})


def _readable(key: str, data: Any) -> ApprovalRecord:
    try:
        record = ApprovalRecord.from_dict(data)
    except (TypeError, ValueError) as error:
        raise ValueError(f"the approval storage holds no readable record under '{key}': {error}") from error
    if record.request.request_id != key:
        raise ValueError(f"the approval storage holds another request under '{key}'")
    return record
