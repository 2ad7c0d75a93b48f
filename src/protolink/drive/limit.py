"""A deadline on one awaited piece of work, on the run's own clock."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import TracebackType

from .clock import SystemClock
from .ports import Clock


class Limit:
    """``with Limit(clock, when) as limit``: TimeoutError at ``when``; ``limit.expired`` tells. None: no limit."""

    def __init__(self, clock: Clock, when: float | None) -> None:
        self.expired = False
        self._clock = clock
        self._when = when
        self._task: asyncio.Task[object] | None = None
        self._forget: Callable[[], None] | None = None

    def __enter__(self) -> Limit:
        if self._when is not None:
            self._task = asyncio.current_task()
            self._forget = self._clock.call_at(self._when, self._fire)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._forget is not None:
            self._forget()
        if self.expired and kind is asyncio.CancelledError and self._task is not None and self._task.uncancel() <= 0:
            raise TimeoutError from error

    def _fire(self) -> None:
        assert self._task is not None
        self.expired = True
        self._task.cancel()


def limited(clock: Clock, when: float | None) -> Limit:
    """The limit for a piece of work. Without a deadline nothing happens to it, so all such work shares one."""
    return _UNLIMITED if when is None else Limit(clock, when)


_UNLIMITED = Limit(SystemClock(), None)
