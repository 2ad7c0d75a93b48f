"""Type hints that are JSON's own types, and their schemas.

Most tools take text, numbers and lists of them. Pydantic takes longer to load than all of protolink and a millisecond
for each tool, so for these hints the schema is written here, in the words that pydantic would use, and pydantic is
loaded with the first call. Nothing can be wrong with such hints, so that nothing is found too late.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

from .signature import REQUIRED, Parameter

_TYPES = {str: "string", bool: "boolean", int: "integer", float: "number", NoneType: "null", None: "null"}


def schema_of(hint: Any) -> dict[str, Any] | None:
    """The schema, None when it takes pydantic to say."""
    if hint is Any:
        return {}
    if hint is list:
        return {"items": {}, "type": "array"}
    if hint is dict:
        return {"additionalProperties": True, "type": "object"}
    origin, inner = get_origin(hint), get_args(hint)
    if origin is None:
        return {"type": _TYPES[hint]} if type(hint) in (type, NoneType) and hint in _TYPES else None
    if origin in (Union, UnionType):
        return _any_of(inner)
    if origin is Literal:
        return {"enum": list(inner), "type": "string"} if all(type(choice) is str for choice in inner) else None
    if origin is dict and inner[0] is not str:
        return None
    member = schema_of(inner[-1]) if origin in (list, dict) else None
    if member is None:
        return None
    return {"items": member, "type": "array"} if origin is list else _object(member)


def properties_of(parameters: Iterable[Parameter]) -> dict[str, dict[str, Any]] | None:
    """The schemas of parameters by name, with their defaults, None when it takes pydantic to say."""
    found = {}
    for parameter in parameters:
        schema = schema_of(parameter.hint)
        if schema is None:
            return None
        if parameter.default is not REQUIRED:
            if not _fits(parameter.default, parameter.hint):
                return None
            schema["default"] = parameter.default
        found[parameter.name] = schema
    return found


def _any_of(hints: tuple[Any, ...]) -> dict[str, Any] | None:
    # None comes last, wherever it was written.
    members = [schema_of(hint) for hint in sorted(hints, key=lambda hint: hint is NoneType)]
    # Pydantic joins members that look the same, and leaves nothing of a choice that anything fits.
    if any(not member or members.count(member) > 1 for member in members):
        return None
    return {"anyOf": members}


def _object(member: dict[str, Any]) -> dict[str, Any]:
    return {"additionalProperties": member or True, "type": "object"}


def _fits(default: Any, hint: Any) -> bool:
    """Whether a default is certain to be read back as it is."""
    if get_origin(hint) in (Union, UnionType):
        return any(_fits(default, member) for member in get_args(hint))
    if get_origin(hint) is Literal:
        return type(default) is str and default in get_args(hint)
    if hint is float:
        return type(default) in (int, float) and math.isfinite(default)
    if type(default) is str:
        return hint in (str, Any) and default.isascii()
    return type(default) is (NoneType if hint is None else hint) and type(default) in (bool, int, NoneType)
