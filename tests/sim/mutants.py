"""Small sabotages of the core, each of which the harness has to notice. ``MUTANTS`` maps a name to what applies it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from protolink.drive import driver as driving
from protolink.drive.driver import Driver
from protolink.drive.log import Log
from protolink.engine import admit, evolve
from protolink.engine import facts as f
from protolink.engine.evolve import actions, runs
from protolink.engine.ledger import Price
from protolink.engine.state import Run
from protolink.journal import rows
from protolink.runtime import CancellationToken

Patch = pytest.MonkeyPatch
MUTANTS: dict[str, Callable[[Patch], None]] = {}


def mutant(apply: Callable[[Patch], None]) -> Callable[[Patch], None]:
    MUTANTS[apply.__name__] = apply
    return apply


def _after(patch: Patch, fact: type, change: Callable[[Run, Any], None]) -> None:
    """Do something to the state whenever a fact of this kind has been taken over."""
    original = evolve._RULES[fact]  # type: ignore[index]

    def rule(run: Run, found: Any, at: float) -> bool | None:
        told = original(run, found, at)
        change(run, found)
        return told

    patch.setitem(evolve._RULES, fact, rule)


@mutant
def effect_before_its_intent_is_stored(patch: Patch) -> None:
    intend, start = Driver._intend, Driver._start

    def early(self: Driver, starting: Any) -> None:
        intend(self, starting)
        start(self, starting)

    patch.setattr(Driver, "_intend", early)
    patch.setattr(Driver, "_start", lambda self, starting: False)


@mutant
def next_step_before_the_receipt_is_stored(patch: Patch) -> None:
    flush = Log.flush

    def late(self: Log) -> Awaitable[None] | None:
        held = self.__dict__.setdefault("held", set())
        fresh = {record.n for record in self.buffer if isinstance(record.fact, f.ToolReturned)} - held
        held.update(fresh)
        return None if fresh else flush(self)

    patch.setattr(Log, "flush", late)


@mutant
def a_stale_owner_commits(patch: Patch) -> None:
    append = rows.append

    def anybody(db: Any, row: Any, *rest: Any) -> None:
        append(db, rows.find(db, row.run_id) or row, *rest)

    patch.setattr(rows, "append", anybody)


@mutant
def an_approval_is_used_twice(patch: Patch) -> None:
    def spread(run: Run, fact: f.Answered) -> None:
        given = run.actions[run.asked_by[fact.request]].approved if fact.request in run.asked_by else None
        for action in run.actions.values():
            if given is not None and action.state == "asked":
                action.approved, action.state = given, "proposed"

    _after(patch, f.Answered, spread)


@mutant
def a_changed_payload_is_accepted(patch: Patch) -> None:
    patch.setattr(actions, "contract_differences", lambda old, new: [])


@mutant
def a_receipt_is_ignored_on_resume(patch: Patch) -> None:
    def forget(run: Run, fact: f.Resumed) -> None:
        for frame in run.open.values():
            for action in (run.actions[key] for key in frame.actions):
                if frame.unsettled and action.state == "succeeded" and action.route == "tool":
                    action.state = "proposed"
                    frame.unsettled += 1

    _after(patch, f.Resumed, forget)


@mutant
def an_owned_child_has_its_own_budget(patch: Patch) -> None:
    def refund(run: Run, fact: f.ModelStarted) -> None:
        if run.frames[fact.frame].scope:
            run.ledger.llm_calls -= 1

    _after(patch, f.ModelStarted, refund)


@mutant
def children_are_priced_apart(patch: Patch) -> None:
    def alone(spent: Price, price: Price) -> Price:
        return price

    patch.setattr(admit, "_sum", alone)


@mutant
def resume_repeats_what_was_executing(patch: Patch) -> None:
    def again(run: Run, frame: Any, action: Any) -> None:
        action.state = "proposed"

    patch.setattr(runs, "lost", again)


@mutant
def no_second_preparation(patch: Patch) -> None:
    def at_once(run: Run, fact: f.Answered) -> None:
        action = run.actions.get(run.asked_by.get(fact.request, ""))
        if action is not None and action.state == "proposed" and action.approved:
            action.state = "authorized"

    _after(patch, f.Answered, at_once)


@mutant
def events_before_they_are_stored(patch: Patch) -> None:
    flush = Log.flush

    def early(self: Log) -> Awaitable[None] | None:
        events, self.pending = self.pending, []
        self.deliver(events)
        return flush(self)

    patch.setattr(Log, "flush", early)


@mutant
def no_approval_needed(patch: Patch) -> None:
    def allow(run: Run, fact: f.Decided) -> None:
        if run.actions[fact.action].state == "asking":
            run.actions[fact.action].state = "authorized"

    _after(patch, f.Decided, allow)


@mutant
def warnings_are_forgotten(patch: Patch) -> None:
    _after(patch, f.Resumed, lambda run, fact: run.ledger.warned.clear())


@mutant
def decide_walks_past_uncertain(patch: Patch) -> None:
    decide = driving.decide

    def careless(run: Run, now: float) -> Any:
        kept, run.uncertain = run.uncertain, set()
        try:
            return decide(run, now)
        finally:
            run.uncertain = kept

    patch.setattr(driving, "decide", careless)


@mutant
def an_answer_waits_in_memory(patch: Patch) -> None:
    patch.setattr(f.Answered, "firm", False)


@mutant
def an_answer_while_parking_is_lost(patch: Patch) -> None:
    async def rest(self: Driver) -> bool:
        if self.run.outcome is None:
            self.stage(f.Parked())
        if (storing := self.log.flush()) is not None:
            await storing
        return True

    patch.setattr(Driver, "_rest", rest)


@mutant
def a_cancel_at_the_intent_is_ignored(patch: Patch) -> None:
    start = Driver._start

    def deaf(self: Driver, starting: Any) -> bool:
        kept, self.token = self.token, CancellationToken()
        try:
            return start(self, starting)
        finally:
            self.token = kept

    patch.setattr(Driver, "_start", deaf)


@mutant
def a_receipt_is_held_for_a_slow_read(patch: Patch) -> None:
    patch.setattr(f.ToolReturned, "firm", False)
