"""``project``: the only place that makes events.

It reads the state *before* its fact, so what is repeated after a park stays silent. Ids come from the run's salt and
the event's number, times from the record: the same journal gives the same events, in any process.

A loop of a model tells its story in TaskLLMStreamEvents, a direct call in RunEvents; a child's events carry the child's
own ids, name the action that asked for it, and never end the parent's stream.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...runtime import PolicyEffect
from .. import facts as f
from ..facts import Record
from ..state import Run
from . import actions, frames, requests, runs, turns
from .runs import opening
from .story import Event, Story, event_id, forwarded

__all__ = ["Event", "event_id", "forwarded", "numbers", "opening", "project"]


def project(run: Run, record: Record) -> list[Event]:
    """The events that this record means, given the run as it was before it."""
    rule = _RULES.get(type(record.fact))
    if rule is None:
        return []
    story = Story(run, record)
    rule(run, record.fact, story, record.at)
    return story.events


def numbers(run: Run, record: Record) -> int:
    """How many numbers to keep for the events of this record, in a run that nobody watches.

    Making the events of an ordinary turn only to count them was a tenth of its work. It may be some too many: numbers
    grow, they need not be dense.
    """
    room = _ROOM.get(type(record.fact))
    if room is not None:
        return room
    match record.fact:
        case f.ModelReplied(calls=calls):
            return 3 + max(1, len(calls))
        case f.Decided(decision=decision) if decision.effect is PolicyEffect.ALLOW:
            return 1
        case _:
            return len(project(run, record))


#: The most events that these facts have.
_ROOM: dict[type, int] = {f.Composed: 3, f.ModelStarted: 1, f.Prepared: 1, f.ToolStarted: 1, f.ToolReturned: 2}

_RULES: dict[type, Callable[[Run, Any, Story, float], None]] = {
    f.Resumed: runs.resumed,
    f.Parked: runs.parked,
    f.RunFinished: runs.run_finished,
    f.BudgetWarned: runs.budget_warned,
    f.BudgetDenied: runs.budget_denied,
    f.FrameOpened: frames.frame_opened,
    f.FrameClosed: frames.frame_closed,
    f.Composed: turns.composed,
    f.ModelStarted: turns.model_started,
    f.ModelReplied: turns.model_replied,
    f.ModelMisspoke: turns.model_misspoke,
    f.ModelFailed: turns.model_failed,
    f.Prepared: actions.prepared,
    f.Refused: actions.refused,
    f.Decided: actions.decided,
    f.Asked: requests.asked,
    f.Answered: requests.answered,
    f.Expired: requests.expired,
    f.ToolStarted: actions.tool_started,
    f.ToolReturned: actions.tool_returned,
    f.ToolRejected: actions.tool_rejected,
    f.ToolFailed: actions.tool_failed,
    f.EffectUnknown: actions.effect_unknown,
    f.Reconciled: actions.reconciled,
    f.Emitted: actions.emitted,
    f.Relayed: actions.relayed,
}
