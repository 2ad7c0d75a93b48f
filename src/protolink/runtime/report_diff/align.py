"""Which records of one sequence are those of another.

Records with equal keys are matched from both ends inwards; what is left is split at keys that occur once on both sides
(patience diff), and where there are none, at equal keys counted from the front. Every step reads a gap once or sorts
it, and the depth is bounded, so the work grows as n log n however the sequences are made; difflib and exact edit
distances take quadratic time on sequences of many alike records, such as the fragments of a stream.

Gaps are tried again with ever vaguer keys: the whole record, the record in sorted form, its subject, its type.
"""

from __future__ import annotations

import json
from bisect import bisect_left
from collections import Counter, defaultdict, deque
from collections.abc import Callable, Hashable, Iterable
from itertools import pairwise
from typing import Any, NamedTuple

Gap = tuple[int, int, int, int]  # left start and stop, right start and stop
Match = tuple[int, int]
Keys = list[Hashable]

_DEPTH = 8
_SUBJECT = ("type", "kind", "role", "name", "agent_name", "step", "summary", "model")
_TYPE = ("type", "kind", "role")


class Pair(NamedTuple):
    """Positions of what belongs together; None: nothing on this side. ``same``: alike but for the ids in it."""

    left: int | None
    right: int | None
    same: bool = False


def align(left: list[Any], right: list[Any]) -> list[Pair]:
    """All records of both sides, in order; of what is on one side only, the left comes first."""
    found: list[Pair] = []
    gaps: list[Gap] = [(0, len(left), 0, len(right))]
    for key, same in ((_exact, True), (_sorted, True), (_subject, False), (_type, False)):
        rest: list[Gap] = []
        for gap in gaps:
            matched = _matches(gap, left, right, key)
            found += [Pair(i, j, same or _sorted(left[i]) == _sorted(right[j])) for i, j in matched]
            rest += _between(gap, matched)
        gaps = rest
    alone = [pair for gap in gaps for pair in _alone(gap)]
    return _ordered(found, alone)


def _alone(gap: Gap) -> Iterable[Pair]:
    yield from (Pair(i, None) for i in range(gap[0], gap[1]))
    yield from (Pair(None, j) for j in range(gap[2], gap[3]))


def _ordered(matched: list[Pair], alone: list[Pair]) -> list[Pair]:
    """Merge by position. Matches never cross, so going along the left side meets the right side in order too."""
    lefts = {pair.left: pair for pair in (*matched, *alone) if pair.left is not None}
    added = deque(sorted(pair.right for pair in alone if pair.left is None and pair.right is not None))
    found: list[Pair] = []
    for position in range(len(lefts)):
        pair = lefts[position]
        while pair.right is not None and added and added[0] < pair.right:
            found.append(Pair(None, added.popleft()))
        found.append(pair)
    return found + [Pair(None, position) for position in added]


# ----------------------------------------------------------------------------------------------------------- keys


def _exact(record: Any) -> Hashable:
    return repr(record)  # the fastest text of a value; it tells 1, 1.0 and True apart


def _sorted(record: Any) -> Hashable:
    return json.dumps(record, sort_keys=True)


def _subject(record: Any) -> Hashable:
    return _members(record, _SUBJECT)


def _type(record: Any) -> Hashable:
    return _members(record, _TYPE)


def _members(record: Any, names: tuple[str, ...]) -> Hashable:
    if not isinstance(record, dict):
        return type(record).__name__
    payload = record.get("payload")
    inner = payload.get("llm_event_type") if isinstance(payload, dict) else None
    return tuple(str(value) if isinstance(value, (str, int)) else None for value in (*map(record.get, names), inner))


# ------------------------------------------------------------------------------------------------------- matching


def _matches(gap: Gap, left: list[Any], right: list[Any], key: Callable[[Any], Hashable]) -> list[Match]:
    """Matches of one gap. At its front keys are not kept: in most comparisons all ends there."""
    a, b, c, d = gap
    while a < b and c < d and key(left[a]) == key(right[c]):
        a, c = a + 1, c + 1
    found = list(zip(range(gap[0], a), range(gap[2], c), strict=True))
    if a == b or c == d:
        return found
    lefts: Keys = [key(record) for record in left[a:b]]
    rights: Keys = [key(record) for record in right[c:d]]
    return found + [(a + i, c + j) for i, j in match(lefts, rights)]


def match(left: Keys, right: Keys) -> list[Match]:
    """Positions of equal keys, growing on both sides."""
    found: list[Match] = []
    work = [((0, len(left), 0, len(right)), 0)]
    while work:
        gap, depth = work.pop()
        ends, gap = _ends(gap, left, right)
        found += ends
        if gap[0] == gap[1] or gap[2] == gap[3]:
            continue
        anchors = _unique(gap, left, right) if depth < _DEPTH else []
        if anchors:
            found += anchors
            work += [(inner, depth + 1) for inner in _between(gap, anchors)]
        else:
            found += _counted(gap, left, right)
    return sorted(found)


def _ends(gap: Gap, left: Keys, right: Keys) -> tuple[list[Match], Gap]:
    """What is equal at both ends of the gap, and what is left of it."""
    a, b, c, d = gap
    found: list[Match] = []
    while a < b and c < d and left[a] == right[c]:
        found.append((a, c))
        a, c = a + 1, c + 1
    while a < b and c < d and left[b - 1] == right[d - 1]:
        b, d = b - 1, d - 1
        found.append((b, d))
    return found, (a, b, c, d)


def _unique(gap: Gap, left: Keys, right: Keys) -> list[Match]:
    """Keys that occur once on both sides."""
    a, b, c, d = gap
    lefts, rights = Counter(left[a:b]), Counter(right[c:d])
    places = {right[j]: j for j in range(c, d) if rights[right[j]] == 1}
    return _growing([(i, places[left[i]]) for i in range(a, b) if lefts[left[i]] == 1 and left[i] in places])


def _counted(gap: Gap, left: Keys, right: Keys) -> list[Match]:
    """The first of a key with the first of it on the other side, the second with the second, and so on."""
    a, b, c, d = gap
    waiting: dict[Hashable, deque[int]] = defaultdict(deque)
    for j in range(c, d):
        waiting[right[j]].append(j)
    return _growing([(i, waiting[left[i]].popleft()) for i in range(a, b) if waiting.get(left[i])])


def _growing(candidates: list[Match]) -> list[Match]:
    """The longest part of these matches in which no two cross. They come in the order of the left side."""
    tails: list[int] = []
    ends: list[int] = []
    before: list[int] = []
    for number, (_, j) in enumerate(candidates):
        place = bisect_left(tails, j)
        before.append(ends[place - 1] if place else -1)
        tails[place : place + 1] = [j]
        ends[place : place + 1] = [number]
    found: list[Match] = []
    at = ends[-1] if ends else -1
    while at >= 0:
        found.append(candidates[at])
        at = before[at]
    return found[::-1]


def _between(gap: Gap, matched: list[Match]) -> list[Gap]:
    """The gaps that are left around matches."""
    a, b, c, d = gap
    stops = [(a - 1, c - 1), *sorted(matched), (b, d)]
    gaps = [(i + 1, k, j + 1, m) for (i, j), (k, m) in pairwise(stops)]
    return [inner for inner in gaps if inner[0] < inner[1] or inner[2] < inner[3]]
