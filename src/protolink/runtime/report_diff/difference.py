"""What a comparison found."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import field
from enum import Enum
from typing import TYPE_CHECKING, Any, Literal

from protolink.models import DEFAULT_REDACTION_POLICY

from ...models.value import dataclass
from .config import ALL_RUN_REPORT_SECTIONS, RunReportSection
from .format import render
from .masking import DifferenceMask, Way

if TYPE_CHECKING:
    from protolink.models import RedactionPolicy

RunReportDifferenceKind = Literal["added", "removed", "changed"]


class Missing(Enum):
    """The side of a difference that has no value. It is itself in every copy, and no None."""

    MISSING = "missing"

    def __repr__(self) -> str:
        return "<missing>"


MISSING = Missing.MISSING


@dataclass(frozen=True, slots=True)
class RunReportDifference:
    """One place that differs. ``path`` is a JSON Pointer into the projection.

    In a sequence whose records moved, it has the index on the candidate's side, for removed records the baseline's.
    """

    section: RunReportSection
    path: str
    kind: RunReportDifferenceKind
    baseline: Any = MISSING
    candidate: Any = MISSING
    #: How both values are reached, for redaction: what stands beside a value may tell that it is a secret.
    ways: tuple[Way, Way] | None = field(default=None, repr=False, compare=False, kw_only=True)

    def to_dict(self) -> dict[str, Any]:
        """What differs, not redacted. A side without a value is left out; one that is None is there."""
        found: dict[str, Any] = {"section": self.section, "path": self.path, "kind": self.kind}
        sides = {"baseline": self.baseline, "candidate": self.candidate}
        return found | {name: value for name, value in sides.items() if value is not MISSING}


@dataclass(frozen=True, slots=True)
class RunReportDiff:
    """The whole outcome of a comparison. ``ignored_paths`` are the patterns that were applied."""

    differences: tuple[RunReportDifference, ...] = ()
    compared_sections: tuple[RunReportSection, ...] = ALL_RUN_REPORT_SECTIONS
    ignored_paths: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        for name in ("differences", "compared_sections", "ignored_paths"):
            given: Iterable[Any] = getattr(self, name)
            object.__setattr__(self, name, tuple(given))

    @property
    def matches(self) -> bool:
        """True when nothing differs."""
        return not self.differences

    @property
    def changed_sections(self) -> tuple[RunReportSection, ...]:
        """Sections with differences, in the order of their comparison."""
        changed = {difference.section for difference in self.differences}
        return tuple(section for section in self.compared_sections if section in changed)

    def to_dict(self, *, redaction_policy: RedactionPolicy | None = None) -> dict[str, Any]:
        """Summary and differences; values are masked only when a redaction policy is given."""
        masked = DifferenceMask(redaction_policy)
        return {
            "matches": self.matches,
            "difference_count": len(self.differences),
            "changed_sections": list(self.changed_sections),
            "compared_sections": list(self.compared_sections),
            "ignored_paths": list(self.ignored_paths),
            "differences": [masked(difference.to_dict(), difference.ways) for difference in self.differences],
        }

    def format(
        self, *, max_differences: int = 20, redaction_policy: RedactionPolicy | None = DEFAULT_REDACTION_POLICY
    ) -> str:
        """A text to read, the same for the same outcome. ``redaction_policy=None`` shows all values as they are.

        ValueError for a negative ``max_differences``.
        """
        if max_differences < 0:
            raise ValueError("max_differences must not be negative")
        masked = DifferenceMask(redaction_policy)
        shown = [masked(found.to_dict(), found.ways) for found in self.differences[:max_differences]]
        return render(shown, len(self.differences), self.changed_sections, self.compared_sections)
