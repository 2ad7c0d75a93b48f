"""Who may run now: the first to come is the first to begin.

A place is taken when a run is submitted, not when its coroutine happens to be scheduled, so the order of submission is
the order of admission. A run that is submitted by the code of another one may be waited for there, and both would wait
for ever if it needed the very place that its parent holds. So a place that is held lends itself to one such run at a
time when no other place is free.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from ..drive.ports import Clock
from .limits import GroupLimits

Refusal = tuple[str, str]

#: The place of the run whose code is at work here.
_HELD: ContextVar[Place | None] = ContextVar("protolink_group_place", default=None)


class Place:
    """One run's place; implements ``agents.handle.Admission``."""

    def __init__(self, queue: AdmissionQueue, ended: Callable[[], None], parent: Place | None) -> None:
        self.parent = parent
        self._queue = queue
        self._ended = ended
        self._left = False
        self.decided: asyncio.Future[Refusal | None] = asyncio.get_running_loop().create_future()
        self.forget_timer: Callable[[], None] | None = None

    @property
    def waits(self) -> bool:
        return not self.decided.done()

    async def admitted(self) -> Refusal | None:
        """Awaited by the run's own coroutine, whose tools and children are code of this place from then on."""
        refused = await self.decided
        if refused is None:
            _HELD.set(self)
        return refused

    @contextmanager
    def held(self) -> Iterator[None]:
        """What begins inside is code of this place."""
        token = _HELD.set(self)
        try:
            yield
        finally:
            _HELD.reset(token)

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
        self._lent: dict[Place, Place] = {}  # to whom, by whom
        self._waiting: dict[Place, None] = {}

    @property
    def active(self) -> int:
        return len(self._active)

    @property
    def queued(self) -> int:
        return len(self._waiting)

    def take(self, ended: Callable[[], None]) -> Place:
        """A place for a new run; ``ended`` is called when that run has left it."""
        place = Place(self, ended, self._holder())
        most = self._limits.max_queued_runs
        if self._free() and not self._waiting:
            self._admit(place)
        elif place.parent is not None and place.parent not in self._lent.values():
            self._lend(place, place.parent)
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
        self._return(place)
        while self._waiting and self._free():
            following = next(iter(self._waiting))
            del self._waiting[following]
            self._admit(following)

    def _holder(self) -> Place | None:
        """The place of the run whose code is at work here, while it holds it."""
        found = _HELD.get()
        return found if found in self._active or found in self._lent else None

    def _return(self, place: Place) -> None:
        """To whom it is lent, it belongs from now on; by whom it was lent, that one lends it to the next that waits."""
        for heir in [other for other, lender in self._lent.items() if lender is place]:
            del self._lent[heir]
            self._active.add(heir)
        lender = self._lent.pop(place, None)
        following = next((other for other in self._waiting if other.parent is lender), None)
        if lender is not None and following is not None:
            del self._waiting[following]
            self._lend(following, lender)

    def _lend(self, place: Place, lender: Place) -> None:
        self._lent[place] = lender
        place.decide(None)

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
