"""Identifiers and timestamps. Nothing is ever parsed out of an id.

The random part of an id is taken from a stock of the system's random bytes. Each call into the system gives up the
interpreter lock, which another busy thread, such as one that writes a journal, is then slow to hand back.
"""

from __future__ import annotations

import os
import time
from datetime import UTC, datetime
from functools import lru_cache


def new_id(prefix: str) -> str:
    """A new id such as ``run_20261130170500_3f9c1b7a24d0e581``: prefix, UTC second, 64 random bits.

    The second makes lists readable in order; only the random part makes the id unique.
    """
    return f"{prefix}_{_second(int(time.time()))[1]}_{_random()}"


def new_uuid() -> str:
    """A random UUID (version 4) as text. The library's own takes longer to load than the models do."""
    bits = _random() + _random()
    return f"{bits[:8]}-{bits[8:12]}-4{bits[13:16]}-{'89ab'[int(bits[16], 16) % 4]}{bits[17:20]}-{bits[20:]}"


def _random() -> str:
    """64 random bits in hex. Each is handed out once, whatever threads ask at the same moment."""
    try:
        return _stock.pop()
    except IndexError:
        fresh = os.urandom(8 * _AT_ONCE)
        first, *rest = (fresh[at : at + 8].hex() for at in range(0, len(fresh), 8))
        _stock.extend(rest)
        return first


_AT_ONCE = 128
_stock: list[str] = []

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_stock.clear)  # what is left is the parent's


def utc_now() -> str:
    """The current time as ISO 8601 text in UTC with microseconds."""
    return iso_from_seconds(time.time())


def iso(moment: datetime) -> str:
    """ISO 8601 in UTC, always with microseconds, ending in ``+00:00``."""
    return moment.astimezone(UTC).isoformat(timespec="microseconds")


def iso_from_seconds(seconds: float) -> str:
    """Unix seconds as ISO 8601 text in UTC."""
    whole, rest = divmod(seconds, 1.0)
    micro = 1_000_000 + round(rest * 1_000_000)
    if micro == 2_000_000:
        whole, micro = whole + 1, 1_000_000
    return f"{_second(int(whole))[0]}.{str(micro)[1:]}+00:00"


@lru_cache(maxsize=64)
def _second(whole: int) -> tuple[str, str]:
    """A second as text, with and without marks. Most times of a run share one, and dates are slow to write."""
    moment = datetime.fromtimestamp(whole, UTC)
    return moment.isoformat(timespec="seconds").removesuffix("+00:00"), f"{moment:%Y%m%d%H%M%S}"
