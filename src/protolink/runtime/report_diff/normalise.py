"""From a source to its projection: the selected sections as JSON, without what is ignored or differs anyway."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import Any, NamedTuple

from protolink.models.json import encode, is_plain, loads

from ...models.value import dataclass
from ..report import RunReport
from ..report_source import report_of
from .config import RunReportDiffConfig, RunReportSource
from .identity import Identities, Identity, Sequence, shown
from .masking import Way
from .pointer import Place, places
from .shapes import RECORDS, SEQUENCES

TOO_DEEP = "this report is nested too deep to be compared, or holds itself"
_MADE = ("event_id", "timestamp")


class Thinned(NamedTuple):
    """A container that has lost members. ``before``: a copy with all of them; ``places``: in it, of a list's rest."""

    container: Any
    before: Any
    places: list[int]


@dataclass(slots=True)
class Projection:
    """``spans``: for every record of a sequence-like section, which of the identities met lie in it.

    ``thinned``: the containers, by their id(), that lost what is ignored.
    """

    sections: dict[str, Any]
    thinned: dict[int, Thinned] = field(default_factory=dict)
    ids: Identities = field(default_factory=Identities)
    spans: dict[str, list[slice]] = field(default_factory=dict)

    def whole(self, way: Way) -> Way:
        """The way in the original: what is ignored is not compared, but may tell that a value is a secret."""
        return tuple(self._whole(container, key) for container, key in way) if self.thinned else way

    def _whole(self, container: Any, key: Any) -> tuple[Any, Any]:
        found = self.thinned.get(id(container))
        if found is None:
            return container, key
        return found.before, found.places[key] if isinstance(key, int) and key < len(found.places) else key

    def within(self, section: str, position: int | None) -> list[Identity]:
        """The identities in one record, in the order of its shape."""
        return self.ids.met[self.spans[section][position or 0]]


def normalize_run_report(source: RunReportSource, *, config: RunReportDiffConfig | None = None) -> dict[str, Any]:
    """The projection of a report that comparisons work on, as new JSON. The source stays as it is.

    Ids become ``<kind:number>``, numbered by first appearance; times ``<time>``, timings 0, sequence numbers None.
    Paths to ignore mean the original report, those of tolerances what is left of it.
    TypeError for a source of another shape, or one that holds what is not JSON.
    """
    try:
        return dict(shown(project(source, config or RunReportDiffConfig()).sections))
    except RecursionError:
        raise TypeError(TOO_DEEP) from None


def project(source: RunReportSource, config: RunReportDiffConfig) -> Projection:
    """The projection with its identities in place. It shares values with the source and must not be changed."""
    data = _sections(source, config)
    if config.ignore_paths or config.tolerances:
        data = loads(encode(data))
    thinned = _drop([place for pattern in config.ignored for place in places(data, pattern)])
    kept = [place for rule in config.tolerances for place in places(data, rule.segments) if _is_number(place.value)]
    projection = Projection(data, thinned)
    for section in config.sections:
        _normalise(projection, section, volatile=config.normalize_volatile)
    for place in kept:
        place.put(data)
    return projection


def _normalise(projection: Projection, section: str, *, volatile: bool) -> None:
    found, ids = projection.sections.get(section), projection.ids
    if section in SEQUENCES and type(found) is list:
        if volatile:
            rule, spans, start = SEQUENCES[section], [], len(ids.met)
            records = Sequence()
            for item in found:
                records.append(rule(ids, item))
                spans.append(slice(start, start := len(ids.met)))
        else:
            records, spans = Sequence(found), [slice(0, 0)] * len(found)
        projection.sections[section], projection.spans[section] = records, spans
    elif section in RECORDS and volatile:
        projection.sections[section] = RECORDS[section](ids, found)


def _drop(ignored: Iterable[Place]) -> dict[int, Thinned]:
    """Remove every ignored place. The last of a list goes first, so that the indexes of the others stay."""
    thinned: dict[int, Thinned] = {}
    found = {(id(place.container), place.key): place for place in ignored}
    last_first = sorted(found.values(), key=lambda place: place.key if isinstance(place.key, int) else 0, reverse=True)
    for place in last_first:
        container, me = place.container, id(place.container)
        if me not in thinned:
            thinned[me] = Thinned(container, container.copy(), list(range(len(container))))
        del container[place.key]
        if isinstance(container, list):
            del thinned[me].places[place.key]
    return thinned


def _is_number(value: Any) -> bool:
    return type(value) in (int, float)


# ------------------------------------------------------------------------------------------------------- reading


def _sections(source: RunReportSource, config: RunReportDiffConfig) -> dict[str, Any]:
    """The selected sections as JSON."""
    given: Any = source if _is_whole(source) else _listed(source)
    try:
        data = report_of(given).to_dict()
    except ValueError as error:
        raise TypeError(f"this is no run report: {error}") from error
    _complete(data["events"], given, exact=not config.normalize_volatile)
    found: dict[str, Any] = {section: data[section] for section in config.sections}
    return found if is_plain(found) else dict(loads(encode(found)))


def _complete(events: list[dict[str, Any]], given: Any, *, exact: bool) -> None:
    """Put back members of serialized events that are not known here, and take out ids that were made up just now."""
    originals = given.get("events") if isinstance(given, Mapping) else given
    if not isinstance(originals, (list, tuple)):
        return
    if isinstance(given, Mapping):
        originals = [original for original in originals if isinstance(original, Mapping)]
    for event, original in zip(events, originals, strict=True):
        if isinstance(original, Mapping):
            event |= {key: value for key, value in original.items() if key not in event}
            event |= {key: None for key in _MADE if exact and not original.get(key)}


def _is_whole(source: Any) -> bool:
    """True for what is no iterable of events, or not usable at all."""
    found = getattr(source, "report", source)
    return isinstance(found, (RunReport, Mapping, str, bytes, bytearray))


def _listed(source: Any) -> Any:
    """An iterable of events can be read only once."""
    return list(source) if isinstance(source, Iterable) else source
