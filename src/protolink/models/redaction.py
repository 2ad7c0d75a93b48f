"""RedactionPolicy: masks recognisable secrets in data that is shown, exported or stored for diagnosis.

Secrets are recognised by the names of their fields, and by values that the application knows. Prose is not searched
for anything else. Redaction makes a copy; what is executed or stored for recovery is never redacted.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import lru_cache
from typing import Any

from pydantic_core import PydanticSerializationError, to_jsonable_python

DEFAULT_SENSITIVE_KEYS: frozenset[str] = frozenset(
    {
        "api_key",
        "apikey",
        "authorization",
        "client_secret",
        "credential",
        "credentials",
        "data_base64",
        "password",
        "secret",
        "token",
    }
)

_SUFFIXES = ("_api_key", "_secret", "_token", "_password", "_credentials")
_CYCLE = "[CYCLE]"
_TOO_DEEP = "[TOO DEEP]"
_MAX_DEPTH = 10_000  # ends objects whose to_dict() makes ever new objects
_MAX_PASSES = 8
_LOWER_UPPER = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


@lru_cache(maxsize=4096)
def _spellings(key: str) -> tuple[str, str]:
    """The name in lower case with underscores, and the same with camel humps taken apart."""
    name = key.replace("-", "_")
    return name.lower(), _LOWER_UPPER.sub("_", name).lower()


@dataclass(frozen=True, slots=True)
class RedactionPolicy:
    """What to mask and how. ValueError for a negative ``max_string_length`` or a blank known value.

    ``sensitive_keys`` are names of fields; case, hyphens and camelCase do not matter. ``max_string_length`` cuts other
    strings to that many characters and ``...``. ``sensitive_values`` are secrets to mask inside any text.
    """

    sensitive_keys: frozenset[str] = DEFAULT_SENSITIVE_KEYS
    replacement: str = "[REDACTED]"
    max_string_length: int | None = None
    sensitive_values: frozenset[str] = field(default=frozenset(), kw_only=True, repr=False)
    _names: frozenset[str] = field(init=False, repr=False, compare=False)
    _known: re.Pattern[str] | None = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        limit = self.max_string_length
        if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int)):
            raise TypeError("RedactionPolicy max_string_length must be an int or None")
        if limit is not None and limit < 0:
            raise ValueError("RedactionPolicy max_string_length must not be negative")
        keys = _text_set(self.sensitive_keys, "sensitive_keys")
        values = _text_set(self.sensitive_values, "sensitive_values")
        longest_first = sorted(values, key=lambda value: (-len(value), value))
        known = re.compile("|".join(map(re.escape, longest_first))) if values else None
        object.__setattr__(self, "sensitive_keys", keys)
        object.__setattr__(self, "sensitive_values", values)
        object.__setattr__(self, "_names", frozenset(spelling for key in keys for spelling in _spellings(key)))
        object.__setattr__(self, "_known", known)

    def is_sensitive_key(self, key: Any) -> bool:
        """True for a configured name, and for one that ends in a known suffix. Only text can be a name."""
        return isinstance(key, str) and (self._is_named(key) or _has_suffix(key))

    def redact(self, value: Any) -> Any:
        """A masked copy made of JSON types; redacting it again changes nothing.

        Objects with ``to_dict()``, dataclasses, pydantic models, sets and bytes are converted; what has no JSON form
        becomes ``<TypeName>``. A container inside itself becomes ``[CYCLE]``.
        """
        root: list[Any] = [None]
        active: set[int] = set()
        work: list[tuple[Any, Any, Any, int]] = [(value, root, 0, 0)]  # source, target, place in target, depth
        while work:
            source, target, place, depth = work.pop()
            if target is None:  # everything inside ``source`` is done
                active.discard(id(source))
            elif id(source) in active:
                target[place] = _CYCLE
            elif depth > _MAX_DEPTH:
                target[place] = _TOO_DEEP
            else:
                opened = _open(source)
                if not isinstance(opened, (dict, list)):
                    target[place] = self._text(opened) if isinstance(opened, str) else opened
                    continue
                active.add(id(source))
                work.append((source, None, None, depth))
                copy, inner = self._layout(opened)
                target[place] = copy
                work.extend((item, copy, spot, depth + 1) for spot, item in inner)
        return root[0]

    def _layout(self, opened: dict[str, Any] | list[Any]) -> tuple[Any, list[tuple[Any, Any]]]:
        """The empty copy of a container in its order, masks in place, and what is left to fill in."""
        if isinstance(opened, list):
            return [None] * len(opened), list(enumerate(opened))
        copy: dict[str, Any] = {}
        inner: list[tuple[Any, Any]] = []
        for key, item in opened.items():
            masked = self._masks(key, item)
            copy[key] = self.replacement if masked else None
            if not masked:
                inner.append((key, item))
        return copy, inner

    def _masks(self, key: str, value: Any) -> bool:
        """A configured name masks everything; a suffix spares numbers, booleans and None, which count things."""
        if self._is_named(key):
            return True
        return _has_suffix(key) and not (value is None or isinstance(value, (bool, int, float)))

    def _is_named(self, key: str) -> bool:
        return not self._names.isdisjoint(_spellings(key))

    def _text(self, text: str) -> str:
        """Mask and cut until nothing changes: a cut, or a mask beside other text, may spell a known value anew."""
        for _ in range(_MAX_PASSES):
            done = self._cut(self._mask_known(text))
            if done == text:
                break
            text = done
        return text

    def _mask_known(self, text: str) -> str:
        if self._known is None:
            return text
        pieces = text.split(self.replacement) if self.replacement else [text]
        return self.replacement.join(self._known.sub(lambda _: self.replacement, piece) for piece in pieces)

    def _cut(self, text: str) -> str:
        limit = self.max_string_length
        return text if limit is None or len(text) <= limit else f"{text[:limit]}..."


def _text_set(values: Iterable[str], name: str) -> frozenset[str]:
    if isinstance(values, str):
        raise TypeError(f"RedactionPolicy {name} must be a set of texts, not one text")
    found = frozenset(values)
    if not all(isinstance(value, str) for value in found):
        raise TypeError(f"RedactionPolicy {name} must hold texts only")
    if not all(value.strip() for value in found):
        raise ValueError(f"RedactionPolicy {name} must not hold blank text")
    return found


def _has_suffix(key: str) -> bool:
    return any(spelling.endswith(_SUFFIXES) for spelling in _spellings(key))


def _open(value: Any) -> Any:
    """One level of ``value`` as a dict with text keys, a list, or a scalar."""
    if value is None or isinstance(value, (bool, int, float)):
        return value.value if isinstance(value, Enum) else value
    if isinstance(value, str):
        return str(value.value) if isinstance(value, Enum) else str(value)
    if isinstance(value, Mapping):
        return {key if isinstance(key, str) else str(key): item for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return list(value)
    if isinstance(value, (set, frozenset)):
        return sorted(value, key=str)
    if isinstance(value, (bytes, bytearray, memoryview)):
        return _bytes_text(bytes(value))
    if callable(getattr(value, "to_dict", None)) and not isinstance(value, type):
        made = value.to_dict()
        return _open(made) if isinstance(made, (Mapping, list, tuple, str)) else _foreign(made)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {item.name: getattr(value, item.name) for item in dataclasses.fields(value)}
    return _foreign(value)


def _bytes_text(value: bytes) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        return f"<{len(value)} bytes>"


def _foreign(value: Any) -> Any:
    """Pydantic's rules for everything else. A text such as repr() is no way out: it may show what must not be shown."""
    try:
        return to_jsonable_python(value)
    except (PydanticSerializationError, ValueError, TypeError, RecursionError):
        return f"<{type(value).__name__}>"


DEFAULT_REDACTION_POLICY = RedactionPolicy()
