"""What a model said: one turn of text and calls, whatever format it spoke."""

from __future__ import annotations

from dataclasses import field
from typing import Any

from .value import dataclass

#: The call name of a delegation. Its arguments are ``{"agent", "action": "infer" | "tool_call", "prompt" | "tool",
#: "args"}``.
AGENT_CALL = "agent_call"

#: Names that no tool may have: the action vocabulary, and the two functions that native models delegate with.
RESERVED_NAMES = frozenset({"final", "tool_call", AGENT_CALL, "protolink_delegate_agent", "protolink_call_agent_tool"})


@dataclass(frozen=True, slots=True)
class Call:
    """One call that a model proposes. ``id`` is the provider's call id ("" when it has none)."""

    id: str
    tool: str
    args: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ModelTurn:
    """One reply of a model.

    Without ``calls`` the ``text`` is the final answer. ``usage`` has ``input_tokens`` and ``output_tokens`` (or the
    provider's own ``prompt_tokens`` and ``completion_tokens``). ``raw`` is the reply as the provider sent it, where
    that is more than ``text``.
    """

    text: str
    calls: tuple[Call, ...] = ()
    usage: dict[str, Any] | None = None
    finish_reason: str | None = None
    raw: str | None = None
