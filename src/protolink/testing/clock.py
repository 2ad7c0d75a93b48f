"""A clock that stands still until a test moves it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

#: An arbitrary moment, far from the real one, so that a mixed-up clock shows.
START = 1_800_000_000.0


class FakeClock:
    """Pass it as ``Agent(clock=...)``. Time is in Unix seconds and moves only by ``advance`` and ``sleep_until``.

    A sleeper does not wait: the clock jumps to its time. What was to be called back is called when its time has come.
    """

    def __init__(self, start: float = START) -> None:
        self._now = start
        self._timers: dict[int, tuple[float, Callable[[], None]]] = {}
        self._number = 0

    def now(self) -> float:
        return self._now

    async def sleep_until(self, when: float) -> None:
        """Jump to ``when``, then let other tasks run once."""
        self._move(when)
        await asyncio.sleep(0)

    def call_at(self, when: float, callback: Callable[[], None]) -> Callable[[], None]:
        """Call back when the clock reaches ``when``. The returned function takes that back."""
        self._number += 1
        number = self._number
        self._timers[number] = (when, callback)
        return lambda: self._forget(number)

    def advance(self, seconds: float) -> None:
        """Move on, calling back what is due, the earliest first. ValueError for a step back."""
        if seconds < 0:
            raise ValueError("time does not go back; advance() takes 0 or more seconds")
        self._move(self._now + seconds)

    def _move(self, when: float) -> None:
        self._now = max(self._now, when)
        due = sorted((time, number) for number, (time, _) in self._timers.items() if time <= self._now)
        for _, number in due:
            timer = self._timers.pop(number, None)
            if timer is not None:
                timer[1]()

    def _forget(self, number: int) -> None:
        self._timers.pop(number, None)
