"""Counting what goes through a transport."""

from __future__ import annotations

import threading
from typing import Literal, get_args

Counter = Literal[
    "requests_sent",
    "streams_opened",
    "retries",
    "errors",
    "bytes_sent",
    "requests_served",
    "streams_served",
    "faults_served",
    "bytes_served",
]
_COUNTERS: tuple[Counter, ...] = get_args(Counter)


class TransportMetrics:
    """Counters since the transport was made, of both its sides. Safe to use from any thread."""

    def __init__(self, collect: bool = True) -> None:
        self._collect = collect
        self._lock = threading.Lock()
        self._counts: dict[Counter, int] = dict.fromkeys(_COUNTERS, 0)

    def add(self, name: Counter, amount: int = 1) -> None:
        if self._collect:
            with self._lock:
                self._counts[name] += amount

    def __getitem__(self, name: Counter) -> int:
        return self._counts[name]

    def to_dict(self) -> dict[str, int]:
        """All counters; all 0 when ``collect_metrics`` is off."""
        with self._lock:
            return {str(name): count for name, count in self._counts.items()}
