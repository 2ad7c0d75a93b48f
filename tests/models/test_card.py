from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protolink.models import AGENT_ROLES, AgentCapabilities, AgentCard, AgentInterface, AgentSkill

names = st.text(min_size=1, max_size=8).filter(str.strip)
texts = st.lists(st.text(max_size=4), max_size=2)
cards = st.builds(
    AgentCard,
    name=names,
    description=st.text(max_size=8),
    url=names,
    transport=names,
    version=names,
    protocol_version=names,
    capabilities=st.builds(
        AgentCapabilities,
        streaming=st.booleans(),
        max_concurrency=st.integers(1, 9),
        supports_inference=st.none() | st.booleans(),
    ),
    skills=st.lists(st.builds(AgentSkill, id=names, tags=texts, examples=texts), max_size=2),
    input_formats=texts,
    output_formats=texts,
    security_schemes=st.dictionaries(names, texts, max_size=2),
    role=st.sampled_from(AGENT_ROLES),
    tags=texts,
    interfaces=st.lists(st.builds(AgentInterface, url=names, transport=names, protocol_version=names), max_size=2),
)


def card(**fields: object) -> AgentCard:
    return AgentCard(**{"name": "n", "description": "d", "url": "runtime://n", **fields})  # type: ignore[arg-type]


@given(cards)
def test_card_survives_its_json_form(one: AgentCard) -> None:
    assert AgentCard.from_dict(json.loads(json.dumps(one.to_dict()))) == one


def test_defaults_are_documented_ones() -> None:
    one = card()
    assert (one.transport, one.version, one.role) == ("http", "1.0.0", "worker")
    assert one.input_formats == one.output_formats == ["text/plain"]
    assert one.capabilities == AgentCapabilities(delegation=True, max_concurrency=1)
    assert one.protocol_version


@pytest.mark.parametrize("field", ["name", "url"])
@pytest.mark.parametrize("value", ["", "  ", None])
def test_blank_name_or_url_is_refused(field: str, value: object) -> None:
    with pytest.raises(ValueError, match=f"AgentCard {field}"):
        card(**{field: value})


def test_role_is_checked() -> None:
    with pytest.raises(ValueError, match="orchestrator"):
        card(role="boss")


def test_capabilities_may_be_a_dict() -> None:
    assert card(capabilities={"streaming": True}).capabilities == AgentCapabilities(streaming=True)
    with pytest.raises(TypeError, match="flying"):
        card(capabilities={"flying": True})
    with pytest.raises(TypeError, match="capabilities"):
        card(capabilities="all")


def test_json_names_are_those_of_peers() -> None:
    record = card().to_dict()
    assert list(record) == [
        "name", "description", "url", "transport", "version", "protocolVersion", "capabilities", "skills",
        "inputFormats", "outputFormats", "securitySchemes", "role", "tags",
    ]  # fmt: skip
    assert record["capabilities"]["push_notifications"] is False
    with_more = card(interfaces=[AgentInterface("u", "http", "1")]).to_dict()
    assert with_more["additionalInterfaces"] == [{"url": "u", "transport": "http", "protocolVersion": "1"}]


@pytest.mark.parametrize("missing", ["name", "description", "url"])
def test_required_member_is_named(missing: str) -> None:
    record = card().to_dict()
    del record[missing]
    with pytest.raises(ValueError, match=f"'{missing}'"):
        AgentCard.from_dict(record)


def test_newer_peer_is_understood() -> None:
    record = card().to_dict()
    record["capabilities"]["telepathy"] = True
    record["extra"] = 1
    assert AgentCard.from_dict(record) == card()


@pytest.mark.parametrize(
    "change",
    [{"skills": [{}]}, {"tags": [1]}, {"capabilities": {"streaming": "yes"}}, {"capabilities": 1}, {"role": "boss"}],
)
def test_malformed_card_is_refused(change: dict) -> None:
    with pytest.raises(ValueError, match="Agent"):
        AgentCard.from_dict({**card().to_dict(), **change})


def test_prompt_form_lists_skills_as_tools() -> None:
    shown = card(skills=[AgentSkill("look", "Looks", {"type": "object"})]).get_prompt_format()
    record = json.loads(shown)
    assert list(record) == sorted(record) == ["capabilities", "description", "name", "tools"]
    assert record["tools"][0]["name"] == "look"
    assert record["tools"][0]["input_schema"] == {"type": "object"}
    assert "id" not in record["tools"][0]
