"""Who may run now: the first to come is the first to begin.

A place is taken when a run is submitted, not when its coroutine happens to be scheduled, so the order of submission is
the order of admission.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from ..drive.ports import Clock
from .limits import GroupLimits

Refusal = tuple[str, str]


class Place:
    """One run's place; implements ``agents.handle.Admission``."""

    def __init__(self, queue: AdmissionQueue, ended: Callable[[], None]) -> None:
        self._queue = queue
        self._ended = ended
        self._left = False
        self.decided: asyncio.Future[Refusal | None] = asyncio.get_running_loop().create_future()
        self.forget_timer: Callable[[], None] | None = None

    @property
    def waits(self) -> bool:
        return not self.decided.done()

    async def admitted(self) -> Refusal | None:
        return await self.decided

    def leave(self) -> None:
        if not self._left:
            self._left = True
            self._queue.leave(self)
            self._ended()

    def decide(self, refusal: Refusal | None) -> None:
        if self.forget_timer is not None:
            self.forget_timer()
        if not self.decided.done():
            self.decided.set_result(refusal)


class AdmissionQueue:
    """The places of one group."""

    def __init__(self, limits: GroupLimits, clock: Clock) -> None:
        self._limits = limits
        self._clock = clock
        self._active: set[Place] = set()
        self._waiting: dict[Place, None] = {}

    @property
    def active(self) -> int:
        return len(self._active)

    @property
    def queued(self) -> int:
        return len(self._waiting)

    def take(self, ended: Callable[[], None]) -> Place:
        """A place for a new run; ``ended`` is called when that run has left it."""
        place = Place(self, ended)
        most = self._limits.max_queued_runs
        if self._free() and not self._waiting:
            self._admit(place)
        elif most is not None and len(self._waiting) >= most:
            text = f"{len(self._active)} runs are active and {len(self._waiting)} wait; no further run can wait"
            place.decide(("queue_full", text))
        else:
            self._wait(place)
        return place

    def leave(self, place: Place) -> None:
        """Free the place, whatever became of it, and admit who is next."""
        self._active.discard(place)
        self._waiting.pop(place, None)
        place.decide(None)
        while self._waiting and self._free():
            following = next(iter(self._waiting))
            del self._waiting[following]
            self._admit(following)

    def _free(self) -> bool:
        most = self._limits.max_concurrent_runs
        return most is None or len(self._active) < most

    def _admit(self, place: Place) -> None:
        self._active.add(place)
        place.decide(None)

    def _wait(self, place: Place) -> None:
        self._waiting[place] = None
        seconds = self._limits.queue_timeout
        if seconds is not None:
            place.forget_timer = self._clock.call_at(self._clock.now() + seconds, lambda: self._expire(place))

    def _expire(self, place: Place) -> None:
        if place in self._waiting:
            del self._waiting[place]
            place.decide(("queue_timeout", f"No place became free in {self._limits.queue_timeout} seconds"))
