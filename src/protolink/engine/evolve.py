"""``evolve``: what each fact does to the state. The state of a run is the fold of its facts and of nothing else.

It decides nothing, asks nobody and does no IO. It must go on folding every journal ever written, so a rule here is changed
by adding a fact or a field, never by giving an old one a new meaning.

Recovery is a fact like any other: ``Resumed`` turns what was executing into *uncertain*, lets a model call be repeated, and
takes what was prepared or authorized back to *proposed*, with the prepared action kept for comparison.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..models import Task
from ..models.json import digest
from ..models.turn import Call
from ..runtime import RunBudget, contract_differences
from . import facts as f
from .facts import Fact, Proposal, Record, Spec
from .ledger import Ledger, Price
from .observe import observe, speak
from .state import REOPENED, Action, CancelState, Frame, Request, Run, Scope
from .task import record_answer, record_end, record_receipt, record_state

_ONE_TOOL = Price(tool_calls=1)
_ONE_STEP = Price(steps=1)


def start(record: Record, task: Task | None = None) -> Run:
    """The run that a RunStarted creates. ``task`` is used instead of a copy read from the fact, when given."""
    fact = record.fact
    assert isinstance(fact, f.RunStarted)
    budget = RunBudget.from_dict(fact.context.get("budget"))
    run = Run(
        id=fact.run_id,
        agent=fact.agent,
        durable=fact.durable,
        salt=fact.salt,
        parts=fact.parts,
        configuration=fact.configuration,
        ledger=Ledger(budget),
        limits=fact.children,
    )
    task = task if task is not None else Task.from_dict(fact.task)
    run.scopes[""] = Scope(fact.run_id, task, fact.agent, fact.context)
    run.ledger.start_clock(record.at)
    record_state(run, run.root, "working", record.at)
    run.n = record.n + 1
    return run


def evolve(run: Run, record: Record) -> None:
    """Take one fact over. Facts that come too late (for what is closed or settled) change nothing."""
    _RULES[type(record.fact)](run, record.fact, record.at)
    run.n = record.n + 1
    if type(record.fact) in _RECEIPTS:
        record_receipt(run, record)


# ---------------------------------------------------------------------------------------------------- the run


def _resumed(run: Run, fact: f.Resumed, at: float) -> None:
    run.phase = "active"
    run.epoch = fact.epoch
    if run.outcome is None:
        run.ledger.start_clock(at)
        record_state(run, run.root, "working", at)
    for frame in run.open.values():
        _reopen(run, frame)


def _reopen(run: Run, frame: Frame) -> None:
    if frame.model == "calling":
        frame.attempt += 1
    frame.model = "idle"
    frame.retry_at = None
    for key in frame.actions:
        action = run.actions[key]
        action.stale = True
        if action.state == "executing":
            _lost(run, frame, action)
        elif action.state in REOPENED:
            action.state = "proposed"


def _lost(run: Run, frame: Frame, action: Action) -> None:
    """Nobody knows what became of it, unless it could change nothing."""
    if action.read_only:
        action.state = "proposed"
        return
    action.state = "uncertain"
    action.error = {"code": "lost", "message": "the process ended before the result was stored"}
    run.uncertain.add(action.id)


def _parked(run: Run, fact: f.Parked, at: float) -> None:
    run.phase = "parked"
    run.ledger.stop_clock(at)
    record_end(run, at)


def _cancel_requested(run: Run, fact: f.CancelRequested, at: float) -> None:
    if run.cancel is None:
        run.cancel = CancelState(fact.reason)


def _budget_warned(run: Run, fact: f.BudgetWarned, at: float) -> None:
    run.ledger.warned.add(fact.decision["limit_name"])


def _budget_denied(run: Run, fact: f.BudgetDenied, at: float) -> None:
    message = fact.decision.get("message") or "Run budget exceeded"
    fault = {"code": "budget_exceeded", "message": message, "decision": fact.decision}
    frame = run.frames.get(fact.frame)
    if frame is None:
        run.fault = run.fault or fault
    else:
        frame.fault = frame.fault or fault


def _run_finished(run: Run, fact: f.RunFinished, at: float) -> None:
    run.phase = "finished"
    run.outcome = fact.outcome
    run.error = fact.error
    run.ledger.stop_clock(at)
    _void(run, lambda request: True, "the run has ended")
    if fact.outcome == "completed" and run.outputs:
        run.output = run.outputs[max(run.outputs)]
    record_end(run, at)


def _void(run: Run, concerns: Callable[[Request], bool], reason: str) -> None:
    for request in [request for request in run.requests.values() if concerns(request)]:
        del run.requests[request.id]
        run.responses[request.id] = {"status": "canceled", "reason": reason}


# ---------------------------------------------------------------------------------------------------- frames


def _frame_opened(run: Run, fact: f.FrameOpened, at: float) -> None:
    spec = run.parts[fact.part] if fact.part is not None else fact.spec
    assert spec is not None
    parent = run.actions[fact.parent] if fact.parent else None
    scope = _open_scope(run, spec, parent, at) if parent else ""
    frame = Frame(spec.frame, spec, scope, parent=fact.parent, part=fact.part)
    run.frames[frame.id] = run.open[frame.id] = frame
    if parent is not None:
        parent.state, parent.child, parent.started_at = "delegated", frame.id, at
        run.frames[parent.frame].children.append(frame.id)
        run.frames[parent.frame].recent.append(parent.key)
    if fact.part is not None:
        run.next_part = fact.part + 1
    _begin(run, frame)


def _open_scope(run: Run, spec: Spec, parent: Action, at: float) -> str:
    """A child works under its own run and task id; what it did is the parent's to show."""
    run.children += 1
    task = Task(id=spec.task_id, metadata={"run_context": spec.context or {}})
    above = run.scope(run.frames[parent.frame])
    name = spec.agent.rsplit("/", 1)[-1]
    run.scopes[spec.run_id] = Scope(
        spec.run_id, task, name, spec.context or {}, parent_action=parent.id, parent_run=above.run_id
    )
    record_state(run, run.scopes[spec.run_id], "working", at)
    listed = run.task.metadata.setdefault("subagent_runs", [])
    listed.append({"task_id": spec.task_id, "run_id": spec.run_id, "agent": name, "action_id": parent.id})
    return spec.run_id


def _begin(run: Run, frame: Frame) -> None:
    spec = frame.spec
    if spec.call is not None:
        run.ledger.charge(_ONE_STEP)
        _propose(run, frame, (spec.call,))
    elif spec.no_model:
        frame.fault = {"code": "no_llm", "message": f"Agent '{run.scope(frame).agent}' has no model to infer with"}
    else:
        frame.history.add_user(spec.prompt)


def _propose(run: Run, frame: Frame, calls: tuple[Proposal, ...]) -> None:
    frame.actions = []
    for index, proposal in enumerate(calls):
        run.actions[proposal.action] = Action(proposal.action, frame.id, frame.turn, index, proposal.call)
        frame.actions.append(proposal.action)
    frame.unsettled = len(calls)


def _frame_closed(run: Run, fact: f.FrameClosed, at: float) -> None:
    frame = run.open.pop(fact.frame)
    frame.open = False
    frame.outcome, frame.error = fact.outcome, fact.error
    for key in frame.actions:
        if not run.actions[key].settled and run.actions[key].state != "uncertain":
            run.actions[key].state = "canceled"
    _void(run, lambda request: request.frame == frame.id, "its work has ended")
    if fact.outcome == "completed":
        frame.output = run.actions[frame.actions[0]].result if frame.spec.call else frame.answer
    if frame.parent is not None:
        _return(run, frame, at)
    else:
        _close_part(run, frame, at)


def _close_part(run: Run, frame: Frame, at: float) -> None:
    assert frame.part is not None
    record_answer(run, frame, at)
    if frame.outcome == "completed":
        run.outputs[frame.part] = frame.output
    elif frame.outcome == "failed":
        run.fault = run.fault or frame.error


def _return(run: Run, frame: Frame, at: float) -> None:
    """The child's end is the receipt of the action that asked for it."""
    assert frame.parent is not None
    action = run.actions[frame.parent]
    record_answer(run, frame, at)
    if action.state != "delegated":
        return
    if frame.outcome == "completed":
        _succeed(run, action, frame.output)
    elif frame.outcome == "canceled":
        action.error = frame.error
        _settle(run, action, "canceled")
    elif frame.spec.call is not None and run.actions[frame.actions[0]].state == "rejected":
        _reject(run, action, run.actions[frame.actions[0]].rejection or {}, counts=True)
    else:
        _fail(run, action, frame.error or {"code": "child_failed", "message": "the child failed"})


# ---------------------------------------------------------------------------------------------------- the model


def _composed(run: Run, fact: f.Composed, at: float) -> None:
    frame = run.open.get(fact.frame)
    if frame is not None and frame.model == "idle" and (fact.turn, fact.attempt) == (frame.turn, frame.attempt):
        frame.model = "composed"
        frame.tokens, frame.window = fact.tokens, fact.window


def _model_started(run: Run, fact: f.ModelStarted, at: float) -> None:
    frame = run.frames[fact.frame]
    frame.model = "calling"
    run.ledger.charge(Price(int(fact.attempt == 0), 1, 0, fact.tokens))


def _model_replied(run: Run, fact: f.ModelReplied, at: float) -> None:
    frame = _spoke(run, fact)
    if frame is None:
        return
    frame.misspeaks = 0
    speak(frame, fact)
    if fact.calls:
        _propose(run, frame, fact.calls)
    else:
        frame.answer = fact.text
        frame.actions = []


def _model_misspoke(run: Run, fact: f.ModelMisspoke, at: float) -> None:
    frame = _spoke(run, fact)
    if frame is None:
        return
    frame.misspeaks += 1
    frame.history.add_assistant(fact.raw)
    frame.history.add_user(f"That was no valid action: {fact.error}. Reply with exactly one valid action.")
    if frame.misspeaks >= frame.spec.misspeaks:
        message = f"No valid action in {frame.misspeaks} replies: {fact.error}"
        detail = {"attempts": frame.misspeaks, "step": frame.turn, "raw_response": fact.raw, "last_error": fact.error}
        frame.fault = frame.fault or {"code": "parse_failures", "message": message, **detail}


def _spoke(run: Run, fact: f.ModelReplied | f.ModelMisspoke) -> Frame | None:
    run.ledger.output_tokens += fact.output_tokens
    frame = run.open.get(fact.frame)
    if frame is None:
        return None
    frame.model = "idle"
    frame.turn += 1
    frame.slice_turns += 1
    frame.attempt = frame.failures = 0
    frame.down = frame.retry_at = None
    return frame


def _model_failed(run: Run, fact: f.ModelFailed, at: float) -> None:
    frame = run.open.get(fact.frame)
    if frame is None:
        return
    frame.model = "idle"
    frame.attempt += 1
    frame.failures += 1
    frame.down = {"code": fact.code, "message": fact.message, "transient": fact.transient}
    frame.retry_at = fact.retry_at


# ---------------------------------------------------------------------------------------------------- actions


def _prepared(run: Run, fact: f.Prepared, at: float) -> None:
    action = _current(run, fact.action)
    if action is None or action.state != "proposed":
        return
    if action.prepared is not None:
        action.changed = contract_differences(action.prepared, fact.prepared) or None
    if action.changed:
        paths = ", ".join(action.changed)
        fault = {"code": "prepared_action_changed", "message": f"'{fact.prepared.name}' is not what it was: {paths}"}
        _fail(run, action, {**fault, "action_id": action.id, "paths": action.changed})
        return
    action.prepared = action.prepared or fact.prepared
    action.route, action.opens, action.question = fact.route, fact.opens, action.question or fact.question
    action.key, action.read_only, action.idempotent = fact.key, fact.read_only, fact.idempotent
    action.expires = action.expires or fact.expires
    action.state = "prepared"


def _refused(run: Run, fact: f.Refused, at: float) -> None:
    action = _current(run, fact.action)
    if action is not None and action.state == "proposed":
        action.counted = fact.counts
        _reject(run, action, _rejection(fact), counts=fact.counts)


def _rejection(fact: f.Refused | f.ToolRejected) -> dict[str, Any]:
    return {
        "status": "rejected",
        "changes_made": False,
        "code": fact.code,
        "message": fact.message,
        "details": fact.details,
        "suggestion": fact.suggestion,
    }


def _preparation_failed(run: Run, fact: f.PreparationFailed, at: float) -> None:
    action = _current(run, fact.action)
    if action is None or action.state not in ("proposed", "prepared"):
        return
    action.state = "proposed"
    frame = run.frames[action.frame]
    frame.down = {"code": fact.code, "message": fact.message, "transient": False, "action_id": action.id}


def _decided(run: Run, fact: f.Decided, at: float) -> None:
    action = _current(run, fact.action)
    if action is None or action.state != "prepared":
        return
    action.decision = fact.decision
    effect = fact.decision.effect.value
    if effect == "deny":
        _deny(run, action, fact.decision.reason)
    elif effect == "allow" or action.approved is not None:
        action.state = "authorized"
    else:
        action.request, action.request_at, action.state = fact.request, fact.created_at, "asking"
        action.expires = fact.expires if fact.expires is not None else action.expires


def _tool_started(run: Run, fact: f.ToolStarted, at: float) -> None:
    action = run.actions[fact.action]
    action.state, action.started_at = "executing", at
    run.frames[action.frame].recent.append(action.key)
    run.ledger.charge(_ONE_TOOL)


def _tool_returned(run: Run, fact: f.ToolReturned, at: float) -> None:
    action = _executing(run, fact.action)
    if action is not None:
        _succeed(run, action, fact.result)


def _tool_rejected(run: Run, fact: f.ToolRejected, at: float) -> None:
    action = _executing(run, fact.action)
    if action is not None:
        _reject(run, action, _rejection(fact), counts=True)


def _tool_failed(run: Run, fact: f.ToolFailed, at: float) -> None:
    action = _executing(run, fact.action)
    if action is None:
        return
    if fact.code == "canceled" and run.cancel is not None:
        action.error = {"code": "canceled", "message": fact.message}
        _settle(run, action, "canceled")
    else:
        name = action.prepared.name if action.prepared else action.call.tool
        _fail(run, action, {"code": fact.code, "message": fact.message, "tool": name, "action_id": action.id})


def _effect_unknown(run: Run, fact: f.EffectUnknown, at: float) -> None:
    action = _executing(run, fact.action)
    if action is not None:
        action.state = "uncertain"
        action.error = {"code": fact.code, "message": fact.message}
        run.uncertain.add(action.id)


def _reconciled(run: Run, fact: f.Reconciled, at: float) -> None:
    action = run.actions[fact.action]
    run.uncertain.discard(action.id)
    action.reconciled, action.error = True, None
    _succeed(run, action, fact.result)


def _rerun_allowed(run: Run, fact: f.RerunAllowed, at: float) -> None:
    action = run.actions[fact.action]
    run.uncertain.discard(action.id)
    action.state, action.error = "proposed", None


def _emitted(run: Run, fact: f.Emitted, at: float) -> None:
    """Progress changes nothing."""


def _current(run: Run, key: str) -> Action | None:
    action = run.actions.get(key)
    return action if action is not None and run.frames[action.frame].open else None


def _executing(run: Run, key: str) -> Action | None:
    """A receipt counts for an action that is executing, or was given up as uncertain before it came."""
    action = run.actions[key]
    if action.state == "uncertain":
        run.uncertain.discard(key)
        action.error = None
        return action
    return action if action.state == "executing" else None


def _succeed(run: Run, action: Action, result: Any) -> None:
    action.result = result
    _settle(run, action, "succeeded")


def _fail(run: Run, action: Action, error: dict[str, Any]) -> None:
    action.error = error
    frame = run.frames[action.frame]
    frame.fault = frame.fault or error
    _settle(run, action, "failed")


def _deny(run: Run, action: Action, message: str, code: str = "action_denied") -> None:
    decision = action.decision.to_dict() if action.decision else None
    error = {"code": code, "message": message, "action_id": action.id, "decision": decision}
    action.error = error
    frame = run.frames[action.frame]
    frame.fault = frame.fault or error
    _settle(run, action, "denied")


def _reject(run: Run, action: Action, rejection: dict[str, Any], *, counts: bool) -> None:
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
    _settle(run, action, "rejected")


def _settle(run: Run, action: Action, state: str) -> None:
    action.state = state
    frame = run.frames[action.frame]
    frame.unsettled -= 1
    if frame.unsettled == 0 and frame.spec.call is None:
        for key in frame.actions:
            observe(frame, run.actions[key])


# ---------------------------------------------------------------------------------------------------- requests


def _asked(run: Run, fact: f.Asked, at: float) -> None:
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
        run.ledger.charge(_ONE_TOOL)


def _answered(run: Run, fact: f.Answered, at: float) -> None:
    request = run.requests.pop(fact.request, None)
    if request is None:
        return
    answered = {"response": fact.response, "reason": fact.reason, "by": fact.by, "kind": request.kind}
    run.responses[request.id] = answered
    if request.action is None:
        _granted(run.frames[request.frame], request.kind)
        return
    action = run.actions[request.action]
    if request.kind == "input":
        _succeed(run, action, _input_result(request, "declined" if fact.response is None else "answered", fact.response))
    elif fact.edit is not None:
        answered["status"] = "edited"
        _replace(run, action, fact.edit)
    elif fact.response:
        action.approved = answered
        action.state = "proposed" if action.stale else "authorized"
    else:
        reason = fact.reason or (action.decision.reason if action.decision else "Denied")
        _deny(run, action, reason)


def _granted(frame: Frame, kind: str) -> None:
    frame.waiting = None
    if kind == "yield":
        frame.slice_turns = 0
    else:
        frame.failures = 0
        frame.down = frame.retry_at = None
        frame.retries += 1


def _input_result(request: Request, status: str, answer: str | None) -> dict[str, Any]:
    return {"request_id": request.id, "status": status, "answer": answer}


def _replace(run: Run, old: Action, edit: Proposal) -> None:
    """The edited proposal takes the old one's place in its turn."""
    frame = run.frames[old.frame]
    old.state = "edited"
    call = Call(old.call.id, edit.call.tool, edit.call.args)
    run.actions[edit.action] = Action(edit.action, frame.id, old.turn, old.index, call, edited_from=old.id)
    frame.actions[old.index] = edit.action


def _expired(run: Run, fact: f.Expired, at: float) -> None:
    request = run.requests.pop(fact.request, None)
    if request is None:
        return
    run.responses[request.id] = {"status": "expired", "reason": fact.reason, "kind": request.kind}
    if request.action is None:
        return
    action = run.actions[request.action]
    if fact.reason == NO_HANDLER and request.kind == "input":
        _fail(run, action, {"code": "no_input_handler", "message": "Nobody is connected to answer the question"})
    elif request.kind == "input":
        _succeed(run, action, _input_result(request, "timed_out", None))
    elif fact.reason == NO_HANDLER:
        message = f"Action '{request.body['action']['name']}' requires approval and no approval handler is configured"
        _deny(run, action, message, code="approval_required")
    else:
        _deny(run, action, fact.reason)


#: Reason of an Expired that closes a live question nobody is there to answer.
NO_HANDLER = "no handler"


# ---------------------------------------------------------------------------------------------------- repairs


def _adopted(run: Run, fact: f.Adopted, at: float) -> None:
    for key, changes in fact.actions.items():
        _adopt_action(run, run.actions[key], changes)
    if fact.usage is not None:
        run.ledger.restore(fact.usage)
    if fact.metadata is not None:
        run.task.metadata = dict(fact.metadata)


def _adopt_action(run: Run, action: Action, changes: dict[str, Any]) -> None:
    run.uncertain.discard(action.id)
    if changes["state"] == "succeeded":
        action.error, action.reconciled = None, True
        if action.settled:
            action.result = changes.get("result")
        else:
            _succeed(run, action, changes.get("result"))
    elif changes["state"] == "failed" and not action.settled:
        _fail(run, action, changes.get("error") or {"code": "failed", "message": "set by hand"})


def request_fingerprint(body: dict[str, Any]) -> str:
    """What binds a displayed request to the stored one."""
    return digest(body)


_RULES: dict[type[Fact], Callable[[Run, Any, float], None]] = {
    f.Resumed: _resumed,
    f.Parked: _parked,
    f.CancelRequested: _cancel_requested,
    f.BudgetWarned: _budget_warned,
    f.BudgetDenied: _budget_denied,
    f.RunFinished: _run_finished,
    f.FrameOpened: _frame_opened,
    f.FrameClosed: _frame_closed,
    f.Composed: _composed,
    f.ModelStarted: _model_started,
    f.ModelReplied: _model_replied,
    f.ModelMisspoke: _model_misspoke,
    f.ModelFailed: _model_failed,
    f.Prepared: _prepared,
    f.Refused: _refused,
    f.PreparationFailed: _preparation_failed,
    f.Decided: _decided,
    f.Asked: _asked,
    f.Answered: _answered,
    f.Expired: _expired,
    f.ToolStarted: _tool_started,
    f.ToolReturned: _tool_returned,
    f.ToolRejected: _tool_rejected,
    f.ToolFailed: _tool_failed,
    f.EffectUnknown: _effect_unknown,
    f.Reconciled: _reconciled,
    f.RerunAllowed: _rerun_allowed,
    f.Emitted: _emitted,
    f.Adopted: _adopted,
}

_RECEIPTS = frozenset(
    {
        f.ToolStarted,
        f.ToolReturned,
        f.ToolRejected,
        f.ToolFailed,
        f.EffectUnknown,
        f.Reconciled,
        f.Refused,
        f.Decided,
        f.Answered,
        f.Asked,
        f.Expired,
        f.Emitted,
        f.FrameOpened,
        f.FrameClosed,
        f.BudgetDenied,
        f.BudgetWarned,
    }
)
