"""``evolve`` and ``project``: folding, facts that come too late, recovery, and silence on repeats."""

from __future__ import annotations

from typing import Any

import pytest
from engine_facts import START, Told, allowed, asked_model, calls, composed, decided, direct, loop, prepared, turn_of

from protolink import RunAction
from protolink.engine import facts as f
from protolink.engine.evolve import evolve
from protolink.engine.facts import Fact
from protolink.engine.fold import fold
from protolink.engine.receipts import export
from protolink.engine.state import Run, status


def story() -> Told:
    """A durable run with a refusal, an approval over a park, a crash, a reconciliation and an answer."""
    told = Told(durable=True).settle().tell(*asked_model(), calls("a", "b"))
    told.tell(f.Refused("a", "unknown_tool", "no such tool"), prepared("b"), decided("b", "require_approval")).settle()
    told.tell(f.Parked())
    told.time += 100
    told.tell(f.Resumed(2), f.Answered("request-b", True), prepared("b"), decided("b", "require_approval"))
    told.tell(f.ToolStarted("b"), f.Resumed(3), f.Parked())
    told.tell(f.Resumed(4), f.Reconciled("b", "by hand")).settle()
    told.tell(*asked_model(turn=1), f.ModelReplied("part:0", "done")).settle()
    return told


def shape(run: Run) -> dict[str, Any]:
    """What two equal runs have in common."""
    return {
        "task": export(run).to_dict(),
        "status": status(run),
        "phase": run.phase,
        "n": run.n,
        "usage": run.ledger.usage(START + 1000).to_dict(),
        "actions": {key: (a.state, a.result, a.rejection, a.error) for key, a in run.actions.items()},
        "requests": sorted(run.requests),
        "responses": run.responses,
        "frames": {
            key: (frame.open, frame.outcome, frame.turn, frame.attempt, [str(m) for m in frame.history.messages])
            for key, frame in run.frames.items()
        },
    }


def test_story_is_the_one_that_is_meant() -> None:
    told = story()
    assert (told.run.outcome, told.run.output) == ("completed", "done")
    assert {key: a.state for key, a in told.run.actions.items()} == {"a": "rejected", "b": "succeeded"}


def test_fold_of_the_whole_journal_is_the_run_itself() -> None:
    told = story()
    folded = fold(told.records)
    assert shape(folded) == shape(told.run)
    assert folded.seq == told.run.seq


@pytest.mark.parametrize("length", range(1, len(story().records) + 1))
def test_fold_of_any_prefix_goes_on_to_the_same_end(length: int) -> None:
    told = story()
    folded = fold(told.records[:length])
    assert folded.n == length
    for record in told.records[length:]:
        evolve(folded, record)
    assert shape(folded) == shape(told.run)


def test_folding_twice_gives_the_same_events_and_ids() -> None:
    first, second = story(), story()
    assert [type(e) for e in first.events] == [type(e) for e in second.events]
    assert [e.event_id for e in first.events] == [e.event_id for e in second.events]
    assert len({e.event_id for e in first.events}) == len(first.events)


def test_fold_needs_the_beginning() -> None:
    for records in ([], story().records[1:]):
        with pytest.raises(ValueError, match="RunStarted"):
            fold(records)


LATE: list[Fact] = [
    f.Answered("request-b", False),
    f.Expired("request-b", "late"),
    prepared("b"),
    f.Refused("b", "late", "late"),
    decided("b", "deny"),
    f.PreparationFailed("b", "late", "late"),
    composed(turn=2),
    f.CancelRequested("late"),
    f.ModelFailed("part:0", "late", "late"),
]


@pytest.mark.parametrize("fact", LATE, ids=lambda fact: type(fact).__name__)
def test_fact_that_comes_after_the_end_changes_nothing_and_tells_nothing(fact: Fact) -> None:
    told = story()
    before = {key: value for key, value in shape(told.run).items() if key != "n"}
    assert told.shown(fact) == []
    told.tell(fact)
    assert {key: value for key, value in shape(told.run).items() if key != "n"} == before


@pytest.mark.parametrize(
    "fact",
    [f.ToolReturned("a", "again"), f.ToolRejected("a", "late", "late"), f.ToolFailed("a", "late", "late")],
    ids=lambda fact: type(fact).__name__,
)
def test_receipt_counts_once(fact: Fact) -> None:
    told = turn_of("a", "b").tell(*allowed("a", "b"), f.ToolStarted("a"), f.ToolReturned("a", "first"))
    artifacts = len(told.run.task.artifacts)
    assert told.shown(fact) == []
    told.tell(fact)
    action = told.run.actions["a"]
    assert (action.state, action.result) == ("succeeded", "first")
    assert told.run.frames["part:0"].unsettled == 1
    assert len(told.run.task.artifacts) == artifacts


def test_first_answer_wins() -> None:
    told = turn_of("a").tell(prepared("a"), decided("a", "require_approval")).settle()
    told.tell(f.Answered("request-a", True), f.Answered("request-a", False), f.Expired("request-a", "late"))
    assert told.run.actions["a"].state == "authorized"
    assert told.run.responses["request-a"]["response"] is True


def test_first_reason_of_a_cancellation_stays() -> None:
    told = Told().tell(f.CancelRequested("first"), f.CancelRequested("second"))
    assert told.run.cancel is not None
    assert told.run.cancel.reason == "first"


def test_loss_of_the_process_makes_what_ran_uncertain() -> None:
    told = Told(durable=True).settle().tell(*asked_model(), calls("a"), *allowed("a"), f.ToolStarted("a"), f.Resumed(2))
    assert told.run.actions["a"].state == "uncertain"
    assert status(told.run) == "uncertain"


def test_loss_of_the_process_repeats_a_tool_that_only_reads() -> None:
    told = Told(durable=True).settle().tell(*asked_model(), calls("a"), prepared("a", read_only=True), decided("a"))
    told.tell(f.ToolStarted("a"), f.Resumed(2))
    assert (told.run.actions["a"].state, told.run.uncertain) == ("proposed", set())


def test_loss_of_the_process_repeats_the_model_call_and_charges_it_again() -> None:
    told = Told(durable=True).settle().tell(*asked_model(), f.Resumed(2))
    frame = told.run.frames["part:0"]
    assert (frame.model, frame.turn, frame.attempt) == ("idle", 0, 1)
    told.tell(*asked_model(attempt=1))
    assert (told.run.ledger.llm_calls, told.run.ledger.steps) == (2, 1)


def test_late_receipt_of_an_uncertain_action_settles_it() -> None:
    told = turn_of("a").tell(*allowed("a"), f.ToolStarted("a"), f.EffectUnknown("a", "lost", "lost"))
    told.tell(f.ToolReturned("a", "after all"))
    assert (told.run.actions["a"].state, told.run.uncertain) == ("succeeded", set())


def test_action_prepared_differently_after_a_park_fails_the_part() -> None:
    told = Told(durable=True).settle().tell(*asked_model(), calls("a"), prepared("a"))
    told.tell(decided("a", "require_approval")).settle().tell(f.Parked(), f.Resumed(2), f.Answered("request-a", True))
    other = RunAction(kind="tool.call", name="act", payload={"arguments": {"n": 2}}, action_id="a")
    told.tell(f.Prepared("a", other))
    assert told.run.frames["part:0"].fault is not None
    assert told.run.frames["part:0"].fault["code"] == "prepared_action_changed"
    assert told.run.actions["a"].state == "failed"


def test_policy_after_a_park_may_deny_what_was_approved() -> None:
    told = Told(durable=True).settle().tell(*asked_model(), calls("a"), prepared("a"))
    told.tell(decided("a", "require_approval")).settle().tell(f.Parked(), f.Resumed(2), f.Answered("request-a", True))
    told.tell(prepared("a"), decided("a", "deny"))
    assert told.run.actions["a"].state == "denied"


def test_results_enter_the_conversation_in_the_order_of_the_calls() -> None:
    told = turn_of("a", "b", parallel=True).tell(*allowed("a", "b"), f.ToolStarted("a"), f.ToolStarted("b"))
    told.tell(f.ToolReturned("b", "second"))
    assert "second" not in str(told.run.frames["part:0"].history.messages)
    told.tell(f.ToolReturned("a", "first"))
    said = str(told.run.frames["part:0"].history.messages)
    assert said.index("first") < said.index("second")


def test_charges_are_made_when_work_starts_and_never_given_back() -> None:
    told = turn_of("a").tell(*allowed("a"))
    assert told.run.ledger.tool_calls == 0
    told.tell(f.ToolStarted("a"))
    assert told.run.ledger.tool_calls == 1
    told.tell(f.ToolRejected("a", "no", "no"))
    assert (told.run.ledger.tool_calls, told.run.frames["part:0"].corrections) == (1, 1)


def test_time_is_active_time() -> None:
    told = Told(durable=True).settle()
    told.time = START + 10
    told.tell(f.Parked())
    told.time = START + 1000
    told.tell(f.Resumed(2))
    told.time = START + 1005
    assert told.run.ledger.seconds(told.time) == 15


def test_repeated_preparation_and_decision_after_a_park_are_not_told_again() -> None:
    told = Told(durable=True).settle().tell(*asked_model(), calls("a"), prepared("a"))
    told.tell(decided("a", "require_approval")).settle().tell(f.Parked(), f.Resumed(2), f.Answered("request-a", True))
    assert told.shown(prepared("a")) == []
    told.tell(prepared("a"))
    assert told.shown(decided("a", "require_approval")) == []
    assert [e.llm_event_type for e in told.shown(decided("a"))] == ["policy_decision"]


def test_answer_to_a_settled_request_tells_nothing() -> None:
    told = turn_of("a").tell(prepared("a"), decided("a", "require_approval")).settle()
    told.tell(f.Answered("request-a", True))
    assert told.shown(f.Answered("request-a", True)) == []
    assert told.shown(f.Expired("request-a", "late")) == []


def test_second_attempt_of_a_turn_tells_no_second_step() -> None:
    told = Told().settle().tell(*asked_model(), f.ModelFailed("part:0", "ConnectionError", "reset", True, START))
    told_types = [e.llm_event_type for e in told.shown(composed(attempt=1))]
    assert told_types == ["context_prepared", "llm_context"]


def test_projecting_changes_nothing() -> None:
    told = turn_of("a").tell(*allowed("a"), f.ToolStarted("a"))
    before = shape(told.run)
    for fact in (f.ToolReturned("a", "x"), f.ToolRejected("a", "no", "no"), f.FrameClosed("part:0", "canceled")):
        told.shown(fact)
    assert shape(told.run) == before


def test_end_of_the_run_voids_what_was_still_asked() -> None:
    told = turn_of("a").tell(prepared("a"), decided("a", "require_approval")).settle()
    told.tell(f.CancelRequested("stop")).settle()
    assert told.run.requests == {}
    assert told.run.responses["request-a"]["status"] == "canceled"


def test_output_is_that_of_the_last_part() -> None:
    told = Told(direct("part:0"), loop("part:1")).settle()
    told.tell(*allowed("a"), f.ToolStarted("a"), f.ToolReturned("a", 1))
    told.settle().tell(*asked_model("part:1"), f.ModelReplied("part:1", "answer")).settle()
    assert (told.run.outcome, told.run.output) == ("completed", "answer")


def test_failed_part_keeps_later_parts_from_starting() -> None:
    told = Told(direct("part:0"), loop("part:1")).settle().tell(*allowed("a"), f.ToolStarted("a"))
    told.tell(f.ToolFailed("a", "KeyError", "no row")).settle()
    assert (told.run.outcome, list(told.run.frames)) == ("failed", ["part:0"])
