"""JSON schemas of a tool's arguments and of its result."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from .._lazy import Later
from .json_hints import properties_of, schema_of
from .signature import REQUIRED, Parameter

if TYPE_CHECKING:
    from . import drawn
else:
    drawn = Later(".drawn", __package__)


def plain_input_schema(name: str, parameters: Iterable[Parameter]) -> dict[str, Any] | None:
    """The schema of arguments whose hints are JSON's own types, None when they are not."""
    parameters = tuple(parameters)
    properties = properties_of(parameters)
    if properties is None:
        return None
    return input_schema(name, properties, [found.name for found in parameters if found.default is REQUIRED])


def input_schema(name: str, properties: Mapping[str, Any], required: Iterable[str]) -> dict[str, Any]:
    """One flat object, which is what models are shown."""
    required = frozenset(required)
    return {
        "type": "object",
        "title": f"{name}Input",
        "properties": dict(properties),
        "required": [parameter for parameter in properties if parameter in required],
        "additionalProperties": False,
    }


def output_schema(name: str, returns: Any) -> dict[str, Any]:
    """The schema of a tool's result; only a title when the return type is unknown or has no JSON form."""
    found = schema_of(returns)
    if found is None:
        found = drawn.result_schema(returns)
    return {**found, "title": f"{name}Output"}


def has_numeric_choice(schema: Any) -> bool:
    """Whether a choice contains 0 or 1, which Python takes for False and True."""
    if isinstance(schema, dict):
        choices = schema.get("enum")
        if isinstance(choices, list) and any(type(item) in (int, float, bool) and item in (0, 1) for item in choices):
            return True
        return any(has_numeric_choice(item) for item in schema.values())
    return isinstance(schema, list) and any(map(has_numeric_choice, schema))
