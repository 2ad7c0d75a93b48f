"""``evolve``: what each fact does to the state. The state of a run is the fold of its facts and of nothing else.

It decides nothing, asks nobody and does no IO. It must go on folding every journal ever written, so a rule here is
changed by adding a fact or a field, never by giving an old one a new meaning.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...models import ConversationHistory, Task
from ...runtime import RunBudget
from .. import facts as f
from ..facts import Fact, Record
from ..ledger import Ledger
from ..state import Run, Scope
from ..task import record_receipt, record_state
from . import actions, frames, requests, runs, turns
from .requests import NO_HANDLER

__all__ = ["NO_HANDLER", "evolve", "start"]


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
    if fact.conversation is not None:
        run.conversation = ConversationHistory().replace(fact.conversation)
        run.recalled = len(fact.conversation)
    run.ledger.start_clock(record.at)
    record_state(run, run.root, "working", record.at)
    run.n = record.n + 1
    run.seq = record.seq
    run.at = record.at
    return run


#: What a fact does to the run, at its time. True: the task's list of events tells it. A fact that comes too late, about
#: a request that is closed or an action that has moved on, proves nothing.
Rule = Callable[[Run, Any, float], bool | None]


def evolve(run: Run, record: Record) -> None:
    """Take one fact over. Facts that come too late (for what is closed or settled) change nothing."""
    fact = record.fact
    told = _RULES[type(fact)](run, fact, record.at)
    run.n = record.n + 1
    run.at = record.at
    if told:
        record_receipt(run, record)


_RULES: dict[type[Fact], Rule] = {
    f.Resumed: runs.resumed,
    f.Parked: runs.parked,
    f.CancelRequested: runs.cancel_requested,
    f.BudgetWarned: runs.budget_warned,
    f.BudgetDenied: runs.budget_denied,
    f.RunFinished: runs.run_finished,
    f.FrameOpened: frames.frame_opened,
    f.FrameClosed: frames.frame_closed,
    f.Composed: turns.composed,
    f.ModelStarted: turns.model_started,
    f.ModelReplied: turns.model_replied,
    f.ModelMisspoke: turns.model_misspoke,
    f.ModelFailed: turns.model_failed,
    f.Prepared: actions.prepared,
    f.Refused: actions.refused,
    f.PreparationFailed: actions.preparation_failed,
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
    f.RerunAllowed: actions.rerun_allowed,
    f.Emitted: actions.emitted,
    f.Relayed: actions.relayed,
    f.Adopted: runs.adopted,
}
