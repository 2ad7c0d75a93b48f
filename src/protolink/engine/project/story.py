"""How events are made: their ids, their shape in a loop or a direct call, a child's place in its parent's stream."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ...models import (
    TaskArtifactUpdateEvent,
    TaskErrorEvent,
    TaskLLMStreamEvent,
    TaskProgressEvent,
    TaskStatusUpdateEvent,
    ToolOutput,
)
from ...models.ids import iso_from_seconds as stamp
from ...runtime import RunContext, RunEvent
from .. import facts as f
from ..facts import Record
from ..state import Frame, Run, Scope
from ..task import exposed

Event = (
    TaskStatusUpdateEvent | TaskArtifactUpdateEvent | TaskProgressEvent | TaskErrorEvent | TaskLLMStreamEvent | RunEvent
)

#: The type that an event of a model's loop has when a direct call tells it. Others stay as they are.
NATIVE = {
    "action_requested": "action.requested",
    "policy_decision": "action.policy",
    "approval_required": "approval.required",
    "approval_decision": "approval.decided",
    "action_approved": "action.approved",
    "action_denied": "action.denied",
    "tool_start": "action.started",
    "tool_result": "action.completed",
    "tool_rejected": "action.rejected",
    "tool_error": "action.failed",
    "tool_canceled": "action.canceled",
    "budget_warning": "budget.warning",
    "budget_exceeded": "budget.exceeded",
}
SEVERITY = {
    "approval.required": "warning",
    "action.rejected": "warning",
    "action.denied": "error",
    "action.failed": "error",
    "action.uncertain": "error",
    "budget.warning": "warning",
    "budget.exceeded": "error",
}

_LEAVES = frozenset({str, int, float, bool, type(None)})


def event_id(salt: str, number: int) -> str:
    """A UUID-shaped id that is the same whenever the journal is read."""
    return f"{salt}-{number:012x}"


def own(value: Any) -> Any:
    """The value as JSON with containers of its own: what an observer does to an event must not reach the run."""
    kind = type(value)
    if kind in _LEAVES:
        return value
    if kind is dict:
        return {key if type(key) is str else str(key): own(item) for key, item in value.items()}
    if kind is list:
        return [own(item) for item in value]
    if kind is ToolOutput:
        return replace(value, result=own(value.result), error=own(value.error))
    return exposed(value)


class Story:
    """Collects the events of one record."""

    __slots__ = ("at", "events", "number", "run")

    def __init__(self, run: Run, record: Record) -> None:
        self.run = run
        self.at = stamp(record.at)
        self.number = record.seq
        self.events: list[Event] = []

    def identity(self) -> dict[str, Any]:
        found = {"event_id": event_id(self.run.salt, self.number), "timestamp": self.at}
        self.number += 1
        return found

    def tell(
        self, frame: Frame, kind: str, payload: dict[str, Any], *, content: Any = None, final: bool = False
    ) -> None:
        """An event of the frame's loop, or of its direct call."""
        scope = self.run.scope(frame)
        if frame.spec.call is not None and kind in NATIVE:
            self.native(frame, NATIVE[kind], payload)
            return
        event = TaskLLMStreamEvent(
            task_id=scope.task.id,
            agent_name=scope.agent,
            llm_event_type=kind,
            step=self._step(frame, payload, final),
            content=content,
            final=final,
            metadata=own(payload),
            **self.identity(),
        )
        self.add(scope, event)

    def _step(self, frame: Frame, payload: dict[str, Any], final: bool) -> int:
        """The step that the event belongs to: of its action, of the actions under way, or of the answer; else the next.

        What a budget says before an action starts names no action, but is told while the turn that wants it is open.
        """
        named = payload.get("action")  # of llm_action it is a word
        action_id = payload.get("action_id") or (named.get("action_id") if isinstance(named, dict) else None)
        action = self.run.actions.get(action_id or "")
        if action is not None and action.turn:
            return action.turn
        spoken = final or frame.answer is not None or frame.unsettled
        return frame.turn if spoken and frame.turn else frame.turn + 1

    def native(self, frame: Frame, type: str, payload: dict[str, Any]) -> None:
        """An event that is told in the common envelope from the start."""
        scope = self.run.scope(frame)
        action_id = payload.get("action_id") or (payload.get("action") or {}).get("action_id")
        event = RunEvent(
            type=type,
            run_id=scope.run_id,
            task_id=scope.task.id,
            agent_name=scope.agent,
            action_id=action_id,
            span_id=action_id,
            severity=SEVERITY.get(type, "info"),
            summary=payload.get("message"),
            payload=own(payload),
            **self.identity(),
        )
        self.add(scope, event)

    def status(self, scope: Scope, state: str, *, final: bool = False, **metadata: Any) -> None:
        before = scope.task.state.value
        event = TaskStatusUpdateEvent(scope.task.id, before, state, final, own(metadata), **self.identity())
        self.add(scope, event)

    def artifact(self, scope: Scope, artifact: Any) -> None:
        if artifact is not None:
            parts = [replace(part, content=own(part.content)) for part in artifact.parts]
            shown = replace(artifact, parts=parts, metadata=own(artifact.metadata))
            self.add(scope, TaskArtifactUpdateEvent(scope.task.id, shown, {}, **self.identity()))

    def error(self, scope: Scope, error: dict[str, Any]) -> None:
        event = TaskErrorEvent(scope.task.id, error["code"], error["message"], False, {}, **self.identity())
        self.add(scope, event)

    def progress(self, scope: Scope, message: str) -> None:
        self.add(scope, TaskProgressEvent(scope.task.id, 0, message, {}, **self.identity()))

    def add(self, scope: Scope, event: Event) -> None:
        self.events.append(event if scope.parent_action is None else forwarded(self.run, scope, event, self.number - 1))


def forwarded(run: Run, scope: Scope, event: Event, number: int) -> RunEvent:
    """A child's event in the parent's stream: its own identity, the link to the calling action, never final."""
    found = RunEvent.from_task_event(event, context=RunContext.from_dict(scope.context))
    found.run_id, found.agent_name = scope.run_id, scope.agent
    return _below(found, scope.parent_action, scope.parent_run, number)


def related(run: Run, fact: f.Relayed) -> RunEvent:
    """A peer's event in its caller's stream. Links that it has already, of a delegation further down, stay."""
    found = RunEvent.from_dict(own(fact.event))
    caller = run.scope(run.frames[run.actions[fact.action].frame])
    return _below(found, fact.action, caller.run_id, found.sequence)


def _below(event: RunEvent, action: str | None, run_id: str | None, sequence: int | None) -> RunEvent:
    event.parent_action_id = event.parent_action_id or action
    event.delegation_id = event.delegation_id or action
    about = {"source_sequence": sequence, "source_final": event.final, "parent_run_id": run_id}
    event.metadata = {**about, **event.metadata}
    event.final = False
    return event
