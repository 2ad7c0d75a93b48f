from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest

from protolink.llms import Call, ModelTurn
from protolink.llms.json_actions import ActionParseError
from protolink.llms.native import (
    anthropic,
    chat_completions,
    declarations,
    gemini,
    mapped,
    mapped_turn,
    native_call,
    openai_responses,
)
from protolink.llms.schema import untitled
from protolink.models import AgentCard

SCHEMA = {"type": "object", "title": "Args", "properties": {"path": {"type": "string", "title": "Path"}}}
SHOWN = {"type": "object", "properties": {"path": {"type": "string"}}}


@dataclass
class Tool:
    name: str = "read"
    description: str = "Reads a file."
    input_schema: dict[str, Any] = field(default_factory=lambda: dict(SCHEMA))
    capabilities: tuple[str, ...] = ()


PEER = AgentCard(name="writer", description="Writes prose.", url="runtime://writer")


def test_tools_alone_declare_no_delegation() -> None:
    assert [item.name for item in declarations([Tool()])] == ["read"]


def test_peers_add_the_two_delegation_functions() -> None:
    _, delegate, call_tool = declarations([Tool()], [PEER])
    assert (delegate.name, call_tool.name) == ("protolink_delegate_agent", "protolink_call_agent_tool")
    assert list(delegate.parameters["properties"]) == ["agent", "prompt"]
    assert list(call_tool.parameters["properties"]) == ["agent", "tool", "args_json"]
    assert "Writes prose." in delegate.description


def test_openai_responses_shape() -> None:
    expected = {
        "type": "function",
        "name": "read",
        "description": "Reads a file.",
        "parameters": SHOWN,
        "strict": False,
    }
    assert openai_responses(declarations([Tool()])) == [expected]


def test_chat_completions_shape() -> None:
    function = {"name": "read", "description": "Reads a file.", "parameters": SHOWN}
    assert chat_completions(declarations([Tool()])) == [{"type": "function", "function": function}]


def test_anthropic_shape() -> None:
    expected = {"name": "read", "description": "Reads a file.", "input_schema": SHOWN}
    assert anthropic(declarations([Tool()])) == [expected]


def test_gemini_shape() -> None:
    expected = {"name": "read", "description": "Reads a file.", "parameters_json_schema": SHOWN}
    assert gemini(declarations([Tool()])) == [expected]


def test_a_tool_without_schema_takes_an_empty_object() -> None:
    (declared,) = declarations([Tool(input_schema={})])
    assert declared.parameters == {"type": "object", "properties": {}}


def test_titles_go_but_properties_named_title_stay() -> None:
    schema = {
        "title": "Book",
        "properties": {"title": {"type": "string", "title": "Title", "default": {"title": "x"}}},
        "$defs": {"title": {"title": "T", "anyOf": [{"title": "A", "type": "null"}]}},
        "required": ["title"],
    }
    before = repr(schema)
    assert untitled(schema) == {
        "properties": {"title": {"type": "string", "default": {"title": "x"}}},
        "$defs": {"title": {"anyOf": [{"type": "null"}]}},
        "required": ["title"],
    }
    assert repr(schema) == before


# ------------------------------------------------------------------------------------------------ calls back


@pytest.mark.parametrize("arguments", ['{"path": "a"}', {"path": "a"}])
def test_arguments_come_as_text_or_object(arguments: Any) -> None:
    assert native_call("c1", "read", arguments) == Call("c1", "read", {"path": "a"})


@pytest.mark.parametrize("arguments", ["", None, "{}", {}])
def test_no_arguments_are_an_empty_object(arguments: Any) -> None:
    assert native_call("c1", "read", arguments).args == {}


@pytest.mark.parametrize("arguments", ["{", "[1]", "3", '{"n": NaN}', '{"n": 1e999}', "\ud800", [1]])
def test_arguments_that_are_no_object_are_refused(arguments: Any) -> None:
    with pytest.raises(ActionParseError, match="read"):
        native_call("c1", "read", arguments)


def test_delegate_function_is_an_agent_call() -> None:
    call = native_call("c1", "protolink_delegate_agent", {"agent": "writer", "prompt": "write"})
    assert call == Call("c1", "agent_call", {"agent": "writer", "action": "infer", "prompt": "write"})


@pytest.mark.parametrize(("args_json", "args"), [('{"n": 1}', {"n": 1}), ("", {}), ("{}", {})])
def test_agent_tool_function_is_an_agent_call(args_json: str, args: dict[str, Any]) -> None:
    sent = {"agent": "writer", "tool": "count", "args_json": args_json}
    expected = {"agent": "writer", "action": "tool_call", "tool": "count", "args": args}
    assert native_call("c1", "protolink_call_agent_tool", sent) == Call("c1", "agent_call", expected)


@pytest.mark.parametrize("args_json", ["{", "[]", "1", '{"n": Infinity}', 5])
def test_bad_args_json_is_refused(args_json: Any) -> None:
    with pytest.raises(ActionParseError, match="args_json"):
        mapped(Call("", "protolink_call_agent_tool", {"agent": "a", "tool": "t", "args_json": args_json}))


@pytest.mark.parametrize(
    ("name", "args", "blamed"),
    [
        ("protolink_delegate_agent", {"prompt": "x"}, "agent"),
        ("protolink_delegate_agent", {"agent": "a", "prompt": " "}, "prompt"),
        ("protolink_delegate_agent", {"agent": "a", "prompt": "x", "tool": "t"}, "tool"),
        ("protolink_call_agent_tool", {"agent": "a", "tool": 3}, "tool"),
        ("protolink_call_agent_tool", {"agent": "a", "tool": "t", "args": {}}, "args"),
    ],
)
def test_malformed_delegations_are_refused(name: str, args: dict[str, Any], blamed: str) -> None:
    with pytest.raises(ActionParseError, match=blamed):
        mapped(Call("", name, args))


def test_a_turn_maps_each_delegation_and_keeps_the_rest() -> None:
    read = Call("c1", "read", {})
    turn = mapped_turn(
        ModelTurn("", (read, Call("c2", "protolink_delegate_agent", {"agent": "a", "prompt": "p"})), finish_reason="x")
    )
    assert turn.calls == (read, Call("c2", "agent_call", {"agent": "a", "action": "infer", "prompt": "p"}))
    assert turn.finish_reason == "x"
