"""The harness is tested itself: each sabotage of the core has to be noticed, and none without one."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
from tests.sim import checks
from tests.sim.mutants import MUTANTS

Check = Callable[[], list[str]]

#: What notices each mutant.
NOTICED_BY: dict[str, Check] = {
    "effect_before_its_intent_is_stored": partial(checks.crashed, "inline tools"),
    "next_step_before_the_receipt_is_stored": partial(checks.crashed, "inline tools"),
    "a_stale_owner_commits": partial(checks.stolen, "one tool"),
    "an_approval_is_used_twice": partial(checks.crashed, "four calls, two to approve"),
    "a_changed_payload_is_accepted": partial(checks.crashed, "changed after it was shown"),
    "a_receipt_is_ignored_on_resume": partial(checks.crashed, "four calls, two to approve"),
    "an_owned_child_has_its_own_budget": partial(checks.crashed, "children on one budget"),
    "children_are_priced_apart": partial(checks.crashed, "children beyond the budget"),
    "resume_repeats_what_was_executing": partial(checks.crashed, "one tool"),
    "no_second_preparation": partial(checks.crashed, "changed after it was shown"),
    "events_before_they_are_stored": partial(checks.crashed, "one tool"),
    "no_approval_needed": partial(checks.crashed, "edited before approval"),
    "warnings_are_forgotten": partial(checks.crashed, "warned once"),
    "decide_walks_past_uncertain": partial(checks.crashed, "unknown outcome below"),
    "an_answer_waits_in_memory": checks.answered_while_a_tool_runs,
    "an_answer_while_parking_is_lost": checks.answered_while_parking,
    "a_cancel_at_the_intent_is_ignored": checks.canceled_at_the_intent,
    "a_receipt_is_held_for_a_slow_read": checks.stored_beside_a_slow_read,
}

#: Scenes that test_crashes plays without sabotage, and finds nothing.
IN_TEST_CRASHES = {name for name, check in NOTICED_BY.items() if getattr(check, "func", None) is checks.crashed}


# A sabotaged driver leaves coroutines behind.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("name", MUTANTS)
def test_sabotage_is_noticed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    MUTANTS[name](monkeypatch)
    assert NOTICED_BY[name]() != []


@pytest.mark.parametrize("name", [name for name in MUTANTS if name not in IN_TEST_CRASHES])
def test_nothing_is_noticed_without_sabotage(name: str) -> None:
    assert NOTICED_BY[name]() == []


def test_every_mutant_has_its_check() -> None:
    assert NOTICED_BY.keys() == MUTANTS.keys()
