"""The parts of a comparison: rules, pointers, differences and their text, alignment."""

from __future__ import annotations

import copy
import dataclasses
import json
import pickle
from typing import Any, get_args

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from protolink import (
    ALL_RUN_REPORT_SECTIONS,
    RedactionPolicy,
    RunReportDiff,
    RunReportDiffConfig,
    RunReportDifference,
    RunReportSection,
    RunReportTolerance,
    diff_run_reports,
)
from protolink.runtime.report_diff.align import Pair, align, match

SECTIONS = (
    "context",
    "context_manifests",
    "events",
    "actions",
    "approvals",
    "artifacts",
    "metrics",
    "final_task",
    "metadata",
)
BAD_POINTERS = ["metadata", "metadata/x", "/a~", "/a~2b", "/~x", ""]


# ------------------------------------------------------------------------------------------------------------ rules


@pytest.mark.claim("DIF-015", "DIF-019")
def test_sections_are_these_nine_in_order() -> None:
    assert ALL_RUN_REPORT_SECTIONS == get_args(RunReportSection) == SECTIONS


@pytest.mark.claim("DIF-021", "DIF-022", "DIF-023")
def test_tolerances_are_frozen_floats() -> None:
    rule = RunReportTolerance("/a")
    assert (rule.absolute_tolerance, rule.relative_tolerance) == (0.0, 0.0)
    rule = RunReportTolerance("/a", 1, "0.5")  # type: ignore[arg-type]
    assert [type(value) for value in (rule.absolute_tolerance, rule.relative_tolerance)] == [float, float]
    assert (rule.absolute_tolerance, rule.relative_tolerance) == (1.0, 0.5)
    with pytest.raises(dataclasses.FrozenInstanceError):
        rule.path = "/b"  # type: ignore[misc]


@pytest.mark.claim("DIF-024", "DIF-025")
@pytest.mark.parametrize("path", BAD_POINTERS)
def test_tolerance_refuses_bad_pointers(path: str) -> None:
    with pytest.raises(ValueError, match="RunReportTolerance path"):
        RunReportTolerance(path)


def test_tolerance_refuses_what_is_no_text() -> None:
    with pytest.raises(TypeError):
        RunReportTolerance(3)  # type: ignore[arg-type]


@pytest.mark.claim("DIF-026")
@pytest.mark.parametrize("value", [-1, -0.1, float("nan"), float("inf"), "much", None, [], True, 10**400])
@pytest.mark.parametrize("name", ["absolute_tolerance", "relative_tolerance"])
def test_tolerance_refuses_bad_numbers(name: str, value: Any) -> None:
    with pytest.raises((ValueError, TypeError), match=name):
        RunReportTolerance("/a", **{name: value})


@pytest.mark.claim("DIF-022", "DIF-023")
@pytest.mark.parametrize(
    ("absolute", "relative", "baseline", "candidate", "allowed"),
    [
        (0.01, 0, 0.91, 0.92, True),  # the floats differ by more than 0.01
        (0.01, 0, 0.91, 0.9201, False),
        (0, 0.1, 100, 90, True),
        (0, 0.1, 90, 100, True),
        (0, 0.1, 100, 89.9, False),
        (0, 0.1, 0, 0.001, False),
        (1, 0.1, 0, 1, True),
        (0, 1, -5, 5, False),
        (0, 0, 1, 1.0, True),
    ],
)
def test_tolerance_bounds_the_difference(
    absolute: float, relative: float, baseline: float, candidate: float, allowed: bool
) -> None:
    assert RunReportTolerance("/a", absolute, relative).allows(baseline, candidate) is allowed


@pytest.mark.claim("DIF-028")
def test_large_integers_keep_every_digit() -> None:
    large = 10**5000
    rule = RunReportTolerance("/a", absolute_tolerance=1)
    assert rule.allows(large, large + 1)
    assert not rule.allows(large, large + 2)
    assert not rule.allows(2**53, 2**53 + 2)


@pytest.mark.claim("DIF-029")
def test_config_has_the_defaults() -> None:
    config = RunReportDiffConfig()
    assert dataclasses.astuple(config) == (SECTIONS, True, (), ())
    with pytest.raises(dataclasses.FrozenInstanceError):
        config.sections = ()  # type: ignore[misc]


@pytest.mark.claim("DIF-030")
def test_config_makes_tuples() -> None:
    rule = RunReportTolerance("/a")
    config = RunReportDiffConfig(iter(["events"]), True, ["/a"], iter([rule]))  # type: ignore[arg-type]
    assert (config.sections, config.ignore_paths, config.tolerances) == (("events",), ("/a",), (rule,))


@pytest.mark.claim("DIF-031", "DIF-032", "DIF-035")
@pytest.mark.parametrize(
    ("rules", "said"),
    [({"sections": ["created_at"]}, "'created_at'"), ({"sections": ["events", "events"]}, "'events' twice")]
    + [({"ignore_paths": [path]}, "ignore path") for path in BAD_POINTERS],
)
def test_config_refuses_bad_values(rules: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        RunReportDiffConfig(**rules)


@pytest.mark.claim("DIF-036")
@pytest.mark.parametrize(
    "rules",
    [
        {"tolerances": ["/a"]},
        {"tolerances": [("/a", 1)]},
        {"ignore_paths": "/a"},
        {"sections": "events"},
        {"sections": 3},
    ],
)
def test_config_refuses_other_types(rules: dict[str, Any]) -> None:
    with pytest.raises(TypeError):
        RunReportDiffConfig(**rules)


# ------------------------------------------------------------------------------------------------------ differences


@pytest.mark.claim("DIF-037")
def test_difference_has_no_side_unless_one_is_given() -> None:
    bare = RunReportDifference("metadata", "/metadata/a", "changed")
    assert (bare.section, bare.path, bare.kind) == ("metadata", "/metadata/a", "changed")
    assert (repr(bare.baseline), repr(bare.candidate)) == ("<missing>", "<missing>")
    assert RunReportDifference("metadata", "/metadata/a", "changed", 1, 2) == dataclasses.replace(
        bare, baseline=1, candidate=2
    )


@pytest.mark.claim("DIF-037", "DIF-039")
def test_missing_side_is_no_none() -> None:
    difference = RunReportDifference("metadata", "/metadata/a", "added", candidate=None)
    assert difference.baseline is not None
    assert repr(difference.baseline) == "<missing>"
    assert difference.candidate is None
    assert copy.deepcopy(difference) == difference
    assert pickle.loads(pickle.dumps(difference.baseline)) is difference.baseline
    with pytest.raises(dataclasses.FrozenInstanceError):
        difference.path = "/b"  # type: ignore[misc]


@pytest.mark.claim("DIF-040", "DIF-041")
def test_difference_to_dict_is_raw() -> None:
    difference = RunReportDifference("metadata", "/metadata/password", "removed", baseline="hunter2")
    assert difference.to_dict() == {
        "section": "metadata",
        "path": "/metadata/password",
        "kind": "removed",
        "baseline": "hunter2",
    }
    assert RunReportDifference("metadata", "/metadata/a", "changed", None, None).to_dict().keys() >= {
        "baseline",
        "candidate",
    }


@pytest.mark.claim("DIF-038")
def test_path_is_an_escaped_pointer() -> None:
    [difference] = diff_run_reports({"metadata": {"a/b": {"~": 1}}}, {"metadata": {"a/b": {"~": 2}}}).differences
    assert difference.path == "/metadata/a~1b/~0"


@pytest.mark.claim("DIF-042", "DIF-043")
def test_empty_diff_matches() -> None:
    found = RunReportDiff()
    assert dataclasses.astuple(found) == ((), SECTIONS, ())
    assert found.matches
    assert not RunReportDiff((changed("/metadata/a"),)).matches
    with pytest.raises(dataclasses.FrozenInstanceError):
        found.differences = ()  # type: ignore[misc]


def changed(path: str, baseline: Any = 1, candidate: Any = 2) -> RunReportDifference:
    section: Any = path.split("/")[1]
    return RunReportDifference(section, path, "changed", baseline, candidate)


@pytest.mark.claim("DIF-044")
def test_changed_sections_follow_the_compared_order() -> None:
    found = RunReportDiff(
        (changed("/metadata/a"), changed("/events/0"), changed("/metadata/b")), ("events", "metadata")
    )
    assert found.changed_sections == ("events", "metadata")


SECRET = changed("/metadata/password", "hunter2", {"deep": "hunter3"})


@pytest.mark.claim("DIF-045")
def test_to_dict_masks_on_request_only() -> None:
    found = RunReportDiff((SECRET,), ("metadata",), ("/metadata/x",))
    data = found.to_dict()
    assert data["differences"] == [SECRET.to_dict()]
    assert (data["matches"], data["changed_sections"], data["ignored_paths"]) == (False, ["metadata"], ["/metadata/x"])
    masked = json.dumps(found.to_dict(redaction_policy=RedactionPolicy()))
    assert "hunter" not in masked
    assert masked.count("[REDACTED]") == 2


@pytest.mark.claim("DIF-047")
@pytest.mark.parametrize(
    "difference",
    [
        SECRET,
        changed("/metadata/api_key/0/deep", "hunter2", "hunter3"),
        changed("/metadata/plain", {"token": "hunter2"}, [{"secret": "hunter3"}]),
    ],
)
def test_format_masks_by_default(difference: RunReportDifference) -> None:
    found = RunReportDiff((difference,))
    assert "hunter" not in found.format()
    assert "hunter2" in found.format(redaction_policy=None)
    assert difference.path in found.format()


@pytest.mark.claim("DIF-046")
def test_format_is_deterministic_and_bounded() -> None:
    found = RunReportDiff(tuple(changed(f"/metadata/{number}") for number in range(25)))
    text = found.format()
    assert text == found.format()
    assert text.startswith("Run reports differ: 25 differences in metadata")
    assert text.count("changed /metadata/") == 20
    assert "5 more" in text
    assert found.format(max_differences=0).count("\n") == 1
    assert found.format(max_differences=99).count("changed /metadata/") == 25


def test_format_shows_kinds_and_sides() -> None:
    added = RunReportDifference("metadata", "/metadata/a", "added", candidate=None)
    text = RunReportDiff((added,)).format()
    assert "added /metadata/a" in text
    assert "candidate: null" in text
    assert "baseline" not in text
    assert "\x1b" not in RunReportDiff((changed("/metadata/\x1b[31m"),)).format()


def test_format_of_equal_reports_says_so() -> None:
    assert RunReportDiff().format() == "Run reports match (9 sections compared)"


@pytest.mark.claim("DIF-048")
def test_format_refuses_a_negative_number() -> None:
    with pytest.raises(ValueError, match="max_differences"):
        RunReportDiff().format(max_differences=-1)


# --------------------------------------------------------------------------------------------------------- alignment

RECORDS = st.lists(st.fixed_dictionaries({"type": st.sampled_from("abc"), "n": st.integers(0, 2)}), max_size=12)


@given(RECORDS, RECORDS)
@example([{"n": 0, "type": kind} for kind in "aba"], [{"type": kind, "n": 0} for kind in "bab"])
def test_alignment_has_every_record_once_in_order(left: list[Any], right: list[Any]) -> None:
    pairs = align(left, right)
    assert [pair.left for pair in pairs if pair.left is not None] == list(range(len(left)))
    assert [pair.right for pair in pairs if pair.right is not None] == list(range(len(right)))
    for pair in pairs:
        if pair.left is not None and pair.right is not None:
            assert pair.same is (left[pair.left] == right[pair.right])
            assert left[pair.left]["type"] == right[pair.right]["type"]


@given(RECORDS, st.data())
def test_alignment_finds_one_new_record(left: list[Any], draw: st.DataObject) -> None:
    position = draw.draw(st.integers(0, len(left)))
    right = [*left[:position], {"type": "new"}, *left[position:]]
    assert align(left, right) == sorted(
        [Pair(None, position), *(Pair(i, i + (i >= position), True) for i in range(len(left)))],
        key=lambda pair: pair[1],
    )


@given(RECORDS)
def test_alignment_of_equals_is_the_identity(left: list[Any]) -> None:
    assert align(left, copy.deepcopy(left)) == [Pair(i, i, True) for i in range(len(left))]


def test_alignment_does_not_care_how_members_are_ordered() -> None:
    left = [{"type": "a", "n": n} for n in range(4)]
    right = [{"n": n, "type": "a"} for n in (9, *range(4))]
    assert align(left, right) == [Pair(None, 0), *(Pair(i, i + 1, True) for i in range(4))]


class Key:
    """A key that counts how often it is looked at."""

    looks = 0

    def __init__(self, value: int) -> None:
        self.value = value

    def __hash__(self) -> int:
        Key.looks += 1
        return hash(self.value)

    def __eq__(self, other: object) -> bool:
        Key.looks += 1
        return isinstance(other, Key) and self.value == other.value


def looks(left: list[int], right: list[int]) -> int:
    Key.looks = 0
    match([Key(value) for value in left], [Key(value) for value in right])
    return Key.looks


HARD = {
    "alternating": lambda n: ([0, 1] * n, [1, 0] * n),
    "reversed": lambda n: (list(range(n)), list(range(n))[::-1]),
    "alike": lambda n: ([0] * n + [1], [2] + [0] * n),
    "nested": lambda n: ([*range(n), *range(n)], [*range(n), -1, *range(n)]),
    "moved": lambda n: ([*range(n), *range(n, 2 * n)], [*range(n, 2 * n), *range(n)]),
}


@pytest.mark.parametrize("shape", HARD)
def test_work_of_alignment_grows_with_the_sequences(shape: str) -> None:
    small, large = looks(*HARD[shape](500)), looks(*HARD[shape](1000))
    assert large <= 2.2 * small
    assert large <= 60 * 2 * 1000
