"""What arguments are accepted, what becomes of them, and what is said about the others."""

from __future__ import annotations

import datetime
import enum
import json
import string
import urllib.request
from collections.abc import Callable
from functools import partial
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from pydantic import BaseModel, Field

from protolink.drive.ports import InvalidArguments
from protolink.runtime import RunContext
from protolink.tools import Tool


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Point(BaseModel):
    x: int
    label: str = ""


def tool_of(hint: Any) -> Tool:
    def tool(x: Any) -> Any:
        return x

    tool.__annotations__["x"] = hint
    return Tool.from_callable(tool)


@pytest.mark.parametrize(
    ("hint", "given_", "expected"),
    [
        (int, 1.0, 1),
        (int, -3.0, -3),
        (float, 1, 1.0),
        (list[int], [1.0, 2], [1, 2]),
        (tuple[int, str], [1, "a"], (1, "a")),
        (set[int], [1, 1, 2], {1, 2}),
        (Color, "blue", Color.BLUE),
        (Level, 2, Level.HIGH),
        (Point, {"x": 1}, Point(x=1)),
        (list[Point], [{"x": 1, "label": "a"}], [Point(x=1, label="a")]),
        (datetime.datetime, "2024-02-03T04:05:06", datetime.datetime(2024, 2, 3, 4, 5, 6)),
        (datetime.date, "2024-02-03", datetime.date(2024, 2, 3)),
        (dict[int, str], {"1": "a"}, {1: "a"}),
        (int | None, None, None),
        (int | str, "5", "5"),
    ],
)
def test_json_becomes_the_hinted_type(hint: Any, given_: Any, expected: Any) -> None:
    found = tool_of(hint).validate_args({"x": given_})["x"]
    assert found == expected
    assert type(found) is type(expected)


@pytest.mark.parametrize("value", [Color.RED, datetime.datetime(2024, 1, 1), Point(x=1), (1, 2)])
def test_finished_python_values_are_accepted_too(value: Any) -> None:
    hint = tuple[int, int] if isinstance(value, tuple) else type(value)
    assert tool_of(hint).validate_args({"x": value}) == {"x": value}


@pytest.mark.parametrize(
    ("hint", "value"),
    [
        (int, "1"),
        (int, True),
        (int, 1.5),
        (float, "1.5"),
        (float, True),
        (bool, 1),
        (bool, "true"),
        (str, 1),
        (str, None),
        (Level, True),
        (Level, "1"),
        (Literal[1, 2], True),
        (Literal[True], 1),
        (datetime.datetime, 0),
        (Point, {"x": "1"}),
        (list[int], ["1"]),
        (dict[str, int], {"a": True}),
        (float, float("nan")),
        (Any, float("inf")),
        (Any, object()),
        (str, "\ud800"),
    ],
)
def test_value_of_another_json_type_is_refused(hint: Any, value: Any) -> None:
    with pytest.raises(InvalidArguments):
        tool = tool_of(hint)
        tool.prepare({"x": value}, RunContext())


def shape(
    x: int,
    d: list[int] | None = None,
    e: Literal["a", "b"] = "a",
    c: Color = Color.RED,
    p: Point | None = None,
    u: int | list[str] = 0,
    s: Annotated[str, Field(min_length=2)] = "ab",
    f: float = 0.0,
    t: tuple[int, int] = (0, 0),
) -> None: ...


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "tool args.x is required"),
        ({"x": 1, "z": 2}, "tool args received unexpected field(s): z"),
        ({"x": 1, "z": 2, "y": 3}, "tool args received unexpected field(s): z, y"),
        ({"x": "1"}, "tool args.x must be an integer, got str"),
        ({"x": True}, "tool args.x must be an integer, got bool"),
        ({"x": None}, "tool args.x must be an integer, got null"),
        ({"x": 1, "d": [1, "a"]}, "tool args.d[1] must be an integer, got str"),
        ({"x": 1, "d": 5}, "tool args.d must be a list, got int"),
        ({"x": 1, "f": "1"}, "tool args.f must be a number, got str"),
        ({"x": 1, "e": "c"}, 'tool args.e must be one of ["a", "b"]'),
        ({"x": 1, "c": "green"}, 'tool args.c must be one of ["red", "blue"]'),
        ({"x": 1, "p": {}}, "tool args.p.x is required"),
        ({"x": 1, "p": {"x": "a"}}, "tool args.p.x must be an integer, got str"),
        ({"x": 1, "p": 3}, "tool args.p must be an object, got int"),
        ({"x": 1, "t": [1]}, "tool args.t[1] is required"),
        (
            {"x": 1, "u": {}},
            "tool args.u did not match any allowed schema: must be an integer, got dict; must be a list, got dict",
        ),
        ({"x": 1, "s": "a"}, "tool args.s failed annotation validation: String should have at least 2 characters"),
    ],
)
def test_feedback_names_place_and_fault(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError) as caught:
        Tool.from_callable(shape).validate_args(arguments)
    assert str(caught.value) == message
    assert isinstance(caught.value, InvalidArguments)
    assert caught.value.code == "invalid_arguments"


def test_feedback_names_all_faults_at_once() -> None:
    with pytest.raises(InvalidArguments) as caught:
        Tool.from_callable(shape).validate_args({"d": "no", "z": 1})
    assert str(caught.value) == (
        "tool args.x is required; tool args.d must be a list, got str; tool args received unexpected field(s): z"
    )


def test_feedback_never_repeats_a_value() -> None:
    for bad in ({"x": "hunter2"}, {"x": 1, "e": "hunter2"}, {"x": 1, "s": 5, "u": "hunter2"}, {"x": 1, "c": "hunter2"}):
        with pytest.raises(InvalidArguments) as caught:
            Tool.from_callable(shape).validate_args(bad)
        assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize("arguments", [None, [1], "x", 5])
def test_arguments_that_are_no_object_are_refused(arguments: Any) -> None:
    with pytest.raises(InvalidArguments, match="tool args must be an object, got"):
        Tool.from_callable(shape).validate_args(arguments)


def test_value_without_json_form_is_named() -> None:
    with pytest.raises(InvalidArguments, match=r"tool args\.x\.inner: object has no JSON form"):
        tool_of(Any).prepare({"x": {"inner": object()}}, RunContext())


def test_endless_value_is_refused() -> None:
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(InvalidArguments):
        tool_of(Any).prepare({"x": loop}, RunContext())


def test_text_that_is_no_unicode_is_refused_before_it_is_recorded() -> None:
    with pytest.raises(InvalidArguments, match="no Unicode"):
        tool_of(Any).prepare({"x": "\ud800"}, RunContext())


def test_defaults_are_filled_in() -> None:
    def tool(a: int, color: Color = Color.BLUE, items: list[int] = [], n: int = None): ...  # type: ignore  # noqa: B006, RUF013

    found = Tool.from_callable(tool).validate_args({"a": 1})
    assert found == {"a": 1, "color": Color.BLUE, "items": [], "n": None}
    found["items"].append(1)
    assert Tool.from_callable(tool).validate_args({"a": 1})["items"] == []


async def test_default_without_json_form_reaches_the_function_but_not_the_record() -> None:
    marker = object()

    def tool(x: Any = marker, limit: int = "auto") -> Any:  # type: ignore[assignment]
        return x is marker and limit == "auto"

    made = Tool.from_callable(tool)
    assert await made()
    assert made.prepare({}, RunContext()).payload == {"arguments": {}}  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("hint", "value"),
    [
        (Color, Color.RED),
        (Point, Point(x=2)),
        (tuple[int, str], (1, "a")),
        (set[int], {3, 1}),
        (datetime.date, datetime.date(2024, 1, 2)),
    ],
)
def test_recorded_arguments_are_json_and_read_back_the_same(hint: Any, value: Any) -> None:
    tool = tool_of(hint)
    recorded = tool.prepare({"x": value}, RunContext()).payload["arguments"]  # type: ignore[union-attr]
    assert json.loads(json.dumps(recorded)) == recorded
    assert tool.validate_args(recorded) == {"x": value}


def test_bound_arguments_of_a_partial_are_neither_shown_nor_changeable() -> None:
    def fetch(url: str, token: str) -> str:
        return url + token

    tool = Tool.from_callable(partial(fetch, token="secret"))
    assert tool.name == "fetch"
    assert tool.input_schema is not None
    assert list(tool.input_schema["properties"]) == ["url"]
    with pytest.raises(InvalidArguments, match="unexpected field"):
        tool.validate_args({"url": "u", "token": "mine"})


SUPPLIED: dict[str, Any] = {
    "type": "object",
    "properties": {
        "n": {"type": "integer", "minimum": 1},
        "kind": {"enum": ["a", "b"]},
        "either": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
    },
    "required": ["n"],
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "tool args.n is required"),
        ({"n": 1, "z": 2}, "tool args received unexpected field(s): z"),
        ({"n": "1"}, "tool args.n must be an integer, got str"),
        ({"n": True}, "tool args.n must be an integer, got bool"),
        ({"n": 0}, "tool args.n failed annotation validation: minimum 1"),
        ({"n": 1, "kind": "c"}, 'tool args.kind must be one of ["a", "b"]'),
        (
            {"n": 1, "either": "x"},
            "tool args.either did not match any allowed schema: tool args.either must be an integer, got str; "
            "tool args.either must be null, got str",
        ),
    ],
)
def test_supplied_schema_decides_for_a_function_without_hints(arguments: dict[str, Any], message: str) -> None:
    def remote(**kwargs: Any) -> Any:
        return kwargs

    with pytest.raises(InvalidArguments) as caught:
        Tool.from_callable(remote, input_schema=SUPPLIED).validate_args(arguments)
    assert str(caught.value) == message


async def test_supplied_schema_is_declared_and_passes_its_arguments_on() -> None:
    def remote(**kwargs: Any) -> Any:
        return kwargs

    tool = Tool.from_callable(remote, input_schema=SUPPLIED)
    assert tool.input_schema == SUPPLIED
    assert await tool(n=2, kind="a") == {"n": 2, "kind": "a"}


async def test_supplied_schema_and_hints_work_together() -> None:
    def paint(color: Color, depth: int = 3) -> Any:
        return color, depth

    narrow = {
        "type": "object",
        "properties": {"color": {"enum": ["red"]}},
        "required": ["color"],
        "additionalProperties": False,
    }
    tool = Tool.from_callable(paint, input_schema=narrow)
    assert await tool(color="red") == (Color.RED, 3)
    action = tool.prepare({"color": "red"}, RunContext())
    assert tool.validate_args(action.payload["arguments"]) == {"color": Color.RED}  # type: ignore[union-attr]
    with pytest.raises(InvalidArguments, match=r'must be one of \["red"\]'):
        tool.validate_args({"color": "blue"})


def test_supplied_schema_that_is_none_says_so_at_the_first_call() -> None:
    tool = Tool.from_callable(lambda **kwargs: None, name="odd", input_schema={"type": "nonsense"})
    with pytest.raises(ValueError, match="tool 'odd': input_schema is not a JSON schema"):
        tool.validate_args({})
    with pytest.raises(TypeError, match="input_schema must be a mapping"):
        Tool.from_callable(lambda **kwargs: None, name="odd", input_schema=[])  # type: ignore[arg-type]


def test_supplied_schema_never_fetches_what_it_refers_to(monkeypatch: pytest.MonkeyPatch) -> None:
    fetched: list[Any] = []

    def fetch(*args: Any, **kwargs: Any) -> Any:
        fetched.append(args)
        raise OSError

    monkeypatch.setattr(urllib.request, "urlopen", fetch)
    tool = Tool.from_callable(
        lambda **kwargs: None, name="far", input_schema={"properties": {"x": {"$ref": "http://127.0.0.1:9/schema"}}}
    )
    with pytest.raises(ValueError, match="refers to what it does not hold"):
        tool.validate_args({"x": 1})
    assert fetched == []


HINTS = st.recursive(
    st.sampled_from(
        [int, float, str, bool, Any, Color, Level, Literal["a", 1], Literal[0, True], datetime.date, Point]
    ),
    lambda inner: (
        inner.map(lambda hint: list[hint])  # type: ignore[valid-type]
        | inner.map(lambda hint: hint | None)
        | inner.map(lambda hint: dict[str, hint])  # type: ignore[valid-type]
        | inner.map(lambda hint: set[int])
        | st.tuples(inner, inner).map(lambda pair: tuple[pair[0], pair[1]])  # type: ignore[name-defined]
        | st.tuples(inner, inner).map(lambda pair: pair[0] | pair[1])
    ),
    max_leaves=4,
)
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-3, 3)
    | st.sampled_from([1.0, 0.5, 0.0, "a", "red", "1", "2024-02-03", "", "true"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["x", "label", "k"]), inner, max_size=2)
        | st.just({"x": 1, "label": "l"})
    ),
    max_leaves=4,
)


def function_of(hints: dict[str, Any]) -> Callable[..., Any]:
    scope: dict[str, Any] = {}
    exec(f"def tool({', '.join(hints)}): return locals()", scope)
    made: Callable[..., Any] = scope["tool"]
    made.__annotations__ = dict(hints)
    return made


@given(st.dictionaries(st.sampled_from(string.ascii_lowercase[:4]), HINTS, min_size=1, max_size=3), st.data())
def test_schema_accepts_what_the_validator_accepts(hints: dict[str, Any], data: st.DataObject) -> None:
    tool = Tool.from_callable(function_of(hints))
    arguments = {name: data.draw(VALUES, label=name) for name in hints}
    try:
        action = tool.prepare(arguments, RunContext())
    except InvalidArguments:
        return
    schema = Draft202012Validator(tool.input_schema)
    assert list(schema.iter_errors(arguments)) == []
    recorded = action.payload["arguments"]  # type: ignore[union-attr]
    assert list(schema.iter_errors(recorded)) == []
    assert tool.validate_args(recorded) == tool.validate_args(arguments)


@given(
    st.dictionaries(
        st.sampled_from("abc"), st.sampled_from([int, float, str, bool, int | None, list[int], Color]), min_size=1
    ),
    st.data(),
)
def test_validator_accepts_what_a_plain_schema_accepts(hints: dict[str, Any], data: st.DataObject) -> None:
    tool = Tool.from_callable(function_of(hints))
    arguments = {name: data.draw(VALUES, label=name) for name in hints}
    if Draft202012Validator(tool.input_schema).is_valid(arguments):
        assert set(tool.validate_args(arguments)) == set(hints)
