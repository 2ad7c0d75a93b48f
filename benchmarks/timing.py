"""Reading clocks so that noise cancels: what is compared is measured in turns, and the median counts."""

from __future__ import annotations

import gc
from collections.abc import Callable
from statistics import median


def alternated(*measures: Callable[[], float], times: int) -> list[float]:
    """The median of each measure. All are taken once in each round, so a slow moment of the machine meets them all."""
    found: list[list[float]] = [[] for _ in measures]
    for _ in range(times):
        for measure, values in zip(measures, found, strict=True):
            gc.collect()
            values.append(measure())
    return [median(values) for values in found]


class Marks:
    """Clock readings at the beginning of each model turn of a run."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._at: list[float] = []

    def __call__(self) -> None:
        self._at.append(self._clock())

    def per_turn(self, first: int, last: int) -> float:
        """Seconds of one turn, on average over the turns ``first`` to ``last``."""
        return (self._at[last] - self._at[first]) / (last - first)

    def around(self, turn: int, width: int = 50) -> float:
        """Seconds of one turn, on average over ``width`` turns around this one. Growth shows here undiluted."""
        return self.per_turn(turn - width // 2, turn + width // 2)
