"""The conversation that the model sees: its own replies, and what became of its calls, in the order of the calls."""

from __future__ import annotations

from typing import Any

from ..models.json import dumps
from ..models.printable import printable
from ..models.turn import AGENT_CALL
from .facts import ModelReplied
from .state import Action, Frame


def speak(frame: Frame, fact: ModelReplied) -> None:
    """The reply enters the conversation, as the model gave it."""
    if fact.native and fact.calls:
        calls = [{"id": p.call.id or p.action, "name": p.call.tool, "args": p.call.args} for p in fact.calls]
        frame.history.add_assistant(fact.text, tool_calls=calls)
    else:
        frame.history.add_assistant(fact.raw or fact.text)


def observe(frame: Frame, action: Action) -> None:
    """What became of one call enters the conversation."""
    if action.state in ("succeeded", "rejected"):
        call_id = action.call.id or action.id
        frame.history.add_tool(observation(frame, action), action.call.tool, tool_call_id=call_id)


def observation(frame: Frame, action: Action) -> str:
    """JSON text of a result or of a rejection with what is left of the allowance."""
    result = action.result if action.state == "succeeded" else correction(frame, action)
    args = action.call.args
    if action.call.tool == AGENT_CALL:
        content = {"type": "agent_result", "agent": args.get("agent"), "action": args.get("action"), "result": result}
    else:
        content = {"type": "tool_result", "tool": action.call.tool, "result": result}
    try:
        return dumps(content)
    except Exception:
        # A live tool may return what has no JSON form; its text is the best the model can be shown.
        return dumps({**content, "result": _text(result)})


def _text(result: Any) -> str:
    try:
        return str(printable(repr(result)))
    except Exception:  # the object's own; it may also be nested too deeply
        return f"<{type(result).__name__}>"


def correction(frame: Frame, action: Action) -> dict[str, Any]:
    """A rejection as the model reads it: what was wrong and how many corrections are left."""
    limit = frame.spec.corrections
    return {
        "type": "tool_rejection",
        **(action.rejection or {}),
        "correction": {"attempt": frame.corrections, "remaining": max(0, limit - frame.corrections), "allowed": limit},
    }
