"""ToolEvidence: how one tool call ended, read from the events of a run.

Only actions of kind ``tool.call`` count; a delegation is a run of its own. Every action gives one piece of evidence. An
unknown outcome is evidence too, until the event comes that settles it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields
from datetime import datetime
from typing import Any, Literal

from ..models.value import dataclass
from .events import RunEvent
from .fields import members, text_in
from .report_sections import member

ToolOutcomeName = Literal["completed", "failed", "canceled", "rejected", "denied", "uncertain"]

TOOL_CALL = "tool.call"
_OUTCOMES: dict[str, ToolOutcomeName] = {
    "action.completed": "completed",
    "action.failed": "failed",
    "action.canceled": "canceled",
    "action.rejected": "rejected",
    "action.denied": "denied",
    "action.uncertain": "uncertain",
}


@dataclass(frozen=True, slots=True)
class ToolEvidence:
    """The end of one tool call. ``started_at`` and ``duration_seconds`` are None for a call that never started.

    ``outcome``: completed, failed, canceled, ``rejected`` (nothing changed, the model may correct), ``denied`` (by
    policy or a person) or ``uncertain``. ``result_omitted``: there is a result and the events do not show it. ``error``
    is the failure, the rejection, or ``{"code", "message"}``.
    """

    tool_name: str
    arguments: dict[str, Any] | None
    result: Any
    outcome: ToolOutcomeName
    run_id: str | None
    task_id: str | None
    agent_name: str | None
    action_id: str | None
    parent_action_id: str | None
    delegation_id: str | None
    started_at: str | None
    finished_at: str
    duration_seconds: float | None
    result_omitted: bool = False
    error: dict[str, Any] | None = None

    def to_dict(self) -> dict[str, Any]:
        """All fields. Arguments, result and error are the events' own values."""
        return {item.name: getattr(self, item.name) for item in fields(self)}


def collect_tool_evidence(events: Iterable[RunEvent | Mapping[str, Any]]) -> tuple[ToolEvidence, ...]:
    """The evidence of all tool calls that have ended, in the order of their ends. Mappings are serialized RunEvents."""
    trail = EvidenceTrail()
    found: dict[str, ToolEvidence] = {}
    for item in events:
        event = item if isinstance(item, RunEvent) else RunEvent.from_dict(item)
        evidence = trail.add(event)
        if evidence is not None:
            found[evidence.action_id or event.event_id] = evidence
    return tuple(found.values())


class EvidenceTrail:
    """Follows the events of a run one by one and tells of every tool call when it has ended."""

    def __init__(self) -> None:
        self._calls: dict[str, _Call] = {}

    def add(self, event: RunEvent) -> ToolEvidence | None:
        """The evidence that this event completes, if it does. An end told twice is evidence once."""
        if not event.type.startswith("action."):
            return None
        key = event.action_id or text_in(event.payload, "action_id") or event.event_id
        call = self._calls.setdefault(key, _Call())
        call.read(event)
        outcome = _OUTCOMES.get(event.type)
        settled = call.outcome not in (None, "uncertain") or call.outcome == outcome
        if outcome is None or settled or call.kind != TOOL_CALL:
            return None
        call.outcome = outcome
        return call.evidence(event, outcome)


class _Call:
    """What the events have told of one action so far."""

    __slots__ = ("arguments", "kind", "name", "outcome", "started_at")

    def __init__(self) -> None:
        self.kind: str | None = None
        self.name: str | None = None
        self.arguments: dict[str, Any] | None = None
        self.started_at: str | None = None
        self.outcome: ToolOutcomeName | None = None

    def read(self, event: RunEvent) -> None:
        """Take over what an event says of the action. Any of its events may be the first one."""
        action = members(member(event, "action"))
        tool = text_in(event.payload, "tool") or text_in(members(event.payload.get("metadata")), "tool")
        kind = member(event, "action_kind") or action.get("kind") or (TOOL_CALL if tool else None)
        self.kind = self.kind or (kind if isinstance(kind, str) else None)
        self.name = self.name or tool or text_in(action, "name")
        if self.arguments is None:
            given = member(event, "args") or members(action.get("payload")).get("arguments")
            self.arguments = dict(given) if isinstance(given, Mapping) else None
        if event.type == "action.started":
            self.started_at = self.started_at or event.timestamp

    def evidence(self, event: RunEvent, outcome: ToolOutcomeName) -> ToolEvidence:
        return ToolEvidence(
            tool_name=self.name or "unknown",
            arguments=self.arguments,
            result=member(event, "result"),
            outcome=outcome,
            run_id=event.run_id,
            task_id=event.task_id,
            agent_name=event.agent_name,
            action_id=event.action_id or text_in(event.payload, "action_id"),
            parent_action_id=event.parent_action_id,
            delegation_id=event.delegation_id,
            started_at=self.started_at,
            finished_at=event.timestamp,
            duration_seconds=_seconds(self.started_at, event.timestamp),
            result_omitted=member(event, "result_omitted") is True,
            error=_error(event, outcome),
        )


def _error(event: RunEvent, outcome: ToolOutcomeName) -> dict[str, Any] | None:
    if outcome == "completed":
        return None
    told = member(event, "rejection" if outcome == "rejected" else "error")
    if isinstance(told, Mapping):
        return dict(told)
    message = member(event, "message") or event.summary
    return {"code": outcome, "message": message if isinstance(message, str) else outcome}


def _seconds(started: str | None, finished: str) -> float | None:
    """Time between two stamps, never negative; None when either is unknown."""
    if started is None:
        return None
    try:
        return max(0.0, (datetime.fromisoformat(finished) - datetime.fromisoformat(started)).total_seconds())
    except (ValueError, TypeError):  # an event from elsewhere whose time is in another form
        return None
