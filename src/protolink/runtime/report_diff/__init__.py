"""Comparing recorded runs.

``config`` says how, ``normalise`` makes two reports comparable with what ``shapes`` knows of the records that ProtoLink
writes, ``align`` finds what belongs together, ``compare`` tells what differs, ``masking`` hides the secrets in it,
``format`` shows it.
"""

from __future__ import annotations

from .compare import assert_run_matches, diff_run_reports
from .config import (
    ALL_RUN_REPORT_SECTIONS,
    RunReportDiffConfig,
    RunReportSection,
    RunReportSource,
    RunReportTolerance,
)
from .difference import RunReportDiff, RunReportDifference, RunReportDifferenceKind
from .normalise import normalize_run_report

__all__ = [
    "ALL_RUN_REPORT_SECTIONS",
    "RunReportDiff",
    "RunReportDiffConfig",
    "RunReportDifference",
    "RunReportDifferenceKind",
    "RunReportSection",
    "RunReportSource",
    "RunReportTolerance",
    "assert_run_matches",
    "diff_run_reports",
    "normalize_run_report",
]
