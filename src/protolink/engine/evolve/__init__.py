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


def evolve(run: Run, record: Record) -> None:
    """Take one fact over. Facts that come too late (for what is closed or settled) change nothing."""
    fact = record.fact
    in_time = _RECEIPTS.get(type(fact))
    proves = in_time is not None and in_time(run, fact)
    _RULES[type(fact)](run, fact, record.at)
    run.n = record.n + 1
    run.at = record.at
    if proves:
        record_receipt(run, record)


def _always(run: Run, fact: Fact) -> bool:
    return True


def _while_asked(run: Run, fact: f.Answered | f.Expired) -> bool:
    return fact.request in run.requests


def _is_of_an_action(run: Run, fact: f.Relayed) -> bool:
    return str(fact.event["type"]).startswith("action.")


def _while(*states: str) -> Callable[[Run, Any], bool]:
    return lambda run, fact: run.actions[fact.action].state in states


_RULES: dict[type[Fact], Callable[[Run, Any, float], None]] = {
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

#: Facts that prove something, and when: one about a request that is closed, or an action that has moved on, is late.
_RECEIPTS: dict[type[Fact], Callable[[Run, Any], bool]] = {
    f.ToolStarted: _always,
    f.ToolReturned: _while("executing", "uncertain"),
    f.ToolRejected: _while("executing", "uncertain"),
    f.ToolFailed: _while("executing", "uncertain"),
    f.EffectUnknown: _while("executing", "uncertain"),
    f.Reconciled: _always,
    f.Refused: _while("proposed"),
    f.Decided: _while("prepared"),
    f.Answered: _while_asked,
    f.Asked: _always,
    f.Expired: _while_asked,
    f.Emitted: _always,
    f.Relayed: _is_of_an_action,
    f.FrameOpened: _always,
    f.FrameClosed: _always,
    f.BudgetDenied: _always,
    f.BudgetWarned: _always,
}
