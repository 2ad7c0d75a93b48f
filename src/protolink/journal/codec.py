"""Facts to bytes and back: ``[n, seq, at, "FactName", {fields that differ from their defaults}]``.

The form is driven by the declared fields of the facts, so a new fact or a new field needs no code here. What is left
out has its default, which is why a field that was ever stored keeps its name and its default for ever.

Fields typed ``Any`` come back as JSON: a tuple as a list, a date as text.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable
from dataclasses import MISSING
from types import NoneType, UnionType
from typing import Any, Union, get_args, get_origin, get_type_hints

from pydantic_core import to_json

from ..engine import facts
from ..engine.facts import Record
from ..errors import StoreCorruptError
from ..models import json
from ..models.value import dataclass

#: Version of the stored form. A higher one is refused, a lower one is read.
SCHEMA_VERSION = 1

#: The JSON reader stops at 200 levels. What it could not read again must not be stored.
_SAFE_BRACKETS = 190


def encode(record: Record) -> bytes:
    """One line of compact JSON. TypeError for a value that has no JSON form or could not be read again."""
    try:
        line = to_json(to_value(record))
    except (ValueError, RecursionError) as error:
        raise TypeError(f"not representable as JSON: {error}") from None
    if len(line) > 2 * _SAFE_BRACKETS and line.count(b"[") + line.count(b"{") > _SAFE_BRACKETS:  # each is closed again
        _check_readable(line)
    return line


def decode(data: bytes, *, schema: int = SCHEMA_VERSION) -> Record:
    """The record of one line. ``schema``: the version that its writer used. StoreCorruptError for what is no record."""
    try:
        value = json.loads(data)
    except ValueError as error:
        raise StoreCorruptError(f"A stored fact is no JSON: {error}") from error
    return from_value(value, schema=schema)


def to_value(record: Record) -> list[Any]:
    """The record as JSON values. TypeError when a field has no JSON form."""
    fact = record.fact
    kind = type(fact)
    return [record.n, record.seq, _checked(record.at), kind.__name__, _shape_of(kind).encode(fact)]


def from_value(value: Any, *, schema: int = SCHEMA_VERSION) -> Record:
    """The record of a decoded line. StoreCorruptError for unknown facts and fields, naming the writer's version."""
    newer = "" if schema <= SCHEMA_VERSION else f" (written by a newer protolink? schema {schema} > {SCHEMA_VERSION})"
    try:
        n, seq, at, name, fields = value
        kind = _BY_NAME[name]
        return Record(n, seq, at, _shape_of(kind).decode(fields))
    except KeyError as error:
        raise StoreCorruptError(f"Unknown stored fact {error}{newer}") from error
    except (TypeError, ValueError, AttributeError) as error:
        raise StoreCorruptError(f"A stored fact cannot be read: {error}{newer}") from error


def to_lines(records: Iterable[Record]) -> bytes:
    """A batch: one record a line."""
    return b"\n".join(map(encode, records))


def _check_readable(line: bytes) -> None:
    try:
        json.loads(line)
    except ValueError as error:
        raise TypeError(f"not storable: {error}") from None


@dataclass(frozen=True, slots=True)
class _Shape:
    """How values of one declared type are written and read."""

    encode: Callable[[Any], Any]
    decode: Callable[[Any], Any]


def _same(value: Any) -> Any:
    """What is declared as text or a number is trusted to be one, but for a NaN, which would be written as it is."""
    return _checked(value) if isinstance(value, float) else value


def _checked(value: Any) -> Any:
    """What an application, a model or a tool may have put there; the types of the facts say nothing of it."""
    return value if json.is_plain(value) else json.plain(value)


_SCALAR = _Shape(_same, _same)
_PLAIN = _Shape(_checked, _same)
_SCALARS = frozenset({str, int, bool})
_SHAPES: dict[type, _Shape] = {}


def _shape_of(cls: type) -> _Shape:
    found = _SHAPES.get(cls)
    if found is None:
        found = _SHAPES[cls] = _fields(cls)
    return found


def _shape(hint: Any) -> _Shape:
    origin = get_origin(hint)
    if hint in _SCALARS:
        return _SCALAR
    if origin in (Union, UnionType):
        return _optional(_shape(_without_none(hint)))
    if origin is tuple:
        item = _shape(get_args(hint)[0])
        return _Shape(lambda value: [item.encode(part) for part in value], lambda value: tuple(map(item.decode, value)))
    if isinstance(hint, type) and hasattr(hint, "from_dict"):
        return _Shape(lambda value: _checked(value.to_dict()), hint.from_dict)
    if isinstance(hint, type) and dataclasses.is_dataclass(hint):
        return _shape_of(hint)
    return _PLAIN


def _without_none(hint: Any) -> Any:
    """The type of a field that may be None. Facts have no other unions; plain ones need no shape."""
    found = [item for item in get_args(hint) if item is not NoneType]
    return found[0] if len(found) == 1 else Any


def _optional(shape: _Shape) -> _Shape:
    if shape is _PLAIN or shape is _SCALAR:
        return shape
    return _Shape(
        lambda value: None if value is None else shape.encode(value),
        lambda value: None if value is None else shape.decode(value),
    )


def _fields(cls: type) -> _Shape:
    hints = get_type_hints(cls)
    known = {field.name: _shape(hints[field.name]) for field in dataclasses.fields(cls)}
    plan = [(field.name, known[field.name].encode, _default(field)) for field in dataclasses.fields(cls)]

    def encode_fields(value: Any) -> dict[str, Any]:
        found = {}
        for name, to_value, default in plan:
            item = getattr(value, name)
            if item is not default and (default is MISSING or not _equal(item, default)):
                found[name] = item if type(item) is str else to_value(item)
        return found

    def decode_fields(value: Any) -> Any:
        unknown = value.keys() - known.keys()
        if unknown:
            raise ValueError(f"unknown field {sorted(unknown)[0]!r} of {cls.__name__}")
        return cls(**{name: known[name].decode(item) for name, item in value.items()})

    return _Shape(encode_fields, decode_fields)


def _default(field: dataclasses.Field[Any]) -> Any:
    return field.default_factory() if field.default_factory is not MISSING else field.default


def _equal(value: Any, default: Any) -> bool:
    """True only for the same type: 0, 0.0 and False are equal and still three different things."""
    return type(value) is type(default) and bool(value == default)


_BY_NAME: dict[str, type] = {cls.__name__: cls for cls in get_args(facts.Fact)}
