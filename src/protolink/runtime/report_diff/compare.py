"""Comparing two projections, place by place. Nothing is executed."""

from __future__ import annotations

from types import NoneType
from typing import Any, NamedTuple

from .align import Pair, align
from .config import RunReportDiffConfig, RunReportSource
from .difference import MISSING, RunReportDiff, RunReportDifference
from .identity import Identity, Sequence, shown
from .masking import Way
from .normalise import TOO_DEEP, Projection, project
from .pointer import matches, pointer

Path = tuple[str | int, ...]


class _Place(NamedTuple):
    """A place in both projections. ``left`` and ``right``: the ways there, which may differ in their indexes."""

    path: Path
    left: Way = ()
    right: Way = ()

    def inside(self, key: str | int, left: Any, right: Any) -> _Place:
        """A member of the containers that stand here."""
        return self.beside(key, left, key, right, key)

    def beside(self, shown: str | int, left: Any, at: Any, right: Any, also_at: Any) -> _Place:
        return _Place((*self.path, shown), (*self.left, (left, at)), (*self.right, (right, also_at)))


Found = list[RunReportDifference]

_LEAVES = (str, int, float, bool, NoneType)


def diff_run_reports(
    baseline: RunReportSource, candidate: RunReportSource, *, config: RunReportDiffConfig | None = None
) -> RunReportDiff:
    """Everything that was added, removed or changed. Both sides are normalized first, each by itself.

    Events and the like are aligned by content, other lists compared by position. Ids of the runtime need not be equal,
    but must relate the same records on both sides. TypeError for a source that is no report, or is nested too deep; it
    names the side.
    """
    rules = config or RunReportDiffConfig()
    try:
        left, right = _side("baseline", baseline, rules), _side("candidate", candidate, rules)
        found = _Comparison(rules, left, right).differences()
    except RecursionError:
        raise TypeError(TOO_DEEP) from None
    return RunReportDiff(tuple(found), rules.sections, rules.ignore_paths)


def assert_run_matches(
    baseline: RunReportSource, candidate: RunReportSource, *, config: RunReportDiffConfig | None = None
) -> RunReportDiff:
    """The outcome of ``diff_run_reports``; AssertionError with its redacted text when anything differs."""
    found = diff_run_reports(baseline, candidate, config=config)
    if not found.matches:
        raise AssertionError(found.format())
    return found


def _side(name: str, source: RunReportSource, rules: RunReportDiffConfig) -> Projection:
    try:
        return project(source, rules)
    except RecursionError:
        raise TypeError(f"the {name} cannot be compared: {TOO_DEEP}") from None
    except TypeError as error:
        raise TypeError(f"the {name} cannot be compared: {error}") from error


class _Comparison:
    """One comparison under way.

    Ids correspond as they first meet. Records that are alike meet first, in all sections: what a changed record is
    paired with may be a guess, and a wrong guess must not spoil the pairs that are certain.
    """

    def __init__(self, rules: RunReportDiffConfig, left: Projection, right: Projection) -> None:
        self._sections = rules.sections
        self._tolerances = [(tolerance.segments, tolerance) for tolerance in rules.tolerances]
        self._left, self._right = left, right
        self._forward: dict[str, str] = {}
        self._backward: dict[str, str] = {}

    def differences(self) -> Found:
        pairs = {section: self._certain(section) for section in self._sections}
        found: Found = []
        for section in self._sections:
            left, right = (side.sections.get(section, MISSING) for side in (self._left, self._right))
            certain = pairs[section]
            if certain is None:
                found += self._compare(left, right, _Place((section,)))
            else:
                found += self._pairs(certain, left, right, _Place((section,)))
        return found

    def _certain(self, section: str) -> list[Pair] | None:
        """Align a section and let the ids of alike records meet. Returns the pairs that are left to look into."""
        left, right = self._left.sections.get(section), self._right.sections.get(section)
        if not isinstance(left, Sequence) or not isinstance(right, Sequence):
            return None
        return [pair for pair in align(left, right) if not (pair.same and self._meet(section, pair))]

    def _meet(self, section: str, pair: Pair) -> bool:
        """Whether all ids of two alike records correspond."""
        met = zip(self._left.within(section, pair.left), self._right.within(section, pair.right), strict=True)
        wrong = [left for left, right in met if not self._corresponds(left, right)]
        return not wrong

    def _corresponds(self, left: Identity, right: Identity) -> bool:
        """Ids that neither side has met yet correspond from now on."""
        other, back = self._forward.get(left.name), self._backward.get(right.name)
        if other is None and back is None:
            self._forward[left.name], self._backward[right.name] = right.name, left.name
            return True
        return other == right.name and back == left.name

    # --------------------------------------------------------------------------------------------------- places

    def _pairs(self, pairs: list[Pair], left: Any, right: Any, place: _Place) -> Found:
        found: Found = []
        for pair in pairs:
            before = MISSING if pair.left is None else left[pair.left]
            after = MISSING if pair.right is None else right[pair.right]
            index = pair.left if pair.right is None else pair.right
            found += self._compare(before, after, place.beside(index or 0, left, pair.left, right, pair.right))
        return found

    def _compare(self, left: Any, right: Any, place: _Place) -> Found:
        if left is MISSING or right is MISSING:
            return [] if left is right else [self._difference(place, left, right)]
        if isinstance(left, dict) and isinstance(right, dict):
            return self._mappings(left, right, place)
        if isinstance(left, Sequence) and isinstance(right, Sequence):
            return self._sequences(left, right, place)
        if isinstance(left, list) and isinstance(right, list):
            return self._lists(left, right, place)
        return [] if self._equal(left, right, place.path) else [self._difference(place, left, right)]

    def _mappings(self, left: dict[str, Any], right: dict[str, Any], place: _Place) -> Found:
        suspects = [key for key, value in left.items() if not _surely_equal(value, right.get(key, MISSING))]
        suspects += right.keys() - left.keys()
        found: Found = []
        for key in sorted(suspects):
            found += self._compare(left.get(key, MISSING), right.get(key, MISSING), place.inside(key, left, right))
        return found

    def _lists(self, left: list[Any], right: list[Any], place: _Place) -> Found:
        found: Found = []
        for index in range(max(len(left), len(right))):
            before = left[index] if index < len(left) else MISSING
            after = right[index] if index < len(right) else MISSING
            found += self._compare(before, after, place.inside(index, left, right))
        return found

    def _sequences(self, left: Sequence, right: Sequence, place: _Place) -> Found:
        """Alike records first, for the sake of their ids; the differences in order all the same."""
        pairs = align(left, right)
        found: dict[int, Found] = {}
        for same in (True, False):
            for number, pair in enumerate(pairs):
                if pair.same is same:
                    found[number] = self._pairs([pair], left, right, place)
        return [difference for number in range(len(pairs)) for difference in found[number]]

    def _difference(self, place: _Place, left: Any, right: Any) -> RunReportDifference:
        kind: Any = "added" if left is MISSING else "removed" if right is MISSING else "changed"
        section: Any = place.path[0]
        ways = ((None, section), *self._left.whole(place.left)), ((None, section), *self._right.whole(place.right))
        return RunReportDifference(section, pointer(place.path), kind, shown(left), shown(right), ways=ways)

    def _equal(self, left: Any, right: Any, path: Path) -> bool:
        if isinstance(left, Identity) and isinstance(right, Identity):
            return self._corresponds(left, right)
        if _is_number(left) and _is_number(right):
            return left == right or self._tolerated(left, right, path)
        return type(left) is type(right) and bool(left == right)

    def _tolerated(self, left: Any, right: Any, path: Path) -> bool:
        rule = next((rule for segments, rule in self._tolerances if matches(segments, path)), None)
        return rule is not None and rule.allows(left, right)


def _surely_equal(left: Any, right: Any) -> bool:
    """Equal leaves, without the cost of looking closer. Most places of most comparisons are."""
    return type(left) in _LEAVES and type(left) is type(right) and bool(left == right)


def _is_number(value: Any) -> bool:
    """Booleans are none, though Python counts them among the integers."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)
