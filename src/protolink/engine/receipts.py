"""``metadata["run_events"]``: the events of a task that prove what was done, whether anybody watched or not.

The same ids as in the stream, so that what was streamed and what is read later are recognised as one. Written when the
task is handed out, not on the way.
"""

from __future__ import annotations

from typing import Any

from ..models import Task
from ..models.ids import iso_from_seconds as stamp
from ..runtime.events import EVENT_VERSION
from . import facts as f
from .evolve import requests as reasons
from .evolve.settle import not_done
from .facts import Record
from .project import event_id
from .project.describe import named, result_payload
from .project.story import related
from .state import Action, Frame, Run


def export(run: Run) -> Task:
    """The run's task, complete. The same object every time."""
    events = run.task.metadata.setdefault("run_events", [])
    for record in run.receipts[run.exported :]:
        found = _receipt(run, record)
        if found is not None:
            events.append(found)
    run.exported = len(run.receipts)
    if not events:
        del run.task.metadata["run_events"]
    return run.task


def _receipt(run: Run, record: Record) -> dict[str, Any] | None:
    match record.fact:
        case f.ToolStarted(action=key):
            return _event(run, record, run.actions[key], "action.started")
        case f.ToolReturned(action=key, result=result):
            return _completed(run, record, run.actions[key], result)
        case f.Reconciled(unchanged=str()) as fact:
            return _rejected(run, record, not_done(fact), "reconciliation")
        case f.Reconciled(action=key, result=result):
            return _completed(run, record, run.actions[key], result, reconciled=True)
        case f.Refused(counts=False) | f.Expired(reason=reasons.NO_HANDLER):
            return None  # the stream tells a repeat as llm_retry, and of an absent handler only the error
        case f.ToolRejected() | f.Refused() as fact:
            return _rejected(run, record, fact, fact.phase if isinstance(fact, f.Refused) else "execution")
        case f.ToolFailed() | f.EffectUnknown() as fact:
            return _failed(run, record, fact)
        case f.Decided(action=key, decision=decision) if decision.effect.value == "deny":
            return _event(run, record, run.actions[key], "action.denied", 1, "error", {"message": decision.reason})
        case f.Answered(request=request) | f.Expired(request=request) if request in run.asked_by:
            return _answered(run, record, run.actions[run.asked_by[request]])
        case f.FrameOpened(parent=str() as key):
            return _event(run, record, run.actions[key], "action.started")
        case f.FrameClosed(frame=frame) if run.frames[frame].parent is not None:
            return _child_ended(run, record, run.frames[frame])
        case f.Relayed() as fact:
            return related(run, fact).to_dict()
        case f.Emitted(action=key, type=type, payload=payload):
            return _event(run, record, run.actions[key], type, more=payload)
        case _:
            return None


def _event(
    run: Run,
    record: Record,
    action: Action,
    type: str,
    offset: int = 0,
    severity: str = "info",
    more: dict[str, Any] | None = None,
) -> dict[str, Any]:
    frame = run.frames[action.frame]
    scope = run.scope(frame)
    return {
        "type": type,
        "run_id": scope.run_id,
        "task_id": scope.task.id,
        "agent_name": scope.agent,
        "sequence": None,
        "step": action.turn or None,
        "span_id": action.id,
        "parent_span_id": None,
        "action_id": action.id,
        "parent_action_id": scope.parent_action,
        "delegation_id": action.id if action.route == "child" else scope.parent_action,
        "severity": severity,
        "summary": None,
        "payload": {**named(action), **more} if more else named(action),
        "final": False,
        "metadata": {},
        "event_id": event_id(run.salt, record.seq + offset),
        "version": EVENT_VERSION,
        "timestamp": stamp(record.at),
    }


def _completed(
    run: Run, record: Record, action: Action, result: Any, *, reconciled: bool = False, offset: int = 0
) -> dict[str, Any]:
    payload = result_payload(run.frames[action.frame], action, result)
    if reconciled:
        payload["reconciled"] = True
    return _event(run, record, action, "action.completed", offset, more=payload)


def _rejected(run: Run, record: Record, fact: f.ToolRejected | f.Refused, phase: str) -> dict[str, Any]:
    action = run.actions[fact.action]
    more = {"rejection": action.rejection, "phase": phase, "message": fact.message}
    return _event(run, record, action, "action.rejected", severity="warning", more=more)


def _failed(run: Run, record: Record, fact: f.ToolFailed | f.EffectUnknown) -> dict[str, Any]:
    error = {"code": fact.code, "message": fact.message}
    if isinstance(fact, f.EffectUnknown):
        type = "action.uncertain"
    else:
        type = "action.canceled" if fact.code == "canceled" else "action.failed"
    severity = "info" if type == "action.canceled" else "error"
    return _event(run, record, run.actions[fact.action], type, severity=severity, more={"error": error})


def _answered(run: Run, record: Record, action: Action) -> dict[str, Any] | None:
    if action.route == "input" and action.state == "succeeded":
        return _completed(run, record, action, action.result, offset=1)
    if action.state == "denied":
        message = (action.error or {}).get("message")
        return _event(run, record, action, "action.denied", 1, "error", {"message": message})
    return None


def _child_ended(run: Run, record: Record, frame: Frame) -> dict[str, Any]:
    assert frame.parent is not None
    action = run.actions[frame.parent]
    offset = (frame.outcome == "completed" and frame.spec.call is None) + (frame.outcome == "failed") + 1
    offset += frame.outcome == "completed" or (frame.outcome == "failed" and frame.spec.call is not None)
    if frame.outcome == "completed":
        return _completed(run, record, action, frame.output, offset=offset)
    if frame.outcome == "canceled":
        return _event(run, record, action, "action.canceled", offset, more={"message": "canceled"})
    return _event(run, record, action, "action.failed", offset, "error", {"error": frame.error})
