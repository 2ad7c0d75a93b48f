"""From a source to its projection: the selected sections as new JSON, without what is ignored or differs anyway."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic_core import to_json

from protolink.models.json import encode, loads

from ..report import RunReport
from ..report_source import report_of
from .config import RunReportDiffConfig, RunReportSource
from .identity import Identities, Sequence
from .pointer import Place, Segments, places
from .shapes import RECORDS, SEQUENCES, walk

_MADE = ("event_id", "timestamp")


@dataclass(slots=True)
class Projection:
    """``spans``: for every record of a sequence-like section, which of the places of ``ids`` lie in it."""

    sections: dict[str, Any]
    ids: Identities = field(default_factory=Identities)
    spans: dict[str, list[tuple[int, int]]] = field(default_factory=dict)

    def names(self, section: str, position: int | None) -> list[str]:
        """The names of all ids in one record, in the order of its shape."""
        start, stop = self.spans[section][position or 0]
        return [container[key].name for container, key in self.ids.places[start:stop]]


def normalize_run_report(source: RunReportSource, *, config: RunReportDiffConfig | None = None) -> dict[str, Any]:
    """The projection of a report that comparisons work on, as new JSON. The source stays as it is.

    Ids become ``<kind:number>``, numbered by first appearance; times ``<time>``, timings 0, sequence numbers None.
    Paths to ignore mean the original report, those of tolerances what is left of it.
    TypeError for a source of another shape, or one that holds what is not JSON.
    """
    projection = project(source, config or RunReportDiffConfig())
    projection.ids.named()
    return dict(loads(to_json(projection.sections)))


def project(source: RunReportSource, config: RunReportDiffConfig) -> Projection:
    """The projection with its identities in place."""
    data = _detached(source, config)
    _drop(data, config.ignored)
    kept = [
        (container, key, container[key])
        for tolerance in config.tolerances
        for container, key in places(data, tolerance.segments)
        if type(container[key]) in (int, float)
    ]
    projection = Projection(data)
    for section in config.sections:
        _normalise(projection, section, volatile=config.normalize_volatile)
    for container, key, value in kept:
        container[key] = value
    return projection


def _normalise(projection: Projection, section: str, *, volatile: bool) -> None:
    found, ids = projection.sections.get(section), projection.ids
    if section in SEQUENCES and type(found) is list:
        read, spans = SEQUENCES[section], []
        for record in found:
            start = len(ids.places)
            if volatile:
                read(ids, record)
            spans.append((start, len(ids.places)))
        projection.spans[section] = spans
        projection.sections[section] = Sequence(found)
    elif section in RECORDS and volatile:
        walk(RECORDS[section], ids, found)


def _drop(data: dict[str, Any], ignored: Iterable[Segments]) -> None:
    """Remove every ignored place. All are found before the first one goes, so that indexes mean the original."""
    found: dict[tuple[int, Any], Place] = {}
    for pattern in ignored:
        found |= {(id(container), key): (container, key) for container, key in places(data, pattern)}
    last_first = sorted(found.values(), key=lambda place: place[1] if isinstance(place[0], list) else -1, reverse=True)
    for container, key in last_first:
        del container[key]


def _detached(source: RunReportSource, config: RunReportDiffConfig) -> dict[str, Any]:
    """The selected sections as new JSON. Members of serialized events that are not known here are compared too."""
    given: Any = source if _is_whole(source) else _listed(source)
    try:
        data = report_of(given).to_dict()
    except ValueError as error:
        raise TypeError(f"this is no run report: {error}") from error
    events = given.get("events") if isinstance(given, Mapping) else given
    if isinstance(events, (list, tuple)):
        raw = [event for event in events if not isinstance(given, Mapping) or isinstance(event, Mapping)]
        made = {} if config.normalize_volatile else dict.fromkeys(_MADE)
        for event, original in zip(data["events"], raw, strict=True):
            if isinstance(original, Mapping):
                event |= {key: value for key, value in original.items() if key not in event}
                event |= {key: None for key in made if not original.get(key)}
    return dict(loads(encode({section: data[section] for section in config.sections})))


def _is_whole(source: Any) -> bool:
    """True for what is no iterable of events, or not usable at all."""
    found = getattr(source, "report", source)
    return isinstance(found, (RunReport, Mapping, str, bytes, bytearray))


def _listed(source: Any) -> Any:
    """An iterable of events can be read only once."""
    return list(source) if isinstance(source, Iterable) else source
