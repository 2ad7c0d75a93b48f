"""What an application may hand over as a tool."""

from __future__ import annotations

from typing import Any

import pytest

import protolink.drive.execution
import protolink.tools
import protolink.tools.prepared
from protolink.models.turn import RESERVED_NAMES
from protolink.runtime import RunAction, RunContext
from protolink.tools import BaseTool, PreparedTool, Tool, as_tool, ask_user_tool


def lookup(key: str) -> str:
    return key


class OwnTool:
    """A tool of an application's own class."""

    def __init__(self, name: str = "own") -> None:
        self.name = name
        self.description = "Do it."
        self.input_schema: dict[str, Any] | None = {"type": "object", "properties": {"n": {"type": "integer"}}}
        self.output_schema: dict[str, Any] | None = None
        self.tags: list[str] | None = ["mine"]
        self.capabilities = ["own.use"]
        self.read_only = True

    async def __call__(self, **kwargs: Any) -> Any:
        return kwargs


def prepared() -> PreparedTool:
    return PreparedTool(
        lookup,
        prepare=lambda arguments, context: RunAction("tool.call", "lookup"),
        execute=lambda execution: None,
        capabilities=(),
    )


def test_tools_are_taken_as_they_are() -> None:
    for tool in (Tool.from_callable(lookup), prepared(), ask_user_tool()):
        assert as_tool(tool) is tool
        assert isinstance(tool, BaseTool)


def test_function_becomes_a_tool() -> None:
    tool = as_tool(lookup)
    assert isinstance(tool, Tool)
    assert (tool.name, tool.func) == ("lookup", lookup)


async def test_object_with_the_tool_protocol_becomes_a_tool() -> None:
    own = OwnTool()
    assert isinstance(own, BaseTool)
    tool = as_tool(own)
    assert isinstance(tool, Tool)
    assert (tool.name, tool.description, tool.input_schema, tool.tags) == ("own", "Do it.", own.input_schema, ["mine"])
    assert (tool.capabilities, tool.read_only) == (("own.use",), True)
    assert await tool(n=1) == {"n": 1}
    with pytest.raises(ValueError, match="must be an integer"):
        tool.prepare({"n": "1"}, RunContext())


def test_object_that_the_driver_can_use_is_taken_as_it_is() -> None:
    class Ready(OwnTool):
        def prepare(self, arguments: Any, context: Any) -> RunAction:
            return RunAction("tool.call", self.name)

        def invoke(self, execution: Any) -> None: ...

    ready = Ready()
    assert as_tool(ready) is ready
    with pytest.raises(ValueError, match="reserved"):
        as_tool(Ready("final"))


@pytest.mark.parametrize("tool", [None, 5, "lookup", {"name": "x"}, OwnTool, [lookup]])
def test_everything_else_is_a_type_error(tool: Any) -> None:
    with pytest.raises(TypeError, match="must be a function or a tool object"):
        as_tool(tool)


@pytest.mark.parametrize("name", sorted(RESERVED_NAMES))
def test_word_of_the_action_vocabulary_is_no_tool_name(name: str) -> None:
    with pytest.raises(ValueError, match="reserved"):
        as_tool(Tool.from_callable(lookup, name=name))
    with pytest.raises(ValueError, match="reserved"):
        as_tool(OwnTool(name))


def test_blank_name_is_a_value_error() -> None:
    renamed = Tool.from_callable(lookup)
    renamed.name = "  "
    for tool in (OwnTool(""), OwnTool(" "), renamed):
        with pytest.raises(ValueError, match="must not be blank"):
            as_tool(tool)


def test_tool_execution_is_one_class_everywhere() -> None:
    assert protolink.tools.ToolExecution is protolink.drive.execution.ToolExecution
    assert protolink.tools.prepared.ToolExecution is protolink.drive.execution.ToolExecution
