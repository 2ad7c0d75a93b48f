"""Events of questions and answers."""

from __future__ import annotations

from typing import Any

from .. import facts as f
from ..evolve import NO_HANDLER
from ..state import Action, Frame, Run
from .describe import coming_receipt, denied, named, result_payload
from .story import Story


def asked(run: Run, fact: f.Asked, story: Story, at: float) -> None:
    frame = run.frames[fact.frame]
    if fact.kind == "approval":
        story.tell(frame, "approval_required", {"request": fact.body, "action_id": fact.action})
    elif fact.kind == "input":
        story.native(frame, "user_input.requested", {"request": fact.body, "action_id": fact.action})
    elif fact.kind == "yield":
        story.tell(frame, "run_yielded", {"handoff": fact.body})


def answered(run: Run, fact: f.Answered, story: Story, at: float) -> None:
    request = run.requests.get(fact.request)
    if request is None or request.action is None:
        return
    action = run.actions[request.action]
    frame = run.frames[request.frame]
    if request.kind == "input":
        status = "declined" if fact.response is None else "answered"
        input_done(run, frame, action, story, status, fact.response, request.id, at)
        return
    granted = bool(fact.response) and fact.edit is None
    decision = {
        "approved": granted,
        "request_id": request.id,
        "reason": "edited" if fact.edit else fact.reason,
        "decided_by": fact.by,
        "decided_at": story.at,
    }
    payload = {"decision": decision, "action_id": action.id, "action": named(action)["action"]}
    story.tell(frame, "approval_decision", payload)
    if granted:
        story.tell(frame, "action_approved", dict(payload))
    elif fact.edit is None:
        denied(frame, action, fact.reason or (action.decision.reason if action.decision else "denied"), story)


def input_done(
    run: Run, frame: Frame, action: Action, story: Story, status: str, answer: Any, request: str, at: float
) -> None:
    result = {"request_id": request, "status": status, "answer": answer}
    story.native(frame, f"user_input.{status}", {"result": result, "request_id": request, "action_id": action.id})
    story.tell(frame, "tool_result", result_payload(frame, action, result))
    story.artifact(run.scope(frame), coming_receipt(run, frame, action, "succeeded", at))


def expired(run: Run, fact: f.Expired, story: Story, at: float) -> None:
    request = run.requests.get(fact.request)
    if request is None or request.action is None or fact.reason == NO_HANDLER:
        return
    action = run.actions[request.action]
    frame = run.frames[request.frame]
    if request.kind == "input":
        input_done(run, frame, action, story, "timed_out", None, request.id, at)
        return
    decision = {"approved": False, "request_id": request.id, "reason": fact.reason, "decided_at": story.at}
    story.tell(frame, "approval_decision", {"decision": decision, "action_id": action.id})
    denied(frame, action, fact.reason, story)
