"""One figure: what was measured, its floor, and what was promised."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal


@dataclass(frozen=True)
class Row:
    """``measured`` and ``floor`` are in ``unit``; ``floor`` None: an absolute figure.

    ``target`` and ``stretch`` bound the ratio measured / floor, or the measured number itself where there is no floor.
    ``at_least``: higher is better, and the ratio is a speed-up. ``measured`` None: cannot be measured here.
    """

    what: str
    measured: float | None
    unit: str
    target: float
    stretch: float | None = None
    floor: float | None = None
    at_least: bool = False

    @property
    def ratio(self) -> float | None:
        if self.measured is None or self.floor is None:
            return None
        return self.measured / self.floor

    @property
    def met(self) -> Literal["stretch", "yes", "no", "?"]:
        value = self.measured if self.floor is None else self.ratio
        if value is None:
            return "?"
        if self.stretch is not None and self._within(value, self.stretch):
            return "stretch"
        return "yes" if self._within(value, self.target) else "no"

    def _within(self, value: float, bound: float) -> bool:
        return value >= bound if self.at_least else value <= bound

    def cells(self) -> list[str]:
        """What the table shows."""
        sign, times = (">=" if self.at_least else "<="), ("" if self.floor is None else " x")
        return [
            self.what,
            _number(self.measured, self.unit),
            _number(self.floor, self.unit),
            "" if self.ratio is None else f"{self.ratio:.2f}",
            f"{sign} {self.target:g}{times}",
            "" if self.stretch is None else f"{self.stretch:g}{times}",
            self.met,
        ]

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "ratio": self.ratio, "met": self.met}


def _number(value: float | None, unit: str) -> str:
    if value is None:
        return ""
    return (f"{value:.0f} {unit}" if value >= 100 else f"{value:.3g} {unit}").rstrip()
