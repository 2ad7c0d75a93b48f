"""How a transport behaves: sizes, places, repetition, waiting. Values are checked when they are made."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import field, fields
from typing import Any

from ..models.value import dataclass

MIB = 1024 * 1024

METHODS = ("GET", "PUT", "POST", "DELETE")


@dataclass(frozen=True, slots=True)
class TransportLimits:
    """What one side takes from the other. Sizes are bytes of JSON; the last two count what runs at one time.

    The last event of a stream carries the whole task, so ``max_response_bytes`` holds for it. Each is a whole number
    above 0; ValueError or TypeError otherwise.
    """

    max_request_bytes: int = 16 * MIB
    max_response_bytes: int = 16 * MIB
    max_event_bytes: int = 4 * MIB
    max_concurrent_requests: int = 100
    max_concurrent_streams: int = 100

    def __post_init__(self) -> None:
        for item in fields(self):
            _count(f"TransportLimits {item.name}", getattr(self, item.name))


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """When a refused request is sent again. Submitted tasks never are, whatever stands here.

    ``max_attempts`` counts the first one. The waits grow from ``initial_backoff`` to ``max_backoff`` seconds, each up
    to the share ``jitter`` (0 to 1) longer. ``retryable_methods``: HTTP methods.
    """

    max_attempts: int = 1
    initial_backoff: float = 0.1
    max_backoff: float = 2.0
    jitter: float = 0.1
    retryable_methods: frozenset[str] = frozenset(METHODS)

    def __post_init__(self) -> None:
        _count("RetryPolicy max_attempts", self.max_attempts)
        for name in ("initial_backoff", "max_backoff", "jitter"):
            _seconds(f"RetryPolicy {name}", getattr(self, name))
        if self.initial_backoff > self.max_backoff:
            raise ValueError("RetryPolicy initial_backoff must not be above max_backoff")
        if self.jitter > 1:
            raise ValueError("RetryPolicy jitter is a share from 0 to 1")
        object.__setattr__(self, "retryable_methods", _methods(self.retryable_methods))

    def wait_before(self, attempt: int, chance: float) -> float:
        """Seconds to wait before that attempt (2 is the first repetition). ``chance`` is random, from 0 to 1."""
        # Beyond this exponent every wait is the longest one, and a power of two would outgrow a float.
        grown = self.initial_backoff * 2.0 ** min(attempt - 2, 64)
        return min(self.max_backoff, grown) * (1 + self.jitter * chance)


@dataclass(frozen=True, slots=True)
class TransportConfig:
    """Everything about a transport but its address.

    Seconds: ``keepalive_interval`` and ``keepalive_timeout`` of open connections, ``shutdown_timeout`` for what runs
    when a server stops, ``idempotency_ttl`` for how long an answer is kept under its key. ``idempotency_cache_size``
    counts answers. ``stream_idle_timeout``: seconds for which a stream that has begun may be silent, None for ever.
    Silence is no proof that the peer is away: a slow tool or a person who has to decide makes it as well.
    """

    limits: TransportLimits = field(default_factory=TransportLimits)
    retry: RetryPolicy = field(default_factory=RetryPolicy)
    keepalive_interval: float = 20.0
    keepalive_timeout: float = 20.0
    shutdown_timeout: float = 5.0
    idempotency_ttl: float = 300.0
    idempotency_cache_size: int = 1024
    collect_metrics: bool = True
    stream_idle_timeout: float | None = 1800.0

    def __post_init__(self) -> None:
        for name, kind in (("limits", TransportLimits), ("retry", RetryPolicy), ("collect_metrics", bool)):
            if not isinstance(getattr(self, name), kind):
                raise TypeError(f"TransportConfig {name} must be {kind.__name__}")
        for name in ("keepalive_interval", "keepalive_timeout"):
            if _seconds(f"TransportConfig {name}", getattr(self, name)) == 0:
                raise ValueError(f"TransportConfig {name} must be above 0 seconds")
        checked_timeout("TransportConfig stream_idle_timeout", self.stream_idle_timeout)
        for name in ("shutdown_timeout", "idempotency_ttl"):
            _seconds(f"TransportConfig {name}", getattr(self, name))
        _count("TransportConfig idempotency_cache_size", self.idempotency_cache_size)


def _count(name: str, value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name} must be a whole number, not {type(value).__name__}")
    if value < 1:
        raise ValueError(f"{name} must be 1 or more")


def _seconds(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"{name} must be a number, not {type(value).__name__}")
    if not math.isfinite(value) or value < 0:
        raise ValueError(f"{name} must be 0 or more, and finite")
    return value


def checked_timeout(name: str, value: Any) -> float | None:
    """Seconds to wait, None for ever. TypeError for anything but a number, ValueError unless above 0 and finite."""
    if value is not None and _seconds(name, value) == 0:
        raise ValueError(f"{name} must be above 0 seconds, or None to wait for ever")
    found: float | None = value
    return found


def _methods(given: Iterable[str]) -> frozenset[str]:
    found = frozenset(given) if not isinstance(given, str) else frozenset((given,))
    unknown = sorted(str(method) for method in found if method not in METHODS)
    if unknown:
        raise ValueError(f"RetryPolicy retryable_methods: {unknown[0]!r} is none of {', '.join(METHODS)}")
    return found
