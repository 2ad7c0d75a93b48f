"""The one line that a normalized event shows: for each stable type, how it is made."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from .fields import members, text_in, whole

Details = Mapping[str, Any]


#: Makes a line to show of the name of the raw type and the facts of the event.
Line = Callable[[str, Details], str]


def line_of(kind: str, type_: str) -> Line:
    """How the lines of a raw type are made, or else those of its stable type; the name of the raw type says least."""
    return _LINES.get(kind) or _LINES.get(type_, _kind)


def _kind(kind: str, details: Details) -> str:
    return kind


def _status(kind: str, details: Details) -> str:
    state = text_in(details, "new_state") or "unknown"
    if details.get("final") is not True:
        return f"Task state changed to {state}"
    if state != "input-required":
        return f"Task finished with state {state}"
    stored = members(members(details.get("task")).get("metadata"))
    waiting = members(details.get("interruption")) or members(stored.get("interruption"))
    return f"Task paused: {text_in(waiting, 'kind') or 'input'}"


def _artifact(kind: str, details: Details) -> str:
    return f"Artifact produced: {text_in(members(details.get('artifact')), 'id') or 'unknown'}"


def _progress(kind: str, details: Details) -> str:
    return text_in(details, "message") or f"Task progress {whole(details.get('progress')) or 0}%"


def _task_error(kind: str, details: Details) -> str:
    return text_in(details, "error_message") or "Task error"


def _context(kind: str, details: Details) -> str:
    tokens = whole(members(details.get("manifest")).get("total_estimated_tokens")) or 0
    return f"Context prepared: {tokens} estimated tokens"


def _call_started(kind: str, details: Details) -> str:
    return f"LLM call started: {_model(details)}"


def _call_completed(kind: str, details: Details) -> str:
    latency = details.get("latency_ms")
    known = isinstance(latency, (int, float)) and not isinstance(latency, bool)
    return f"LLM call completed: {_model(details)}" + (f" in {latency} ms" if known else "")


def _model(details: Details) -> str:
    return text_in(details, "model") or text_in(members(details.get("metrics")), "model") or "unknown"


def _budget(kind: str, details: Details) -> str:
    return text_in(members(details.get("decision")), "message") or kind


def _final(kind: str, details: Details) -> str:
    content = text_in(details, "content")
    return kind if content is None else f"{kind}: {content}"


def _name(details: Details) -> str:
    action = members(details.get("action")) or members(members(details.get("request")).get("action"))
    return text_in(action, "name") or text_in(details, "tool") or text_in(details, "agent") or "unknown"


def _policy(kind: str, details: Details) -> str:
    return f"Policy decision: {text_in(members(details.get('decision')), 'effect') or 'unknown'}"


def _decided(kind: str, details: Details) -> str:
    approved = members(details.get("decision")).get("approved") is True
    return "Approval granted" if approved else "Approval denied"


def _rejected(kind: str, details: Details) -> str:
    if kind == "agent_call_rejected":
        return f"Delegation to '{_name(details)}' rejected; nothing changed."
    return f"Tool '{_name(details)}' rejected the request; nothing changed."


def _failed(kind: str, details: Details) -> str:
    return text_in(details, "message") or text_in(members(details.get("error")), "message") or kind


_LINES: dict[str, Line] = {
    "task.status": _status,
    "task.artifact": _artifact,
    "task.progress": _progress,
    "task.error": _task_error,
    "context.prepared": _context,
    "llm.call.started": _call_started,
    "llm.call.completed": _call_completed,
    "llm_final": _final,
    "budget.warning": _budget,
    "budget.exceeded": _budget,
    "action.requested": lambda kind, details: f"Action requested: {_name(details)}",
    "action.approved": lambda kind, details: f"Action approved: {_name(details)}",
    "action.started": lambda kind, details: f"Action started: {_name(details)}",
    "action.completed": lambda kind, details: f"Action completed: {_name(details)}",
    "action.policy": _policy,
    "action.rejected": _rejected,
    "action.denied": _failed,
    "action.failed": _failed,
    "approval.required": lambda kind, details: f"Approval required: {_name(details)}",
    "approval.decided": _decided,
}
