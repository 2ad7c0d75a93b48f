"""What of a run may be shown to anybody: what is going on, without what is said, asked or returned."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from typing import Any

from ..models import DEFAULT_REDACTION_POLICY, RedactionPolicy
from ..models.value import dataclass
from ..runtime import RunEvent
from ..runtime.fields import members, text_in

DELEGATION = "agent.call"

_FIXED = {
    "task.artifact": ("artifact", "produced", "Artifact produced"),
    "task.error": ("run", "error", "An error occurred"),
    "llm.call.started": ("model", "started", "Thinking"),
    "llm.call.completed": ("model", "completed", "Thought"),
    "approval.required": ("approval", "required", "Waiting for approval"),
    "approval.decided": ("approval", "decided", "Approval decided"),
    "user_input.requested": ("input", "requested", "Waiting for an answer"),
    "user_input.answered": ("input", "answered", "Question answered"),
    "user_input.declined": ("input", "declined", "Question declined"),
    "user_input.timed_out": ("input", "timed_out", "Question timed out"),
    "run.queued": ("queue", "queued", "Waiting for a free place"),
    "run.admitted": ("queue", "admitted", "Admitted"),
    "run.rejected": ("queue", "rejected", "Not admitted"),
    "budget.warning": ("budget", "warning", "Budget nearly used up"),
    "budget.exceeded": ("budget", "exceeded", "Budget used up"),
}
_ACTIONS = frozenset({"requested", "started", "completed", "rejected", "denied", "failed", "canceled", "uncertain"})


@dataclass(frozen=True, slots=True)
class PresentationEvent:
    """One line of activity. It holds no arguments, results, prompts or model text.

    ``kind``: run, model, tool, delegation, approval, input, queue, artifact or budget; ``status`` depends on it.
    ``sequence`` is that of the run's event behind it, so numbers have gaps; it is the cursor to go on from.
    """

    sequence: int
    kind: str
    status: str
    title: str
    agent_name: str | None
    run_id: str | None
    parent_run_id: str | None
    action_id: str | None
    parent_action_id: str | None
    delegation_id: str | None
    timestamp: str

    @classmethod
    def of(cls, event: RunEvent, redaction_policy: RedactionPolicy | None = None) -> PresentationEvent | None:
        """A run's event, such as a stored one, as activity; None when it is none. Names are masked."""
        policy = redaction_policy or DEFAULT_REDACTION_POLICY
        return presented(event, lambda name: str(policy.redact(name)))

    def to_dict(self) -> dict[str, Any]:
        """All fields."""
        return {item.name: getattr(self, item.name) for item in fields(self)}


def presented(event: RunEvent, redact: Callable[[str], str]) -> PresentationEvent | None:
    """An event as activity; None when it is none. ``redact`` is applied to names that tools and agents bring."""
    found = _described(event, redact)
    if found is None:
        return None
    kind, status, title = found
    return PresentationEvent(
        sequence=event.sequence or 0,
        kind=kind,
        status=status,
        title=title,
        agent_name=event.agent_name,
        run_id=event.run_id,
        parent_run_id=text_in(event.metadata, "parent_run_id"),
        action_id=event.action_id,
        parent_action_id=event.parent_action_id,
        delegation_id=event.delegation_id,
        timestamp=event.timestamp,
    )


def _described(event: RunEvent, redact: Callable[[str], str]) -> tuple[str, str, str] | None:
    if event.type == "task.status":
        state = text_in(event.payload, "new_state") or "unknown"
        return "run", state, f"Run {state}"
    area, _, status = event.type.partition(".")
    if area == "action":
        return _action(event, status, redact) if status in _ACTIONS else None
    return _FIXED.get(event.type)


def _action(event: RunEvent, status: str, redact: Callable[[str], str]) -> tuple[str, str, str]:
    details = {**members(event.payload.get("metadata")), **event.payload}
    action = members(details.get("action"))
    delegated = DELEGATION in (action.get("kind"), details.get("action_kind"))
    name = text_in(action, "name") or text_in(details, "tool") or text_in(details, "agent") or "action"
    return ("delegation" if delegated else "tool"), status, f"{redact(name)} {status}"
