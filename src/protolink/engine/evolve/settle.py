"""How an action comes to its end, and what that means for its frame."""

from __future__ import annotations

from typing import Any

from .. import facts as f
from ..facts import Proposal
from ..observe import observe
from ..state import Action, Frame, Run


def propose(run: Run, frame: Frame, calls: tuple[Proposal, ...]) -> None:
    frame.actions = []
    for index, proposal in enumerate(calls):
        run.actions[proposal.action] = Action(proposal.action, frame.id, frame.turn, index, proposal.call)
        frame.actions.append(proposal.action)
    frame.unsettled = len(calls)


def succeed(run: Run, action: Action, result: Any) -> None:
    action.result = result
    settle(run, action, "succeeded")


def fail(run: Run, action: Action, error: dict[str, Any]) -> None:
    action.error = error
    frame = run.frames[action.frame]
    frame.fault = frame.fault or error
    settle(run, action, "failed")


def deny(run: Run, action: Action, message: str, code: str = "action_denied") -> None:
    decision = action.decision.to_dict() if action.decision else None
    error = {"code": code, "message": message, "action_id": action.id, "decision": decision}
    action.error = error
    frame = run.frames[action.frame]
    frame.fault = frame.fault or error
    settle(run, action, "denied")


def reject(run: Run, action: Action, rejection: dict[str, Any], *, counts: bool) -> None:
    frame = run.frames[action.frame]
    action.rejection = rejection
    frame.corrections += counts
    if frame.spec.call is not None:
        frame.fault = frame.fault or {"code": "tool_rejected", "message": rejection["message"], "rejection": rejection}
    elif frame.corrections > frame.spec.corrections:
        frame.fault = frame.fault or {
            "code": "tool_correction_limit",
            "message": f"'{action.call.tool}' was refused: {rejection['message']}",
            "tool": action.call.tool,
            "attempts": frame.corrections,
            "max_tool_corrections": frame.spec.corrections,
            "rejection": rejection,
        }
    settle(run, action, "rejected")


def settle(run: Run, action: Action, state: str) -> None:
    action.state = state
    frame = run.frames[action.frame]
    frame.unsettled -= 1
    if frame.unsettled == 0 and frame.spec.call is None:
        for key in frame.actions:
            observe(frame, run.actions[key])


def never_done(frame: Frame, action: Action) -> None:
    """Nothing was done, so doing it is no repetition."""
    if action.key in frame.recent:
        frame.recent.remove(action.key)


def not_done(fact: f.Reconciled) -> f.ToolRejected:
    """A reconciliation that says that all is unchanged, as the executor itself would have said it."""
    return f.ToolRejected(fact.action, "not_done", fact.unchanged or "")


def current(run: Run, key: str) -> Action | None:
    """The action, unless its frame has ended. That it goes on shows that the reply it came with was paid for."""
    action = run.actions.get(key)
    if action is None:
        return None
    frame = run.frames[action.frame]
    frame.unjudged = False
    return action if frame.open else None


def executing(run: Run, key: str) -> Action | None:
    """A receipt counts for an action that is executing, or was given up as uncertain before it came."""
    action = run.actions[key]
    if action.state == "uncertain":
        run.uncertain.discard(key)
        action.error = None
        return action
    return action if action.state == "executing" else None


def rejection(fact: f.Refused | f.ToolRejected) -> dict[str, Any]:
    return {
        "status": "rejected",
        "changes_made": False,
        "code": fact.code,
        "message": fact.message,
        "details": fact.details,
        "suggestion": fact.suggestion,
    }
