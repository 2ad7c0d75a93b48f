"""JSON Schemas as models are shown them: without the titles that generators add, which only cost tokens."""

from __future__ import annotations

from typing import Any

#: Keywords whose value maps free names to schemas: a property may be called "title".
_NAMED = frozenset({"properties", "patternProperties", "$defs", "definitions", "dependentSchemas"})

#: Keywords whose value is data, not a schema.
_DATA = frozenset({"const", "default", "enum", "example", "examples", "required"})


def untitled(schema: Any) -> Any:
    """The schema without its ``title`` annotations. The argument is not changed; data in it is shared."""
    if isinstance(schema, list):
        return [untitled(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    return {key: _value(key, item) for key, item in schema.items() if key != "title"}


def _value(key: str, item: Any) -> Any:
    if key in _DATA:
        return item
    if key in _NAMED and isinstance(item, dict):
        return {name: untitled(schema) for name, schema in item.items()}
    return untitled(item)


def parameters(schema: Any) -> dict[str, Any]:
    """The untitled schema of a call's arguments; providers insist on an object with ``properties``."""
    found: dict[str, Any] = untitled(schema or {})
    return {"type": "object", "properties": {}, **found}
