"""When a run may be taken from its owner."""

from __future__ import annotations

from collections.abc import Callable

from ..models.value import dataclass
from . import owner as owners
from .owner import Owner


@dataclass(frozen=True, slots=True)
class Lease:
    """Ownership as it is stored. ``heartbeat`` grows with every write and renewal. Times are Unix seconds."""

    epoch: int
    heartbeat: int
    owner: Owner | None
    expires: float
    seconds: float


class LeaseWatch:
    """Judges leases of other owners, and remembers what it saw of them.

    A wall clock that was set back would keep a dead owner's lease for hours, so an expiry is not the only measure: a
    heartbeat that has not moved for one whole lease of *this* process's steady clock is over too. And an end further
    away than one lease cannot have been written under the present clock: such a lease counts as taken just now.
    """

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._seen: dict[str, tuple[int, int, float]] = {}

    def held_until(self, run_id: str, lease: Lease, now: float) -> float | None:
        """When the lease ends (Unix seconds) while its owner may be alive, or None when it may be taken over."""
        left = min(lease.expires - now, lease.seconds, lease.seconds - self._unchanged(run_id, lease))
        if left > 0 and not (lease.owner is not None and owners.dead(lease.owner)):
            return now + left
        self._seen.pop(run_id, None)
        return None

    def forget(self, run_id: str) -> None:
        """The run is free, or ours."""
        self._seen.pop(run_id, None)

    def _unchanged(self, run_id: str, lease: Lease) -> float:
        """For how many seconds this process has seen the same heartbeat."""
        epoch, heartbeat, since = self._seen.get(run_id, (0, 0, 0.0))
        now = self._monotonic()
        if (epoch, heartbeat) == (lease.epoch, lease.heartbeat):
            return now - since
        self._seen[run_id] = (lease.epoch, lease.heartbeat, now)
        return 0.0
