"""Events of frames that open and close."""

from __future__ import annotations

from ...models import TaskStatusUpdateEvent
from ...runtime import RunEvent
from .. import facts as f
from ..state import Frame, Run
from ..task import answer, tellable
from .describe import canceled, coming_receipt, named, result_payload, started
from .story import Story


def frame_opened(run: Run, fact: f.FrameOpened, story: Story, at: float) -> None:
    if fact.parent is None:
        spec = run.parts[fact.part or 0]
        if spec.call is not None:
            story.progress(run.root, f"Executing tool: {spec.call.call.tool}")
        return
    action = run.actions[fact.parent]
    frame = run.frames[action.frame]
    kind = "agent_call_start" if frame.spec.call is None else "tool_start"
    story.tell(frame, kind, started(action))
    if fact.spec is not None:
        above = run.scope(frame)
        story.events.append(child_started(fact.spec, above.run_id, action.id, story))


def child_started(spec: f.Spec, parent_run: str, action: str, story: Story) -> RunEvent:
    """The child has no scope yet: its first event is made by hand."""
    name = spec.agent.rsplit("/", 1)[-1]
    number = story.number
    event = TaskStatusUpdateEvent(spec.task_id, "submitted", "working", False, {}, **story.identity())
    found = RunEvent.from_task_event(event)
    found.run_id, found.agent_name = spec.run_id, name
    found.parent_action_id = found.delegation_id = action
    found.metadata |= {"source_sequence": number, "source_final": False, "parent_run_id": parent_run}
    return found


def frame_closed(run: Run, fact: f.FrameClosed, story: Story, at: float) -> None:
    frame = run.frames[fact.frame]
    scope = run.scope(frame)
    for key in frame.actions:
        if run.actions[key].state in ("prepared", "asking", "asked", "authorized"):
            canceled(frame, run.actions[key], story, "its work has ended")
    if fact.outcome == "completed" and frame.spec.call is None:
        story.tell(frame, "llm_final", {}, content=frame.answer, final=True)
    artifact = answer(run, frame, fact.outcome, fact.error, at)
    story.artifact(scope, artifact and tellable(artifact))
    if frame.parent is not None:
        if fact.outcome == "failed" and fact.error is not None:
            story.error(scope, fact.error)
        story.status(scope, fact.outcome, final=True)
        child_returned(run, frame, fact, story, at)


def child_returned(run: Run, frame: Frame, fact: f.FrameClosed, story: Story, at: float) -> None:
    assert frame.parent is not None
    action = run.actions[frame.parent]
    caller = run.frames[action.frame]
    kind = "agent_call" if caller.spec.call is None else "tool"
    if fact.outcome == "completed":
        output = run.actions[frame.actions[0]].result if frame.spec.call else frame.answer
        story.tell(caller, f"{kind}_result", result_payload(caller, action, output))
        story.artifact(run.scope(caller), coming_receipt(run, caller, action, "succeeded", at))
    elif fact.outcome == "canceled":
        canceled(caller, action, story, (fact.error or {}).get("message"))
    else:
        error = fact.error or {"code": "child_failed", "message": "the child failed"}
        story.tell(caller, f"{kind}_error", {**named(action), "error": error, "message": error["message"]})
