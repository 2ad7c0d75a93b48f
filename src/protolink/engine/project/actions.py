"""Events of one action, from its preparation to its receipt."""

from __future__ import annotations

from typing import Any

from ...models.turn import AGENT_CALL
from .. import facts as f
from ..evolve.settle import not_done
from ..state import Action, Frame, Run
from .describe import canceled, coming_receipt, denied, named, result_payload, started
from .story import Story, related


def prepared(run: Run, fact: f.Prepared, story: Story, at: float) -> None:
    action = run.actions[fact.action]
    if action.prepared is None and action.state == "proposed":
        story.tell(run.frames[action.frame], "action_requested", {"action": fact.prepared.to_dict()})


def refused(run: Run, fact: f.Refused, story: Story, at: float) -> None:
    action = run.actions[fact.action]
    frame = run.frames[action.frame]
    if action.state != "proposed" or not frame.open:
        return
    if not fact.counts:
        payload = {"reason": fact.code, "action_id": action.id, "message": fact.message}
        story.tell(frame, "llm_retry", {**payload, "payload": {"tool": action.call.tool, "args": action.call.args}})
    else:
        rejected(run, frame, action, fact, fact.phase, story)
    rejection = rejection_of(fact)
    story.artifact(run.scope(frame), coming_receipt(run, frame, action, "rejected", at, rejection))


def rejection_of(fact: f.Refused | f.ToolRejected) -> dict[str, Any]:
    about = {"code": fact.code, "message": fact.message, "details": fact.details, "suggestion": fact.suggestion}
    return {"status": "rejected", "changes_made": False, **about}


def rejected(
    run: Run,
    frame: Frame,
    action: Action,
    fact: f.Refused | f.ToolRejected,
    phase: str,
    story: Story,
    *,
    cost: int = 1,
) -> None:
    spent = frame.corrections + cost
    limit = frame.spec.corrections
    kind = "agent_call_rejected" if action.call.tool == AGENT_CALL else "tool_rejected"
    payload = {
        **named(action),
        "rejection": rejection_of(fact),
        "phase": phase,
        "correction_count": spent,
        "max_tool_corrections": limit,
        "recoverable": frame.spec.call is None and spent <= limit,
        "message": fact.message,
    }
    story.tell(frame, kind, payload)


def decided(run: Run, fact: f.Decided, story: Story, at: float) -> None:
    action = run.actions[fact.action]
    if action.state != "prepared":
        return
    frame = run.frames[action.frame]
    before = action.decision.effect if action.decision else None
    about = {"action_id": action.id, "action": named(action)["action"]}
    if before != fact.decision.effect:
        story.tell(frame, "policy_decision", {"decision": fact.decision.to_dict(), **about})
    if fact.decision.effect.value == "deny":
        denied(frame, action, fact.decision.reason, story)


def _kind(action: Action) -> str:
    return "agent_call" if action.call.tool == AGENT_CALL else "tool"


def tool_started(run: Run, fact: f.ToolStarted, story: Story, at: float) -> None:
    action = run.actions[fact.action]
    story.tell(run.frames[action.frame], f"{_kind(action)}_start", started(action))


def tool_returned(run: Run, fact: f.ToolReturned | f.Reconciled, story: Story, at: float) -> None:
    action = run.actions[fact.action]
    if action.state not in ("executing", "uncertain"):
        return
    frame = run.frames[action.frame]
    payload = result_payload(frame, action, fact.result)
    if isinstance(fact, f.Reconciled):
        payload["reconciled"] = True
    kept, action.result = action.result, fact.result
    story.tell(frame, f"{_kind(action)}_result", payload)
    story.artifact(run.scope(frame), coming_receipt(run, frame, action, "succeeded", at))
    action.result = kept


def reconciled(run: Run, fact: f.Reconciled, story: Story, at: float) -> None:
    if fact.unchanged is None:
        tool_returned(run, fact, story, at)
        return
    action = run.actions[fact.action]
    frame, told = run.frames[action.frame], not_done(fact)
    rejected(run, frame, action, told, "reconciliation", story, cost=0)
    story.artifact(run.scope(frame), coming_receipt(run, frame, action, "rejected", at, rejection_of(told)))


def tool_rejected(run: Run, fact: f.ToolRejected, story: Story, at: float) -> None:
    action = run.actions[fact.action]
    if action.state not in ("executing", "uncertain"):
        return
    frame = run.frames[action.frame]
    rejected(run, frame, action, fact, "execution", story)
    story.artifact(run.scope(frame), coming_receipt(run, frame, action, "rejected", at, rejection_of(fact)))


def tool_failed(run: Run, fact: f.ToolFailed, story: Story, at: float) -> None:
    action = run.actions[fact.action]
    if action.state not in ("executing", "uncertain"):
        return
    frame = run.frames[action.frame]
    if fact.code == "canceled" and (run.cancel is not None or run.abandoned(frame)):
        canceled(frame, action, story, run.cancel.reason if run.cancel else "the parent has ended")
        return
    error = {"code": fact.code, "message": fact.message}
    payload = {**named(action), "error": error, "message": fact.message, "recoverable": False}
    story.tell(frame, f"{_kind(action)}_error", payload)


def effect_unknown(run: Run, fact: f.EffectUnknown, story: Story, at: float) -> None:
    action = run.actions[fact.action]
    message = f"The outcome of '{named(action)['action']['name']}' is not known"
    error = {"code": fact.code, "message": fact.message}
    story.native(run.frames[action.frame], "action.uncertain", {**named(action), "error": error, "message": message})


def emitted(run: Run, fact: f.Emitted, story: Story, at: float) -> None:
    action = run.actions[fact.action]
    story.native(run.frames[action.frame], fact.type, {**fact.payload, "action_id": action.id})


def relayed(run: Run, fact: f.Relayed, story: Story, at: float) -> None:
    story.number += 1
    story.events.append(related(run, fact))
