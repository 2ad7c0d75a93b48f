"""Budgets: limits, usage, the comparison and the counting."""

from __future__ import annotations

import dataclasses
import math
from datetime import UTC, datetime, timedelta
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protolink.errors import BudgetExceededError
from protolink.models.json import dumps, loads
from protolink.runtime import (
    BudgetDecision,
    BudgetDecisionEffect,
    BudgetEnforcer,
    BudgetPolicy,
    BudgetUsage,
    RunBudget,
    RunContext,
    judge_budget,
)

LIMITS = {
    "max_steps": "steps",
    "max_llm_calls": "llm_calls",
    "max_tool_calls": "tool_calls",
    "max_runtime_seconds": "runtime_seconds",
    "max_input_tokens": "input_tokens",
    "max_output_tokens": "output_tokens",
}
each_limit = pytest.mark.parametrize(("limit", "counter"), LIMITS.items())
counts = st.integers(0, 2**50)
some_budgets = st.builds(
    RunBudget,
    **{name: st.none() | st.integers(-3, 30) for name in LIMITS if name != "max_runtime_seconds"},
    max_runtime_seconds=st.none() | st.floats(-3, 30),
    metadata=st.dictionaries(st.text(max_size=4), st.integers(0, 9), max_size=2),
)
some_usages = st.builds(
    BudgetUsage,
    **{name: st.integers(0, 40) for name in LIMITS.values() if name != "runtime_seconds"},
    runtime_seconds=st.floats(0, 40),
    metadata=st.dictionaries(st.text(max_size=4), st.integers(0, 9), max_size=2),
)


class Clock:
    """Time that passes when told to."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.claim("BUD-009", "BUD-025")
def test_a_budget_only_holds_limits_and_takes_any_value() -> None:
    budget = RunBudget(max_steps=-1)
    budget.max_llm_calls = -7
    assert dataclasses.is_dataclass(budget)
    assert not hasattr(budget, "check_step")
    denied = BudgetPolicy().evaluate(budget, BudgetUsage())
    assert (denied.effect, denied.limit_name, denied.observed, denied.limit) == ("deny", "max_steps", 0, -1)


@pytest.mark.claim("BUD-010", "BUD-011", "BUD-012", "BUD-013", "BUD-014", "BUD-015")
@each_limit
def test_each_limit_defaults_to_none_and_then_limits_nothing(limit: str, counter: str) -> None:
    assert getattr(RunBudget(), limit) is None
    usage = BudgetUsage(**{counter: 10**9})
    assert BudgetPolicy().evaluate(RunBudget(), usage).effect == "allow"


@pytest.mark.claim("BUD-016")
def test_budget_metadata_is_empty_by_default_and_ignored_by_the_policy() -> None:
    one, two = RunBudget(), RunBudget()
    assert one.metadata == {}
    assert one.metadata is not two.metadata
    budget = RunBudget(metadata={"max_steps": 0, "max_cost": 0})
    assert BudgetPolicy().evaluate(budget, BudgetUsage(steps=5)).effect == "allow"


@pytest.mark.claim("BUD-020")
def test_a_serialized_budget_is_complete_json() -> None:
    budget = RunBudget(1, 2, 3, 4.5, 6, 7, {"note": "x"})
    found = budget.to_dict()
    assert set(found) == {item.name for item in dataclasses.fields(RunBudget)}
    assert loads(dumps(found)) == found
    found["metadata"]["note"] = "changed"
    assert budget.metadata == {"note": "x"}


@pytest.mark.claim("BUD-021")
def test_reading_none_gives_an_unconstrained_budget() -> None:
    assert RunBudget.from_dict(None) == RunBudget()


@pytest.mark.claim("BUD-022")
def test_numbers_in_text_are_coerced() -> None:
    budget = RunBudget.from_dict({"max_steps": "8", "max_runtime_seconds": "1.5", "max_llm_calls": 3.0})
    assert (budget.max_steps, budget.max_runtime_seconds, budget.max_llm_calls) == (8, 1.5, 3)
    assert type(budget.max_llm_calls) is int


@pytest.mark.claim("BUD-023")
def test_unknown_members_are_kept_in_metadata() -> None:
    budget = RunBudget.from_dict({"max_steps": 1, "max_cost": 5, "metadata": {"note": "x"}})
    assert budget.metadata == {"max_cost": 5, "note": "x"}


@pytest.mark.claim("BUD-024")
@each_limit
@pytest.mark.parametrize("value", ["many", [], {}, math.nan, math.inf, "nan"])
def test_malformed_numbers_raise(limit: str, counter: str, value: Any) -> None:
    with pytest.raises((TypeError, ValueError), match=limit):
        RunBudget.from_dict({limit: value})


def test_an_error_about_a_number_does_not_show_its_value() -> None:
    with pytest.raises(ValueError) as caught:
        RunBudget.from_dict({"max_steps": "sk-secret"})
    assert "sk-secret" not in str(caught.value)


@given(some_budgets)
def test_a_serialized_budget_reads_back_equal(budget: RunBudget) -> None:
    assert RunBudget.from_dict(loads(dumps(budget.to_dict()))) == budget


@pytest.mark.claim("BUD-038")
def test_usage_is_frozen() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        BudgetUsage().steps = 1  # type: ignore[misc]


@pytest.mark.claim("BUD-039", "BUD-040", "BUD-041", "BUD-042", "BUD-043", "BUD-044", "BUD-045")
def test_usage_starts_at_zero() -> None:
    usage = BudgetUsage()
    assert usage.to_dict() == {
        "steps": 0,
        "llm_calls": 0,
        "tool_calls": 0,
        "input_tokens": 0,
        "output_tokens": 0,
        "runtime_seconds": 0.0,
        "metadata": {},
    }
    assert type(usage.runtime_seconds) is float


@pytest.mark.claim("BUD-046", "BUD-047")
@given(some_usages)
def test_serialized_usage_has_every_field_and_reads_back(usage: BudgetUsage) -> None:
    found = usage.to_dict()
    assert set(found) == {item.name for item in dataclasses.fields(BudgetUsage)}
    assert BudgetUsage.from_dict(loads(dumps(found))) == usage
    assert BudgetUsage.from_dict(None) == BudgetUsage()


@pytest.mark.claim("BUD-048")
@each_limit
@pytest.mark.parametrize("value", ["x", [], {}, None, math.nan, math.inf, -5])
def test_malformed_usage_becomes_zero(limit: str, counter: str, value: Any) -> None:
    assert getattr(BudgetUsage.from_dict({counter: value}), counter) == 0


@pytest.mark.claim("BUD-049", "BUD-050", "BUD-051", "BUD-052", "BUD-053", "BUD-054", "BUD-055", "BUD-056")
def test_a_decision_is_frozen_and_allows_by_default() -> None:
    decision = BudgetDecision()
    assert decision.effect == "allow"
    nothing = (decision.limit_name, decision.observed, decision.limit, decision.message, decision.usage)
    assert nothing == (None,) * 5
    assert decision.metadata == {}
    with pytest.raises(dataclasses.FrozenInstanceError):
        decision.effect = "deny"  # type: ignore[misc]


@pytest.mark.claim("BUD-051", "BUD-052", "BUD-053", "BUD-054", "BUD-055")
def test_a_denial_names_limit_values_and_usage() -> None:
    usage = BudgetUsage(llm_calls=5)
    decision = BudgetPolicy().evaluate(RunBudget(max_llm_calls=4), usage)
    assert (decision.limit_name, decision.observed, decision.limit) == ("max_llm_calls", 5, 4)
    assert decision.message == "Run budget exceeded: max_llm_calls 5 > 4"
    assert decision.usage is usage


@pytest.mark.claim("BUD-057")
def test_a_decision_carries_the_current_utc_time() -> None:
    moment = datetime.fromisoformat(BudgetDecision().timestamp)
    assert moment.utcoffset() == timedelta(0)
    assert abs(datetime.now(UTC) - moment) < timedelta(minutes=5)


@pytest.mark.claim("BUD-058", "BUD-060")
def test_of_all_effects_only_allow_and_warn_are_allowed() -> None:
    effects = get_args(BudgetDecisionEffect)
    assert set(effects) == {"allow", "warn", "deny", "compact", "truncate", "require_approval"}
    assert [effect for effect in effects if BudgetDecision(effect).allowed] == ["allow", "warn"]


@pytest.mark.claim("BUD-061")
@given(some_budgets, some_usages)
def test_a_serialized_decision_includes_usage_and_reads_back(budget: RunBudget, usage: BudgetUsage) -> None:
    decision = BudgetPolicy().evaluate(budget, usage)
    found = loads(dumps(decision.to_dict()))
    assert found["usage"] == loads(dumps(usage.to_dict()))
    assert BudgetDecision.from_dict(found) == decision
    assert BudgetDecision().to_dict()["usage"] is None


@pytest.mark.parametrize("hostile", [None, 1, {"effect": "permit"}, {"effect": 3}, {"usage": 4}, {"limit": "x"}])
def test_malformed_decisions_are_refused(hostile: Any) -> None:
    with pytest.raises((ValueError, TypeError)):
        BudgetDecision.from_dict(hostile)


def test_a_decision_without_an_effect_is_a_denial() -> None:
    assert BudgetDecision.from_dict({}).effect == "deny"


@pytest.mark.claim("BUD-062")
def test_allow_makes_an_allowing_decision_with_the_usage() -> None:
    usage = BudgetUsage(steps=2)
    decision = BudgetDecision.allow(usage)
    assert decision.effect == "allow"
    assert decision.usage is usage


@pytest.mark.claim("BUD-059")
@given(some_budgets, some_usages)
def test_the_built_in_policy_returns_three_effects_only(budget: RunBudget, usage: BudgetUsage) -> None:
    assert BudgetPolicy().evaluate(budget, usage).effect in ("allow", "warn", "deny")


@pytest.mark.claim("BUD-063", "BUD-066")
def test_the_warning_ratio_defaults_to_four_fifths() -> None:
    budget = RunBudget(max_steps=10)
    assert BudgetPolicy().warning_ratio == 0.8
    assert BudgetPolicy().evaluate(budget, BudgetUsage(steps=7)).effect == "allow"
    warning = BudgetPolicy().evaluate(budget, BudgetUsage(steps=8))
    assert (warning.effect, warning.limit_name, warning.observed, warning.limit) == ("warn", "max_steps", 8, 10)
    assert BudgetPolicy(warning_ratio=0.5).evaluate(budget, BudgetUsage(steps=5)).effect == "warn"
    with pytest.raises(TypeError):
        BudgetPolicy(0.5)  # type: ignore[misc]


@pytest.mark.claim("BUD-064")
@each_limit
def test_ratio_zero_disables_warnings(limit: str, counter: str) -> None:
    policy = BudgetPolicy(warning_ratio=0)
    assert policy.evaluate(RunBudget(**{limit: 5}), BudgetUsage(**{counter: 5})).effect == "allow"


@pytest.mark.claim("BUD-065")
@each_limit
def test_usage_above_a_limit_is_denied(limit: str, counter: str) -> None:
    decision = BudgetPolicy().evaluate(RunBudget(**{limit: 5}), BudgetUsage(**{counter: 6}))
    assert (decision.effect, decision.limit_name) == ("deny", limit)


@pytest.mark.claim("BUD-065", "BUD-066")
def test_the_first_limit_is_named_and_denials_come_before_warnings() -> None:
    budget = RunBudget(max_steps=10, max_llm_calls=10, max_tool_calls=10)
    near_and_over = BudgetUsage(steps=9, llm_calls=11, tool_calls=12)
    assert BudgetPolicy().evaluate(budget, near_and_over).limit_name == "max_llm_calls"
    both_near = BudgetUsage(llm_calls=9, tool_calls=9)
    assert BudgetPolicy().evaluate(budget, both_near).limit_name == "max_llm_calls"


@pytest.mark.claim("BUD-066")
@pytest.mark.parametrize("limit", [0, -4])
def test_only_positive_limits_warn(limit: int) -> None:
    assert BudgetPolicy().evaluate(RunBudget(max_steps=limit), BudgetUsage(steps=limit)).effect == "allow"


@pytest.mark.claim("BUD-067")
@each_limit
def test_usage_far_below_a_limit_is_allowed(limit: str, counter: str) -> None:
    decision = BudgetPolicy().evaluate(RunBudget(**{limit: 100}), BudgetUsage(**{counter: 1}))
    assert (decision.effect, decision.limit_name, decision.message) == ("allow", None, None)


@pytest.mark.claim("BUD-068")
@each_limit
def test_usage_equal_to_a_limit_is_allowed(limit: str, counter: str) -> None:
    assert BudgetPolicy().evaluate(RunBudget(**{limit: 5}), BudgetUsage(**{counter: 5})).allowed


@pytest.mark.claim("BUD-069")
@pytest.mark.parametrize("ratio", [-0.1, -1, math.nan])
def test_a_negative_warning_ratio_is_refused(ratio: float) -> None:
    with pytest.raises(ValueError, match="warning_ratio"):
        BudgetPolicy(warning_ratio=ratio)


def test_a_limit_that_has_warned_stays_silent_but_still_denies() -> None:
    policy, budget = BudgetPolicy(), RunBudget(max_steps=10, max_tool_calls=10)
    usage = BudgetUsage(steps=9, tool_calls=9)
    assert policy.evaluate(budget, usage, warned={"max_steps"}).limit_name == "max_tool_calls"
    assert policy.evaluate(budget, usage, warned={"max_steps", "max_tool_calls"}).effect == "allow"
    assert policy.evaluate(budget, BudgetUsage(steps=11), warned={"max_steps"}).effect == "deny"


def test_near_limits_are_named_whether_or_not_they_have_warned() -> None:
    budget = RunBudget(max_steps=10, max_llm_calls=100, max_tool_calls=10)
    assert BudgetPolicy().near_limits(budget, BudgetUsage(8, 1, 11)) == ("max_steps", "max_tool_calls")
    assert BudgetPolicy(warning_ratio=0).near_limits(budget, BudgetUsage(8, 1, 11)) == ()


class OneTokenPolicy:
    """An application's own policy, without the built-in keyword."""

    def __init__(self, *decisions: Any) -> None:
        self.decisions = list(decisions)
        self.seen: list[tuple[RunBudget, BudgetUsage]] = []

    def evaluate(self, budget: RunBudget, usage: BudgetUsage) -> BudgetDecision:
        self.seen.append((budget, usage))
        found: BudgetDecision = self.decisions[min(len(self.seen), len(self.decisions)) - 1]
        return found


@pytest.mark.claim("BUD-007")
def test_an_application_can_bring_its_own_policy() -> None:
    policy = OneTokenPolicy(BudgetDecision("compact", "max_input_tokens"))
    enforcer = BudgetEnforcer(RunBudget(max_steps=1), policy=policy)
    decision = enforcer.check_llm_call(input_tokens=5)
    assert decision.effect == "compact"
    assert policy.seen[0][1].input_tokens == 5
    assert enforcer.usage == BudgetUsage()


@pytest.mark.claim("BUD-088")
def test_a_repeated_warning_of_a_custom_policy_is_silenced() -> None:
    policy = OneTokenPolicy(BudgetDecision("warn", "max_steps"))
    enforcer = BudgetEnforcer(policy=policy)
    assert [enforcer.check_next_step().effect for _ in range(3)] == ["warn", "allow", "allow"]
    assert enforcer.usage.steps == 3


def test_a_subclassed_policy_is_asked_without_the_keyword() -> None:
    class Strict(BudgetPolicy):
        def evaluate(self, budget: RunBudget, usage: BudgetUsage) -> BudgetDecision:  # type: ignore[override]
            return BudgetDecision("deny", usage=usage)

    assert judge_budget(Strict(), RunBudget(), BudgetUsage()).effect == "deny"


def test_a_policy_that_returns_no_decision_is_an_error() -> None:
    with pytest.raises(TypeError, match="BudgetDecision"):
        judge_budget(OneTokenPolicy(True), RunBudget(), BudgetUsage())


@pytest.mark.claim("BUD-070", "BUD-074")
def test_an_enforcer_takes_a_context_or_a_budget() -> None:
    budget = RunBudget(max_steps=1)
    policy = BudgetPolicy(warning_ratio=0)
    for source in (budget, RunContext(budget=budget)):
        enforcer = BudgetEnforcer(source, policy=policy)
        assert enforcer.budget is budget
        assert enforcer.policy is policy
        assert enforcer.check_step(2).effect == "deny"
    with pytest.raises(TypeError):
        BudgetEnforcer({"max_steps": 1})  # type: ignore[arg-type]


@pytest.mark.claim("BUD-071")
def test_an_enforcer_without_a_budget_limits_nothing() -> None:
    enforcer = BudgetEnforcer(None)
    assert enforcer.budget == RunBudget()
    assert enforcer.check_step(10**6).effect == "allow"


@pytest.mark.claim("BUD-072")
def test_an_enforcer_without_a_policy_uses_the_default_one() -> None:
    policy = BudgetEnforcer().policy
    assert isinstance(policy, BudgetPolicy)
    assert policy.warning_ratio == 0.8


@pytest.mark.claim("BUD-017")
def test_runtime_counts_from_the_construction_of_the_enforcer() -> None:
    clock = Clock()
    enforcer = BudgetEnforcer(RunBudget(max_runtime_seconds=10), clock=clock)
    clock.now += 10
    assert enforcer.check_next_step().allowed
    assert enforcer.usage.runtime_seconds == 10
    clock.now += 0.5
    denied = enforcer.check_next_step()
    assert (denied.effect, denied.limit_name, denied.observed) == ("deny", "max_runtime_seconds", 10.5)


@pytest.mark.claim("BUD-075", "BUD-077", "BUD-078")
def test_a_step_check_commits_only_what_is_allowed() -> None:
    clock = Clock()
    enforcer = BudgetEnforcer(RunBudget(max_steps=4), clock=clock)
    clock.now += 2
    assert isinstance(enforcer.check_step(3), BudgetDecision)
    committed = enforcer.usage
    assert (committed.steps, committed.runtime_seconds) == (3, 2.0)
    assert enforcer.check_step(5).effect == "deny"
    assert enforcer.usage is committed


@pytest.mark.claim("BUD-079")
def test_the_next_step_is_one_more_than_the_committed() -> None:
    enforcer = BudgetEnforcer(RunBudget(max_steps=6))
    enforcer.check_step(4)
    enforcer.check_next_step()
    assert enforcer.usage.steps == 5
    enforcer.check_next_step()
    assert enforcer.check_next_step().observed == 7
    assert enforcer.usage.steps == 6


@pytest.mark.claim("BUD-080", "BUD-018")
def test_model_calls_and_input_tokens_add_up_before_each_call() -> None:
    enforcer = BudgetEnforcer(RunBudget(max_llm_calls=5, max_input_tokens=100))
    enforcer.check_llm_call(input_tokens=60)
    assert (enforcer.usage.llm_calls, enforcer.usage.input_tokens) == (1, 60)
    denied = enforcer.check_llm_call(input_tokens=41)
    assert (denied.effect, denied.limit_name, denied.observed) == ("deny", "max_input_tokens", 101)
    assert enforcer.check_llm_call(input_tokens=40).allowed
    assert enforcer.usage.llm_calls == 2
    enforcer.check_llm_call()
    assert (enforcer.usage.llm_calls, enforcer.usage.input_tokens) == (3, 100)


@pytest.mark.claim("BUD-081")
def test_negative_input_tokens_count_as_zero() -> None:
    enforcer = BudgetEnforcer()
    enforcer.check_llm_call(input_tokens=10)
    enforcer.check_llm_call(input_tokens=-5)
    assert enforcer.usage.input_tokens == 10


@pytest.mark.claim("BUD-082")
def test_a_tool_check_projects_one_more_tool_call() -> None:
    enforcer = BudgetEnforcer(RunBudget(max_tool_calls=1))
    assert enforcer.check_tool_call().allowed
    assert enforcer.usage.tool_calls == 1
    assert enforcer.check_tool_call().observed == 2


@pytest.mark.claim("BUD-083", "BUD-019")
def test_output_tokens_add_up_and_are_never_negative() -> None:
    enforcer = BudgetEnforcer(RunBudget(max_output_tokens=10))
    assert enforcer.record_output_tokens(6).allowed
    enforcer.record_output_tokens(-3)
    assert enforcer.usage.output_tokens == 6
    assert enforcer.record_output_tokens(5).limit_name == "max_output_tokens"
    assert enforcer.usage.output_tokens == 6


@pytest.mark.claim("BUD-084")
def test_unknown_output_allows_without_asking_the_policy() -> None:
    policy = OneTokenPolicy(BudgetDecision("deny"))
    assert BudgetEnforcer(policy=policy).record_output_tokens(None).effect == "allow"
    assert policy.seen == []


@pytest.mark.claim("BUD-085")
def test_evaluating_refreshes_the_time_and_commits_nothing() -> None:
    clock = Clock()
    enforcer = BudgetEnforcer(RunBudget(max_runtime_seconds=5), clock=clock)
    enforcer.check_next_step()
    clock.now += 6
    before = enforcer.usage
    decision = enforcer.evaluate()
    assert (decision.effect, decision.observed) == ("deny", 6.0)
    assert enforcer.usage is before


@pytest.mark.claim("BUD-076")
def test_an_output_limit_is_reported_exactly_when_it_is_set() -> None:
    assert BudgetEnforcer(RunBudget(max_output_tokens=0)).has_output_token_limit is True
    assert BudgetEnforcer(RunBudget(max_input_tokens=1)).has_output_token_limit is False


@pytest.mark.claim("BUD-086", "BUD-087")
def test_denials_are_returned_and_change_nothing() -> None:
    enforcer = BudgetEnforcer(RunBudget(-1, -1, -1, -1.0, -1, -1))
    decisions = [
        enforcer.check_step(1),
        enforcer.check_next_step(),
        enforcer.check_llm_call(input_tokens=1),
        enforcer.check_tool_call(),
        enforcer.record_output_tokens(1),
        enforcer.evaluate(),
    ]
    assert [decision.effect for decision in decisions] == ["deny"] * 6
    assert enforcer.usage == BudgetUsage()


@pytest.mark.claim("BUD-088")
def test_each_limit_warns_once_per_enforcer() -> None:
    budget = RunBudget(max_steps=5, max_tool_calls=5)
    enforcer = BudgetEnforcer(budget)
    assert enforcer.check_step(4).effect == "warn"
    assert enforcer.check_step(5).effect == "allow"
    tools = [enforcer.check_tool_call() for _ in range(5)]
    assert [(decision.effect, decision.limit_name) for decision in tools if decision.effect != "allow"] == [
        ("warn", "max_tool_calls")
    ]
    assert BudgetEnforcer(budget).check_step(4).effect == "warn"


@pytest.mark.claim("BUD-089", "BUD-090")
def test_the_budget_error_carries_decision_and_message() -> None:
    decision = BudgetDecision("deny", message="too much")
    error = BudgetExceededError(decision)
    assert isinstance(error, RuntimeError)
    assert error.decision is decision
    assert str(error) == "too much"
    assert str(BudgetExceededError(BudgetDecision("deny"))) == "Run budget exceeded"
