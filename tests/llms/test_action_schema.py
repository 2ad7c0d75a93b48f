from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from jsonschema import Draft202012Validator

from protolink.llms.action_schema import action_schema
from protolink.llms.json_actions import action_turn

TREE = {
    "type": "object",
    "properties": {"root": {"$ref": "#/$defs/Node"}},
    "required": ["root"],
    "$defs": {
        "Node": {
            "type": "object",
            "properties": {
                "name": {"type": "string"},
                "children": {"type": "array", "items": {"$ref": "#/$defs/Node"}},
            },
            "required": ["name"],
            "additionalProperties": False,
        }
    },
}


@dataclass
class Tool:
    name: str
    input_schema: Any = field(
        default_factory=lambda: {"properties": {"path": {"type": "string"}}, "required": ["path"]}
    )


@dataclass
class Peer:
    name: str
    description: str = ""


def valid(schema: Any, action: Any) -> bool:
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(schema).is_valid(action)


def call(tool: str, **args: Any) -> dict[str, Any]:
    return {"type": "tool_call", "tool": tool, "args": args}


def test_an_answer_is_always_possible_and_never_empty() -> None:
    schema = action_schema([])
    assert valid(schema, {"type": "final", "content": "yes"})
    assert not valid(schema, {"type": "final", "content": ""})
    assert not valid(schema, {"type": "final", "content": "yes", "thought": "hm"})
    assert not valid(schema, call("read", path="a"))


def test_each_tool_is_called_with_its_own_arguments() -> None:
    schema = action_schema([Tool("read"), Tool("list", None)])
    assert valid(schema, call("read", path="a"))
    assert valid(schema, call("list"))
    assert not valid(schema, call("read"))
    assert not valid(schema, call("read", path="a", more=1))
    assert not valid(schema, call("list", path="a"))
    assert not valid(schema, call("other"))


def test_references_of_several_tools_stay_their_own() -> None:
    other = {**TREE, "$defs": {"Node": {"type": "integer"}}}
    schema = action_schema([Tool("plant", TREE), Tool("count", other)])
    nested = {"name": "a", "children": [{"name": "b"}]}
    assert valid(schema, call("plant", root=nested))
    assert not valid(schema, call("plant", root={"name": "a", "children": [{"nom": "b"}]}))
    assert not valid(schema, call("plant", root=3))
    assert valid(schema, call("count", root=3))
    assert not valid(schema, call("count", root=nested))


def test_work_goes_only_to_known_agents() -> None:
    schema = action_schema([], [Peer("writer"), Peer("checker")])
    infer = {"type": "agent_call", "agent": "writer", "action": "infer", "prompt": "go"}
    tool = {"type": "agent_call", "agent": "checker", "action": "tool_call", "tool": "count", "args": {"n": 1}}
    assert valid(schema, infer)
    assert valid(schema, tool)
    assert not valid(schema, {**infer, "agent": "stranger"})
    assert not valid(schema, {**infer, "prompt": ""})


def test_what_the_schema_admits_is_an_action() -> None:
    schema = action_schema([Tool("read")], [Peer("writer")])
    actions = [
        {"type": "final", "content": "yes"},
        call("read", path="a"),
        {"type": "agent_call", "agent": "writer", "action": "infer", "prompt": "go"},
        {"type": "agent_call", "agent": "writer", "action": "tool_call", "tool": "count", "args": {}},
    ]
    assert len(schema["anyOf"]) == len(actions)
    for action in actions:
        assert valid(schema, action)
        action_turn(action)


def test_texts_may_be_bounded() -> None:
    schema = action_schema([], [Peer("writer")], text_limit=3)
    assert valid(schema, {"type": "final", "content": "abc"})
    assert not valid(schema, {"type": "final", "content": "abcd"})
    assert not valid(schema, {"type": "agent_call", "agent": "writer", "action": "infer", "prompt": "abcd"})


def test_the_tools_own_schema_is_not_changed() -> None:
    tool = Tool("plant", {"title": "T", **TREE})
    before = repr(tool.input_schema)
    action_schema([tool])
    assert repr(tool.input_schema) == before
