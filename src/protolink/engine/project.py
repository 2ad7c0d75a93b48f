"""``project``: the only place that makes events.

It reads the state *before* its fact, so what is repeated after a park stays silent. Ids come from the run's salt and the
event's number, times from the record: the same journal gives the same events, in any process.

A loop of a model tells its story in TaskLLMStreamEvents, a direct call in RunEvents; a child's events carry the child's own
ids, name the action that asked for it, and never end the parent's stream.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..models import (
    TaskArtifactUpdateEvent,
    TaskErrorEvent,
    TaskLLMStreamEvent,
    TaskProgressEvent,
    TaskStatusUpdateEvent,
)
from ..models.turn import AGENT_CALL
from ..runtime import ContextItem, ContextManifest, RunContext, RunEvent
from . import facts as f
from .evolve import NO_HANDLER
from .facts import Record
from .observe import correction
from .state import TRANSIENT_ATTEMPTS, Action, Frame, Run, Scope
from .task import action_kind, answer, exposed, interruptions, receipt, stamp

Event = TaskStatusUpdateEvent | TaskArtifactUpdateEvent | TaskProgressEvent | TaskErrorEvent | TaskLLMStreamEvent | RunEvent

#: The type that an event of a model's loop has when a direct call tells it. Others stay as they are.
_NATIVE = {
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
_SEVERITY = {
    "approval.required": "warning",
    "action.rejected": "warning",
    "action.denied": "error",
    "action.failed": "error",
    "action.uncertain": "error",
    "budget.warning": "warning",
    "budget.exceeded": "error",
}


def event_id(salt: str, number: int) -> str:
    """A UUID-shaped id that is the same whenever the journal is read."""
    return f"{salt}-{number:012x}"


class Story:
    """Collects the events of one record."""

    __slots__ = ("at", "events", "number", "run")

    def __init__(self, run: Run, record: Record) -> None:
        self.run = run
        self.at = stamp(record.at)
        self.number = record.seq
        self.events: list[Event] = []

    def _identity(self) -> dict[str, Any]:
        found = {"event_id": event_id(self.run.salt, self.number), "timestamp": self.at}
        self.number += 1
        return found

    def tell(self, frame: Frame, kind: str, payload: dict[str, Any], *, content: Any = None, final: bool = False) -> None:
        """An event of the frame's loop, or of its direct call."""
        scope = self.run.scope(frame)
        if frame.spec.call is not None and kind in _NATIVE:
            self.native(frame, _NATIVE[kind], payload)
            return
        event = TaskLLMStreamEvent(
            task_id=scope.task.id,
            agent_name=scope.agent,
            llm_event_type=kind,
            step=frame.turn + 1,
            content=content,
            final=final,
            metadata=payload,
            **self._identity(),
        )
        self._add(scope, event)

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
            severity=_SEVERITY.get(type, "info"),
            summary=payload.get("message"),
            payload=payload,
            **self._identity(),
        )
        self._add(scope, event)

    def status(self, scope: Scope, state: str, *, final: bool = False, **metadata: Any) -> None:
        before = scope.task.state.value
        event = TaskStatusUpdateEvent(scope.task.id, before, state, final, metadata, **self._identity())
        self._add(scope, event)

    def artifact(self, scope: Scope, artifact: Any) -> None:
        if artifact is not None:
            self._add(scope, TaskArtifactUpdateEvent(scope.task.id, artifact, {}, **self._identity()))

    def error(self, scope: Scope, error: dict[str, Any]) -> None:
        event = TaskErrorEvent(scope.task.id, error["code"], error["message"], False, {}, **self._identity())
        self._add(scope, event)

    def progress(self, scope: Scope, message: str) -> None:
        self._add(scope, TaskProgressEvent(scope.task.id, 0, message, {}, **self._identity()))

    def _add(self, scope: Scope, event: Event) -> None:
        self.events.append(event if scope.parent_action is None else forwarded(self.run, scope, event, self.number - 1))


def forwarded(run: Run, scope: Scope, event: Event, number: int) -> RunEvent:
    """A child's event in the parent's stream: its own identity, the link to the calling action, never final."""
    found = RunEvent.from_task_event(event, context=RunContext.from_dict(scope.context))
    found.run_id, found.agent_name = scope.run_id, scope.agent
    found.parent_action_id = found.parent_action_id or scope.parent_action
    found.delegation_id = found.delegation_id or scope.parent_action
    found.metadata |= {
        "source_sequence": number,
        "source_final": found.final,
        "parent_run_id": scope.parent_run,
    }
    found.final = False
    return found


def project(run: Run, record: Record) -> list[Event]:
    """The events that this record means, given the run as it was before it."""
    rule = _RULES.get(type(record.fact))
    if rule is None:
        return []
    story = Story(run, record)
    rule(run, record.fact, story, record.at)
    return story.events


# ---------------------------------------------------------------------------------------------------- the run


def opening(run: Run, record: Record) -> list[Event]:
    """The first event of a run that RunStarted has just created."""
    story = Story(run, record)
    story._add(run.root, TaskStatusUpdateEvent(run.task.id, "submitted", "working", False, {}, **story._identity()))
    return story.events


def _resumed(run: Run, fact: f.Resumed, story: Story, at: float) -> None:
    if run.task.state.value != "working" and run.outcome is None:
        story.status(run.root, "working")


def _parked(run: Run, fact: f.Parked, story: Story, at: float) -> None:
    if run.uncertain:
        story.status(run.root, "canceled" if run.cancel else "failed", final=True, uncertain=sorted(run.uncertain))
    elif run.requests:
        waiting = [interruption.to_dict() for interruption in interruptions(run)]
        story.status(run.root, "input-required", final=True, interruption=waiting[0], interruptions=waiting)


def _run_finished(run: Run, fact: f.RunFinished, story: Story, at: float) -> None:
    if fact.outcome == "failed" and fact.error is not None:
        story.error(run.root, fact.error)
    metadata = {"cancel_reason": run.cancel.reason} if fact.outcome == "canceled" and run.cancel else {}
    story.status(run.root, fact.outcome, final=True, **metadata)


def _budget_warned(run: Run, fact: f.BudgetWarned, story: Story, at: float) -> None:
    _budget(run, fact, story, "budget_warning")


def _budget_denied(run: Run, fact: f.BudgetDenied, story: Story, at: float) -> None:
    _budget(run, fact, story, "budget_exceeded")


def _budget(run: Run, fact: f.BudgetWarned | f.BudgetDenied, story: Story, kind: str) -> None:
    decision = {**fact.decision, "timestamp": story.at}
    frame = run.frames.get(fact.frame)
    payload = {"decision": decision, "message": decision.get("message")}
    if frame is not None:
        story.tell(frame, kind, payload)
        return
    event = RunEvent(
        type=_NATIVE[kind],
        run_id=run.id,
        task_id=run.task.id,
        agent_name=run.agent,
        severity=_SEVERITY[_NATIVE[kind]],
        summary=decision.get("message"),
        payload=payload,
        **story._identity(),
    )
    story._add(run.root, event)


# ---------------------------------------------------------------------------------------------------- frames


def _frame_opened(run: Run, fact: f.FrameOpened, story: Story, at: float) -> None:
    if fact.parent is None:
        spec = run.parts[fact.part or 0]
        if spec.call is not None:
            story.progress(run.root, f"Executing tool: {spec.call.call.tool}")
        return
    action = run.actions[fact.parent]
    frame = run.frames[action.frame]
    kind = "agent_call_start" if frame.spec.call is None else "tool_start"
    story.tell(frame, kind, _started(action))
    if fact.spec is not None:
        above = run.scope(frame)
        story.events.append(_child_started(fact.spec, above.run_id, action.id, story))


def _child_started(spec: f.Spec, parent_run: str, action: str, story: Story) -> RunEvent:
    """The child has no scope yet: its first event is made by hand."""
    name = spec.agent.rsplit("/", 1)[-1]
    number = story.number
    event = TaskStatusUpdateEvent(spec.task_id, "submitted", "working", False, {}, **story._identity())
    found = RunEvent.from_task_event(event)
    found.run_id, found.agent_name = spec.run_id, name
    found.parent_action_id = found.delegation_id = action
    found.metadata |= {"source_sequence": number, "source_final": False, "parent_run_id": parent_run}
    return found


def _frame_closed(run: Run, fact: f.FrameClosed, story: Story, at: float) -> None:
    frame = run.frames[fact.frame]
    scope = run.scope(frame)
    for key in frame.actions:
        if run.actions[key].state in ("prepared", "asking", "asked", "authorized"):
            _canceled(frame, run.actions[key], story, "its work has ended")
    if fact.outcome == "completed" and frame.spec.call is None:
        story.tell(frame, "llm_final", {}, content=frame.answer, final=True)
    story.artifact(scope, answer(run, frame, fact.outcome, fact.error, at))
    if frame.parent is not None:
        if fact.outcome == "failed" and fact.error is not None:
            story.error(scope, fact.error)
        story.status(scope, fact.outcome, final=True)
        _child_returned(run, frame, fact, story, at)


def _child_returned(run: Run, frame: Frame, fact: f.FrameClosed, story: Story, at: float) -> None:
    assert frame.parent is not None
    action = run.actions[frame.parent]
    caller = run.frames[action.frame]
    kind = "agent_call" if caller.spec.call is None else "tool"
    if fact.outcome == "completed":
        output = run.actions[frame.actions[0]].result if frame.spec.call else frame.answer
        story.tell(caller, f"{kind}_result", result_payload(caller, action, output))
        story.artifact(run.scope(caller), _receipt(run, caller, action, "succeeded", at))
    elif fact.outcome == "canceled":
        _canceled(caller, action, story, (fact.error or {}).get("message"))
    else:
        error = fact.error or {"code": "child_failed", "message": "the child failed"}
        story.tell(caller, f"{kind}_error", {**named(action), "error": error, "message": error["message"]})


def _receipt(run: Run, frame: Frame, action: Action, state: str, at: float, rejection: Any = None) -> Any:
    """The receipt as evolve is about to attach it."""
    kept = action.state, action.rejection
    action.state = state
    action.rejection = rejection if rejection is not None else action.rejection
    try:
        return receipt(run, frame, action, at)
    finally:
        action.state, action.rejection = kept


# ---------------------------------------------------------------------------------------------------- the model


def _composed(run: Run, fact: f.Composed, story: Story, at: float) -> None:
    frame = run.open.get(fact.frame)
    if frame is None:
        return
    if fact.attempt == 0:
        story.tell(frame, "llm_step", {})
    manifest = _manifest(run, frame, fact, story.at)
    window = fact.window
    used = manifest["total_estimated_tokens"]
    context = {
        "used_tokens": used,
        "window_tokens": window,
        "used_percent": round(100 * used / window, 2) if window else None,
        "available_tokens": window - used if window else None,
        "estimated": True,
    }
    about = {"provider": frame.spec.provider, "model": frame.spec.model}
    story.tell(frame, "context_prepared", {"manifest": manifest})
    story.tell(frame, "llm_context", {"manifest": manifest, "context": context, **about})


def _manifest(run: Run, frame: Frame, fact: f.Composed, at: str) -> dict[str, Any]:
    scope = run.scope(frame)
    system, tools, history, user = fact.tokens
    names = ("system", "tool_prompt", "history", "user")
    return ContextManifest(
        run_id=scope.run_id,
        session_id=scope.context.get("session_id"),
        agent_name=scope.agent,
        provider=frame.spec.provider,
        model=frame.spec.model,
        system_tokens=system,
        tool_prompt_tokens=tools,
        history_tokens=history,
        user_tokens=user,
        context_items=tuple(ContextItem(n, n, t) for n, t in zip(names, fact.tokens, strict=True)),
        total_estimated_tokens=sum(fact.tokens),
        context_window=fact.window,
        created_at=at,
    ).to_dict()


def _model_started(run: Run, fact: f.ModelStarted, story: Story, at: float) -> None:
    frame = run.frames[fact.frame]
    payload = {
        "attempt": fact.attempt + 1,
        "provider": frame.spec.provider,
        "model": frame.spec.model,
        "streaming": fact.streaming,
        "input_tokens": fact.tokens,
    }
    story.tell(frame, "llm_call_started", payload)


def _model_replied(run: Run, fact: f.ModelReplied, story: Story, at: float) -> None:
    frame = run.open.get(fact.frame)
    if frame is None:
        return
    _call_ended(run, frame, fact, story)
    for proposal in fact.calls:
        call = proposal.call
        kind = AGENT_CALL if call.tool == AGENT_CALL else "tool_call"
        body = call.args if kind == AGENT_CALL else {"tool": call.tool, "args": call.args}
        payload = {"action": kind, "payload": {"type": kind, **body}, "action_id": proposal.action}
        story.tell(frame, "llm_action", payload)
    if not fact.calls:
        story.tell(frame, "llm_action", {"action": "final", "payload": {"type": "final", "content": fact.text}})


def _model_misspoke(run: Run, fact: f.ModelMisspoke, story: Story, at: float) -> None:
    frame = run.open.get(fact.frame)
    if frame is None:
        return
    _call_ended(run, frame, fact, story)
    failures = frame.misspeaks + 1
    recoverable = failures < frame.spec.misspeaks
    payload = {
        "message": fact.error,
        "parse_failures": failures,
        "retry_count": failures,
        "recoverable": recoverable,
    }
    story.tell(frame, "llm_parse_error", payload)


def _call_ended(run: Run, frame: Frame, fact: f.ModelReplied | f.ModelMisspoke, story: Story) -> None:
    used, window = sum(frame.tokens), frame.window
    usage = {
        "input_tokens": fact.input_tokens,
        "output_tokens": fact.output_tokens,
        "total_tokens": fact.input_tokens + fact.output_tokens,
        "estimated": fact.metrics.get("estimated", True),
        "source": "estimate" if fact.metrics.get("estimated", True) else "provider",
        "details": {},
    }
    metrics = {
        "step": frame.turn + 1,
        "provider": frame.spec.provider,
        "model": frame.spec.model,
        "latency_ms": fact.latency_ms,
        "usage": usage,
        "context": {
            "used_tokens": used,
            "window_tokens": window,
            "used_percent": round(100 * used / window, 2) if window else None,
            "available_tokens": window - used if window else None,
            "estimated": True,
        },
        "cost": fact.metrics.get("cost"),
        "streaming": fact.metrics.get("streaming", False),
        "native": fact.native,
    }
    attempts = frame.attempt + 1
    shape = {"streaming": metrics["streaming"], "native": fact.native}
    usage_now = run.ledger.usage(0.0, output_tokens=fact.output_tokens).to_dict()
    story.tell(frame, "llm_call_metrics", metrics)
    completed = {"latency_ms": fact.latency_ms, "attempts": attempts, **shape, "metrics": metrics, "budget": usage_now}
    story.tell(frame, "llm_call_completed", completed)
    detail = {"attempts": attempts, "retry_attempts": attempts - 1, "metrics": metrics}
    story.tell(frame, "llm_response", {**shape, "metadata": detail, "metrics": metrics})


def _model_failed(run: Run, fact: f.ModelFailed, story: Story, at: float) -> None:
    frame = run.open.get(fact.frame)
    if frame is None or fact.code == "canceled":
        return
    attempt = frame.attempt + 1
    if fact.transient:
        recoverable = frame.failures + 1 < TRANSIENT_ATTEMPTS
        detail = {"attempt": attempt, "error_type": fact.code, "message": fact.message}
        payload = {"reason": "transient_error", "recoverable": recoverable, "payload": detail, **detail}
        story.tell(frame, "llm_retry", payload)
    else:
        story.tell(frame, "llm_error", {"message": fact.message, "code": fact.code, "recoverable": run.durable})


# ---------------------------------------------------------------------------------------------------- actions


def named(action: Action) -> dict[str, Any]:
    """How events of a started action name it."""
    args = action.call.args
    about: dict[str, Any] = {"action_id": action.id, "action_kind": action_kind(action)}
    if action.call.tool == AGENT_CALL:
        return {**about, "agent": args.get("agent"), "action": {"kind": "agent.call", "name": args.get("agent")}}
    prepared = action.prepared
    name = prepared.name if prepared is not None else action.call.tool
    return {**about, "tool": name, "args": args, "action": {"kind": about["action_kind"], "name": name}}


def _started(action: Action) -> dict[str, Any]:
    payload = named(action)
    if action.call.tool == AGENT_CALL:
        payload["payload"] = {"type": AGENT_CALL, **action.call.args}
    return payload


def result_payload(frame: Frame, action: Action, result: Any) -> dict[str, Any]:
    payload = named(action)
    if frame.spec.call is not None or frame.spec.expose:
        return {**payload, "result": exposed(result)}
    return {**payload, "result_omitted": True}


def _canceled(frame: Frame, action: Action, story: Story, reason: str | None) -> None:
    message = reason or "canceled"
    story.native(frame, "action.canceled", {**named(action), "message": message})


def _prepared(run: Run, fact: f.Prepared, story: Story, at: float) -> None:
    action = run.actions[fact.action]
    if action.prepared is None and action.state == "proposed":
        story.tell(run.frames[action.frame], "action_requested", {"action": fact.prepared.to_dict()})


def _refused(run: Run, fact: f.Refused, story: Story, at: float) -> None:
    action = run.actions[fact.action]
    frame = run.frames[action.frame]
    if action.state != "proposed" or not frame.open:
        return
    if not fact.counts:
        payload = {"reason": fact.code, "action_id": action.id, "message": fact.message}
        story.tell(frame, "llm_retry", {**payload, "payload": {"tool": action.call.tool, "args": action.call.args}})
    else:
        _rejected(run, frame, action, fact, fact.phase, story)
    rejection = _rejection(fact)
    story.artifact(run.scope(frame), _receipt(run, frame, action, "rejected", at, rejection))


def _rejection(fact: f.Refused | f.ToolRejected) -> dict[str, Any]:
    about = {"code": fact.code, "message": fact.message, "details": fact.details, "suggestion": fact.suggestion}
    return {"status": "rejected", "changes_made": False, **about}


def _rejected(
    run: Run, frame: Frame, action: Action, fact: f.Refused | f.ToolRejected, phase: str, story: Story
) -> None:
    spent = frame.corrections + 1
    limit = frame.spec.corrections
    kind = "agent_call_rejected" if action.call.tool == AGENT_CALL else "tool_rejected"
    payload = {
        **named(action),
        "rejection": _rejection(fact),
        "phase": phase,
        "correction_count": spent,
        "max_tool_corrections": limit,
        "recoverable": frame.spec.call is None and spent <= limit,
        "message": fact.message,
    }
    story.tell(frame, kind, payload)


def _decided(run: Run, fact: f.Decided, story: Story, at: float) -> None:
    action = run.actions[fact.action]
    if action.state != "prepared":
        return
    frame = run.frames[action.frame]
    before = action.decision.effect if action.decision else None
    about = {"action_id": action.id, "action": named(action)["action"]}
    if before != fact.decision.effect:
        story.tell(frame, "policy_decision", {"decision": fact.decision.to_dict(), **about})
    if fact.decision.effect.value == "deny":
        _denied(frame, action, fact.decision.reason, story)


def _denied(frame: Frame, action: Action, message: str, story: Story) -> None:
    prepared = action.prepared.to_dict() if action.prepared else None
    story.tell(frame, "action_denied", {"action": prepared, "action_id": action.id, "message": message})


def _asked(run: Run, fact: f.Asked, story: Story, at: float) -> None:
    frame = run.frames[fact.frame]
    if fact.kind == "approval":
        story.tell(frame, "approval_required", {"request": fact.body, "action_id": fact.action})
    elif fact.kind == "input":
        story.native(frame, "user_input.requested", {"request": fact.body, "action_id": fact.action})
    elif fact.kind == "yield":
        story.tell(frame, "run_yielded", {"handoff": fact.body})


def _answered(run: Run, fact: f.Answered, story: Story, at: float) -> None:
    request = run.requests.get(fact.request)
    if request is None or request.action is None:
        return
    action = run.actions[request.action]
    frame = run.frames[request.frame]
    if request.kind == "input":
        status = "declined" if fact.response is None else "answered"
        _input_done(run, frame, action, story, status, fact.response, request.id, at)
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
        _denied(frame, action, fact.reason or (action.decision.reason if action.decision else "denied"), story)


def _input_done(
    run: Run, frame: Frame, action: Action, story: Story, status: str, answer: Any, request: str, at: float
) -> None:
    result = {"request_id": request, "status": status, "answer": answer}
    story.native(frame, f"user_input.{status}", {"result": result, "request_id": request, "action_id": action.id})
    story.tell(frame, "tool_result", result_payload(frame, action, result))
    story.artifact(run.scope(frame), _receipt(run, frame, action, "succeeded", at))


def _expired(run: Run, fact: f.Expired, story: Story, at: float) -> None:
    request = run.requests.get(fact.request)
    if request is None or request.action is None or fact.reason == NO_HANDLER:
        return
    action = run.actions[request.action]
    frame = run.frames[request.frame]
    if request.kind == "input":
        _input_done(run, frame, action, story, "timed_out", None, request.id, at)
        return
    decision = {"approved": False, "request_id": request.id, "reason": fact.reason, "decided_at": story.at}
    story.tell(frame, "approval_decision", {"decision": decision, "action_id": action.id})
    _denied(frame, action, fact.reason, story)


def _tool_started(run: Run, fact: f.ToolStarted, story: Story, at: float) -> None:
    action = run.actions[fact.action]
    story.tell(run.frames[action.frame], "tool_start", _started(action))


def _tool_returned(run: Run, fact: f.ToolReturned | f.Reconciled, story: Story, at: float) -> None:
    action = run.actions[fact.action]
    if action.state not in ("executing", "uncertain"):
        return
    frame = run.frames[action.frame]
    payload = result_payload(frame, action, fact.result)
    if isinstance(fact, f.Reconciled):
        payload["reconciled"] = True
    kept, action.result = action.result, fact.result
    story.tell(frame, "tool_result", payload)
    story.artifact(run.scope(frame), _receipt(run, frame, action, "succeeded", at))
    action.result = kept


def _tool_rejected(run: Run, fact: f.ToolRejected, story: Story, at: float) -> None:
    action = run.actions[fact.action]
    frame = run.frames[action.frame]
    _rejected(run, frame, action, fact, "execution", story)
    story.artifact(run.scope(frame), _receipt(run, frame, action, "rejected", at, _rejection(fact)))


def _tool_failed(run: Run, fact: f.ToolFailed, story: Story, at: float) -> None:
    action = run.actions[fact.action]
    frame = run.frames[action.frame]
    if fact.code == "canceled" and run.cancel is not None:
        _canceled(frame, action, story, run.cancel.reason)
        return
    error = {"code": fact.code, "message": fact.message}
    payload = {**named(action), "error": error, "message": fact.message, "recoverable": False}
    story.tell(frame, "tool_error", payload)


def _effect_unknown(run: Run, fact: f.EffectUnknown, story: Story, at: float) -> None:
    action = run.actions[fact.action]
    message = f"The outcome of '{named(action)['action']['name']}' is not known"
    error = {"code": fact.code, "message": fact.message}
    story.native(run.frames[action.frame], "action.uncertain", {**named(action), "error": error, "message": message})


def _emitted(run: Run, fact: f.Emitted, story: Story, at: float) -> None:
    action = run.actions[fact.action]
    story.native(run.frames[action.frame], fact.type, {**fact.payload, "action_id": action.id})


_RULES: dict[type, Callable[[Run, Any, Story, float], None]] = {
    f.Resumed: _resumed,
    f.Parked: _parked,
    f.RunFinished: _run_finished,
    f.BudgetWarned: _budget_warned,
    f.BudgetDenied: _budget_denied,
    f.FrameOpened: _frame_opened,
    f.FrameClosed: _frame_closed,
    f.Composed: _composed,
    f.ModelStarted: _model_started,
    f.ModelReplied: _model_replied,
    f.ModelMisspoke: _model_misspoke,
    f.ModelFailed: _model_failed,
    f.Prepared: _prepared,
    f.Refused: _refused,
    f.Decided: _decided,
    f.Asked: _asked,
    f.Answered: _answered,
    f.Expired: _expired,
    f.ToolStarted: _tool_started,
    f.ToolReturned: _tool_returned,
    f.ToolRejected: _tool_rejected,
    f.ToolFailed: _tool_failed,
    f.EffectUnknown: _effect_unknown,
    f.Reconciled: _tool_returned,
    f.Emitted: _emitted,
}
