"""Tools that come with protolink."""

from __future__ import annotations

from .ask_user import AskUserTool, ask_user_tool

__all__ = ["AskUserTool", "ask_user_tool"]
