"""The stored view: what applications read in a checkpoint's ``data``. Made from the run, never folded back from.

The keys are those of the written contract's checkpoint (version 1). Children are inside their root's journal; a child's
own view is made by ``child_view``.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from ..models.history import HistoryMessage
from ..models.json import plain
from .receipts import export
from .state import Action, Frame, Run, status
from .task import interruptions

VERSION = 1

#: States as applications read them.
_PUBLIC = {
    "proposed": "prepared",
    "prepared": "prepared",
    "authorized": "prepared",
    "asking": "waiting",
    "asked": "waiting",
    "delegated": "waiting",
    "denied": "failed",
    "edited": "canceled",
}


def view(run: Run, now: float | None = None) -> dict[str, Any]:
    """The root's view, detached JSON. ``actions`` has the root's own; children are read under their own run id."""
    waiting = [interruption.to_dict() for interruption in interruptions(run)]
    return {
        "version": VERSION,
        "configuration": fingerprint_of(run),
        "task": export(run).to_dict(),
        "input_parts": [_part(run, index) for index in range(len(run.parts))],
        "outputs": {str(index): output for index, output in run.outputs.items()},
        "loops": {frame.id: _loop(run, frame) for frame in run.frames.values() if frame.scope == ""},
        "actions": _actions(run, ""),
        "interruption": waiting[0] if waiting else None,
        "interruptions": waiting,
        "responses": dict(run.responses),
        "usage": run.ledger.usage(now if now is not None else run.ledger.since or 0.0).to_dict(),
        "subagent_count": run.children,
        "uncertain_actions": uncertain_actions(run),
    }


def child_view(run: Run, run_id: str) -> dict[str, Any] | None:
    """The view of one child, or None when the run has no such child."""
    scope = run.scopes.get(run_id)
    if scope is None:
        return None
    waiting = [found.to_dict() for found in interruptions(run) if found.run_id == run_id]
    return {
        **view(run),
        "task": scope.task.to_dict(),
        "input_parts": [],
        "outputs": {},
        "loops": {frame.id: _loop(run, frame) for frame in run.frames.values() if frame.scope == run_id},
        "actions": _actions(run, run_id),
        "interruption": waiting[0] if waiting else None,
        "interruptions": waiting,
        "root_run_id": run.id,
    }


def child_status(run: Run, run_id: str) -> str:
    """A child's status as its pointer record shows it."""
    mine = [frame for frame in run.frames.values() if frame.scope == run_id]
    if any(run.actions[key].frame in {frame.id for frame in mine} for key in run.uncertain):
        return "uncertain"
    if mine and mine[-1].outcome is not None:
        return mine[-1].outcome
    return status(run)


def fingerprint_of(run: Run) -> str:
    """One digest for the whole contract."""
    return run.configuration.get("", "")


def uncertain_actions(run: Run) -> list[dict[str, Any]]:
    """Every action of the tree whose effect is not known."""
    found = []
    for key, action in run.actions.items():
        if key in run.uncertain:
            name = action.prepared.name if action.prepared else action.call.tool
            where = run.scope(run.frames[action.frame]).run_id
            found.append({"run_id": where, "action_id": key, "name": name, "state": action.state})
    return found


def _part(run: Run, index: int) -> dict[str, Any]:
    spec = run.parts[index]
    if spec.call is not None:
        return {"type": "tool_call", "tool_name": spec.call.call.tool, "args": spec.call.call.args}
    return {"type": "infer", "prompt": spec.prompt}


def _loop(run: Run, frame: Frame) -> dict[str, Any]:
    pending = [run.actions[key].call for key in frame.actions if not run.actions[key].settled]
    return {
        "steps": frame.turn,
        "parse_failures": frame.misspeaks,
        "tool_corrections": frame.corrections,
        "recent_actions": list(frame.recent),
        "pending": [{"id": call.id, "tool": call.tool, "args": call.args} for call in pending] or None,
        "history": [_message(message) for message in frame.history],
        "outcome": frame.outcome,
    }


def _message(message: HistoryMessage) -> dict[str, Any]:
    """Without id and time, which are made anew at each reading: the view follows from facts alone."""
    kept = (item.name for item in fields(message) if item.name not in ("id", "created_at"))
    return {name: plain(getattr(message, name)) for name in kept}


def _actions(run: Run, scope: str) -> dict[str, Any]:
    return {key: _action(run, action) for key, action in run.actions.items() if run.frames[action.frame].scope == scope}


def _action(run: Run, action: Action) -> dict[str, Any]:
    prepared = action.prepared.to_dict() if action.prepared else {"action_id": action.id, "name": action.call.tool}
    decision = action.decision.to_dict() if action.decision else None
    entry: dict[str, Any] = {
        "state": _PUBLIC.get(action.state, action.state),
        "action": {**prepared, "action_id": action.id},
        "frame": action.frame,
        "step": action.turn,
        "source_arguments": action.call.args,
        "authorization": {"policy_decision": decision, "approval": action.approved} if decision else None,
        "reconciled": action.reconciled,
    }
    if action.state == "succeeded":
        entry["result"] = action.result
    if action.rejection is not None:
        entry["rejection"] = action.rejection
    if action.error is not None:
        entry["error"] = action.error
    return entry
