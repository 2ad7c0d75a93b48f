"""ApprovalBroker: live runs wait here for a person, whom an application's adapter connects.

One broker serves one event loop and is the only writer of its storage namespace. A request waits in memory: nothing
that is stored can release an action, neither a reopened storage nor the same request a second time. Of several who
decide, the first one wins; its decision is stored before the run goes on.
"""

from __future__ import annotations

import asyncio
import logging
import math
import weakref
from dataclasses import replace
from typing import Any

from ..drive.clock import SystemClock
from ..drive.ports import Clock
from ..runtime import ApprovalDecision, ApprovalRequest, RunContext
from ..storage import Storage
from .ledger import ApprovalLedger, Entry
from .record import ApprovalRecord, ApprovalResolution, ApprovalScope, ApprovalStatus, ResolutionStatus
from .subscription import ApprovalSubscription

EXPIRED = "Approval expired"
ASKED_BEFORE = "This approval was asked for before; asking again does not release anything"

_log = logging.getLogger("protolink.approvals")


class ApprovalBroker:
    """Give it to live agents as ``approval_handler``. ``timeout_seconds``: how long a request waits; None without end.

    ``storage`` keeps the records for inspection after a restart; a request that was pending then is ``uncertain``.
    ``keep_resolved``: how many settled records are kept, in memory and storage; a forgotten one is unknown. ``clock``
    is for tests.

    ValueError for a timeout that is not finite and above 0, or a storage that holds something else.
    """

    def __init__(
        self,
        *,
        storage: Storage | None = None,
        timeout_seconds: float | None = None,
        keep_resolved: int | None = 100,
        clock: Clock | None = None,
    ) -> None:
        self.timeout_seconds = _checked_timeout(timeout_seconds)
        self._clock: Clock = clock or SystemClock()
        self._ledger = ApprovalLedger(storage, _checked_count("keep_resolved", keep_resolved))
        self._waits: set[asyncio.Future[Any]] = set()
        self._readers: weakref.WeakSet[ApprovalSubscription] = weakref.WeakSet()

    async def __call__(self, request: ApprovalRequest, context: RunContext) -> ApprovalDecision:
        """Wait for a decision on the request. Canceling the wait marks the request canceled.

        A request that was here before is denied. RuntimeError while requests wait in another event loop.
        """
        if self._ledger.get(request.request_id) is not None:
            return ApprovalDecision(False, request.request_id, ASKED_BEFORE)
        entry = self._open(request)
        assert entry.answer is not None
        try:
            decision: ApprovalDecision = await entry.answer
            return decision
        except asyncio.CancelledError:
            self._give_up(entry, "canceled")
            raise

    # ------------------------------------------------------------------------------------------------ adapters

    def pending(self, scope: ApprovalScope) -> tuple[ApprovalRecord, ...]:
        """What waits for a decision in these runs, the oldest first."""
        found = self._shown(self._ledger.unresolved(_checked_scope(scope)))
        return tuple(record for record in found if record.status == "pending")  # one may just have expired

    def records(self, scope: ApprovalScope) -> tuple[ApprovalRecord, ...]:
        """All records of these runs, the oldest first. Changing one changes nothing here."""
        return self._shown(self._ledger.within(_checked_scope(scope)))

    def events(self, scope: ApprovalScope) -> ApprovalSubscription:
        """What is pending in these runs now, then each later change: new requests and how they are settled."""
        reader = ApprovalSubscription(scope, self.pending(scope))
        self._readers.add(reader)
        return reader

    def resolve(self, decision: ApprovalDecision, *, scope: ApprovalScope, fingerprint: str) -> ApprovalResolution:
        """Decide one request; ``fingerprint`` is that of the action that was displayed. See ApprovalResolution.

        TypeError for arguments of the wrong type, RuntimeError outside the event loop of the run. What the storage
        raises leaves the request pending.
        """
        if not isinstance(decision, ApprovalDecision) or not isinstance(decision.approved, bool):
            raise TypeError("resolve() takes an ApprovalDecision whose 'approved' is True or False")
        entry = self._ledger.get(decision.request_id)
        if entry is None or entry.record.request.run_id not in _checked_scope(scope).run_ids:
            return ApprovalResolution(decision.request_id, "unknown")
        return ApprovalResolution(decision.request_id, self._resolve(entry, decision, fingerprint))

    def prune(self, *, keep: int = 0) -> int:
        """Forget settled records but the newest ``keep``; returns how many. What is pending stays."""
        return self._ledger.prune(_checked_count("keep", keep) or 0)

    # ------------------------------------------------------------------------------------------------ inside

    def _shown(self, entries: list[Entry]) -> tuple[ApprovalRecord, ...]:
        for entry in entries:
            self._expire_if_due(entry)
        return tuple(_snapshot(entry) for entry in entries)

    def _open(self, request: ApprovalRequest) -> Entry:
        loop = asyncio.get_running_loop()
        if any(answer.get_loop() is not loop for answer in self._waits):
            raise RuntimeError("requests wait in another event loop; give each loop an ApprovalBroker of its own")
        expires = None if self.timeout_seconds is None else self._clock.now() + self.timeout_seconds
        shown = ApprovalRecord(request, request.action.fingerprint, "pending", expires)
        entry = self._ledger.add(request, ApprovalRecord.from_dict(shown.to_dict()))
        entry.answer = loop.create_future()
        self._waits.add(entry.answer)
        if expires is not None:
            entry.forget_timer = self._clock.call_at(expires, lambda: self._give_up(entry, "expired"))
        self._tell(entry)
        return entry

    def _resolve(self, entry: Entry, decision: ApprovalDecision, fingerprint: str) -> ResolutionStatus:
        self._expire_if_due(entry)
        if fingerprint != entry.record.fingerprint:
            return "stale"
        if entry.record.status == "expired":
            return "expired"
        if entry.record.status != "pending":
            return "duplicate" if _same(entry.record.decision, decision) else "already_resolved"
        if entry.live is None or entry.live.action.fingerprint != fingerprint:
            return "stale"  # what would run is no longer what was displayed
        if _waits(entry) is None:
            return "already_resolved"  # its run was canceled a moment ago and has not noticed yet
        return self._decide(entry, decision)

    def _decide(self, entry: Entry, decision: ApprovalDecision) -> ResolutionStatus:
        answer = _waits(entry)
        assert answer is not None
        if answer.get_loop() is not asyncio._get_running_loop():
            raise RuntimeError("resolve() must be called in the event loop of the run: use loop.call_soon_threadsafe")
        status: ApprovalStatus = "approved" if decision.approved else "denied"
        self._ledger.change(entry, replace(entry.record, status=status, decision=decision), undo=True)
        answer.set_result(decision)
        self._settled(entry)
        return "approved" if decision.approved else "denied"

    def _expire_if_due(self, entry: Entry) -> None:
        """The loop's timer may be late; the deadline counts all the same. In other threads the timer alone settles."""
        if entry.answer is not None and entry.answer.get_loop() is not asyncio._get_running_loop():
            return
        expires = entry.record.expires_at
        if expires is not None and self._clock.now() >= expires and entry.record.status == "pending":
            self._give_up(entry, "expired")

    def _give_up(self, entry: Entry, status: ApprovalStatus) -> None:
        """Settle without a person. Nobody can be told of a storage that fails here, and the refusal stands."""
        if entry.record.status != "pending" or (status == "expired" and _waits(entry) is None):
            return  # settled, or canceled a moment ago
        decision = None
        if status == "expired":
            decision = ApprovalDecision(False, entry.record.request.request_id, EXPIRED)
        try:
            self._ledger.change(entry, replace(entry.record, status=status, decision=decision), undo=False)
        except Exception as error:  # the storage's; the next change writes this one too
            key = entry.record.request.request_id
            _log.warning("Approval '%s' is %s and was not stored: %s", key, status, type(error).__name__)
        answer = _waits(entry)
        if answer is not None and decision is not None:
            answer.set_result(decision)
        self._settled(entry)

    def _settled(self, entry: Entry) -> None:
        if entry.forget_timer is not None:
            entry.forget_timer()
        if entry.answer is not None:
            self._waits.discard(entry.answer)
        entry.live = entry.answer = entry.forget_timer = None
        self._tell(entry)

    def _tell(self, entry: Entry) -> None:
        for reader in list(self._readers):
            reader.tell(_snapshot(entry))


def _waits(entry: Entry) -> asyncio.Future[Any] | None:
    """The wait that a decision would end; None when nobody waits any more."""
    return entry.answer if entry.answer is not None and not entry.answer.done() else None


def _snapshot(entry: Entry) -> ApprovalRecord:
    return ApprovalRecord.from_dict(entry.stored)


def _same(made: ApprovalDecision | None, again: ApprovalDecision) -> bool:
    """The same decision by the same person. A second click has another time."""
    return made is not None and replace(made, decided_at="") == replace(again, decided_at="")


def _checked_scope(scope: ApprovalScope) -> ApprovalScope:
    if not isinstance(scope, ApprovalScope):
        raise TypeError(f"the scope must be an ApprovalScope, not {type(scope).__name__}")
    return scope


def _checked_timeout(seconds: float | None) -> float | None:
    if seconds is None:
        return None
    number = isinstance(seconds, (int, float)) and not isinstance(seconds, bool)
    if not number or not math.isfinite(seconds) or seconds <= 0:
        raise ValueError("timeout_seconds must be a finite number above 0, or None to wait without end")
    return float(seconds)


def _checked_count(name: str, value: int | None) -> int | None:
    if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value < 0):
        raise ValueError(f"{name} must be a whole number, 0 or more")
    return value
