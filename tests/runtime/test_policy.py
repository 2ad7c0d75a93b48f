"""Policies: effects, rules, and how they combine."""

from __future__ import annotations

import asyncio
import dataclasses
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protolink.errors import ActionDeniedError
from protolink.models.json import dumps, loads
from protolink.runtime import (
    ActionAuthorizer,
    CapabilityPolicy,
    PolicyDecision,
    PolicyEffect,
    RunAction,
    RunContext,
    strictest,
)

ALLOW, DENY, ASK = PolicyEffect.ALLOW, PolicyEffect.DENY, PolicyEffect.REQUIRE_APPROVAL
ORDER = {ALLOW: 0, ASK: 1, DENY: 2}
effects = st.sampled_from(PolicyEffect)
names = st.sampled_from(["a", "a.b", "a.b.c", "a.x", "b"])
patterns = st.sampled_from(["a", "a.b", "a.b.c", "a.*", "a.b.*", "*", "b", "b.*"])
rule_sets = st.dictionaries(patterns, effects, max_size=5)
decisions = st.builds(
    PolicyDecision, effects, st.sampled_from("xyz"), st.sampled_from("pq"), st.lists(names, max_size=2).map(tuple)
)


def needing(*capabilities: str, **fields: Any) -> RunAction:
    return RunAction("tool.call", "tool", capabilities=frozenset(capabilities), **fields)


def effect(policy: CapabilityPolicy, *capabilities: str, **permissions: Any) -> PolicyEffect:
    named = {key.replace("_", "."): value for key, value in permissions.items()}
    return policy.decide(needing(*capabilities), RunContext(permissions=named)).effect


@pytest.mark.claim("POL-001", "POL-002")
@pytest.mark.parametrize(
    ("rule", "expected"),
    [("allow", ALLOW), ("deny", DENY), ("require_approval", ASK), (True, ALLOW), (False, DENY)],
)
def test_context_permissions_take_words_and_booleans(rule: Any, expected: PolicyEffect) -> None:
    assert effect(CapabilityPolicy(), "x", x=rule) is expected


@pytest.mark.claim("POL-003", "CTX-021")
@given(rule_sets, rule_sets, st.frozensets(names, min_size=1, max_size=3))
def test_context_permissions_never_weaken_the_policy(
    rules: dict[str, Any], permissions: dict[str, Any], capabilities: frozenset[str]
) -> None:
    policy, action = CapabilityPolicy(rules), needing(*capabilities)
    alone = policy.decide(action, RunContext()).effect
    narrowed = policy.decide(action, RunContext(permissions=permissions)).effect
    by_context = CapabilityPolicy(permissions).decide(action, RunContext()).effect
    assert ORDER[narrowed] == max(ORDER[alone], ORDER[by_context])


@pytest.mark.claim("POL-004")
@pytest.mark.parametrize("own", [DENY, ASK])
def test_an_allowing_task_leaves_the_agents_rule_in_force(own: PolicyEffect) -> None:
    assert effect(CapabilityPolicy({"x": own}), "x", x="allow") is own


@pytest.mark.claim("POL-005", "POL-025")
def test_rules_are_looked_up_from_exact_to_general() -> None:
    rules: dict[str, Any] = {"a.b": "deny", "a.b.*": "ask", "a.*": "allow", "*": "deny"}
    policy = CapabilityPolicy(rules, default_effect="allow")
    found = [effect(policy, name) for name in ("a.b", "a.b.c", "a.b.c.d", "a.x", "z")]
    assert found == [DENY, ASK, ASK, ALLOW, DENY]
    del policy.rules["*"]
    assert effect(policy, "z") is ALLOW


@pytest.mark.claim("POL-005")
def test_a_namespace_wildcard_matches_members_only() -> None:
    policy = CapabilityPolicy({"records.*": "deny"})
    assert effect(policy, "records.read") is DENY
    assert effect(policy, "records") is ALLOW
    assert effect(policy, "recordsother.read") is ALLOW


@pytest.mark.claim("POL-006")
def test_the_strictest_effect_of_all_capabilities_wins() -> None:
    policy = CapabilityPolicy({"r": "allow", "w": "ask", "d": "deny"})
    assert effect(policy, "r") is ALLOW
    assert effect(policy, "r", "w") is ASK
    assert effect(policy, "w", "d", "r") is DENY


@pytest.mark.claim("POL-007")
def test_capability_names_mean_only_what_rules_say() -> None:
    assert effect(CapabilityPolicy(), "system.destroy_everything") is ALLOW
    assert effect(CapabilityPolicy({"naïve ✓": "deny"}), "naïve ✓") is DENY


@pytest.mark.claim("POL-009", "POL-026", "POL-023")
def test_without_a_rule_the_default_effect_decides() -> None:
    assert effect(CapabilityPolicy(), "x") is ALLOW
    assert effect(CapabilityPolicy(default_effect="deny"), "x") is DENY
    assert effect(CapabilityPolicy({"x": "allow"}, default_effect=ASK), "x", "y") is ASK
    with pytest.raises(TypeError):
        CapabilityPolicy({}, "deny")  # type: ignore[misc]


@pytest.mark.claim("POL-010")
def test_a_capability_is_enforced_by_declaration_rule_or_permission() -> None:
    guarded = CapabilityPolicy({"x": "deny"})
    assert effect(guarded, "x") is DENY
    assert effect(guarded, "y") is ALLOW
    assert effect(CapabilityPolicy(), "y", y=False) is DENY
    assert effect(CapabilityPolicy(default_effect="ask"), "declared.only") is ASK


class PathPolicy:
    """Judges by payload, without any base class."""

    def __init__(self) -> None:
        self.seen: list[tuple[RunAction, RunContext]] = []

    async def evaluate(self, action: RunAction, context: RunContext) -> PolicyDecision:
        self.seen.append((action, context))
        inside = action.payload["arguments"]["path"].startswith("/safe/")
        return PolicyDecision(inside, "inside" if inside else "outside", "paths")


@pytest.mark.claim("POL-011", "POL-013")
def test_any_object_with_evaluate_is_a_policy_and_sees_the_payload() -> None:
    policy, context = PathPolicy(), RunContext()
    authorizer = ActionAuthorizer(policy)
    good = needing(payload={"arguments": {"path": "/safe/x"}})
    bad = needing(payload={"arguments": {"path": "/etc/x"}})
    assert asyncio.run(authorizer.authorize(good, context)).policy_decision.policy_name == "paths"
    with pytest.raises(ActionDeniedError, match="outside"):
        asyncio.run(authorizer.authorize(bad, context))
    assert policy.seen == [(good, context), (bad, context)]


@pytest.mark.parametrize(
    ("field", "value"), [("reason", 5), ("policy_name", b"p"), ("matched_capabilities", ("fs.write", 5))]
)
def test_a_decision_that_could_not_be_read_again_is_refused(field: str, value: Any) -> None:
    texts: dict[str, Any] = {"reason": "because", "policy_name": "mine", field: value}
    with pytest.raises(TypeError, match=field):
        PolicyDecision(PolicyEffect.ALLOW, **texts)


@pytest.mark.claim("POL-012")
def test_effects_are_text() -> None:
    assert {item.name: item.value for item in PolicyEffect} == {
        "ALLOW": "allow",
        "DENY": "deny",
        "REQUIRE_APPROVAL": "require_approval",
    }
    assert isinstance(DENY, str)
    assert DENY == "deny"


@pytest.mark.claim("POL-014")
def test_evaluating_changes_neither_action_nor_context() -> None:
    ran: list[str] = []
    action = needing("x", metadata={"run": lambda: ran.append("ran")}, payload={"f": lambda: ran.append("ran")})
    context = RunContext(permissions={"x": "allow"})
    before = context.to_dict()
    decision = asyncio.run(CapabilityPolicy({"x": "allow"}).evaluate(action, context))
    assert decision.effect is ALLOW
    assert ran == []
    assert context.to_dict() == before


@pytest.mark.claim("POL-015", "POL-018")
def test_a_decision_is_frozen_with_empty_metadata() -> None:
    decision = PolicyDecision(ALLOW, "because", "mine")
    assert (decision.reason, decision.policy_name, decision.matched_capabilities, decision.metadata) == (
        "because",
        "mine",
        (),
        {},
    )
    with pytest.raises(dataclasses.FrozenInstanceError):
        decision.reason = "other"  # type: ignore[misc]


@pytest.mark.claim("POL-016", "POL-028", "POL-029", "POL-030", "POL-031")
@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (ALLOW, ALLOW),
        ("allow", ALLOW),
        ("allowed", ALLOW),
        ("deny", DENY),
        ("denied", DENY),
        ("approval", ASK),
        ("approve", ASK),
        ("ask", ASK),
        ("require_approval", ASK),
        (True, ALLOW),
        (False, DENY),
        ({"effect": "deny"}, DENY),
        ({"decision": "ask"}, ASK),
        ({"mode": False}, DENY),
        ({"paths": ["/a"]}, ALLOW),
        ({}, ALLOW),
    ],
)
def test_every_rule_value_means_one_effect(value: Any, expected: PolicyEffect) -> None:
    assert PolicyDecision(value, "r", "p").effect is expected
    assert effect(CapabilityPolicy({"x": value}), "x") is expected
    assert effect(CapabilityPolicy(), "x", x=value) is expected


@pytest.mark.claim("POL-017")
def test_matched_capabilities_become_a_tuple() -> None:
    assert PolicyDecision(ALLOW, "r", "p", ["b", "a"]).matched_capabilities == ("b", "a")  # type: ignore[arg-type]
    assert PolicyDecision(ALLOW, "r", "p").matched_capabilities == ()


@pytest.mark.claim("POL-019")
def test_the_decision_tells_what_became_of_each_capability() -> None:
    policy = CapabilityPolicy({"w": "ask"})
    decision = policy.decide(needing("r", "w"), RunContext(permissions={"r": "deny"}))
    assert decision.metadata["capabilities"] == {
        "r": {"effect": "deny", "policy": "allow", "context": "deny"},
        "w": {"effect": "require_approval", "policy": "require_approval", "context": None},
    }


@pytest.mark.claim("POL-020")
@given(decisions)
def test_a_serialized_decision_is_plain_and_reads_back(decision: PolicyDecision) -> None:
    found = decision.to_dict()
    assert type(found["effect"]) is str
    assert found["effect"] == decision.effect.value
    assert found["matched_capabilities"] == list(decision.matched_capabilities)
    assert PolicyDecision.from_dict(loads(dumps(found))) == decision


@pytest.mark.claim("POL-021")
@pytest.mark.parametrize("source", [{}, {"effect": None}, {"reason": "allowed"}, {"decision": "allow"}])
def test_a_stored_decision_without_effect_is_a_denial(source: dict[str, Any]) -> None:
    assert PolicyDecision.from_dict(source).effect is DENY


@pytest.mark.claim("POL-022")
@pytest.mark.parametrize("value", ["maybe", "", 1, 0, None, [], ["allow"], {"effect": "maybe"}, {"effect": {}}])
def test_an_unknown_effect_is_refused(value: Any) -> None:
    with pytest.raises(ValueError, match="effect"):
        PolicyDecision(value, "r", "p")
    with pytest.raises(ValueError, match="effect"):
        CapabilityPolicy({"x": value})
    with pytest.raises(ValueError, match="effect"):
        CapabilityPolicy().decide(needing("x"), RunContext(permissions={"x": value}))


@pytest.mark.parametrize(
    "hostile",
    [None, [], {"effect": {}}, {"effect": []}, {"effect": "allow", "matched_capabilities": "x"}, {"reason": 1}],
)
def test_malformed_stored_decisions_are_refused(hostile: Any) -> None:
    with pytest.raises((ValueError, TypeError)):
        PolicyDecision.from_dict(hostile)


@pytest.mark.claim("POL-024")
def test_each_capability_counts_with_the_stricter_of_both_rules() -> None:
    policy = CapabilityPolicy({"r": "allow", "w": "ask"})
    assert effect(policy, "r", "w", r="ask", w="allow") is ASK
    assert effect(policy, "r", r="deny") is DENY
    assert effect(policy, "r", w="deny") is ALLOW


@pytest.mark.claim("POL-027")
def test_the_name_is_in_decisions_and_configuration() -> None:
    policy = CapabilityPolicy({"x": "deny"}, name="house rules")
    assert policy.decide(needing("x"), RunContext()).policy_name == "house rules"
    assert policy.decide(needing(), RunContext()).policy_name == "house rules"
    assert policy.to_dict()["name"] == "house rules"
    assert CapabilityPolicy().name == "capability_policy"


@pytest.mark.claim("POL-032")
def test_a_canceled_context_is_denied_before_anything_else() -> None:
    canceled = RunContext(permissions={"x": "nonsense"}).cancel("stop")
    for action in (needing(), needing("x")):
        decision = CapabilityPolicy({"x": "allow"}).decide(action, canceled)
        assert decision.effect is DENY
        assert "stop" in decision.reason


@pytest.mark.claim("POL-033")
def test_an_action_without_capabilities_is_allowed() -> None:
    policy = CapabilityPolicy({"*": "deny"}, default_effect="deny")
    decision = policy.decide(needing(), RunContext(permissions={"*": False}))
    assert (decision.effect, decision.matched_capabilities) == (ALLOW, ())


def test_the_decision_on_actions_without_capabilities_is_todays() -> None:
    policy = CapabilityPolicy(name="old")
    assert policy.decide(needing(), RunContext()).policy_name == "old"
    policy.name = "new"
    assert policy.decide(needing(), RunContext()).policy_name == "new"
    assert policy.decide(needing(), RunContext(canceled=True)).effect is DENY


@pytest.mark.claim("POL-034")
def test_matched_capabilities_are_those_of_the_strongest_effect() -> None:
    policy = CapabilityPolicy({"a": "ask", "b": "ask", "c": "allow"})
    assert policy.decide(needing("c", "b", "a"), RunContext()).matched_capabilities == ("a", "b")


def test_evaluate_says_what_decide_says() -> None:
    policy, action, context = CapabilityPolicy({"x": "ask"}), needing("x"), RunContext()
    assert asyncio.run(policy.evaluate(action, context)) == policy.decide(action, context)


@pytest.mark.claim("POL-035")
def test_configuration_is_declarative() -> None:
    rules: dict[str, Any] = {"a": ASK, "b": False, "c": {"effect": "ask", "paths": ("/x",), "max": 2.5}}
    assert CapabilityPolicy(rules, default_effect="denied").to_dict() == {
        "type": "capability",
        "rules": {"a": "require_approval", "b": False, "c": {"effect": "ask", "paths": ["/x"], "max": 2.5}},
        "default_effect": "deny",
        "name": "capability_policy",
    }


@pytest.mark.claim("POL-037")
@given(rule_sets, effects, names)
def test_stored_configuration_reads_back_the_same(rules: dict[str, Any], default: PolicyEffect, name: str) -> None:
    stored = loads(dumps(CapabilityPolicy(rules, default_effect=default, name=name).to_dict()))
    assert CapabilityPolicy.from_dict(stored).to_dict() == stored


@pytest.mark.claim("POL-037", "POL-039")
@pytest.mark.parametrize("kind", [None, "custom", "Capability", 1, []])
def test_only_capability_policies_are_restored(kind: Any) -> None:
    with pytest.raises(ValueError, match="capability"):
        CapabilityPolicy.from_dict({"type": kind, "rules": {"x": "deny"}})


@pytest.mark.claim("POL-036")
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_numbers_that_are_not_finite_are_refused(value: float) -> None:
    rules = {"x": {"limits": [{"max": value}]}}
    with pytest.raises(ValueError, match="finite"):
        CapabilityPolicy(rules).to_dict()
    with pytest.raises(ValueError, match="finite"):
        CapabilityPolicy.from_dict({"type": "capability", "rules": rules})


@pytest.mark.claim("POL-036", "POL-038", "POL-040")
@pytest.mark.parametrize("value", [lambda: True, object(), b"x", {1, 2}])
def test_values_that_are_not_declarative_are_refused(value: Any) -> None:
    rules = {"x": {"check": [value]}}
    with pytest.raises(TypeError, match="declarative"):
        CapabilityPolicy(rules).to_dict()
    with pytest.raises(TypeError, match="declarative"):
        CapabilityPolicy.from_dict({"type": "capability", "rules": rules})


@pytest.mark.claim("POL-038")
@pytest.mark.parametrize(
    "hostile",
    [
        None,
        [],
        {"type": "capability", "rules": ["x"]},
        {"type": "capability", "rules": {"x": len}},
        {"type": "capability", "rules": {"x": ["allow"]}},
        {"type": "capability", "rules": {1: "allow"}},
        {"type": "capability", "default_effect": {}},
        {"type": "capability", "default_effect": len},
        {"type": "capability", "name": 5},
    ],
)
def test_malformed_configuration_is_refused(hostile: Any) -> None:
    with pytest.raises((ValueError, TypeError)):
        CapabilityPolicy.from_dict(hostile)


@pytest.mark.claim("POL-039")
@pytest.mark.parametrize(
    "arguments",
    [
        {"rules": {"x": "perhaps"}},
        {"rules": {"x": 3.5}},
        {"rules": ["x"]},
        {"rules": {" ": "allow"}},
        {"default_effect": "perhaps"},
        {"default_effect": {}},
        {"name": ""},
        {"name": "  "},
        {"name": 5},
    ],
)
def test_unsupported_rules_and_names_are_value_errors(arguments: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        CapabilityPolicy(**arguments)


@pytest.mark.claim("POL-040")
@pytest.mark.parametrize("key", [1, None, ("a",)])
def test_a_rule_key_that_is_no_text_is_a_type_error(key: Any) -> None:
    with pytest.raises(TypeError, match="text"):
        CapabilityPolicy({key: "allow"})
    with pytest.raises(TypeError, match="text"):
        CapabilityPolicy({"x": {"effect": "allow", "by": {key: 1}}}).to_dict()


@pytest.mark.claim("POL-041")
def test_later_changes_of_the_callers_rules_have_no_effect() -> None:
    rules: dict[str, Any] = {"x": "deny"}
    policy = CapabilityPolicy(rules)
    rules["x"] = "allow"
    assert effect(policy, "x") is DENY


@pytest.mark.claim("POL-042")
def test_rules_default_and_name_can_be_assigned() -> None:
    policy = CapabilityPolicy()
    policy.rules = {"x": "ask"}
    policy.default_effect = "deny"  # type: ignore[assignment]
    policy.name = "renamed"
    assert effect(policy, "x") is ASK
    assert effect(policy, "y") is DENY
    assert policy.to_dict()["name"] == policy.decide(needing("x"), RunContext()).policy_name == "renamed"
    assert policy.to_dict()["default_effect"] == "deny"


@given(decisions, decisions)
def test_merging_is_commutative_and_never_weaker_than_either_side(one: PolicyDecision, two: PolicyDecision) -> None:
    merged = strictest([one, two])
    assert merged == strictest([two, one])
    assert ORDER[merged.effect] == max(ORDER[one.effect], ORDER[two.effect])


@given(st.lists(decisions, min_size=1, max_size=4), st.randoms())
def test_merging_does_not_depend_on_order_or_grouping(found: list[PolicyDecision], random: Any) -> None:
    shuffled = list(found)
    random.shuffle(shuffled)
    assert strictest(found) == strictest(shuffled)
    assert strictest([strictest(found[:1]), *found[1:]]) == strictest(found)


def test_equally_strict_decisions_unite_their_capabilities() -> None:
    parent = PolicyDecision(DENY, "parent says no", "b", ("w",))
    child = PolicyDecision(DENY, "child says no", "a", ("d",))
    assert strictest([parent, child, PolicyDecision(ALLOW, "ok", "c", ("r",))]) == PolicyDecision(
        DENY, "child says no", "a", ("d", "w")
    )
    with pytest.raises(ValueError, match="at least one"):
        strictest([])


@pytest.mark.parametrize("name", ["records.*.delete", "records*", "*.delete", "rec*.write", "records.**", "**"])
def test_rule_that_could_match_nothing_is_refused(name: str) -> None:
    """Else a denial that somebody wrote would deny nothing."""
    with pytest.raises(ValueError, match="stands alone or ends a name"):
        CapabilityPolicy({name: "deny"})
    with pytest.raises(ValueError, match="stands alone"):
        CapabilityPolicy.from_dict({"type": "capability", "rules": {name: "deny"}})
    for known in ("*", "records.*", "records.archive.*", "records"):
        assert effect(CapabilityPolicy({known: "deny"}), known.replace("*", "x")) is DENY
