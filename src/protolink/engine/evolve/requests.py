"""What questions and answers do."""

from __future__ import annotations

from typing import Any

from ...models.turn import Call
from .. import facts as f
from ..facts import Proposal
from ..state import Action, Frame, Request, Run
from .settle import deny, fail, succeed

#: Reason of an Expired that closes a live question nobody is there to answer.
NO_HANDLER = "no handler"


def asked(run: Run, fact: f.Asked, at: float) -> None:
    frame = run.frames[fact.frame]
    run.requests[fact.request] = Request(
        fact.request, fact.kind, fact.frame, fact.action, fact.body, fact.fingerprint, fact.expires
    )
    if fact.action is None:
        frame.waiting = fact.request
        return
    run.asked_by[fact.request] = fact.action
    action = run.actions[fact.action]
    action.state, action.request, action.stale = "asked", fact.request, False
    if fact.kind == "input":
        frame.recent.append(action.key)
        run.ledger.tool_calls += 1


def answered(run: Run, fact: f.Answered, at: float) -> bool:
    request = run.requests.pop(fact.request, None)
    if request is None:
        return False
    answered = {"response": fact.response, "reason": fact.reason, "by": fact.by, "kind": request.kind}
    run.responses[request.id] = answered
    if request.action is None:
        granted(run.frames[request.frame], request.kind)
        return False
    action = run.actions[request.action]
    if request.kind == "input":
        succeed(run, action, input_result(request, "declined" if fact.response is None else "answered", fact.response))
    elif fact.edit is not None:
        answered["status"] = "edited"
        replace(run, action, fact.edit)
    elif fact.response:
        action.approved = answered
        action.state = "proposed" if action.stale else "authorized"
    else:
        reason = fact.reason or (action.decision.reason if action.decision else "Denied")
        deny(run, action, reason)
    return True


def granted(frame: Frame, kind: str) -> None:
    frame.waiting = None
    if kind == "yield":
        frame.slice_turns = 0
    else:
        frame.failures = 0
        frame.down = frame.retry_at = None
        frame.retries += 1


def input_result(request: Request, status: str, answer: str | None) -> dict[str, Any]:
    return {"request_id": request.id, "status": status, "answer": answer}


def replace(run: Run, old: Action, edit: Proposal) -> None:
    """The edited proposal takes the old one's place in its turn."""
    frame = run.frames[old.frame]
    old.state = "edited"
    call = Call(old.call.id, edit.call.tool, edit.call.args)
    run.actions[edit.action] = Action(edit.action, frame.id, old.turn, old.index, call, edited_from=old.id)
    frame.actions[old.index] = edit.action


def expired(run: Run, fact: f.Expired, at: float) -> bool:
    request = run.requests.pop(fact.request, None)
    if request is None:
        return False
    run.responses[request.id] = {"status": "expired", "reason": fact.reason, "kind": request.kind}
    if request.action is None:
        return False
    action = run.actions[request.action]
    if fact.reason == NO_HANDLER and request.kind == "input":
        fail(run, action, {"code": "no_input_handler", "message": "Nobody is connected to answer the question"})
    elif request.kind == "input":
        succeed(run, action, input_result(request, "timed_out", None))
    elif fact.reason == NO_HANDLER:
        message = f"Action '{request.body['action']['name']}' requires approval and no approval handler is configured"
        deny(run, action, message, code="approval_required")
    else:
        deny(run, action, fact.reason)
    return True
