"""Whatever an application hands over as a tool becomes one that the driver can use."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

from ..drive.ports import QuestionTool, ToolPort
from .builtins.ask_user import AskUserTool
from .prepared import PreparedTool
from .tool import Tool
from .traits import unreserved_name


@runtime_checkable
class BaseTool(Protocol):
    """The least that a tool of one's own has to have. Its ``input_schema`` decides which arguments it gets."""

    @property
    def name(self) -> str: ...
    @property
    def description(self) -> str: ...
    @property
    def input_schema(self) -> dict[str, Any] | None: ...
    @property
    def output_schema(self) -> dict[str, Any] | None: ...
    @property
    def tags(self) -> list[str] | None: ...

    async def __call__(self, **kwargs: Any) -> Any: ...


def as_tool(tool: Any) -> ToolPort | QuestionTool:
    """A tool as it is, anything that looks like a tool or a function as a new Tool.

    TypeError for everything else, ValueError for a blank or reserved name.
    """
    if isinstance(tool, (Tool, PreparedTool, AskUserTool)):
        unreserved_name(tool.name)
        return tool
    if isinstance(tool, type) or not callable(tool):
        raise TypeError(f"a tool must be a function or a tool object, got {_described(tool)}")
    if callable(getattr(tool, "prepare", None)) and callable(getattr(tool, "invoke", None)):
        unreserved_name(getattr(tool, "name", None))
        ready: ToolPort = tool
        return ready
    made = _from_base(tool) if isinstance(tool, BaseTool) else Tool.from_callable(tool)
    unreserved_name(made.name)
    return made


def _from_base(tool: BaseTool) -> Tool:
    return Tool(
        name=tool.name,
        description=tool.description,
        input_schema=tool.input_schema,
        output_schema=tool.output_schema,
        tags=tool.tags,
        func=tool.__call__,
        examples=getattr(tool, "examples", None),
        capabilities=getattr(tool, "capabilities", None),
        action_builder=getattr(tool, "action_builder", None),
        sync_execution=getattr(tool, "sync_execution", None),
        read_only=getattr(tool, "read_only", False),
        idempotent=getattr(tool, "idempotent", False),
        probe=getattr(tool, "probe", None),
    )


def _described(tool: Any) -> str:
    return f"the class {tool.__name__}" if isinstance(tool, type) else type(tool).__name__
