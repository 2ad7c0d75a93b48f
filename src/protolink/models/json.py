"""The only serializer: Python values to JSON values, text and digests.

``plain`` decides what JSON a Python value becomes: ``to_dict()`` and pydantic objects and dataclasses are mappings,
tuples and sets lists, dates and times text, enums their values. NaN and infinities are refused: they are not JSON, and
what cannot be read back must not be stored.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
from collections.abc import Mapping
from types import NoneType
from typing import TYPE_CHECKING, Any

from pydantic_core import from_json, to_json, to_jsonable_python

from .._lazy import Later

if TYPE_CHECKING:
    import rfc8785
else:
    # Few values need it: see ``canonical``.
    rfc8785 = Later("rfc8785")

#: What is written must be readable: the parser takes 200 levels, and a stored value is wrapped in some of its own.
MAX_DEPTH = 150

_LEAVES = frozenset((str, int, bool, NoneType))


def plain(value: Any) -> Any:
    """``value`` as detached JSON. Raises TypeError when it has no JSON form, naming the place."""
    return _plain(value, "$", 0)


def _plain(value: Any, place: str, depth: int) -> Any:
    kind = type(value)
    if kind in _LEAVES:
        return value
    if kind is float:
        if not math.isfinite(value):
            raise TypeError(f"{place}: {value} is not a JSON number")
        return value
    if depth >= MAX_DEPTH:
        raise TypeError(f"{place}: nested more than {MAX_DEPTH} levels deep, or a cycle")
    if kind is dict or isinstance(value, Mapping):
        return _plain_members(value, place, depth + 1)
    if isinstance(value, (list, tuple)):
        return [_plain(item, f"{place}[{index}]", depth + 1) for index, item in enumerate(value)]
    if isinstance(value, (set, frozenset)):
        return sorted((_plain(item, place, depth + 1) for item in value), key=_sort_key)
    if callable(getattr(value, "to_dict", None)) and not isinstance(value, type):
        return _plain(value.to_dict(), place, depth + 1)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        return _plain(fields, place, depth + 1)
    return _foreign(value, place, depth)


def _plain_members(value: Mapping[Any, Any], place: str, depth: int) -> dict[str, Any]:
    """Every event and record comes through here, so members that need nothing are taken over on the spot."""
    found = {}
    for key, item in value.items():
        name = key if type(key) is str else _key(key, place)
        found[name] = item if type(item) in _LEAVES else _plain(item, f"{place}.{key}", depth)
    return found


def _foreign(value: Any, place: str, depth: int) -> Any:
    """Pydantic's own rules for everything else: models, dates, enums, UUIDs, paths, decimals."""
    try:
        found = to_jsonable_python(value)
    except (ValueError, TypeError, RecursionError):
        raise TypeError(f"{place}: {type(value).__name__} has no JSON form") from None
    return _plain(found, place, depth + 1)


def _key(key: Any, place: str) -> str:
    if isinstance(key, str):
        return str(key)
    if key is None or isinstance(key, (bool, int, float)):
        found: str = to_json(key).decode()
        return found
    raise TypeError(f"{place}: {type(key).__name__} cannot be the name of a JSON member")


def _sort_key(item: Any) -> bytes:
    return to_json(item)


def dumps(value: Any) -> str:
    """Compact JSON text of a value that ``plain`` accepts."""
    return encode(value).decode()


def encode(value: Any) -> bytes:
    """Compact UTF-8 JSON of a JSON value; TypeError when it is none."""
    try:
        return to_json(value, inf_nan_mode="constants") if is_plain(value) else to_json(plain(value))
    except (ValueError, RecursionError) as error:
        raise TypeError(f"not representable as JSON: {error}") from None


def detached(value: Any) -> tuple[Any, int]:
    """``plain(value)``, and the bytes of its JSON text. TypeError as there, and for text that is no Unicode."""
    text = encode(value)
    if text.count(b"[") + text.count(b"{") >= MAX_DEPTH:
        return plain(value), len(text)
    return loads(text), len(text)  # by way of the text, which is faster; it cannot be nested too deeply


def is_plain(value: Any) -> bool:
    """True when the value is made of JSON types only, with finite numbers."""
    kind = type(value)
    if kind in _LEAVES:
        return True
    if kind is float:
        return math.isfinite(value)
    if kind is list:
        return all(map(is_plain, value))
    if kind is not dict:
        return False
    # A loop: everything that is stored comes through here, and a generator costs more than the questions.
    for key, item in value.items():
        if type(key) is not str or not (type(item) in _LEAVES or is_plain(item)):
            return False
    return True


def loads(text: str | bytes) -> Any:
    """Read JSON text; ValueError when it is none. NaN and Infinity are refused."""
    return from_json(text, allow_inf_nan=False)


def canonical(value: Any) -> bytes:
    """RFC 8785 bytes, the form that is hashed. Integers beyond 2**53 are written as text so that they hash at all.

    Without floats, and with names in ASCII, Python's own encoder writes the same bytes in a third of the time.
    """
    if _is_simple(value, 0):
        return _simple.encode(value).encode()
    return rfc8785.dumps(_hashable(plain(value)))


def digest(value: Any) -> str:
    """SHA-256 of the canonical form, in hex."""
    return hashlib.sha256(canonical(value)).hexdigest()


_simple = json.JSONEncoder(ensure_ascii=False, sort_keys=True, separators=(",", ":"), check_circular=False)
_EXACT = 2**53 - 1


def _is_simple(value: Any, depth: int) -> bool:
    """True for JSON in which neither numbers nor the order of names need the rules of RFC 8785."""
    kind = type(value)
    if kind is str or value is None or kind is bool:
        return True
    if kind is int:
        return bool(-_EXACT <= value <= _EXACT)
    if kind not in (dict, list) or depth >= MAX_DEPTH:
        return False
    if kind is list:
        return all(_is_simple(item, depth + 1) for item in value)
    # A loop, as in is_plain: each start of a stored run hashes the schemas of all its tools.
    for key, item in value.items():
        if type(key) is not str or not key.isascii() or not (type(item) is str or _is_simple(item, depth + 1)):
            return False
    return True


def _hashable(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _hashable(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_hashable(item) for item in value]
    if type(value) is int and abs(value) > _EXACT:
        return f"int:{value}"
    return value
