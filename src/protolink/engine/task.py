"""The task that people see: state, artifacts and metadata, kept in step with the facts.

Called by ``evolve`` alone. Ids and times of what it makes come from the facts, so a task folded again from its journal
is the same task, artifact for artifact.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, cast

from ..models import Artifact, Part, TaskState, ToolOutput
from ..models.ids import iso_from_seconds as stamp
from ..models.json import is_plain, plain
from ..models.turn import AGENT_CALL
from ..runtime import InterruptionKind, RunInterruption
from . import facts as f
from .facts import Record
from .state import Action, Frame, Run, Scope, status

#: Blockers that later facts take back.
_UNCERTAIN = "execution_uncertain"


def record_state(run: Run, scope: Scope, state: str, at: float) -> None:
    """Move the scope's task. The engine may reopen what only looked finished (an uncertain run that was reconciled)."""
    task = scope.task
    if task.state.value != state:
        history = task.metadata.setdefault("state_history", [])
        history.append({"previous_state": task.state.value, "new_state": state, "timestamp": stamp(at)})
        task.state = TaskState(state)
    if state == "working" and scope is run.root:
        _clear_pause(scope)


def _clear_pause(scope: Scope) -> None:
    metadata = scope.task.metadata
    for key in ("interruption", "interruptions"):
        metadata.pop(key, None)
    blockers = metadata.get("blockers", [])
    if any(blocker["code"] == _UNCERTAIN for blocker in blockers):
        metadata["blockers"] = [blocker for blocker in blockers if blocker["code"] != _UNCERTAIN]
        metadata.pop("error", None)


def record_end(run: Run, at: float) -> None:
    """The drive has ended: the task says how, or for what it waits."""
    match status(run):
        case "completed":
            record_state(run, run.root, "completed", at)
        case "failed":
            record_state(run, run.root, "failed", at)
            _record_error(run, run.error or {"code": "failed", "message": "the run failed"})
        case "canceled":
            _record_canceled(run, at)
        case "input-required":
            record_state(run, run.root, "input-required", at)
            waiting = [interruption.to_dict() for interruption in interruptions(run)]
            run.task.metadata |= {"interruption": waiting[0], "interruptions": waiting}
        case "uncertain":
            _record_uncertain(run, at)


def _record_canceled(run: Run, at: float) -> None:
    record_state(run, run.root, "canceled", at)
    reason = run.cancel.reason if run.cancel else None
    metadata = run.task.metadata
    metadata["canceled"] = True
    if reason is not None:
        metadata["cancel_reason"] = reason
    run.root.context = {**run.root.context, "canceled": True, "cancel_reason": reason}
    metadata["run_context"] = run.root.context


def _record_uncertain(run: Run, at: float) -> None:
    if run.cancel is not None:
        _record_canceled(run, at)
    else:
        record_state(run, run.root, "failed", at)
    for key in sorted(run.uncertain, key=lambda key: list(run.actions).index(key)):
        action = run.actions[key]
        name = action.prepared.name if action.prepared else action.call.tool
        message = f"The outcome of '{name}' is not known"
        where = run.scope(run.frames[action.frame]).run_id
        _record_error(run, {"code": _UNCERTAIN, "message": message, "run_id": where, "action_id": key})


def _record_error(run: Run, error: dict[str, Any]) -> None:
    metadata = run.task.metadata
    metadata["error"] = error["message"]
    metadata["blockers"] = [*metadata.get("blockers", []), error]


def interruptions(run: Run) -> list[RunInterruption]:
    """Every pending request, the oldest first."""
    return [
        RunInterruption(
            run.scope(run.frames[r.frame]).run_id, r.id, cast(InterruptionKind, r.kind), r.body, r.fingerprint
        )
        for r in run.requests.values()
    ]


# ---------------------------------------------------------------------------------------------------- artifacts


def record_answer(run: Run, frame: Frame, at: float) -> None:
    """A frame has ended: attach what it answered, and to the parent what a child produced."""
    scope = run.scope(frame)
    artifact = answer(run, frame, frame.outcome or "", frame.error, at)
    if artifact is not None:
        scope.task.add_artifact(artifact)
    if frame.parent is not None:
        record_state(run, scope, frame.outcome or "failed", at)
        above = run.scope(run.frames[run.actions[frame.parent].frame])
        above.task.artifacts.extend(scope.task.artifacts)


def answer(run: Run, frame: Frame, outcome: str, error: dict[str, Any] | None, at: float) -> Artifact | None:
    """The artifact of a frame that ends: its answer, a direct call's output or failure, or the missing model."""
    part = _answer_part(run, frame, outcome, error)
    if part is None:
        return None
    name = frame.spec.call.call.tool if frame.spec.call else None
    # Not the call's own action: an edit may have taken its place.
    action_id = frame.actions[0] if frame.spec.call and frame.actions else None
    return Artifact(f"art_{run.salt}_{run.n}", [part], {}, stamp(at), "result", name, None, None, action_id)


def _answer_part(run: Run, frame: Frame, outcome: str, error: dict[str, Any] | None) -> Part | None:
    if frame.spec.call is None:
        if outcome == "completed":
            return Part.infer_output(content=frame.answer)
        return Part.error("no_llm", error["message"]) if error and error["code"] == "no_llm" else None
    call_id = frame.spec.call.call.id or frame.spec.call.action
    action = run.actions[frame.actions[0]]
    if outcome == "completed":
        return Part.tool_output(call_id=call_id, result=action.result)
    if outcome == "failed" and error is not None:
        shown = error.get("rejection") or {"code": error["code"], "message": error["message"]}
        return Part.tool_output(call_id=call_id, error=shown)
    return None


def tellable(artifact: Artifact) -> Artifact:
    """The artifact with a JSON form: what a live tool returned and has none is told by its text."""
    parts = [_tellable(part) for part in artifact.parts]
    return artifact if parts == artifact.parts else replace(artifact, parts=parts)


def _tellable(part: Part) -> Part:
    output = part.content
    if not isinstance(output, ToolOutput) or is_plain(output.result):
        return part
    return Part.tool_output(call_id=output.call_id, result=exposed(output.result), error=output.error)


def record_receipt(run: Run, record: Record) -> None:
    """Keep the record for the task's list of events, and attach the receipt of the action that it settled."""
    run.receipts.append(record)
    action = settled_by(run, record.fact) if type(record.fact) in _SETTLING else None
    if action is None:
        return
    frame = run.frames[action.frame]
    artifact = receipt(run, frame, action, record.at)
    if artifact is not None:
        run.scope(frame).task.add_artifact(artifact)
    if action.state == "succeeded" and type(record.fact) is f.ToolReturned:
        _record_lateness(run, action, record.at)


_SETTLING = frozenset({f.ToolReturned, f.ToolRejected, f.Refused, f.Reconciled, f.Answered, f.Expired, f.FrameClosed})


def settled_by(run: Run, fact: f.Fact) -> Action | None:
    """The action that this fact brought to its end, if it is one that has a receipt."""
    match fact:
        case f.ToolReturned() | f.ToolRejected() | f.Refused() | f.Reconciled():
            action = run.actions[fact.action]
        case f.Answered() | f.Expired():
            found = run.asked_by.get(fact.request)
            if found is None:
                return None
            action = run.actions[found]
        case f.FrameClosed() if (parent := run.frames[fact.frame].parent) is not None:
            action = run.actions[parent]
        case _:
            return None
    return action if action.state in ("succeeded", "rejected") else None


def receipt(run: Run, frame: Frame, action: Action, at: float) -> Artifact | None:
    """What the client may know of a model's action: that it ended, not with what (unless results are exposed)."""
    if frame.spec.call is not None:
        return None
    kind = action_kind(action)
    name = action.call.tool if kind == "tool.call" else str(action.call.args.get("agent"))
    body: dict[str, Any] = {"action_id": action.id, "action_kind": kind, "name": name}
    if action.state == "rejected":
        body |= {"status": "rejected", "rejection": action.rejection}
    else:
        body |= {"status": "completed", "result_omitted": not frame.spec.expose}
        if frame.spec.expose:
            body["result"] = exposed(action.result)
    omitted = action.state != "rejected" and not frame.spec.expose
    metadata = {"source": "inference", "action_kind": kind, "step": action.turn, "result_omitted": omitted}
    label = "action_rejection" if action.state == "rejected" else "action_result"
    number = action.id.removeprefix("action_")
    when: Any = at  # written as text when it is read
    return Artifact(f"art_{number}", [Part("json", body)], metadata, when, label, name, None, None, action.id)


def action_kind(action: Action) -> str:
    if action.prepared is not None:
        return action.prepared.kind
    return "agent.call" if action.call.tool == AGENT_CALL else "tool.call"


def exposed(result: Any) -> Any:
    """A result as JSON; its text where a live tool returned what has no JSON form."""
    try:
        return plain(result)
    except TypeError:
        return repr(result)


def _record_lateness(run: Run, action: Action, at: float) -> None:
    """An effect that came in spite of a cancellation or a used-up runtime is kept, and named."""
    if run.cancel is not None:
        found = run.task.metadata.setdefault("completed_after_cancellation", [])
        found.append({**_about(action), "action_id": action.id, "reason": run.cancel.reason})
    limit = run.ledger.budget.max_runtime_seconds
    if limit is not None and run.policy is not None and run.ledger.seconds(at) > limit:
        decision = run.policy.evaluate(run.ledger.budget, run.ledger.usage(at))
        found = run.task.metadata.setdefault("completed_action_budget_overruns", [])
        found.append({**_about(action), "decision": {**decision.to_dict(), "timestamp": stamp(at)}})


def _about(action: Action) -> dict[str, Any]:
    return {"action_kind": action_kind(action), "action_name": action.call.tool, "call_id": action.call.id or None}
