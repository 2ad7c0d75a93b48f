"""RunAction: the prepared operation, and its digests."""

from __future__ import annotations

import dataclasses
import hashlib
import re
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protolink.models import Artifact, Part
from protolink.models.json import canonical, dumps, loads
from protolink.runtime import RunAction, contract_differences

names = st.text(alphabet="abc.-_é", min_size=1, max_size=8)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-1000, 1000) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
)
payloads = st.dictionaries(st.text(max_size=5), values, max_size=3)
artifacts = st.builds(
    Artifact,
    parts=st.lists(st.builds(Part.json, values), max_size=2),
    kind=st.sampled_from(["preview", "result"]),
    name=st.none() | names,
    metadata=payloads,
    action_id=st.none() | names,
)
actions = st.builds(
    RunAction,
    kind=names,
    name=names,
    payload=payloads,
    capabilities=st.frozensets(names, max_size=3),
    artifacts=st.lists(artifacts, max_size=2).map(tuple),
    description=st.none() | names,
    metadata=payloads,
)


def publish(**changes: Any) -> RunAction:
    fields: dict[str, Any] = {"kind": "resource.update", "name": "publish", "payload": {"arguments": {"id": "42"}}}
    return RunAction(**(fields | changes))


@pytest.mark.claim("ACT-006")
def test_an_action_is_frozen() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        publish().name = "other"  # type: ignore[misc]


@pytest.mark.claim("ACT-007", "ACT-008", "ACT-012")
def test_kind_and_name_are_required_and_open() -> None:
    action = RunAction("tool.call", "write", {"arguments": {"x": 1}})
    assert (action.kind, action.name, action.payload["arguments"]) == ("tool.call", "write", {"x": 1})
    assert RunAction("my.own-kind", "x").kind == "my.own-kind"
    for missing in ({"name": "x"}, {"kind": "x"}, {}):
        with pytest.raises(TypeError):
            RunAction(**missing)  # type: ignore[arg-type]


@pytest.mark.claim("ACT-009", "ACT-010")
@pytest.mark.parametrize("blank", ["", "  ", "\t\n", None, 5])
@pytest.mark.parametrize("field", ["kind", "name"])
def test_a_blank_kind_or_name_is_refused(field: str, blank: Any) -> None:
    with pytest.raises(ValueError, match=field):
        publish(**{field: blank})
    if blank is not None:
        with pytest.raises(ValueError, match=field):
            RunAction.from_dict({"kind": "k", "name": "n"} | {field: blank})


@pytest.mark.claim("ACT-011", "ACT-013", "ACT-015", "ACT-016", "ACT-017")
def test_optional_fields_default_to_nothing() -> None:
    one, two = RunAction("k", "n"), RunAction("k", "n")
    assert (one.payload, one.capabilities, one.artifacts, one.description, one.metadata) == (
        {},
        frozenset(),
        (),
        None,
        {},
    )
    assert isinstance(one.capabilities, frozenset)
    assert one.payload is not two.payload
    assert one.metadata is not two.metadata


@pytest.mark.claim("ACT-014")
def test_capabilities_become_a_frozenset_of_nonempty_text() -> None:
    class Right(StrEnum):
        READ = "records.read"

    for given_capabilities in (["a", "", "b"], ("b", "a"), {"a", "b"}, (name for name in "ab"), iter(["a", "b"])):
        assert publish(capabilities=given_capabilities).capabilities == frozenset({"a", "b"})
    assert publish(capabilities=[Right.READ]).to_dict()["capabilities"] == ["records.read"]
    assert type(next(iter(publish(capabilities=[Right.READ]).capabilities))) is str


@pytest.mark.parametrize("wrong", ["records.write", 5, None, [1], [None]])
def test_capabilities_that_would_be_lost_are_refused(wrong: Any) -> None:
    with pytest.raises(TypeError, match="capabilities"):
        publish(capabilities=wrong)
    with pytest.raises(TypeError, match="capabilities"):
        publish().with_capabilities(wrong)


@pytest.mark.claim("ACT-015")
def test_artifacts_become_a_tuple() -> None:
    artifact = Artifact()
    assert publish(artifacts=[artifact]).artifacts == (artifact,)
    for wrong in ([{"kind": "preview"}], 5):
        with pytest.raises(TypeError, match="artifacts"):
            publish(artifacts=wrong)


@pytest.mark.parametrize("description", [5, float("nan"), ["text"]])
def test_description_must_be_text(description: Any) -> None:
    with pytest.raises(TypeError, match="description"):
        RunAction("tool.call", "write", description=description)


@pytest.mark.parametrize("field", ["payload", "metadata"])
def test_payload_and_metadata_must_be_mappings(field: str) -> None:
    with pytest.raises(TypeError, match=field):
        publish(**{field: [1]})


@pytest.mark.claim("ACT-018")
def test_the_action_id_is_generated() -> None:
    one, two = publish(), publish()
    assert one.action_id.startswith("action_")
    assert one.action_id != two.action_id


@pytest.mark.claim("ACT-019")
def test_created_at_is_the_current_utc_time() -> None:
    moment = datetime.fromisoformat(publish().created_at)
    assert moment.utcoffset() == timedelta(0)
    assert abs(datetime.now(UTC) - moment) < timedelta(minutes=5)


@pytest.mark.claim("ACT-020")
def test_payload_and_metadata_stay_the_callers_mutable_values() -> None:
    payload: dict[str, Any] = {"list": [1]}
    metadata: dict[str, Any] = {}
    action = publish(payload=payload, metadata=metadata)
    payload["list"].append(2)
    action.metadata["seen"] = True
    assert action.payload["list"] == [1, 2]
    assert metadata == {"seen": True}


@pytest.mark.claim("ACT-003", "ACT-021", "ACT-004")
def test_attaching_artifacts_returns_a_new_action() -> None:
    preview = Artifact(kind="preview", parts=[Part.json({"id": "42"})])
    action = publish()
    shown = action.with_artifacts([preview])
    assert shown is not action
    assert action.artifacts == ()
    assert shown.artifacts[0].parts[0].content == {"id": "42"}
    assert shown.artifacts[0].parts[0].type == "json"
    assert shown.action_id == action.action_id


@pytest.mark.claim("ACT-022", "ACT-023")
def test_artifacts_without_action_are_copied_and_correlated() -> None:
    loose, bound = Artifact(kind="preview"), Artifact(action_id="other")
    action = publish().with_artifacts([loose, bound])
    assert loose.action_id is None
    assert action.artifacts[0] is not loose
    assert (action.artifacts[0].id, action.artifacts[0].action_id) == (loose.id, action.action_id)
    assert action.artifacts[1] is bound
    assert bound.action_id == "other"


def test_artifacts_are_added_and_the_same_one_is_not_doubled() -> None:
    first, second = Artifact(), Artifact()
    action = publish(artifacts=(first,)).with_artifacts([second])
    assert [artifact.id for artifact in action.artifacts] == [first.id, second.id]
    correlated = action.with_artifacts(action.artifacts)
    assert [artifact.action_id for artifact in correlated.artifacts] == [action.action_id] * 2


@pytest.mark.claim("ACT-024")
def test_capabilities_are_united() -> None:
    action = publish(capabilities={"a"})
    wider = action.with_capabilities(["b", "", "a"])
    assert wider.capabilities == frozenset({"a", "b"})
    assert action.capabilities == frozenset({"a"})


@pytest.mark.claim("ACT-025")
def test_a_replaced_payload_is_a_top_level_copy() -> None:
    nested = [1]
    payload = {"nested": nested}
    action = publish()
    replaced = action.with_payload(payload)
    payload["later"] = [2]
    assert replaced.payload == {"nested": [1]}
    assert replaced.payload["nested"] is nested
    assert action.payload == {"arguments": {"id": "42"}}


@pytest.mark.claim("ACT-026")
def test_serialized_capabilities_are_sorted_and_artifacts_nested() -> None:
    artifact = Artifact(kind="preview")
    found = publish(capabilities={"b", "c", "a"}, artifacts=(artifact,)).to_dict()
    assert found["capabilities"] == ["a", "b", "c"]
    assert found["artifacts"] == [artifact.to_dict()]
    assert set(found) == {item.name for item in dataclasses.fields(RunAction)}


@pytest.mark.claim("ACT-027")
@given(actions)
def test_a_serialized_action_reads_back_equal(action: RunAction) -> None:
    again = RunAction.from_dict(loads(dumps(action.to_dict())))
    assert again == action
    assert all(isinstance(artifact, Artifact) for artifact in again.artifacts)
    assert again.fingerprint == action.fingerprint


@pytest.mark.claim("ACT-028", "ACT-029")
def test_omitted_members_get_fallbacks() -> None:
    action = RunAction.from_dict({})
    assert (action.kind, action.name) == ("action", "unnamed")
    assert action.action_id.startswith("action_")
    assert datetime.fromisoformat(action.created_at).utcoffset() == timedelta(0)


@pytest.mark.parametrize(
    "hostile",
    [
        None,
        [],
        "x",
        {"kind": 1},
        {"name": []},
        {"payload": []},
        {"capabilities": "records.write"},
        {"capabilities": [1]},
        {"artifacts": {}},
        {"artifacts": [5]},
        {"artifacts": [{"parts": [{}]}]},
        {"metadata": 1},
        {"action_id": 1},
        {"created_at": []},
        {"description": {}},
    ],
)
def test_malformed_actions_are_refused(hostile: Any) -> None:
    with pytest.raises((ValueError, TypeError)):
        RunAction.from_dict(hostile)


def test_the_fingerprint_is_the_digest_of_the_complete_action() -> None:
    action = publish(artifacts=(Artifact(kind="preview"),), capabilities={"b", "a"})
    assert action.fingerprint == hashlib.sha256(canonical(action.to_dict())).hexdigest()
    assert re.fullmatch("[0-9a-f]{64}", action.fingerprint)
    assert dataclasses.replace(action, description="shown").fingerprint != action.fingerprint
    assert dataclasses.replace(action, action_id="other").fingerprint != action.fingerprint


def test_digests_are_not_computed_at_construction() -> None:
    action = publish(payload={"cannot": object()})
    with pytest.raises(TypeError):
        _ = action.fingerprint


def test_the_contract_leaves_out_ids_times_and_metadata() -> None:
    part = Part.json({"x": 1})
    first = publish(artifacts=(Artifact(parts=[part], metadata={"n": 1}),), metadata={"n": 1})
    second = publish(artifacts=(Artifact(parts=[part], action_id="z"),), created_at="later")
    assert first.contract == second.contract
    assert first.fingerprint != second.fingerprint
    assert contract_differences(first, second) == []


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"kind": "other"}, "/kind"),
        ({"name": "other"}, "/name"),
        ({"payload": {"arguments": {"id": "43"}}}, "/payload/arguments/id"),
        ({"payload": {"arguments": {"id": "42", "a/b~": 1}}}, "/payload/arguments/a~1b~0"),
        ({"capabilities": {"x"}}, "/capabilities/0"),
        ({"artifacts": (Artifact(),)}, "/artifacts/0"),
    ],
)
def test_contract_differences_name_the_paths(change: dict[str, Any], path: str) -> None:
    old, new = publish(), publish(**change)
    assert old.contract != new.contract
    assert contract_differences(old, new) == [path]


@pytest.mark.parametrize(
    "change", [{"parts": [Part.json({"x": 2})]}, {"kind": "result"}, {"name": "n"}, {"uri": "file:///x"}]
)
def test_the_contract_covers_the_contents_of_artifacts(change: dict[str, Any]) -> None:
    preview: dict[str, Any] = {"id": "art_1", "kind": "preview", "parts": [Part.json({"x": 1})]}
    old = publish(artifacts=(Artifact(**preview),))
    new = publish(artifacts=(Artifact(**preview | change),))
    assert old.contract != new.contract
    [path] = contract_differences(old, new)
    assert path.startswith(f"/artifacts/0/{next(iter(change))}")


def test_true_and_one_are_different_but_one_and_one_point_zero_are_not() -> None:
    def with_value(value: Any) -> RunAction:
        return publish(payload={"v": value})

    assert contract_differences(with_value(1), with_value(True)) == ["/payload/v"]
    assert contract_differences(with_value(1), with_value(1.0)) == []
    assert with_value(1).contract == with_value(1.0).contract


@given(actions, actions)
def test_contracts_are_equal_exactly_when_nothing_differs(one: RunAction, two: RunAction) -> None:
    assert (one.contract == two.contract) == (contract_differences(one, two) == [])
    assert contract_differences(one, two) == contract_differences(two, one)
    assert contract_differences(one, one) == []
