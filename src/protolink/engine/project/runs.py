"""Events of the whole run."""

from __future__ import annotations

from ...models import TaskStatusUpdateEvent
from ...runtime import RunEvent
from .. import facts as f
from ..facts import Record
from ..state import Run
from ..task import interruptions
from .story import NATIVE, SEVERITY, Event, Story, own


def opening(run: Run, record: Record) -> list[Event]:
    """The first event of a run that RunStarted has just created."""
    story = Story(run, record)
    story.add(run.root, TaskStatusUpdateEvent(run.task.id, "submitted", "working", False, {}, **story.identity()))
    return story.events


def resumed(run: Run, fact: f.Resumed, story: Story, at: float) -> None:
    if run.task.state.value != "working" and run.outcome is None:
        story.status(run.root, "working")


def parked(run: Run, fact: f.Parked, story: Story, at: float) -> None:
    if run.uncertain:
        story.status(run.root, "canceled" if run.cancel else "failed", final=True, uncertain=sorted(run.uncertain))
    elif run.requests:
        waiting = [interruption.to_dict() for interruption in interruptions(run)]
        story.status(run.root, "input-required", final=True, interruption=waiting[0], interruptions=waiting)


def run_finished(run: Run, fact: f.RunFinished, story: Story, at: float) -> None:
    if fact.outcome == "failed" and fact.error is not None:
        story.error(run.root, fact.error)
    metadata = {"cancel_reason": run.cancel.reason} if fact.outcome == "canceled" and run.cancel else {}
    story.status(run.root, fact.outcome, final=True, **metadata)


def budget_warned(run: Run, fact: f.BudgetWarned, story: Story, at: float) -> None:
    budget(run, fact, story, "budget_warning")


def budget_denied(run: Run, fact: f.BudgetDenied, story: Story, at: float) -> None:
    budget(run, fact, story, "budget_exceeded")


def budget(run: Run, fact: f.BudgetWarned | f.BudgetDenied, story: Story, kind: str) -> None:
    decision = {**fact.decision, "timestamp": story.at}
    frame = run.frames.get(fact.frame)
    payload = {"decision": decision, "message": decision.get("message")}
    if frame is not None:
        story.tell(frame, kind, payload)
        return
    event = RunEvent(
        type=NATIVE[kind],
        run_id=run.id,
        task_id=run.task.id,
        agent_name=run.agent,
        severity=SEVERITY[NATIVE[kind]],
        summary=decision.get("message"),
        payload=own(payload),
        **story.identity(),
    )
    story.add(run.root, event)
