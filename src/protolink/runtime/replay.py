"""RunReplay: reading a recorded run again. Nothing is executed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from .assertions import assert_run_events
from .events import RunEvent
from .report import RunReport
from .report_source import report_of


class RunReplay:
    """A view of a report, given as object, as serialized mapping, or as events. A mapping is never a single event.

    TypeError for anything else, ValueError for a malformed report or event.
    """

    def __init__(self, report: RunReport | Mapping[str, Any] | Iterable[RunEvent | Mapping[str, Any]]) -> None:
        self._report = RunReport.from_dict(report) if isinstance(report, Mapping) else report_of(report)

    @property
    def report(self) -> RunReport:
        """The whole report."""
        return self._report

    @property
    def events(self) -> tuple[RunEvent, ...]:
        """Events in the order of their recording."""
        return self._report.events

    @property
    def event_types(self) -> tuple[str, ...]:
        """The type of every event, in the order of their recording."""
        return tuple(event.type for event in self._report.events)

    def iter_events(self, event_type: str | None = None) -> Iterator[RunEvent]:
        """All events, or those of one type, one at a time."""
        return (event for event in self._report.events if event_type is None or event.type == event_type)

    def find_events(self, event_type: str) -> tuple[RunEvent, ...]:
        """Every event of one type."""
        return tuple(self.iter_events(event_type))

    def assert_events(self, expected_types: Sequence[str], *, ordered: bool = True, allow_extra: bool = True) -> None:
        """``assert_run_events`` over this run."""
        assert_run_events(self._report, expected_types, ordered=ordered, allow_extra=allow_extra)
