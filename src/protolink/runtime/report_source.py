"""Reading a report out of everything that functions over reports accept."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from .report import RunReport

_OWN = ("context", "events", "context_manifests", "actions", "approvals", "metrics", "final_task")
#: Members that a task, an event or a stored record has as well: they alone do not tell that it is a report.
_SHARED = frozenset({"artifacts", "metadata", "created_at"})


def report_of(source: Any) -> RunReport:
    """The report itself, that of a RunReplay (or anything else with a ``report``), or one made of the source.

    A mapping is a serialized report, never an event. Other iterables give events. TypeError for text, bytes and
    everything else; ValueError for a malformed mapping or event.
    """
    if isinstance(source, RunReport):
        return source
    inner = getattr(source, "report", None)
    if isinstance(inner, RunReport):
        return inner
    if isinstance(source, Mapping):
        return serialized_report(source)
    if isinstance(source, Iterable) and not isinstance(source, (str, bytes, bytearray)):
        return RunReport.from_events(source)
    raise TypeError(
        f"give a RunReport, a RunReplay, a serialized report or an iterable of events, not {type(source).__name__}"
    )


def serialized_report(data: Mapping[str, Any]) -> RunReport:
    """``RunReport.from_dict``, with a ValueError for another record, which would pass for an empty report there."""
    if data.keys() <= _SHARED or data.keys() & set(_OWN):
        return RunReport.from_dict(data)
    raise ValueError(f"a serialized report has one of {', '.join(_OWN)}; a single event goes into a list")
