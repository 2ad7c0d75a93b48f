"""How events name an action, and what they may tell of its result."""

from __future__ import annotations

from typing import Any

from ...models.turn import AGENT_CALL
from ..state import Action, Frame, Run
from ..task import action_kind, exposed, receipt
from .story import Story


def named(action: Action) -> dict[str, Any]:
    """How events of a started action name it."""
    args = action.call.args
    about: dict[str, Any] = {"action_id": action.id, "action_kind": action_kind(action)}
    if action.call.tool == AGENT_CALL:
        return {**about, "agent": args.get("agent"), "action": {"kind": "agent.call", "name": args.get("agent")}}
    prepared = action.prepared
    name = prepared.name if prepared is not None else action.call.tool
    return {**about, "tool": name, "args": args, "action": {"kind": about["action_kind"], "name": name}}


def started(action: Action) -> dict[str, Any]:
    payload = named(action)
    if action.call.tool == AGENT_CALL:
        payload["payload"] = {"type": AGENT_CALL, **action.call.args}
    return payload


def result_payload(frame: Frame, action: Action, result: Any) -> dict[str, Any]:
    payload = named(action)
    if frame.spec.call is not None or frame.spec.expose:
        return {**payload, "result": exposed(result)}
    return {**payload, "result_omitted": True}


def canceled(frame: Frame, action: Action, story: Story, reason: str | None) -> None:
    message = reason or "canceled"
    story.native(frame, "action.canceled", {**named(action), "message": message})


def denied(frame: Frame, action: Action, message: str, story: Story) -> None:
    prepared = action.prepared.to_dict() if action.prepared else None
    story.tell(frame, "action_denied", {"action": prepared, "action_id": action.id, "message": message})


def coming_receipt(run: Run, frame: Frame, action: Action, state: str, at: float, rejection: Any = None) -> Any:
    """The receipt as evolve is about to attach it."""
    kept = action.state, action.rejection
    action.state = state
    action.rejection = rejection if rejection is not None else action.rejection
    try:
        return receipt(run, frame, action, at)
    finally:
        action.state, action.rejection = kept
