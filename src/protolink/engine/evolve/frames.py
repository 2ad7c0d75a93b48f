"""What opening and closing a frame does. A child's end is the receipt of the action that asked for it."""

from __future__ import annotations

from ...models import Task
from .. import facts as f
from ..facts import Spec
from ..state import Action, Frame, Run, Scope
from ..task import record_answer, record_state
from .runs import void
from .settle import fail, never_done, propose, reject, settle, succeed


def frame_opened(run: Run, fact: f.FrameOpened, at: float) -> bool:
    spec = run.parts[fact.part] if fact.part is not None else fact.spec
    assert spec is not None
    parent = run.actions[fact.parent] if fact.parent else None
    scope = open_scope(run, spec, parent, at) if parent else ""
    frame = Frame(spec.frame, spec, scope, parent=fact.parent, part=fact.part)
    run.frames[frame.id] = run.open[frame.id] = frame
    if parent is not None:
        parent.state, parent.child, parent.started_at = "delegated", frame.id, at
        run.frames[parent.frame].children.append(frame.id)
        run.frames[parent.frame].recent.append(parent.key)
    if fact.part is not None:
        run.next_part = fact.part + 1
    begin(run, frame)
    return fact.parent is not None


def open_scope(run: Run, spec: Spec, parent: Action, at: float) -> str:
    """A child works under its own run and task id; what it did is the parent's to show."""
    run.ledger.children += 1
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


def begin(run: Run, frame: Frame) -> None:
    spec = frame.spec
    if spec.call is not None:
        run.ledger.steps += 1
        propose(run, frame, (spec.call,))
    elif spec.no_model:
        frame.fault = {"code": "no_llm", "message": f"Agent '{run.scope(frame).agent}' has no model to infer with"}
    else:
        if frame.parent is None and run.conversation is not None:
            frame.history = run.conversation.copy()
        frame.history.add_user(spec.prompt)


def frame_closed(run: Run, fact: f.FrameClosed, at: float) -> bool:
    frame = run.open.pop(fact.frame)
    frame.open = False
    frame.outcome, frame.error = fact.outcome, fact.error
    for key in frame.actions:
        if not run.actions[key].settled and run.actions[key].state != "uncertain":
            run.actions[key].state = "canceled"
    void(run, lambda request: request.frame == frame.id, "its work has ended")
    if fact.outcome == "completed":
        frame.output = run.actions[frame.actions[0]].result if frame.spec.call else frame.answer
    if frame.parent is not None:
        return_to_caller(run, frame, at)
    else:
        close_part(run, frame, at)
    return frame.parent is not None


def close_part(run: Run, frame: Frame, at: float) -> None:
    assert frame.part is not None
    record_answer(run, frame, at)
    if frame.outcome == "completed":
        run.outputs[frame.part] = frame.output
        if frame.spec.call is None and run.conversation is not None:
            run.conversation = frame.history
    elif frame.outcome == "failed":
        run.fault = run.fault or frame.error


def return_to_caller(run: Run, frame: Frame, at: float) -> None:
    """The child's end is the receipt of the action that asked for it."""
    assert frame.parent is not None
    action = run.actions[frame.parent]
    record_answer(run, frame, at)
    if action.state != "delegated":
        return
    if frame.outcome == "completed":
        succeed(run, action, frame.output)
    elif frame.outcome == "canceled":
        action.error = frame.error
        settle(run, action, "canceled")
    elif frame.spec.call is not None and run.actions[frame.actions[0]].state == "rejected":
        call = run.actions[frame.actions[0]]
        if not call.counted:
            never_done(run.frames[action.frame], action)
        reject(run, action, call.rejection or {}, counts=call.counted)
    else:
        fail(run, action, frame.error or {"code": "child_failed", "message": "the child failed"})
