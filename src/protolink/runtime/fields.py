"""Reading numbers, flags and defaults of records that come from outside; ``models.shape`` reads everything else.

As there, every failure is a ValueError or TypeError that names the record and the member and never shows the value.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from protolink.models.shape import optional_text

Number = TypeVar("Number", int, float)


def text_or(data: Mapping[str, Any], key: str, what: str, default: Callable[[], str]) -> str:
    """A text member, or ``default()`` when it is missing, null or empty."""
    return optional_text(data, key, what) or default()


def flag(data: Mapping[str, Any], key: str, what: str) -> bool:
    """A boolean member; False when missing or null. Text such as "false" is refused, not guessed at."""
    found = data.get(key)
    if found is None:
        return False
    if isinstance(found, bool):
        return found
    raise ValueError(f"{what} member '{key}' must be true or false, not {type(found).__name__}")


def number(data: Mapping[str, Any], key: str, what: str, convert: Callable[[Any], Number]) -> Number | None:
    """A numeric member through ``int`` or ``float``; None when missing or null.

    ValueError or TypeError when it is no number. Infinities and NaN are none: as a limit they would limit nothing.
    """
    found = data.get(key)
    if found is None:
        return None
    try:
        result = convert(found)
    except OverflowError:
        raise ValueError(f"{what} member '{key}' is too large") from None
    except ValueError:
        raise ValueError(f"{what} member '{key}' must be a number") from None
    except TypeError:
        raise TypeError(f"{what} member '{key}' must be a number, not {type(found).__name__}") from None
    if not isinstance(result, int) and not math.isfinite(result):
        raise ValueError(f"{what} member '{key}' must be finite")
    return result


def number_or_zero(data: Mapping[str, Any], key: str, convert: Callable[[Any], Number]) -> Number:
    """A count through ``int`` or ``float``; zero for everything that is no count, negative numbers included."""
    try:
        result = number(data, key, "", convert)
    except (ValueError, TypeError):
        return convert(0)
    return result if result is not None and result > 0 else convert(0)


def detached(value: Any) -> Any:
    """Containers copied at every depth, everything else as it is. TypeError for what has no end of depths."""
    try:
        return _copied(value)
    except RecursionError:
        raise TypeError("the value is nested too deep to be copied, or holds itself") from None


def _copied(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _copied(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_copied(item) for item in value]
    if type(value) is tuple:
        return tuple(_copied(item) for item in value)
    return value


def members(value: Any) -> Mapping[str, Any]:
    """``value`` when it is a mapping, else an empty one: for records that are shown and never acted upon."""
    # Asked some ten times for each event; the general question alone costs more than both others.
    if type(value) is dict:
        return value
    return value if value is not None and isinstance(value, Mapping) else {}


def text_in(data: Mapping[str, Any], key: str) -> str | None:
    """A nonempty text member, else None."""
    found = data.get(key)
    return found if isinstance(found, str) and found else None


def unless_blank(value: Any) -> Any:
    """``value``, but None for blank text."""
    return None if isinstance(value, str) and not value.strip() else value


def whole(value: Any) -> int | None:
    """``value`` when it is an integer, else None."""
    if type(value) is int:
        return value
    return value if isinstance(value, int) and not isinstance(value, bool) else None
