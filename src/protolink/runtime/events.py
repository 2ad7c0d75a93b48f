"""What an observer sees of a run, in one shape.

Streams carry task events (``models.task_events``) for compatibility with transports. ``RunEvent.from_task_event`` turns
each of them into the one envelope that applications read. The tables below are the whole mapping: raw type -> stable
type and severity. Everything that is not listed becomes ``llm.stream``, so that nothing is lost.

The full raw event is the payload; the members in ``PROMOTED`` are lifted from its metadata to the top beside it.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Any

from protolink.models.ids import new_uuid, utc_now
from protolink.models.shape import mapping, optional_text, required_text, table
from protolink.models.task_events import is_task_event, members_of

from ..models.value import dataclass
from .context import CONTEXT_KEY, RunContext
from .event_summary import summary_of
from .fields import flag, members, number, text_in, text_or, whole

if TYPE_CHECKING:
    from protolink.models import RedactionPolicy

EVENT_VERSION = "1.0"

RELATIONS = ("action_id", "parent_action_id", "span_id", "parent_span_id", "delegation_id")
PROMOTED = ("manifest", "action", "request", "decision", *RELATIONS)
_TOLD = frozenset((*PROMOTED, "artifact"))

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

_TYPES = TASK_TYPES | LLM_TYPES

DELEGATION = "agent.call"


@dataclass(slots=True)
class RunEvent:
    """One thing that happened in a run. Mutable, so that sinks can number it; nothing is validated or frozen.

    ``sequence`` counts within one sink. ``final`` marks a boundary of the source; a run ends with the final
    ``task.status``. ``metadata["source_type"]`` is the raw type of a normalized event.
    """

    type: str
    run_id: str | None = None
    task_id: str | None = None
    agent_name: str | None = None
    sequence: int | None = None
    step: int | None = None
    span_id: str | None = None
    parent_span_id: str | None = None
    action_id: str | None = None
    parent_action_id: str | None = None
    delegation_id: str | None = None
    severity: str = "info"
    summary: str | None = None
    payload: dict[str, Any] = field(default_factory=dict)
    final: bool = False
    metadata: dict[str, Any] = field(default_factory=dict)
    event_id: str = field(default_factory=new_uuid)
    version: str = EVENT_VERSION
    timestamp: str = field(default_factory=utc_now)

    def to_dict(self, *, redaction_policy: RedactionPolicy | None = None) -> dict[str, Any]:
        """All fields; masked when a redaction policy is given. Payload and metadata are top-level copies."""
        found = {name: getattr(self, name) for name in self.__slots__}
        found |= {"payload": dict(self.payload), "metadata": dict(self.metadata)}
        return found if redaction_policy is None else dict(redaction_policy.redact(found))

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> RunEvent:
        """Read ``to_dict()`` back. Missing event id, version and time get defaults.

        ValueError without a type; ValueError or TypeError for members of the wrong shape.
        """
        source = mapping(data, "RunEvent")
        return cls(
            type=required_text(source, "type", "RunEvent"),
            run_id=optional_text(source, "run_id", "RunEvent"),
            task_id=optional_text(source, "task_id", "RunEvent"),
            agent_name=optional_text(source, "agent_name", "RunEvent"),
            sequence=number(source, "sequence", "RunEvent", int),
            step=number(source, "step", "RunEvent", int),
            span_id=optional_text(source, "span_id", "RunEvent"),
            parent_span_id=optional_text(source, "parent_span_id", "RunEvent"),
            action_id=optional_text(source, "action_id", "RunEvent"),
            parent_action_id=optional_text(source, "parent_action_id", "RunEvent"),
            delegation_id=optional_text(source, "delegation_id", "RunEvent"),
            severity=text_or(source, "severity", "RunEvent", lambda: "info"),
            summary=optional_text(source, "summary", "RunEvent"),
            payload=table(source, "payload", "RunEvent"),
            final=flag(source, "final", "RunEvent"),
            metadata=table(source, "metadata", "RunEvent"),
            event_id=text_or(source, "event_id", "RunEvent", new_uuid),
            version=text_or(source, "version", "RunEvent", lambda: EVENT_VERSION),
            timestamp=text_or(source, "timestamp", "RunEvent", utc_now),
        )

    @classmethod
    def from_task_event(
        cls, event: Any, *, context: RunContext | None = None, sequence: int | None = None, own: bool = False
    ) -> RunEvent:
        """The envelope of a task event, given as object or mapping.

        Native events, which are RunEvents already, are copied and get what they leave open. The run is the one that
        the event names, else the context's, else that of a task serialized inside the event. ``own``: the event is
        JSON already and this envelope's alone, so it is not copied. TypeError for anything that is neither mapping nor
        has ``to_dict()``.
        """
        native = _native(event)
        if native is not None:
            return _completed(native, context, sequence)
        raw = members_of(event) if own and is_task_event(event) else _raw(event)
        source_type = str(raw.get("type") or "unknown")
        details = _details(raw)
        kind = text_in(raw, "llm_event_type") or source_type
        type_, severity = _TYPES.get(kind) or ("llm.stream", "info")
        ids: dict[str, str] = {}
        if not _TOLD.isdisjoint(details):  # most events tell nothing of an action
            ids = _relations(kind, type_, details)
            for key in PROMOTED:
                told = details.get(key)
                if told is not None:
                    raw[key] = told
            raw |= ids
        run_id, task_id, agent_name = _whose(raw, details, context)
        return cls(  # by place: names would cost as much as the rest of the call
            type_,
            run_id,
            task_id,
            agent_name,
            sequence,
            whole(details.get("step")),
            ids.get("span_id"),
            ids.get("parent_span_id"),
            ids.get("action_id"),
            ids.get("parent_action_id"),
            ids.get("delegation_id"),
            severity,
            summary_of(kind, type_, details),
            raw,
            raw.get("final") is True,
            {"source_type": source_type},
            text_in(raw, "event_id") or new_uuid(),
            EVENT_VERSION,
            text_in(raw, "timestamp") or utc_now(),
        )


def _native(event: Any) -> RunEvent | None:
    """A RunEvent, or its serialized form, which no task event looks like."""
    if isinstance(event, RunEvent):
        return copy.copy(event)
    if isinstance(event, Mapping) and {"version", "severity", "payload"} <= event.keys():
        return RunEvent.from_dict(event)
    return None


def _completed(event: RunEvent, context: RunContext | None, sequence: int | None) -> RunEvent:
    if event.run_id is None and context is not None:
        event.run_id = context.run_id
    if sequence is not None:
        event.sequence = sequence
    return event


def _raw(event: Any) -> dict[str, Any]:
    if isinstance(event, Mapping):
        return dict(event)
    serialize = getattr(event, "to_dict", None)
    if not callable(serialize):
        raise TypeError(f"a task event must be a mapping or have to_dict(), not {type(event).__name__}")
    return dict(mapping(serialize(), "task event"))


def _details(raw: Mapping[str, Any]) -> Mapping[str, Any]:
    """The facts of an event on one level: its own members first, then what its metadata adds."""
    added = members(raw.get("metadata"))
    if not added:
        return raw
    details = {**added, **raw}
    del details["metadata"]
    for key in added.keys() & raw.keys():  # seldom any
        if key == "metadata" or raw[key] is None:
            details[key] = added[key]
    return details


def _whose(
    raw: Mapping[str, Any], details: Mapping[str, Any], context: RunContext | None
) -> tuple[str | None, str | None, str | None]:
    """Run, task and agent of an event."""
    run_id, task_id, agent_name = text_in(details, "run_id"), text_in(raw, "task_id"), text_in(details, "agent_name")
    if context is not None:
        run_id, agent_name = run_id or context.run_id, agent_name or _last(context.agent_chain)
        if run_id and task_id:
            return run_id, task_id, agent_name
    task = members(details.get("task"))
    stored = members(task.get("metadata"))
    inner = members(stored.get(CONTEXT_KEY))
    run_id = run_id or text_in(inner, "run_id") or text_in(stored, "run_id") or text_in(task, "id")
    if context is None:
        agent_name = agent_name or _last(inner.get("agent_chain"))
    return run_id, task_id or text_in(task, "id"), agent_name


def _last(chain: Any) -> str | None:
    return chain[-1] if isinstance(chain, list) and chain and isinstance(chain[-1], str) else None


def _relations(kind: str, type_: str, details: Mapping[str, Any]) -> dict[str, str]:
    """The five ids of an event, as far as they are known. A delegation's id is that of its action."""
    found: dict[str, str] = {}
    for key in RELATIONS:
        told = details.get(key)
        if isinstance(told, str):
            found[key] = told
    action = members(details.get("action")) or members(members(details.get("request")).get("action"))
    action_id = found.get("action_id") or text_in(action, "action_id") or _action_elsewhere(type_, details)
    if action_id is None:
        return found
    found["action_id"] = action_id
    if type_.startswith(("action.", "approval.")):
        found.setdefault("span_id", action_id)
        if DELEGATION in (action.get("kind"), details.get("action_kind")) or kind.startswith("agent_call_"):
            found.setdefault("delegation_id", action_id)
    return found


def _action_elsewhere(type_: str, details: Mapping[str, Any]) -> str | None:
    """The action that a decision or an artifact names."""
    decided = text_in(members(members(details.get("decision")).get("metadata")), "action_id")
    if decided is not None or type_ != "task.artifact":
        return decided
    return text_in(members(details.get("artifact")), "action_id")
