"""What a store of durable runs has to offer, and what the driver gets from any of them."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import Any, Protocol, runtime_checkable

from ..engine.facts import Record
from ..models.value import dataclass

MAX_ID_LENGTH = 512


@dataclass(frozen=True, slots=True)
class RunCheckpoint:
    """A stored run as applications read it, detached from the store.

    ``data`` has the view (``version``, ``configuration``, ``task``, ``actions``, ``interruption``, ``responses``,
    ``usage``, ...) and ``facts``, the encoded facts that it is folded from.
    """

    run_id: str
    agent_name: str
    status: str
    data: dict[str, Any]


@runtime_checkable
class DurableStore(Protocol):
    """Where runs are kept, one owner a run. All methods block; they may be called from any thread.

    A store may offer more, and the more it offers the less is written:

    - ``append(run_id, token, status, facts)``: like ``save``, with only the facts that are new (JSON values).
    - ``renew(run_id, token)``: extend the lease and nothing else.
    - ``list(*, status=None, agent_name=None, limit=20)``: checkpoints, the newest run first, without a lease.
    - ``owned_until(run_id)``: when the lease ends (Unix seconds) of an owner who may be alive, or None.
    - ``delete(run_id)`` and ``prune(*, before)``: forget finished runs.
    """

    def get(self, run_id: str) -> RunCheckpoint | None:
        """Read a run without owning it."""

    def acquire(self, run_id: str, agent_name: str, initial: dict[str, Any]) -> tuple[str, RunCheckpoint]:
        """Become the owner, atomically. Returns a new token and what is stored.

        A new run starts with ``initial`` and status ``ready``. RunBusyError while another owner is alive,
        CheckpointMismatchError when the run belongs to another agent.
        """

    def save(self, run_id: str, token: str, status: str, data: dict[str, Any]) -> None:
        """Replace status and data, and renew the lease. RunBusyError when the token is no longer the owner's.

        TypeError when the data is no JSON.
        """

    def release(self, run_id: str, token: str) -> None:
        """Give up ownership. Nothing happens when it is gone already."""


class OpenJournal(Protocol):
    """One run, owned, with what is stored of it. The driver's ``Journal``, and what it needs around it.

    ``records`` are the facts stored when it was opened. ``epoch`` grows with every owner.
    """

    durable: bool
    run_id: str
    epoch: int
    token: str
    records: list[Record]

    def append(self, records: Sequence[Record], status: str) -> Awaitable[None] | None:
        """Store the records, all or none, and renew the lease. RunBusyError when ownership was lost,
        StoreUnavailableError when nothing could be stored now: the same batch may then be tried again."""

    def append_now(self, records: Sequence[Record], status: str) -> None:
        """``append``, blocking."""

    def renew(self) -> None:
        """Extend the lease; blocking. RunBusyError when ownership was lost."""

    async def release(self) -> None:
        """Give up ownership. Never raises for ownership that is gone already."""

    def release_now(self) -> None:
        """``release``, blocking."""


def checked_name(label: str, value: Any) -> str:
    """``value`` when it can name a run or an agent: nonblank text of at most 512 characters. Else ValueError."""
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"{label} must be nonblank text")
    if len(value) > MAX_ID_LENGTH:
        raise ValueError(f"{label} has {len(value)} characters; at most {MAX_ID_LENGTH} can be stored")
    if any(0xD800 <= ord(letter) <= 0xDFFF for letter in value):
        raise ValueError(f"{label} is not valid Unicode text")
    return value


def checked_lease(seconds: float) -> float:
    """A lease in seconds: finite and positive, else ValueError."""
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not 0 < seconds < float("inf"):
        raise ValueError("lease_seconds must be a finite number above 0")
    return float(seconds)


def checked_filter(label: str, value: Any) -> None:
    """What a list is narrowed by: text, or None for no narrowing. Else TypeError."""
    if value is not None and not isinstance(value, str):
        raise TypeError(f"{label} must be text or None, not {type(value).__name__}")


def checked_limit(limit: int) -> int:
    """How many runs to list: 1 to 1000, else ValueError."""
    if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= 1000:
        raise ValueError("limit must be a whole number from 1 to 1000")
    return limit
