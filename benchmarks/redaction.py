"""Masking secrets in a large value, against copying it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random
from time import process_time
from typing import Any

from protolink.models import DEFAULT_REDACTION_POLICY

from .row import Row
from .timing import alternated

VALUES = 20_000
BYTES = 1_000_000
#: The scalars of one record, and the characters of its text that are not free.
SCALARS, FIXED = 20, 470
ROUNDS = 15


def rows(directory: Path) -> list[Row]:
    """``directory`` is not needed."""
    value = _value()
    masked, floor = alternated(
        lambda: _timed(DEFAULT_REDACTION_POLICY.redact, value), lambda: _timed(_copied, value), times=ROUNDS
    )
    return [Row("redact 1 MB of 20,000 values, CPU", masked * 1e3, "ms", 2, floor=floor * 1e3)]


def _timed(work: Callable[[Any], Any], value: Any) -> float:
    began = process_time()
    work(value)
    return process_time() - began


def _copied(value: Any) -> Any:
    """A plain recursive copy."""
    if isinstance(value, dict):
        return {key: _copied(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_copied(item) for item in value]
    return value


def _value() -> list[Any]:
    """Records like events, with a secret, times and an address in each, and words in all other texts."""
    random = Random(1)
    records = VALUES // SCALARS
    words = (BYTES // records - FIXED) // 5
    return [_record(number, random, words) for number in range(records)]


def _record(number: int, random: Random, size: int) -> dict[str, Any]:
    return {
        "type": "action.completed",
        "run_id": f"run_{number}",
        "task_id": f"task_{number}",
        "agent_name": "worker",
        "sequence": number,
        "step": 1,
        "parent_span_id": None,
        "severity": "info",
        "summary": _words(random, size),
        "payload": {
            "tool": "search",
            "arguments": {"query": _words(random, size), "limit": 5, "api_key": f"sk-{number}"},
            "result": [_words(random, size * 3), f"https://example.org/items/{number}"],
            "started_at": "2026-01-01T00:00:00+00:00",
        },
        "final": False,
        "event_id": f"event_{number}",
        "version": "1.0",
        "timestamp": "2026-01-01T00:00:00+00:00",
    }


def _words(random: Random, size: int) -> str:
    return "".join(random.choices("abcdefghijklmnopqrstuvwxyz    ", k=size))
