"""The one line that a normalized event shows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .fields import members, text_in, whole


def summary_of(kind: str, type_: str, details: Mapping[str, Any]) -> str | None:
    """A line to show. The name of the raw type when there is nothing better."""
    match type_:
        case "task.status":
            return _status_summary(details)
        case "task.artifact":
            return f"Artifact produced: {text_in(members(details.get('artifact')), 'id') or 'unknown'}"
        case "task.progress":
            return text_in(details, "message") or f"Task progress {whole(details.get('progress')) or 0}%"
        case "task.error":
            return text_in(details, "error_message") or "Task error"
        case "context.prepared":
            tokens = whole(members(details.get("manifest")).get("total_estimated_tokens")) or 0
            return f"Context prepared: {tokens} estimated tokens"
        case "llm.call.started":
            return f"LLM call started: {_model(details)}"
        case "llm.call.completed":
            latency = details.get("latency_ms")
            known = isinstance(latency, (int, float)) and not isinstance(latency, bool)
            return f"LLM call completed: {_model(details)}" + (f" in {latency} ms" if known else "")
        case "budget.warning" | "budget.exceeded":
            return text_in(members(details.get("decision")), "message") or kind
        case "llm.stream":
            content = text_in(details, "content") if kind == "llm_final" else None
            return kind if content is None else f"{kind}: {content}"
        case _:
            return _action_summary(kind, type_, details)


def _action_summary(kind: str, type_: str, details: Mapping[str, Any]) -> str | None:
    action = members(details.get("action")) or members(members(details.get("request")).get("action"))
    name = text_in(action, "name") or text_in(details, "tool") or text_in(details, "agent") or "unknown"
    decision = members(details.get("decision"))
    match type_:
        case "action.requested" | "action.started" | "action.completed":
            return f"Action {type_.partition('.')[2]}: {name}"
        case "action.policy":
            return f"Policy decision: {text_in(decision, 'effect') or 'unknown'}"
        case "approval.required":
            return f"Approval required: {name}"
        case "approval.decided":
            return "Approval granted" if decision.get("approved") is True else "Approval denied"
        case "action.rejected" if kind == "agent_call_rejected":
            return f"Delegation to '{name}' rejected; nothing changed."
        case "action.rejected":
            return f"Tool '{name}' rejected the request; nothing changed."
        case "action.denied" | "action.failed":
            return text_in(details, "message") or text_in(members(details.get("error")), "message") or kind
        case _:
            return kind


def _status_summary(details: Mapping[str, Any]) -> str:
    state = text_in(details, "new_state") or "unknown"
    if details.get("final") is not True:
        return f"Task state changed to {state}"
    if state != "input-required":
        return f"Task finished with state {state}"
    stored = members(members(details.get("task")).get("metadata"))
    waiting = members(details.get("interruption")) or members(stored.get("interruption"))
    return f"Task paused: {text_in(waiting, 'kind') or 'input'}"


def _model(details: Mapping[str, Any]) -> str:
    return text_in(details, "model") or text_in(members(details.get("metrics")), "model") or "unknown"
