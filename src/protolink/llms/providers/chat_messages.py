"""A conversation as chat completions want it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...models import ConversationHistory
from ...models.history import HistoryMessage
from ...models.json import dumps
from ...models.turn import AGENT_CALL
from ..native import unmapped

Message = dict[str, Any]


def native_messages(history: ConversationHistory) -> list[Message]:
    """The conversation with tool calls and their answers in roles of their own."""
    return [_native(message) for message in history if not _says_nothing(message)]


def json_messages(history: ConversationHistory) -> list[Message]:
    """The conversation in three roles that alternate: system once, then user and assistant.

    The templates of small models know no more, and many refuse two messages of a role in a row: what a tool answered is
    told by the user, calls stand as the JSON that made them, and neighbours are joined.
    """
    told: list[Message] = []
    for message in history:
        if _says_nothing(message):
            continue
        role = _json_role(message, first=not told)
        content = "\n".join(filter(None, [_text(message.content), *map(_call_text, message.tool_calls or ())]))
        if told and told[-1]["role"] == role:
            told[-1]["content"] += f"\n\n{content}"
        else:
            told.append({"role": role, "content": content})
    return told


def _says_nothing(message: HistoryMessage) -> bool:
    """True for the trace of an empty reply, which many servers refuse."""
    return message.role == "assistant" and not message.tool_calls and not _text(message.content).strip()


def _json_role(message: HistoryMessage, first: bool) -> str:
    if message.role == "assistant" or (message.role == "system" and first):
        return message.role
    return "user"


def _native(message: HistoryMessage) -> Message:
    content = message.content if isinstance(message.content, list) else _text(message.content)
    if message.role == "tool":
        return {"role": "tool", "tool_call_id": message.tool_call_id or "", "content": content}
    if message.role == "assistant" and message.tool_calls:
        calls = [_tool_call(call) for call in message.tool_calls]
        return {"role": "assistant", "content": content or None, "tool_calls": calls}
    return {"role": message.role, "content": content}


def _tool_call(call: Mapping[str, Any]) -> Message:
    name, args = unmapped(call["name"], call.get("args") or {})
    return {"id": call.get("id") or "", "type": "function", "function": {"name": name, "arguments": dumps(args)}}


def _call_text(call: Mapping[str, Any]) -> str:
    args = call.get("args") or {}
    if call["name"] == AGENT_CALL:
        return dumps({"type": AGENT_CALL, **args})
    return dumps({"type": "tool_call", "tool": call["name"], "args": args})


def _text(content: Any) -> str:
    if content is None:
        return ""
    return content if isinstance(content, str) else dumps(content)
