"""Identifiers and timestamps. Nothing is ever parsed out of an id."""

from __future__ import annotations

import secrets
from datetime import UTC, datetime


def new_id(prefix: str) -> str:
    """A new id such as ``run_20261130170500_3f9c1b7a24d0e581``: prefix, UTC second, 64 random bits.

    The second makes lists readable in order; only the random part makes the id unique.
    """
    return f"{prefix}_{datetime.now(UTC):%Y%m%d%H%M%S}_{secrets.token_hex(8)}"


def utc_now() -> str:
    """The current time as ISO 8601 text in UTC with microseconds."""
    return iso(datetime.now(UTC))


def iso(moment: datetime) -> str:
    """ISO 8601 in UTC, always with microseconds, ending in ``+00:00``."""
    return moment.astimezone(UTC).isoformat(timespec="microseconds")


def iso_from_seconds(seconds: float) -> str:
    """Unix seconds as ISO 8601 text in UTC."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="microseconds")
