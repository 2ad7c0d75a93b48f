"""Tools: functions, prepared operations and questions that an agent may use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._lazy import by_name, loader

_HOMES = {
    "..drive.execution": ("ToolExecution",),
    "..runtime": ("ProbeFinding",),
    "builtins.ask_user": ("ask_user_tool",),
    "coerce": (
        "BaseTool",
        "as_tool",
    ),
    "prepared": ("PreparedTool",),
    "tool": ("Tool",),
}

__all__ = [
    "BaseTool",
    "PreparedTool",
    "ProbeFinding",
    "Tool",
    "ToolExecution",
    "as_tool",
    "ask_user_tool",
]

if TYPE_CHECKING:
    from ..drive.execution import ToolExecution
    from ..runtime import ProbeFinding
    from .builtins.ask_user import ask_user_tool
    from .coerce import BaseTool, as_tool
    from .prepared import PreparedTool
    from .tool import Tool

__getattr__, __dir__ = loader(__name__, by_name(_HOMES), globals())
