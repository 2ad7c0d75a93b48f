"""Schemas drawn from type hints."""

from __future__ import annotations

import datetime
import enum
import json
from typing import Annotated, Any, Literal

import pytest
from jsonschema import Draft202012Validator
from pydantic import BaseModel, Field

from protolink.tools import Tool


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Point(BaseModel):
    x: int
    y: int = 0


class Shape(BaseModel):
    corners: list[Point]
    color: Color = Color.RED


class Node(BaseModel):
    value: int
    children: list[Node] = []


def schema_of(func: Any) -> dict[str, Any]:
    schema = Tool.from_callable(func).input_schema
    assert schema is not None
    Draft202012Validator.check_schema(schema)
    json.dumps(schema)
    return schema


def test_input_schema_has_the_documented_frame() -> None:
    def add(a: int, b: int = 2) -> int: ...

    assert schema_of(add) == {
        "type": "object",
        "title": "addInput",
        "properties": {"a": {"type": "integer"}, "b": {"type": "integer", "default": 2}},
        "required": ["a"],
        "additionalProperties": False,
    }


def test_function_without_parameters_takes_an_empty_object() -> None:
    def now() -> str: ...

    schema = schema_of(now)
    assert (schema["properties"], schema["required"], schema["additionalProperties"]) == ({}, [], False)


@pytest.mark.parametrize(
    ("hint", "expected"),
    [
        (int, {"type": "integer"}),
        (float, {"type": "number"}),
        (str, {"type": "string"}),
        (bool, {"type": "boolean"}),
        (list[int], {"type": "array", "items": {"type": "integer"}}),
        (set[int], {"type": "array", "items": {"type": "integer"}}),
        (dict[str, float], {"type": "object", "additionalProperties": {"type": "number"}}),
        (
            tuple[int, str],
            {"type": "array", "prefixItems": [{"type": "integer"}, {"type": "string"}], "minItems": 2, "maxItems": 2},
        ),
        (Literal["a", "b"], {"type": "string", "enum": ["a", "b"]}),
        (Literal["only"], {"type": "string", "enum": ["only"]}),
        (Color, {"type": "string", "enum": ["red", "blue"]}),
        (int | None, {"anyOf": [{"type": "integer"}, {"type": "null"}]}),
        (datetime.datetime, {"type": "string", "format": "date-time"}),
        (Annotated[str, Field(min_length=2)], {"type": "string", "minLength": 2}),
        (Annotated[int, Field(le=9, description="digit")], {"type": "integer", "maximum": 9, "description": "digit"}),
        (Any, {}),
    ],
)
def test_type_hint_becomes_its_schema(hint: Any, expected: dict[str, Any]) -> None:
    def tool(x: Any) -> None: ...

    tool.__annotations__["x"] = hint
    assert schema_of(tool)["properties"]["x"] == expected


def test_untyped_parameter_accepts_anything_and_varargs_are_ignored() -> None:
    def tool(x, *args: int, **kwargs: int): ...  # type: ignore[no-untyped-def]

    schema = schema_of(tool)
    assert schema["properties"] == {"x": {}}
    assert schema["required"] == ["x"]


def test_models_are_written_in_place() -> None:
    def draw(shape: Shape) -> None: ...

    schema = schema_of(draw)
    assert "$ref" not in json.dumps(schema)
    corner = schema["properties"]["shape"]["properties"]["corners"]["items"]
    assert corner["properties"]["x"] == {"type": "integer"}
    assert schema["properties"]["shape"]["properties"]["color"]["enum"] == ["red", "blue"]


def test_model_that_contains_itself_keeps_a_reference() -> None:
    def walk(tree: Node) -> None: ...

    schema = schema_of(walk)
    check = Draft202012Validator(schema)
    assert check.is_valid({"tree": {"value": 1, "children": [{"value": 2, "children": []}]}})
    assert not check.is_valid({"tree": {"value": 1, "children": [{"value": "2"}]}})


def test_defaults_in_the_schema_are_json() -> None:
    def tool(
        color: Color = Color.BLUE, day: datetime.date = datetime.date(2024, 2, 3), at: tuple[int, int] = (1, 2)
    ): ...

    properties = schema_of(tool)["properties"]
    assert [properties[name]["default"] for name in ("color", "day", "at")] == ["blue", "2024-02-03", [1, 2]]


def test_default_without_json_form_is_not_declared() -> None:
    marker = object()

    def tool(x: Any = marker, y: float = float("inf")): ...  # type: ignore[no-untyped-def]

    schema = schema_of(tool)
    assert schema["properties"] == {"x": {}, "y": {"type": "number"}}
    assert schema["required"] == []


def test_parameter_named_like_a_model_method_is_declared() -> None:
    def tool(copy: int, _hidden: str, model_config: str, json: bool): ...  # type: ignore[no-untyped-def]

    assert schema_of(tool)["required"] == ["copy", "_hidden", "model_config", "json"]


def test_pydantic_field_default_gives_constraints_and_default() -> None:
    def tool(x: int = Field(5, ge=1, description="how many")) -> int:
        return x

    assert schema_of(tool)["properties"]["x"] == {
        "type": "integer",
        "minimum": 1,
        "description": "how many",
        "default": 5,
    }
    assert Tool.from_callable(tool).validate_args({}) == {"x": 5}


def test_output_schema_follows_the_return_hint() -> None:
    def count() -> list[int]: ...

    async def later() -> Point: ...

    assert Tool.from_callable(count).output_schema == {
        "type": "array",
        "items": {"type": "integer"},
        "title": "countOutput",
    }
    found = Tool.from_callable(later).output_schema
    assert found is not None
    assert (found["type"], found["title"], found["properties"]["x"]) == ("object", "laterOutput", {"type": "integer"})


def test_result_without_a_schema_has_only_a_title() -> None:
    class Handle: ...

    def unknown(): ...  # type: ignore[no-untyped-def]

    def handle() -> Any: ...

    handle.__annotations__["return"] = Handle
    assert Tool.from_callable(unknown).output_schema == {"title": "unknownOutput"}
    assert Tool.from_callable(handle).output_schema == {"title": "handleOutput"}


def test_parameter_that_json_cannot_carry_is_a_type_error() -> None:
    class Connection: ...

    def query(db: Any) -> None: ...

    query.__annotations__["db"] = Connection
    with pytest.raises(TypeError, match="tool 'query' has a parameter that cannot be given as JSON"):
        Tool.from_callable(query)


def test_unknown_parameter_hint_is_a_type_error_and_unknown_result_is_not() -> None:
    def bad(x: Missing) -> None: ...  # type: ignore[name-defined]  # noqa: F821

    def good(x: int) -> Missing: ...  # type: ignore[name-defined]  # noqa: F821

    with pytest.raises(TypeError, match="bad: a type hint is not known at run time"):
        Tool.from_callable(bad)
    assert schema_of(good)["properties"] == {"x": {"type": "integer"}}


def test_positional_only_parameter_is_a_type_error() -> None:
    def tool(x: int, /) -> None: ...

    with pytest.raises(TypeError, match="'x' cannot be given by name"):
        Tool.from_callable(tool)
