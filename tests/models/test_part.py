from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protolink.models import Part, RouteDecision, TaskState, ToolCall, ToolOutput

numbers = st.integers(min_value=-(2**53), max_value=2**53) | st.floats(allow_nan=False, allow_infinity=False)
json_values = st.recursive(
    st.none() | st.booleans() | numbers | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)
json_objects = st.dictionaries(st.text(max_size=4), json_values, max_size=3)
names = st.text(min_size=1, max_size=8).filter(str.strip)
parts = st.one_of(
    st.builds(Part.text, st.text()),
    st.builds(Part.json, json_values),
    st.builds(Part.infer_output, content=json_values),
    st.builds(Part.infer, prompt=st.none() | st.text(), metadata=st.none() | json_objects),
    st.builds(Part.error, st.text(), st.text(), retryable=st.booleans()),
    st.builds(Part.tool_call, tool_name=names, args=json_objects),
    st.builds(Part.tool_output, result=json_values, error=st.none() | st.text()),
    st.builds(Part.route, names, reason=st.none() | st.text(), metadata=json_objects),
    st.builds(Part.decision, names, confidence=st.none() | st.floats(0, 1)),
)


@given(parts)
def test_part_survives_its_json_form(part: Part) -> None:
    assert Part.from_dict(part.to_dict()) == part


@pytest.mark.claim("ACT-004")
def test_part_json_creates_json_part() -> None:
    part = Part.json({"a": [1, None]})
    assert part.type == "json"
    assert part.content == {"a": [1, None]}
    assert part.to_dict() == {"type": "json", "content": {"a": [1, None]}}


@pytest.mark.parametrize(
    ("part", "record"),
    [
        (Part.text("hi"), {"type": "text", "content": "hi"}),
        (Part.status(TaskState.WORKING), {"type": "status", "content": {"state": "working", "message": None}}),
        (Part.status("x", "y"), {"type": "status", "content": {"state": "x", "message": "y"}}),
        (
            Part.error("c", "m", retryable=True),
            {"type": "error", "content": {"code": "c", "message": "m", "retryable": True}},
        ),
        (Part.infer(prompt="hi"), {"type": "infer", "content": {"prompt": "hi"}}),
        (Part.infer(output_schema={}), {"type": "infer", "content": {"output_schema": {}}}),
        (Part.infer_output(content={"a": 1}), {"type": "infer_output", "content": {"a": 1}}),
        (
            Part.tool_call(tool_name="t", args={"x": 1}, call_id="c"),
            {"type": "tool_call", "content": {"tool_name": "t", "args": {"x": 1}, "call_id": "c"}},
        ),
        (
            Part.tool_output(call_id="c", result=3),
            {"type": "tool_output", "content": {"call_id": "c", "result": 3, "error": None}},
        ),
        (
            Part.route("left", reason="r", confidence=0.5),
            {"type": "route", "content": {"route_key": "left", "reason": "r", "confidence": 0.5, "metadata": {}}},
        ),
        (
            Part.decision("left"),
            {"type": "decision", "content": {"route_key": "left", "reason": None, "confidence": None, "metadata": {}}},
        ),
    ],
    ids=lambda value: value.type if isinstance(value, Part) else None,
)
def test_factories_write_documented_content(part: Part, record: dict) -> None:
    assert part.to_dict() == record


def test_tool_output_keeps_member_order() -> None:
    assert list(Part.tool_output(result=1).to_dict()["content"]) == ["call_id", "result", "error"]


def test_calls_get_fresh_ids() -> None:
    first, second = (Part.tool_call(tool_name="t").as_tool_call() for _ in range(2))
    assert first.call_id.startswith("tool_call_")
    assert first.call_id != second.call_id
    assert Part.tool_output(result=1).as_tool_output().call_id.startswith("tool_output_")


def test_from_dict_restores_content_objects() -> None:
    call = Part.from_dict({"type": "tool_call", "content": {"tool_name": "t", "args": {"x": 1}, "call_id": "c"}})
    output = Part.from_dict({"type": "tool_output", "content": {"call_id": "c", "result": 2, "error": None}})
    route = Part.from_dict({"type": "decision", "content": {"route_key": "k"}})
    assert call.content == ToolCall("t", {"x": 1}, "c")
    assert output.content == ToolOutput("c", 2)
    assert route.content == RouteDecision("k")


def test_missing_type_is_named() -> None:
    with pytest.raises(ValueError, match="'type'"):
        Part.from_dict({"content": "x"})


def test_unknown_types_pass_through() -> None:
    assert Part.from_dict({"type": "holo", "content": [1]}) == Part("holo", [1])


@pytest.mark.parametrize(
    ("data", "named"),
    [
        ([], "JSON object"),
        ({"type": 3}, "'type'"),
        ({"type": "text", "content": 3}, "text content"),
        ({"type": "infer", "content": "hi"}, "infer content"),
        ({"type": "infer", "content": {"prompt": 1}}, "'prompt'"),
        ({"type": "tool_call", "content": None}, "tool_call content"),
        ({"type": "tool_call", "content": {"args": {}}}, "'tool_name'"),
        ({"type": "tool_call", "content": {"tool_name": " "}}, "'tool_name'"),
        ({"type": "tool_call", "content": {"tool_name": "t", "args": [1]}}, "'args'"),
        ({"type": "tool_output", "content": "x"}, "tool_output content"),
        ({"type": "route", "content": {"route_key": "k", "confidence": "high"}}, "'confidence'"),
    ],
)
def test_malformed_content_is_refused(data: object, named: str) -> None:
    with pytest.raises(ValueError, match=named):
        Part.from_dict(data)  # type: ignore[arg-type]


def test_unreadable_content_is_never_written() -> None:
    with pytest.raises(ValueError, match="'tool_name'"):
        Part("tool_call", {"nonsense": 1}).to_dict()


def test_readers_refuse_other_types() -> None:
    with pytest.raises(ValueError, match="Expected part type tool_call, got text"):
        Part.text("x").as_tool_call()
    with pytest.raises(ValueError, match="Expected part type tool_output, got text"):
        Part.text("x").as_tool_output()
    with pytest.raises(ValueError, match="Expected part type route or decision, got text"):
        Part.text("x").as_route_decision()
    assert Part.decision("k").as_route_decision() == Part.route("k").as_route_decision()


def test_made_up_call_id_stays() -> None:
    part = Part("tool_call", {"tool_name": "t"})
    assert part.as_tool_call().call_id == part.to_dict()["content"]["call_id"]


def test_written_content_is_detached() -> None:
    part = Part.json({"a": [1]})
    part.to_dict()["content"]["a"].append(2)
    assert part.content == {"a": [1]}
