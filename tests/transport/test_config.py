"""Settings of transports: what may be set, and the waits that follow from it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protolink import RetryPolicy, TransportConfig, TransportLimits
from protolink.transport import RequestSpec


class TestLimits:
    @pytest.mark.parametrize("name", TransportLimits.__dataclass_fields__)
    @pytest.mark.parametrize(("value", "error"), [(0, ValueError), (-1, ValueError), (1.5, TypeError)])
    def test_every_limit_is_a_whole_number_above_zero(self, name: str, value: Any, error: type[Exception]) -> None:
        with pytest.raises(error, match=f"TransportLimits {name}"):
            TransportLimits(**{name: value})


class TestConfig:
    @pytest.mark.parametrize(
        ("settings", "error"),
        [
            ({"limits": None}, TypeError),
            ({"retry": {"max_attempts": 3}}, TypeError),
            ({"collect_metrics": 1}, TypeError),
            ({"shutdown_timeout": -1}, ValueError),
            ({"shutdown_timeout": float("inf")}, ValueError),
            ({"idempotency_ttl": float("nan")}, ValueError),
            ({"idempotency_ttl": "5"}, TypeError),
            ({"idempotency_cache_size": 0}, ValueError),
            ({"keepalive_interval": 0}, ValueError),
            ({"keepalive_timeout": True}, TypeError),
            ({"stream_idle_timeout": 0}, ValueError),
            ({"stream_idle_timeout": float("inf")}, ValueError),
            ({"stream_idle_timeout": "5"}, TypeError),
        ],
    )
    def test_bad_settings_are_refused_by_name(self, settings: dict[str, Any], error: type[Exception]) -> None:
        with pytest.raises(error, match=f"TransportConfig {next(iter(settings))}"):
            TransportConfig(**settings)

    def test_no_waiting_and_no_remembering_may_be_asked_for(self) -> None:
        found = TransportConfig(shutdown_timeout=0, idempotency_ttl=0, stream_idle_timeout=None)
        assert (found.shutdown_timeout, found.idempotency_ttl, found.stream_idle_timeout) == (0, 0, None)


class TestRetryPolicy:
    @pytest.mark.parametrize(
        ("settings", "error", "text"),
        [
            ({"max_attempts": 0}, ValueError, "max_attempts must be 1 or more"),
            ({"max_attempts": 2.0}, TypeError, "max_attempts must be a whole number"),
            ({"initial_backoff": -0.1}, ValueError, "initial_backoff must be 0 or more"),
            ({"initial_backoff": 3}, ValueError, "must not be above max_backoff"),
            ({"jitter": 1.1}, ValueError, "a share from 0 to 1"),
            ({"retryable_methods": {"PATCH"}}, ValueError, "'PATCH' is none of GET"),
        ],
    )
    def test_bad_policies_are_refused(self, settings: dict[str, Any], error: type[Exception], text: str) -> None:
        with pytest.raises(error, match=text):
            RetryPolicy(**settings)

    def test_waits_double_up_to_the_longest(self) -> None:
        policy = RetryPolicy(max_attempts=9, initial_backoff=0.5, max_backoff=3)
        assert [policy.wait_before(attempt, 0.0) for attempt in range(2, 7)] == [0.5, 1, 2, 3, 3]

    def test_chance_makes_a_wait_longer_by_its_share(self) -> None:
        policy = RetryPolicy(initial_backoff=1, jitter=0.5)
        assert policy.wait_before(2, 1.0) == 1.5

    @given(attempt=st.integers(2, 10**9), chance=st.floats(0, 1))
    def test_no_wait_is_longer_than_the_longest_and_its_jitter(self, attempt: int, chance: float) -> None:
        policy = RetryPolicy(initial_backoff=0.1, max_backoff=2, jitter=0.1)
        assert 0.1 <= policy.wait_before(attempt, chance) <= 2 * 1.1

    def test_one_method_may_be_given_as_text(self) -> None:
        assert RetryPolicy(retryable_methods="GET").retryable_methods == {"GET"}  # type: ignore[arg-type]


class TestRequestSpec:
    @pytest.mark.parametrize("path", ["tasks", "", "/tasks?x=1", "/tasks#x"])
    def test_paths_are_absolute_and_have_no_query(self, path: str) -> None:
        with pytest.raises(ValueError, match="path must start with '/'"):
            RequestSpec("GET", path)

    def test_methods_are_those_of_http(self) -> None:
        with pytest.raises(ValueError, match="method must be one of"):
            RequestSpec("get", "/")
