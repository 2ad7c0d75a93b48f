"""Assertions over recorded runs, for regression tests. They read and execute nothing.

Each takes a report, a replay, a serialized report or an iterable of events, and raises AssertionError itself, so they
also hold where Python runs without ``assert``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from .events import RunEvent
from .fields import members
from .report import RunReport
from .report_sections import member
from .report_source import report_of

_SPELLINGS = {
    "input_tokens": ("input_tokens", "prompt_tokens"),
    "output_tokens": ("output_tokens", "completion_tokens"),
    "total_tokens": ("total_tokens",),
}


def assert_run_events(
    source: Any, expected_types: Sequence[str], *, ordered: bool = True, allow_extra: bool = True
) -> None:
    """The run has events of these types.

    ``ordered``: in this order. Without ``allow_extra``: these and no others, each as often as given. Unordered with
    extras: each type at least once, however often it is given. TypeError when the types are one text.
    """
    if isinstance(expected_types, str):
        raise TypeError("expected_types must be a sequence of event types, not one text")
    expected = tuple(expected_types)
    observed = tuple(event.type for event in report_of(source).events)
    problem = _mismatch(expected, observed, ordered, allow_extra)
    if problem:
        raise AssertionError(f"{problem}\n  expected: {', '.join(expected)}\n  observed: {', '.join(observed)}")


def _mismatch(expected: tuple[str, ...], observed: tuple[str, ...], ordered: bool, allow_extra: bool) -> str | None:
    """What is wrong, or None."""
    if ordered and allow_extra:
        rest = iter(observed)
        missing = next((kind for kind in expected if kind not in rest), None)
        return None if missing is None else f"No event '{missing}' in the expected order"
    if ordered:
        return None if expected == observed else "The events are not exactly those expected, in order"
    if allow_extra:
        absent = sorted(set(expected) - set(observed))
        return f"No event of type {', '.join(absent)}" if absent else None
    wanted, found = Counter(expected), Counter(observed)
    wrong = sorted(kind for kind in wanted | found if wanted[kind] != found[kind])
    details = ", ".join(f"{kind}: expected {wanted[kind]}, observed {found[kind]}" for kind in wrong)
    return f"Events occur another number of times ({details})" if wrong else None


def assert_no_denied_actions(source: Any) -> None:
    """Neither policy nor a person denied an action. The message names each denial and its action."""
    denied = [event for event in report_of(source).events if _denies(event)]
    if denied:
        labels = ", ".join(f"{event.type}: {_action_id(event) or event.event_id}" for event in denied)
        raise AssertionError(f"Actions were denied ({labels})")


def _denies(event: RunEvent) -> bool:
    match event.type:
        case "action.denied":
            return True
        case "action.policy":
            return members(member(event, "decision")).get("effect") == "deny"
        case "approval.decided":
            return members(member(event, "decision")).get("approved") is False
        case _:
            return False


def _action_id(event: RunEvent) -> str | None:
    named = member(event, "action_id") or members(member(event, "action")).get("action_id")
    return event.action_id or (named if isinstance(named, str) else None)


def assert_budget_under(
    source: Any,
    *,
    max_input_tokens: int | None = None,
    max_output_tokens: int | None = None,
    max_total_tokens: int | None = None,
    max_runtime_seconds: float | None = None,
) -> dict[str, int | float]:
    """The run used no more than this; equality passes. Returns what it used.

    ``input_tokens``, ``output_tokens``, ``total_tokens`` are those that the model calls reported. Where no call
    reported input, the estimates of the manifests count; where none reported totals, input and output are added.
    ``runtime_seconds``: the latencies of the model calls, added and rounded to microseconds.
    """
    used = _usage(report_of(source))
    limits = {
        "input_tokens": max_input_tokens,
        "output_tokens": max_output_tokens,
        "total_tokens": max_total_tokens,
        "runtime_seconds": max_runtime_seconds,
    }
    over = {name: limit for name, limit in limits.items() if limit is not None and used[name] > limit}
    if over:
        details = ", ".join(f"{name} {used[name]} > {limit}" for name, limit in over.items())
        raise AssertionError(f"The run exceeds its limits ({details})")
    return used


def _usage(report: RunReport) -> dict[str, int | float]:
    usages = [members(metrics.get("usage")) for metrics in report.metrics]
    used = {name: sum(_count(usage, keys) for usage in usages) for name, keys in _SPELLINGS.items()}
    if not used["input_tokens"]:
        used["input_tokens"] = sum(_count(m, ("total_estimated_tokens",)) for m in report.context_manifests)
    if not used["total_tokens"]:
        used["total_tokens"] = used["input_tokens"] + used["output_tokens"]
    latency = sum(_count(metrics, ("latency_ms",)) for metrics in report.metrics)
    return {**used, "runtime_seconds": round(latency / 1000, 6)}


def _count(record: Mapping[str, Any], keys: Iterable[str]) -> int | float:
    """The first of these members that is a number; 0 without one."""
    for key in keys:
        found = record.get(key)
        if isinstance(found, (int, float)) and not isinstance(found, bool):
            return found
    return 0
