"""Identifiers and timestamps. Nothing is ever parsed out of an id."""

from __future__ import annotations

import secrets
import time
from datetime import UTC, datetime
from functools import lru_cache


def new_id(prefix: str) -> str:
    """A new id such as ``run_20261130170500_3f9c1b7a24d0e581``: prefix, UTC second, 64 random bits.

    The second makes lists readable in order; only the random part makes the id unique.
    """
    return f"{prefix}_{_second(int(time.time()))[1]}_{secrets.token_hex(8)}"


def utc_now() -> str:
    """The current time as ISO 8601 text in UTC with microseconds."""
    return iso_from_seconds(time.time())


def iso(moment: datetime) -> str:
    """ISO 8601 in UTC, always with microseconds, ending in ``+00:00``."""
    return moment.astimezone(UTC).isoformat(timespec="microseconds")


def iso_from_seconds(seconds: float) -> str:
    """Unix seconds as ISO 8601 text in UTC."""
    whole, rest = divmod(seconds, 1.0)
    micro = round(rest * 1_000_000)
    if micro == 1_000_000:
        whole, micro = whole + 1, 0
    return f"{_second(int(whole))[0]}.{micro:06d}+00:00"


@lru_cache(maxsize=64)
def _second(whole: int) -> tuple[str, str]:
    """A second as text, with and without marks. Most times of a run share one, and dates are slow to write."""
    moment = datetime.fromtimestamp(whole, UTC)
    return moment.isoformat(timespec="seconds").removesuffix("+00:00"), f"{moment:%Y%m%d%H%M%S}"
