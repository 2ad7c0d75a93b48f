"""How many runs a group has at once, and how many wait."""

from __future__ import annotations

import math

from ..models.value import dataclass


@dataclass(frozen=True, slots=True)
class GroupLimits:
    """None is no bound. ``max_queued_runs`` 0: none waits. ``queue_timeout``: seconds that a run waits at most.

    Root runs count, until they end or pause; their children need no place of their own. A run lends its place to one
    at a time of the runs that its own code submits to the group, when no other is free. ValueError for anything but
    whole numbers above 0 (0 only for the queue) and a finite time above 0.
    """

    max_concurrent_runs: int | None = None
    max_queued_runs: int | None = None
    queue_timeout: float | None = None

    def __post_init__(self) -> None:
        for name, least in (("max_concurrent_runs", 1), ("max_queued_runs", 0)):
            value = getattr(self, name)
            if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < least):
                raise ValueError(f"GroupLimits.{name} must be a whole number of at least {least}, or None")
        seconds = self.queue_timeout
        if seconds is None:
            return
        number = isinstance(seconds, (int, float)) and not isinstance(seconds, bool)
        if not number or not math.isfinite(seconds) or seconds <= 0:
            raise ValueError("GroupLimits.queue_timeout must be a finite number of seconds above 0, or None")
