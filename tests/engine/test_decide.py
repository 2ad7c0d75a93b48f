"""``decide``: the order of its questions, each with a run told by hand."""

from __future__ import annotations

import pytest
from engine_facts import (
    START,
    Told,
    allowed,
    asked_model,
    calls,
    child,
    composed,
    decided,
    direct,
    loop,
    prepared,
    turn_of,
)

from protolink.engine import facts as f
from protolink.engine.commands import Ask, Authorize, CallModel, Compose, Invoke, Prepare
from protolink.engine.decide import backs_off, decide, wake_at


def test_run_begins_with_its_first_part() -> None:
    assert Told().facts() == [f.FrameOpened(part=0)]


def test_request_is_composed_before_the_model_is_called() -> None:
    told = Told().settle()
    assert told.wants() == [Compose("part:0", 0, 0)]
    assert told.tell(composed(tokens=7)).wants() == [CallModel("part:0", 0, 0, 7)]


def test_nothing_is_wanted_while_the_model_is_asked() -> None:
    assert Told().settle().tell(*asked_model()).wants() == []


def test_answer_closes_the_part_and_then_the_run() -> None:
    told = Told().settle().tell(*asked_model(), f.ModelReplied("part:0", "done"))
    assert told.facts() == [f.FrameClosed("part:0", "completed", None)]
    told.tell(*told.facts())
    assert told.facts() == [f.RunFinished("completed")]
    told.tell(*told.facts())
    assert (told.wants(), told.run.output) == ([], "done")


def test_all_calls_are_prepared_then_judged_before_the_first_runs() -> None:
    told = turn_of("a", "b")
    assert told.wants() == [Prepare("a", 0), Prepare("b", 0)]
    told.tell(prepared("b"))
    assert told.wants() == [Prepare("a", 0)]
    told.tell(prepared("a"))
    assert told.wants() == [Authorize("a", 0), Authorize("b", 0)]
    told.tell(decided("a"))
    assert told.wants() == [Authorize("b", 0)]
    told.tell(decided("b"))
    assert told.wants() == [Invoke("a")]


def test_calls_run_in_order_and_one_at_a_time() -> None:
    told = turn_of("a", "b").tell(*allowed("a", "b"), f.ToolStarted("a"))
    assert told.wants() == []
    assert told.tell(f.ToolReturned("a")).wants() == [Invoke("b")]


def test_parallel_calls_are_wanted_together() -> None:
    assert turn_of("a", "b", parallel=True).tell(*allowed("a", "b")).wants() == [Invoke("a"), Invoke("b")]


def test_next_turn_waits_for_the_last_call() -> None:
    told = turn_of("a", "b", parallel=True).tell(*allowed("a", "b"), f.ToolStarted("a"), f.ToolStarted("b"))
    assert told.tell(f.ToolReturned("b")).wants() == []
    assert told.tell(f.ToolReturned("a")).wants() == [Compose("part:0", 1, 0)]


def test_questions_are_asked_before_the_free_calls_run() -> None:
    told = turn_of("a", "b").tell(prepared("a"), prepared("b"), decided("a", "require_approval"), decided("b"))
    [asked] = told.facts()
    assert isinstance(asked, f.Asked)
    assert (asked.kind, asked.action, asked.request) == ("approval", "a", "request-a")
    told.tell(asked)
    assert told.wants() == [Ask("request-a"), Invoke("b")]


def test_approved_call_runs_and_denied_one_ends_the_part() -> None:
    for response, wanted in ((True, [Invoke("a")]), (False, None)):
        told = turn_of("a").tell(prepared("a"), decided("a", "require_approval")).settle()
        told.tell(f.Answered("request-a", response))
        if wanted is not None:
            assert told.wants() == wanted
        else:
            [closed] = told.facts()
            assert isinstance(closed, f.FrameClosed)
            assert (closed.outcome, closed.error["code"]) == ("failed", "action_denied")  # type: ignore[index]


def test_one_denied_call_ends_the_part_before_any_runs() -> None:
    told = turn_of("a", "b").tell(prepared("a"), prepared("b"), decided("a"), decided("b", "deny"))
    assert [type(fact) for fact in told.facts()] == [f.FrameClosed]


@pytest.mark.parametrize("durable", [False, True])
def test_unknown_effect_stops_everything_even_the_end(durable: bool) -> None:
    told = Told(loop("part:0", parallel=True), durable=durable).settle().tell(*asked_model(), calls("a", "b"))
    told.tell(*allowed("a", "b"), f.ToolStarted("a"), f.EffectUnknown("a", "lost", "lost"))
    assert told.wants() == []
    assert told.tell(f.CancelRequested("stop")).wants() == []
    assert told.tell(f.Reconciled("a", "done")).facts() != []


def test_finished_run_wants_nothing_whatever_comes() -> None:
    told = turn_of("a").tell(f.CancelRequested("stop")).settle()
    assert told.run.outcome == "canceled"
    told.tell(f.CancelRequested("again"), f.Answered("request-a", True), prepared("a"))
    assert told.wants() == []


def test_expired_question_comes_before_anything_else() -> None:
    told = turn_of("a", "b").tell(prepared("a", expires=START + 10), prepared("b"))
    told.tell(decided("a", "require_approval"), decided("b")).settle()
    assert wake_at(told.run, START) == START + 10
    assert told.wants() == [Ask("request-a"), Invoke("b")]
    told.time = START + 10
    assert told.facts() == [f.Expired("request-a", "the time to answer has passed")]


def test_cancellation_closes_what_is_idle_and_waits_for_what_runs() -> None:
    told = turn_of("a", "b").tell(*allowed("a", "b"), f.ToolStarted("a"), f.CancelRequested("stop"))
    assert told.wants() == []
    told.tell(f.ToolReturned("a", "late"))
    assert [type(fact) for fact in told.facts()] == [f.FrameClosed]
    told.settle()
    assert (told.run.outcome, told.run.actions["a"].state, told.run.actions["b"].state) == (
        "canceled",
        "succeeded",
        "canceled",
    )


def test_direct_call_that_returned_before_the_cancellation_completes_its_part() -> None:
    told = Told(direct("part:0"), direct("part:1", action="b")).settle()
    told.tell(*allowed("a"), f.ToolStarted("a"), f.CancelRequested("stop"), f.ToolReturned("a", "kept"))
    assert told.facts() == [f.FrameClosed("part:0", "completed", None)]
    told.settle()
    assert told.run.outcome == "canceled"
    assert told.run.task.artifacts[0].parts[0].as_tool_output().result == "kept"
    assert "part:1" not in told.run.frames


def delegated(*children: str) -> Told:
    told = turn_of(*children, parallel=True)
    for name in children:
        told.tell(prepared(name, "child", opens=child(f"kid-{name}")))
    return told.tell(*(decided(name) for name in children)).settle()


def test_delegation_opens_a_child_and_no_tool() -> None:
    told = delegated("a")
    assert told.run.actions["a"].state == "delegated"
    assert told.wants() == [Compose("kid-a", 0, 0)]


def test_children_work_side_by_side_in_the_order_of_their_calls() -> None:
    assert delegated("a", "b").wants() == [Compose("kid-a", 0, 0), Compose("kid-b", 0, 0)]


def test_child_is_closed_before_its_parent_goes_on() -> None:
    told = delegated("a").tell(*asked_model("kid-a"), f.ModelReplied("kid-a", "kid's answer"))
    assert told.facts() == [f.FrameClosed("kid-a", "completed", None)]
    told.settle()
    assert told.run.actions["a"].result == "kid's answer"
    assert told.wants() == [Compose("part:0", 1, 0)]


def test_failed_child_takes_its_siblings_and_its_parent_along() -> None:
    told = delegated("a", "b").tell(*asked_model("kid-a"), *asked_model("kid-b"))
    told.tell(f.ModelFailed("kid-a", "PermissionError", "no key")).settle()
    assert told.run.frames["kid-a"].outcome == "failed"
    assert told.wants() == []
    assert told.run.abandoned(told.run.frames["kid-b"])
    told.tell(f.ModelFailed("kid-b", "canceled", "canceled")).settle()
    assert told.run.frames["kid-b"].outcome == "canceled"
    assert (told.run.outcome, told.run.error["code"]) == ("failed", "PermissionError")  # type: ignore[index]


def test_passing_failure_backs_off_and_tries_again() -> None:
    told = Told().settle().tell(*asked_model(), f.ModelFailed("part:0", "ConnectionError", "reset", True, START + 5))
    assert (told.wants(), backs_off(told.run, START), wake_at(told.run, START)) == ([], True, START + 5)
    told.time = START + 5
    assert told.wants() == [Compose("part:0", 0, 1)]
    assert not backs_off(told.run, told.time)


@pytest.mark.parametrize(("durable", "fact"), [(False, f.FrameClosed), (True, f.Asked)])
def test_provider_that_stays_down_fails_a_live_run_and_parks_a_durable_one(durable: bool, fact: type) -> None:
    told = Told(durable=durable).settle().tell(*asked_model(), f.ModelFailed("part:0", "PermissionError", "no key"))
    [found] = told.facts()
    assert isinstance(found, fact)
    if isinstance(found, f.Asked):
        assert found.kind == "retry"


def test_used_up_slice_is_a_question_and_a_grant_goes_on() -> None:
    told = Told(loop("part:0", slice=1), durable=True).settle().tell(*asked_model(), calls("a"), *allowed("a"))
    told.tell(f.ToolStarted("a"), f.ToolReturned("a"))
    [asked] = told.facts()
    assert isinstance(asked, f.Asked)
    assert asked.kind == "yield"
    told.tell(asked)
    assert told.wants() == []
    assert told.tell(f.Answered(asked.request)).wants() == [Compose("part:0", 1, 0)]


@pytest.mark.parametrize("budget", [{"max_steps": 1}, {"max_llm_calls": 1}])
def test_slice_that_could_not_go_on_is_refused_instead(budget: dict[str, int]) -> None:
    told = Told(loop("part:0", slice=1), durable=True, budget=budget).settle()
    told.tell(*asked_model(), calls("a"), *allowed("a"), f.ToolStarted("a"), f.ToolReturned("a"))
    assert [type(fact) for fact in told.facts()] == [f.BudgetDenied]


def test_everything_wanted_in_one_pass_is_priced_together() -> None:
    told = Told(loop("part:0", parallel=True), budget={"max_tool_calls": 2}).settle()
    told.tell(*asked_model(), calls("a", "b", "c"), *allowed("a", "b", "c")).settle()
    assert told.wants() == [Invoke("a"), Invoke("b")]
    told.tell(f.ToolStarted("a"), f.ToolStarted("b"))
    assert told.wants() == []
    told.tell(f.ToolReturned("a"), f.ToolReturned("b"))
    assert [type(fact) for fact in told.facts()] == [f.BudgetDenied]


def test_warning_is_recorded_before_what_it_concerns_and_once() -> None:
    told = Told(budget={"max_llm_calls": 1}).settle().tell(composed())
    assert [type(fact) for fact in told.facts()] == [f.BudgetWarned]
    told.settle()
    assert told.wants() == [CallModel("part:0", 0, 0, 1)]


def test_same_state_and_time_want_the_same() -> None:
    told = turn_of("a", "b").tell(*allowed("a", "b"))
    before = told.run.n, told.run.seq
    assert told.wants() == told.wants()
    assert (told.run.n, told.run.seq) == before


def test_new_drive_prepares_and_judges_again_what_had_not_begun() -> None:
    told = Told(durable=True).settle().tell(*asked_model(), calls("a"), prepared("a"))
    told.tell(decided("a", "require_approval")).settle().tell(f.Parked(), f.Resumed(2))
    assert told.wants() == [Ask("request-a")]
    told.tell(f.Answered("request-a", True))
    assert told.wants() == [Prepare("a", 2), Authorize("a", 2)]
    assert told.tell(prepared("a")).wants() == [Authorize("a", 2)]
    assert told.tell(decided("a", "require_approval")).wants() == [Invoke("a")]


def test_decide_is_silent_for_a_run_with_a_lost_effect_in_a_child() -> None:
    told = delegated("a", "b").tell(*asked_model("kid-a"), calls("x", frame="kid-a"), *allowed("x"))
    told.tell(f.ToolStarted("x"), f.EffectUnknown("x", "lost", "lost"))
    assert list(decide(told.run, told.time)) == []
