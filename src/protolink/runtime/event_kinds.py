"""What each raw event becomes: the whole mapping of raw types to stable types and severities.

Everything that is not listed becomes ``llm.stream``, so that nothing is lost.
"""

from __future__ import annotations

from .event_summary import Line, line_of

TASK_TYPES = {
    "task_status_update": ("task.status", "info"),
    "task_artifact_update": ("task.artifact", "info"),
    "task_progress": ("task.progress", "info"),
    "task_error": ("task.error", "error"),
}

LLM_TYPES = {
    "context_prepared": ("context.prepared", "info"),
    "llm_call_started": ("llm.call.started", "info"),
    "llm_call_completed": ("llm.call.completed", "info"),
    "llm_parse_error": ("llm.stream", "warning"),
    "llm_retry": ("llm.stream", "warning"),
    "llm_error": ("llm.stream", "error"),
    "action_requested": ("action.requested", "info"),
    "policy_decision": ("action.policy", "info"),
    "approval_required": ("approval.required", "warning"),
    "approval_decision": ("approval.decided", "info"),
    "action_approved": ("action.approved", "info"),
    "action_denied": ("action.denied", "error"),
    "tool_start": ("action.started", "info"),
    "agent_call_start": ("action.started", "info"),
    "tool_result": ("action.completed", "info"),
    "agent_call_result": ("action.completed", "info"),
    "tool_rejected": ("action.rejected", "warning"),
    "agent_call_rejected": ("action.rejected", "warning"),
    "tool_error": ("action.failed", "error"),
    "agent_call_error": ("action.failed", "error"),
    "tool_canceled": ("action.canceled", "info"),
    "agent_call_canceled": ("action.canceled", "info"),
    "budget_warning": ("budget.warning", "warning"),
    "budget_exceeded": ("budget.exceeded", "error"),
}

#: Stable type, severity, how the summary is made, whether the event is a span of its action, and whether the engine
#: tells the facts of such an event in its metadata alone, so that nothing has to be looked for beside it.
Kind = tuple[str, str, Line, bool, bool]


def _kind(kind: str, type_: str, severity: str) -> Kind:
    inside = kind not in TASK_TYPES and kind != "llm_final"
    return type_, severity, line_of(kind, type_), type_.startswith(("action.", "approval.")), inside


KINDS = {kind: _kind(kind, *row) for kind, row in (TASK_TYPES | LLM_TYPES).items()}
KINDS["llm_final"] = _kind("llm_final", "llm.stream", "info")
OTHER = _kind("", "llm.stream", "info")
