"""What is compared, and how strictly."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from fractions import Fraction
from typing import Any, Literal, TypeAlias, get_args

from ...models.value import dataclass
from ..events import RunEvent
from ..replay import RunReplay
from ..report import RunReport
from .pointer import Segments, parse

RunReportSection = Literal[
    "context",
    "context_manifests",
    "events",
    "actions",
    "approvals",
    "artifacts",
    "metrics",
    "final_task",
    "metadata",
]
RunReportSource: TypeAlias = RunReport | RunReplay | Mapping[str, Any] | Iterable[RunEvent | dict[str, Any]]

ALL_RUN_REPORT_SECTIONS: tuple[RunReportSection, ...] = get_args(RunReportSection)


@dataclass(frozen=True, slots=True)
class RunReportTolerance:
    """Two numbers at ``path`` may differ by ``absolute_tolerance``, or by ``relative_tolerance`` of the larger one.

    ``path`` is a JSON Pointer in which ``*`` stands for one key or index. ValueError or TypeError for the root, a
    malformed pointer, and tolerances that are negative, not finite or no numbers.
    """

    path: str
    absolute_tolerance: float = 0.0
    relative_tolerance: float = 0.0

    def __post_init__(self) -> None:
        parse(self.path, "RunReportTolerance path")
        for name in ("absolute_tolerance", "relative_tolerance"):
            object.__setattr__(self, name, _tolerance(getattr(self, name), f"RunReportTolerance {name}"))

    @property
    def segments(self) -> Segments:
        """The decoded path."""
        return parse(self.path, "RunReportTolerance path")

    def allows(self, baseline: int | float, candidate: int | float) -> bool:
        """Whether the numbers are close enough. Exact at any size: a number is what its decimal text says."""
        left, right = _exact(baseline), _exact(candidate)
        distance, scale = abs(left - right), max(abs(left), abs(right))
        return distance <= _exact(self.absolute_tolerance) or distance <= _exact(self.relative_tolerance) * scale


@dataclass(frozen=True, slots=True)
class RunReportDiffConfig:
    """Rules of a comparison. Iterables become tuples.

    ``sections``: what is compared, in this order. ``normalize_volatile`` False compares ids, times and the like
    exactly. ``ignore_paths``: pointers whose places are left out with all they hold. ``tolerances``: the first that
    names a place decides there, and numbers at such places are not normalized.

    ValueError for unknown or repeated sections and malformed paths, TypeError for members of the wrong type.
    """

    sections: tuple[RunReportSection, ...] = ALL_RUN_REPORT_SECTIONS
    normalize_volatile: bool = True
    ignore_paths: tuple[str, ...] = ()
    tolerances: tuple[RunReportTolerance, ...] = ()

    def __post_init__(self) -> None:
        for name in ("sections", "ignore_paths", "tolerances"):
            given = getattr(self, name)
            if isinstance(given, (str, bytes)) or not isinstance(given, Iterable):
                raise TypeError(f"RunReportDiffConfig {name} must be several, not one {type(given).__name__}")
            object.__setattr__(self, name, tuple(given))
        _check_sections(self.sections)
        for path in self.ignore_paths:
            parse(path, "RunReportDiffConfig ignore path")
        for item in self.tolerances:
            if not isinstance(item, RunReportTolerance):
                raise TypeError(f"RunReportDiffConfig tolerances must be RunReportTolerance, not {type(item).__name__}")

    @property
    def ignored(self) -> tuple[Segments, ...]:
        """The decoded paths to ignore."""
        return tuple(parse(path, "RunReportDiffConfig ignore path") for path in self.ignore_paths)


def _check_sections(sections: tuple[Any, ...]) -> None:
    unknown = [section for section in sections if section not in ALL_RUN_REPORT_SECTIONS]
    if unknown:
        known = ", ".join(ALL_RUN_REPORT_SECTIONS)
        raise ValueError(f"RunReportDiffConfig does not know the section {unknown[0]!r}; there are {known}")
    if len(set(sections)) != len(sections):
        repeated = next(section for section in sections if sections.count(section) > 1)
        raise ValueError(f"RunReportDiffConfig names the section {repeated!r} twice")


def _tolerance(value: Any, what: str) -> float:
    if isinstance(value, bool):
        raise TypeError(f"{what} must be a number, not bool")
    try:
        found = float(value)
    except OverflowError:
        raise ValueError(f"{what} is too large") from None
    except ValueError:
        raise ValueError(f"{what} must be a number") from None
    except TypeError:
        raise TypeError(f"{what} must be a number, not {type(value).__name__}") from None
    if not math.isfinite(found) or found < 0:
        raise ValueError(f"{what} must be finite and not negative")
    return found


def _exact(value: int | float) -> Fraction:
    """The number as written in decimals: 0.1 is one tenth, and a large integer keeps every digit."""
    return Fraction(value) if isinstance(value, int) else Fraction(repr(value))
