"""A value of a difference is masked whenever masking its whole report would have masked it."""

from __future__ import annotations

import copy
import json
import pickle
import sys
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protolink import (
    DEFAULT_REDACTION_POLICY,
    RedactionPolicy,
    RunAction,
    RunEvent,
    RunReport,
    RunReportDiff,
    RunReportDiffConfig,
    diff_run_reports,
)

MASK = "[REDACTED]"

KEYS = st.sampled_from(
    ["name", "value", "Value", "values", "key", "header", "password", "tokens", "api_keys", "note", "max_tokens", "PWD",
     "bearer", "option", "-", "", "a"]
)  # fmt: skip
TEXTS = st.sampled_from(
    ["Authorization", "Cookie", "Accept", "--token", "-v", "hush1", "hush2", "API_KEY=hush", "token", "tokens", "PWD",
     "/srv", "Authorization...", "password: x", '{"pwd": "hush"}', "/a?b=c&token=x", "", "x", MASK]
)  # fmt: skip
LEAVES = st.none() | st.booleans() | st.integers(0, 9) | TEXTS
VALUES = st.recursive(
    LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4), max_leaves=10
)
POLICIES = st.builds(
    RedactionPolicy,
    replacement=st.sampled_from([MASK, "x", ""]),
    max_string_length=st.none() | st.integers(3, 9),
    sensitive_values=st.frozensets(st.sampled_from(["hush2", "Auth"]), max_size=1),
)


@st.composite
def alike(draw: st.DrawFn, value: Any) -> Any:
    """The value with some of it changed, added and removed."""
    if not draw(st.integers(0, 9)):
        return draw(VALUES)
    if isinstance(value, dict):
        return {key: draw(alike(item)) for key, item in value.items() if draw(st.integers(0, 7))}
    if isinstance(value, list):
        return [draw(alike(item)) for item in value if draw(st.integers(0, 7))]
    return draw(LEAVES) if draw(st.booleans()) else value


def noted(value: Any) -> RunReport:
    return RunReport(metadata={"value": value})


def at(tree: Any, path: str) -> Any:
    """What stands there in a masked report, where everything below a mask is masked."""
    for part in path.split("/")[1:]:
        if isinstance(tree, dict):
            tree = tree[part.replace("~1", "/").replace("~0", "~")]
        elif isinstance(tree, list):
            tree = tree[int(part)]
    return tree


@given(st.data(), POLICIES)
@settings(max_examples=400, deadline=None)
def test_differences_are_masked_as_in_the_whole_report(data: st.DataObject, policy: RedactionPolicy) -> None:
    left = data.draw(st.dictionaries(KEYS, VALUES, max_size=4))
    right = data.draw(alike(left))
    reports = [{"metadata": side if isinstance(side, dict) else {}} for side in (left, right)]
    found = diff_run_reports(*reports)
    masked = found.to_dict(redaction_policy=policy)["differences"]
    for difference, shown in zip(found.differences, masked, strict=True):
        for side, report in zip(("baseline", "candidate"), reports, strict=True):
            if side in shown and shown[side] != policy.replacement:
                assert shown[side] == at(policy.redact(report), difference.path)


@pytest.mark.parametrize(
    ("left", "right", "path"),
    [
        ({"tokens": ["hush", 1]}, {"tokens": ["hush", 2]}, "tokens/1"),
        ({"tokens": [1, "hush"]}, {"tokens": [2, "hush"]}, "tokens/0"),
        ({"tokens": [1, 2, "hush"]}, {"tokens": [3, 2, "hush"]}, "tokens/0"),
        ({"api_keys": {"a": 1, "b": {}}}, {"api_keys": {"a": 2, "b": {}}}, "api_keys/a"),
        ({"name": "tokens", "value": [1, "hush"]}, {"name": "tokens", "value": [2, "hush"]}, "value/0"),
    ],
)
def test_a_number_is_masked_when_it_stands_among_secrets(left: Any, right: Any, path: str) -> None:
    (difference,) = diff_run_reports(noted(left), noted(right)).to_dict(redaction_policy=RedactionPolicy())[
        "differences"
    ]
    assert difference["path"] == f"/metadata/value/{path}"
    assert (difference["baseline"], difference["candidate"]) == (MASK, MASK)


@pytest.mark.parametrize("value", [{"tokens": {"input": 5, "output": 7}}, {"tokens": [5, None, 7]}])
def test_counts_stay_readable(value: Any) -> None:
    other = json.loads(json.dumps(value).replace("5", "6"))
    (difference,) = diff_run_reports(noted(value), noted(other)).to_dict(redaction_policy=RedactionPolicy())[
        "differences"
    ]
    assert (difference["baseline"], difference["candidate"]) == (5, 6)


IGNORED = {
    "name beside": (lambda secret: {"name": "Cookie", "value": secret}, "/metadata/value/name"),
    "name of a pair": (lambda secret: [["Authorization", secret]], "/metadata/value/*/0"),
    "flag": (lambda secret: ["run", "--token", secret, "x"], "/metadata/value/1"),
    "name of several": (lambda secret: [{"name": "Accept"}, {"key": "pwd", "value": secret}], "/metadata/value/*/key"),
}


@pytest.mark.parametrize("shape", IGNORED)
def test_a_name_that_is_not_compared_still_tells_a_secret(shape: str) -> None:
    plant, ignored = IGNORED[shape]
    config = RunReportDiffConfig(ignore_paths=(ignored, "/metadata/absent"))
    found = diff_run_reports(noted(plant("hush-one")), noted(plant("hush-two")), config=config)
    assert len(found.differences) == 1
    assert "hush" not in found.format() + json.dumps(found.to_dict(redaction_policy=RedactionPolicy()))
    assert "hush-one" in found.format(redaction_policy=None)


def test_places_beside_what_is_ignored_keep_their_values_and_paths() -> None:
    sides = (noted({"list": ["--token", 1, side, "end"], "note": 1, side: side}) for side in "ab")
    found = diff_run_reports(*sides, config=RunReportDiffConfig(ignore_paths=("/metadata/value/list/1",)))
    shown = {(item["path"], item["kind"]) for item in found.to_dict(redaction_policy=RedactionPolicy())["differences"]}
    assert shown == {
        ("/metadata/value/list/1", "changed"), ("/metadata/value/a", "removed"), ("/metadata/value/b", "added"),
    }  # fmt: skip
    assert found.format().count('"a"') == found.format().count('"b"') == 2


def pairs(secret: str) -> RunReport:
    payload = {"headers": [["Authorization", secret]], "form": [{"name": "pwd", "value": secret}]}
    action = RunAction(kind="tool.call", name="fetch", payload=payload, action_id="action_1")
    event = RunEvent("custom", payload={"argv": ["--passcode", secret], "request": payload}, event_id="event_1")
    return RunReport(events=(event,), actions=(action,))


@pytest.mark.parametrize("again", [lambda found: found, copy.deepcopy, lambda found: pickle.loads(pickle.dumps(found))])
def test_pairs_in_events_and_actions_are_masked_in_copies_too(again: Any) -> None:
    found: RunReportDiff = again(diff_run_reports(pairs("hush-one"), pairs("hush-two")))
    assert found.changed_sections == ("events", "actions")
    assert len(found.differences) == 5
    shown = found.format(), json.dumps(found.to_dict(redaction_policy=DEFAULT_REDACTION_POLICY))
    assert [text.count(MASK) for text in shown] == [10, 10]
    assert "hush" not in "".join(shown)


@pytest.mark.parametrize("name", ["tokens", "items"])
def test_the_work_of_masking_grows_with_the_differences_only(name: str) -> None:
    def calls(size: int) -> int:
        sides = [noted({name: [*range(start, start + size), "end"], "n": start}) for start in (0, size)]
        found, count = diff_run_reports(*sides), 0

        def counting(frame: object, event: str, argument: object) -> None:
            nonlocal count
            count += 1

        sys.setprofile(counting)
        try:
            found.to_dict(redaction_policy=DEFAULT_REDACTION_POLICY)
        finally:
            sys.setprofile(None)
        return count

    calls(10)
    assert calls(800) < 2.2 * calls(400)
