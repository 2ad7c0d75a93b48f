"""What is inside a value: one level of it, as JSON types."""

from __future__ import annotations

import dataclasses
from collections import deque
from collections.abc import Iterator, Mapping, Set, ValuesView
from enum import Enum
from typing import Any

from pydantic_core import PydanticSerializationError, to_jsonable_python


def opened(value: Any) -> Any:
    """A dict whose keys are as they were, a list, or a scalar. The value is not changed.

    Objects with ``to_dict()``, pydantic models, dataclasses, named tuples and exceptions become mappings, sets sorted
    lists, bytes text. What has no JSON form becomes ``<TypeName>``: a text such as repr() may show what must not be
    shown.
    """
    if value is None or isinstance(value, (bool, int, float)):
        return opened(value.value) if isinstance(value, Enum) else value
    if isinstance(value, str):
        return str(value.value) if isinstance(value, Enum) else str(value)
    if isinstance(value, (bytes, bytearray, memoryview)):
        return bytes_text(bytes(value))
    if isinstance(value, Mapping):
        return dict(value.items())
    if isinstance(value, (list, tuple, deque, ValuesView)):
        return value._asdict() if hasattr(value, "_asdict") else list(value)
    if isinstance(value, Set):
        return sorted(value, key=str)
    return _object(value)


def bytes_text(value: bytes) -> str:
    """Bytes as the text that they spell, or their size."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        return f"<{len(value)} bytes>"


def _object(value: Any) -> Any:
    if isinstance(value, (type, Iterator)):  # reading an iterator would use it up
        return nameless(value)
    made = _converted(value)
    if made is not None:
        return made
    if isinstance(value, BaseException):
        return _exception(value)
    if dataclasses.is_dataclass(value):
        return {item.name: getattr(value, item.name, None) for item in dataclasses.fields(value)}
    return _foreign(value)


def _converted(value: Any) -> Any:
    """By the object's own method, where it has one that makes something else than an object again."""
    own = getattr(value, "to_dict", None)
    try:
        if callable(own):
            made = own()
        elif callable(dump := getattr(value, "model_dump", None)):
            made = dump(mode="python", warnings=False)
        else:
            return None
    except Exception:  # foreign code; masking for a log must not become an error of its own
        return nameless(value)
    return opened(made) if made is None or isinstance(made, (Mapping, list, tuple, str)) else _foreign(made)


def _exception(error: BaseException) -> dict[str, Any]:
    """Its arguments rather than its text, which may have them printed inside."""
    found: dict[str, Any] = {"type": type(error).__name__, "args": list(error.args)}
    if isinstance(error, BaseExceptionGroup):
        found["args"] = [error.message]
        found["exceptions"] = list(error.exceptions)
    if notes := getattr(error, "__notes__", None):
        found["notes"] = list(notes)
    cause = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    if cause is not None:
        found["cause"] = cause
    return found


def _foreign(value: Any) -> Any:
    """Pydantic's rules for everything else: dates, enums, UUIDs, paths, decimals, secrets."""
    try:
        return to_jsonable_python(value)
    except (PydanticSerializationError, ValueError, TypeError, RecursionError):
        return nameless(value)


def nameless(value: Any) -> str:
    """What stands for a value that cannot be shown."""
    return f"<{type(value).__name__}>"
