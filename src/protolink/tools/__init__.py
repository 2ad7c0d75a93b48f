"""Tools: functions, prepared operations and questions that an agent may use."""

from __future__ import annotations

from ..drive.execution import ToolExecution
from .builtins.ask_user import ask_user_tool
from .coerce import BaseTool, as_tool
from .prepared import PreparedTool
from .tool import Tool

__all__ = ["BaseTool", "PreparedTool", "Tool", "ToolExecution", "as_tool", "ask_user_tool"]
