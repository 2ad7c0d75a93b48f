"""JSON schemas drawn from type hints by pydantic and cut to what models need.

Models of one tool see one flat object: definitions are written in place (a type that contains itself keeps its
reference), generated titles of fields are left out, and a choice is always an ``enum``, never a ``const``, which some
providers do not know.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import TypeAdapter
from pydantic.errors import PydanticUserError
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from .schema import input_schema

_REFERENCE = "#/$defs/"


class _ToolSchema(GenerateJsonSchema):
    """Pydantic's generator with fewer words. Sets are plain lists: a repeated item is dropped, not an error."""

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False

    def literal_schema(self, schema: core_schema.LiteralSchema) -> JsonSchemaValue:
        return _choice(super().literal_schema(schema))

    def enum_schema(self, schema: core_schema.EnumSchema) -> JsonSchemaValue:
        return _choice(super().enum_schema(schema))

    def set_schema(self, schema: core_schema.SetSchema) -> JsonSchemaValue:
        return _repeatable(super().set_schema(schema))

    def frozenset_schema(self, schema: core_schema.FrozenSetSchema) -> JsonSchemaValue:
        return _repeatable(super().frozenset_schema(schema))


def drawn_input_schema(name: str, adapter: TypeAdapter[Any], defaults: Mapping[str, Any]) -> dict[str, Any]:
    """The schema of a tool's arguments. ``adapter`` is a TypedDict's; ``defaults`` are JSON and are shown as such."""
    drawn = _inlined(adapter.json_schema(mode="validation", schema_generator=_ToolSchema))
    properties = drawn.get("properties", {})
    for parameter, default in defaults.items():
        properties[parameter]["default"] = default
    schema = input_schema(name, properties, drawn.get("required", ()))
    return schema | {key: drawn[key] for key in ("$defs",) if key in drawn}


def result_schema(returns: Any) -> dict[str, Any]:
    """The schema of a tool's result, {} when it has no JSON form: a live tool may return anything."""
    try:
        drawn = TypeAdapter(returns).json_schema(mode="serialization", schema_generator=_ToolSchema)
    except (PydanticUserError, NameError, TypeError):
        return {}
    return _inlined(drawn)


def _choice(schema: JsonSchemaValue) -> JsonSchemaValue:
    if "const" in schema:
        schema = {"enum": [schema["const"]]} | {key: value for key, value in schema.items() if key != "const"}
    return schema


def _repeatable(schema: JsonSchemaValue) -> JsonSchemaValue:
    schema.pop("uniqueItems", None)
    return schema


def _inlined(schema: dict[str, Any]) -> dict[str, Any]:
    definitions: dict[str, Any] = schema.pop("$defs", {})
    kept: set[str] = set()
    found: dict[str, Any] = _replace(schema, definitions, (), kept)
    written: dict[str, Any] = {}
    while kept - written.keys():
        for name in sorted(kept - written.keys()):
            written[name] = _replace(definitions[name], definitions, (name,), kept)
    return found | {"$defs": written} if written else found


def _replace(node: Any, definitions: Mapping[str, Any], inside: tuple[str, ...], kept: set[str]) -> Any:
    """``node`` with its references written out; those back into ``inside`` stay and are noted in ``kept``."""
    if isinstance(node, list):
        return [_replace(item, definitions, inside, kept) for item in node]
    if not isinstance(node, dict):
        return node
    reference = node.get("$ref")
    if not isinstance(reference, str) or not reference.startswith(_REFERENCE):
        # The class name of an enum tells a model nothing.
        hidden = "title" if isinstance(node.get("enum"), list) else None
        return {key: _replace(value, definitions, inside, kept) for key, value in node.items() if key != hidden}
    name = reference.removeprefix(_REFERENCE)
    if name in inside:
        kept.add(name)
        return node
    beside = {key: value for key, value in node.items() if key != "$ref"}
    found: dict[str, Any] = _replace(definitions[name], definitions, (*inside, name), kept)
    return found | beside
