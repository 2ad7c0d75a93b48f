"""The context manifest: what a model call will cost in tokens."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protolink.models import AgentCard, ConversationHistory, LLMModelProfile, RedactionPolicy, estimate_tokens
from protolink.models.json import dumps, loads
from protolink.runtime import (
    BudgetEnforcer,
    ContextItem,
    ContextManifest,
    RunBudget,
    RunContext,
    build_context_manifest,
)

counts = st.integers(0, 10**6)
words = st.none() | st.text(max_size=8)
members = st.dictionaries(st.text(max_size=4), st.integers(0, 9), max_size=2)
entries = st.builds(ContextItem, st.text(min_size=1), st.text(min_size=1), counts, members)
manifests = st.builds(
    ContextManifest,
    run_id=words,
    session_id=words,
    agent_name=words,
    provider=words,
    model=words,
    system_tokens=counts,
    history_tokens=counts,
    tool_prompt_tokens=counts,
    user_tokens=counts,
    context_items=st.lists(entries, max_size=3).map(tuple),
    total_estimated_tokens=counts,
    context_window=st.none() | counts,
    estimated=st.booleans(),
    metadata=members,
)

LOOKUP = SimpleNamespace(description="Look it up", input_schema={"type": "object"}, capabilities=["web.read"])
PAST = "What was said before, at some length."


def talk(system: str = "You are helpful. " * 20) -> ConversationHistory:
    return ConversationHistory(system).add_user(PAST).add_assistant("An answer.").add_user("now")


def build(**arguments: Any) -> ContextManifest:
    return build_context_manifest(**{"history": talk(), "query": "now"} | arguments)


@pytest.mark.claim("MAN-008", "MAN-009", "MAN-010", "MAN-011")
def test_an_item_is_frozen_with_three_required_fields() -> None:
    item = ContextItem("my.kind", "mine", 5)
    assert item.to_dict() == {"kind": "my.kind", "name": "mine", "tokens": 5, "metadata": {}}
    with pytest.raises(dataclasses.FrozenInstanceError):
        item.tokens = 6  # type: ignore[misc]
    with pytest.raises(TypeError):
        ContextItem("kind", "name")  # type: ignore[call-arg]


@pytest.mark.claim("MAN-012")
def test_an_item_without_names_gets_fallbacks() -> None:
    item = ContextItem.from_dict({"tokens": 3})
    assert item.tokens == 3
    assert item.kind
    assert item.name


@pytest.mark.claim("MAN-013")
@pytest.mark.parametrize(("value", "tokens"), [("7", 7), (7.9, 7), (-3, 0), ("x", 0), (None, 0), ([], 0)])
def test_item_tokens_are_coerced_and_never_negative(value: Any, tokens: int) -> None:
    assert ContextItem.from_dict({"tokens": value}).tokens == tokens


@pytest.mark.claim("MAN-014")
def test_a_manifest_is_frozen() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        ContextManifest().model = "m"  # type: ignore[misc]


@pytest.mark.claim("MAN-015", "MAN-016", "MAN-017", "MAN-018", "MAN-019", "MAN-020", "MAN-021")
def test_an_empty_manifest_has_its_defaults() -> None:
    found = ContextManifest().to_dict()
    del found["created_at"]
    assert found == {
        **dict.fromkeys(("run_id", "session_id", "agent_name", "provider", "model")),
        **dict.fromkeys(("system_tokens", "history_tokens", "tool_prompt_tokens", "user_tokens"), 0),
        "context_items": [],
        "total_estimated_tokens": 0,
        "context_window": None,
        "estimated": True,
        "metadata": {},
    }
    assert ContextManifest().context_items == ()


@pytest.mark.claim("MAN-022", "MAN-031")
def test_created_at_is_the_current_utc_time() -> None:
    for manifest in (ContextManifest(), ContextManifest.from_dict({})):
        moment = datetime.fromisoformat(manifest.created_at)
        assert moment.utcoffset() == timedelta(0)
        assert abs(datetime.now(UTC) - moment) < timedelta(minutes=5)


@pytest.mark.claim("MAN-027", "MAN-029")
@given(manifests)
def test_a_serialized_manifest_reads_back_equal(manifest: ContextManifest) -> None:
    found = manifest.to_dict()
    assert set(found) == {item.name for item in dataclasses.fields(ContextManifest)}
    again = ContextManifest.from_dict(loads(dumps(found)))
    assert again == manifest
    assert all(isinstance(item, ContextItem) for item in again.context_items)


@pytest.mark.claim("MAN-028")
def test_a_redacted_manifest_masks_secrets_and_keeps_counts() -> None:
    item = ContextItem("system", "s", 3, {"deep": [{"password": "hunter2"}]})
    manifest = ContextManifest(system_tokens=3, context_items=(item,), metadata={"api_key": "sk-1"})
    safe = manifest.to_dict(redaction_policy=RedactionPolicy())
    assert "hunter2" not in dumps(safe)
    assert "sk-1" not in dumps(safe)
    assert (safe["system_tokens"], safe["context_items"][0]["tokens"]) == (3, 3)
    assert "sk-1" in dumps(manifest.to_dict())


@pytest.mark.claim("MAN-030")
@pytest.mark.parametrize(
    "name", ["system_tokens", "history_tokens", "tool_prompt_tokens", "user_tokens", "total_estimated_tokens"]
)
@pytest.mark.parametrize(("value", "tokens"), [("7", 7), (-3, 0), ("x", 0), (None, 0), (float("inf"), 0)])
def test_manifest_counts_are_coerced_and_clamped(name: str, value: Any, tokens: int) -> None:
    assert getattr(ContextManifest.from_dict({name: value}), name) == tokens
    assert ContextManifest.from_dict({"context_window": "8192"}).context_window == 8192
    assert ContextManifest.from_dict({"context_window": "x"}).context_window is None


@pytest.mark.parametrize(
    "hostile",
    [None, [], {"context_items": 5}, {"context_items": [5]}, {"run_id": 5}, {"metadata": []}, {"created_at": 1}],
)
def test_malformed_manifests_are_refused(hostile: Any) -> None:
    with pytest.raises((ValueError, TypeError)):
        ContextManifest.from_dict(hostile)


@pytest.mark.claim("MAN-032")
def test_the_builder_takes_keywords_only() -> None:
    with pytest.raises(TypeError):
        build_context_manifest(talk(), "now")  # type: ignore[misc]
    assert isinstance(build_context_manifest(history=talk(), query="now"), ContextManifest)


@pytest.mark.claim("MAN-002", "MAN-040", "MAN-025", "MAN-010")
def test_every_section_is_counted_once_and_summed() -> None:
    manifest = build(tools={"lookup": LOOKUP})
    by_kind = {item.kind: item.tokens for item in manifest.context_items}
    assert by_kind == {
        "system": manifest.system_tokens,
        "tool_prompt": manifest.tool_prompt_tokens,
        "history": manifest.history_tokens,
        "user": manifest.user_tokens,
    }
    assert all(tokens > 0 for tokens in by_kind.values())
    assert len(manifest.context_items) == 4
    assert manifest.total_estimated_tokens == sum(by_kind.values())


@pytest.mark.claim("MAN-025")
def test_the_total_is_what_the_input_limit_is_checked_against() -> None:
    manifest = build()
    total = manifest.total_estimated_tokens
    for limit, effect in ((total, True), (total - 1, False)):
        enforcer = BudgetEnforcer(RunBudget(max_input_tokens=limit))
        assert enforcer.check_llm_call(input_tokens=total).allowed is effect


@pytest.mark.claim("MAN-024")
def test_the_newest_message_equal_to_the_query_is_not_history() -> None:
    history = ConversationHistory("s").add_user("now").add_assistant("yes").add_user("now")
    manifest = build(history=history)
    assert manifest.history_tokens == estimate_tokens("now") + estimate_tokens("yes")
    assert manifest.user_tokens == estimate_tokens("now")
    assert build(history=history, query="other").history_tokens == 2 * estimate_tokens("now") + estimate_tokens("yes")


@pytest.mark.claim("MAN-033")
def test_building_leaves_the_history_alone() -> None:
    history = talk()
    before = dumps(history.to_list())
    build(history=history, tools={"lookup": LOOKUP})
    assert dumps(history.to_list()) == before


@pytest.mark.claim("MAN-023", "MAN-034", "MAN-035")
def test_the_context_supplies_ids_and_a_fallback_agent() -> None:
    context = RunContext(run_id="run_1", session_id="s", agent_chain=["first", "last"])
    manifest = build(run_context=context)
    assert (manifest.run_id, manifest.session_id, manifest.agent_name) == ("run_1", "s", "last")
    assert build(run_context=context, agent_name="explicit").agent_name == "explicit"
    assert build(run_context=RunContext()).agent_name is None
    assert build().run_id is None


@pytest.mark.claim("MAN-036")
def test_provider_and_model_are_copied() -> None:
    manifest = build(provider="p", model="m")
    assert (manifest.provider, manifest.model) == ("p", "m")


@pytest.mark.claim("MAN-037", "MAN-026")
def test_a_profile_gives_the_window_only_and_nothing_overflows() -> None:
    profile = LLMModelProfile(context_window=1, provider="p", model="m")
    with_profile, without = build(profile=profile).to_dict(), build().to_dict()
    assert with_profile["total_estimated_tokens"] > with_profile["context_window"] == 1
    for found in (with_profile, without):
        del found["created_at"], found["context_window"]
    assert with_profile == without


@pytest.mark.claim("MAN-038")
def test_tools_are_estimated_by_four_members() -> None:
    declared = {
        "name": "lookup",
        "description": "Look it up",
        "input_schema": {"type": "object"},
        "capabilities": ["web.read"],
    }
    assert build(tools={"lookup": LOOKUP}).tool_prompt_tokens == estimate_tokens([declared])
    noisy = SimpleNamespace(**vars(LOOKUP), tags=["x" * 999], examples=["y" * 999])
    assert build(tools={"lookup": noisy}).tool_prompt_tokens == estimate_tokens([declared])
    for name in ("description", "input_schema", "capabilities"):
        longer = SimpleNamespace(**vars(LOOKUP) | {name: ["x" * 99]})
        assert build(tools={"lookup": longer}).tool_prompt_tokens > estimate_tokens([declared])


@pytest.mark.claim("MAN-039")
def test_delegation_targets_add_to_the_tool_section() -> None:
    card = AgentCard(name="worker", description="Does things", url="runtime://worker")
    alone = build(tools={"lookup": LOOKUP})
    both = build(tools={"lookup": LOOKUP}, agent_cards=[card])
    assert both.tool_prompt_tokens > alone.tool_prompt_tokens
    assert build(agent_cards=[card]).tool_prompt_tokens > 0
    assert build().tool_prompt_tokens == 0


@pytest.mark.claim("MAN-041")
def test_tool_tokens_are_taken_off_the_system_section_down_to_zero() -> None:
    prompt = "You are helpful. " * 20
    manifest = build(history=talk(prompt), tools={"lookup": LOOKUP})
    assert manifest.tool_prompt_tokens > 0
    assert manifest.system_tokens == estimate_tokens(prompt) - manifest.tool_prompt_tokens
    assert build(history=talk("short"), tools={"lookup": LOOKUP}).system_tokens == 0


def test_the_messages_of_a_long_history_are_not_read_again() -> None:
    class Counting(ConversationHistory):
        def __iter__(self) -> Any:
            raise AssertionError("the history was walked through")

    history = Counting("s")
    for number in range(50):
        history.add_user(f"q{number}").add_assistant("a")
    history.add_user("now")
    item = build(history=history).context_items[2]
    assert item.metadata == {"messages": 100}
