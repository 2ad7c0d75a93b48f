from __future__ import annotations

import copy
import dataclasses
from datetime import UTC, datetime
from enum import Enum

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from protolink.models import DEFAULT_REDACTION_POLICY, DEFAULT_SENSITIVE_KEYS, RedactionPolicy, Task

MASK = "[REDACTED]"
keys = st.sampled_from(["api_key", "note", "my_token", "tokens", "Password", "a"])
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(alphabet="RED[]ACTx. ", max_size=12),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3),
    max_leaves=10,
)
policies = st.builds(
    RedactionPolicy,
    replacement=st.sampled_from([MASK, "*", ""]),
    max_string_length=st.none() | st.integers(0, 12),
    sensitive_values=st.frozensets(st.sampled_from(["x", "RED", "A", "x.", "]x"]), max_size=3),
)


@pytest.mark.claim("RED-001")
def test_policy_is_a_frozen_dataclass_with_documented_defaults() -> None:
    policy = RedactionPolicy()
    assert policy.sensitive_keys is DEFAULT_SENSITIVE_KEYS
    assert (policy.replacement, policy.max_string_length, policy.sensitive_values) == (MASK, None, frozenset())
    with pytest.raises(dataclasses.FrozenInstanceError):
        policy.replacement = "x"  # type: ignore[misc]
    assert RedactionPolicy(frozenset({"pin"}), "#", 3) == RedactionPolicy(
        sensitive_keys=frozenset({"pin"}), replacement="#", max_string_length=3
    )


@pytest.mark.claim("RED-002")
@pytest.mark.parametrize("key", ["api_key", "API-KEY", "Api_Key", "api-key", "apiKey", "PassWord", "clientSecret"])
def test_keys_match_in_any_case_and_with_hyphens(key: str) -> None:
    assert RedactionPolicy().redact({key: "s"}) == {key: MASK}


@pytest.mark.claim("RED-002")
@pytest.mark.parametrize("configured", ["Card-Number", "cardNumber", "card_number"])
def test_configured_names_are_normalised_too(configured: str) -> None:
    policy = RedactionPolicy(sensitive_keys=frozenset({configured}))
    assert policy.redact({"card_number": 1, "CARD-NUMBER": 2, "card": 3}) == {
        "card_number": MASK, "CARD-NUMBER": MASK, "card": 3,
    }  # fmt: skip


@pytest.mark.claim("RED-003")
@pytest.mark.parametrize(
    "key",
    ["api_key", "authorization", "credential", "credentials", "password", "secret", "token", "data_base64", "apikey"],
)
def test_default_names_are_masked(key: str) -> None:
    assert DEFAULT_REDACTION_POLICY.redact({key: "s", "other": "s"}) == {key: MASK, "other": "s"}


@pytest.mark.claim("RED-004")
@pytest.mark.parametrize("value", ["s", 5, True, None, ["a"], {"deep": 1}, 1.5])
def test_whole_value_of_a_sensitive_field_is_replaced(value: object) -> None:
    assert RedactionPolicy().redact([{"secret": value}]) == [{"secret": MASK}]


@pytest.mark.claim("RED-005")
def test_custom_replacement_is_used() -> None:
    assert RedactionPolicy(replacement="***").redact({"token": "s"}) == {"token": "***"}


@pytest.mark.claim("RED-006")
def test_long_strings_are_cut_to_prefix_and_dots() -> None:
    policy = RedactionPolicy(max_string_length=3)
    assert policy.redact({"a": "abcd", "b": "abc", "token": "abcd"}) == {"a": "abc...", "b": "abc", "token": MASK}
    assert RedactionPolicy(max_string_length=0).redact("abc") == "..."


@pytest.mark.claim("RED-007")
def test_strings_stay_whole_without_limit() -> None:
    assert RedactionPolicy(max_string_length=None).redact("x" * 10_000) == "x" * 10_000


@pytest.mark.claim("RED-008")
def test_is_sensitive_key_tells_what_would_be_masked() -> None:
    policy = RedactionPolicy(sensitive_keys=frozenset({"pin"}))
    for key in ("pin", "PIN", "api_key", "note", "my_secret"):
        assert policy.is_sensitive_key(key) == (policy.redact({key: "s"}) == {key: MASK})
    assert policy.is_sensitive_key("pin")
    assert not policy.is_sensitive_key("note")
    assert not policy.is_sensitive_key(3)


@pytest.mark.claim("RED-009")
@pytest.mark.parametrize("suffix", ["_api_key", "_secret", "_token", "_password", "_credentials"])
def test_suffixes_match_whatever_is_configured(suffix: str) -> None:
    policy = RedactionPolicy(sensitive_keys=frozenset())
    assert policy.is_sensitive_key(f"github{suffix}")
    assert policy.is_sensitive_key(f"GITHUB{suffix}".upper().replace("_", "-"))
    assert not policy.is_sensitive_key(f"github{suffix}_count")


@pytest.mark.parametrize("count", [7, 0.5, True, None])
def test_suffix_spares_counts(count: object) -> None:
    data = {"last_token": count, "max_tokens": count}
    assert RedactionPolicy().redact(data) == data


class Colour(Enum):
    RED = "red"


class Login(BaseModel):
    user: str
    password: str


@dataclasses.dataclass
class Record:
    secret: str
    items: tuple[int, ...]
    nested: dict[str, str]


class Own:
    def to_dict(self) -> dict[str, object]:
        return {"token": "s", "inner": [Own.__name__]}


@pytest.mark.claim("RED-010")
def test_objects_become_masked_json() -> None:
    value = {
        "record": Record("s", (1, 2), {"apiKey": "k"}),
        "own": Own(),
        "model": Login(user="u", password="p"),
        "set": {3, 1},
        "bytes": b"hi",
        "binary": b"\xff\xfe",
        "enum": Colour.RED,
        "time": datetime(2026, 1, 1, tzinfo=UTC),
        "opaque": object(),
        4: "n",
    }
    assert RedactionPolicy().redact(value) == {
        "record": {"secret": MASK, "items": [1, 2], "nested": {"apiKey": MASK}},
        "own": {"token": MASK, "inner": ["Own"]},
        "model": {"user": "u", "password": MASK},
        "set": [1, 3],
        "bytes": "hi",
        "binary": "<2 bytes>",
        "enum": "red",
        "time": "2026-01-01T00:00:00Z",
        "opaque": "<object>",
        "4": "n",
    }


@given(policies, values)
@pytest.mark.claim("RED-011")
def test_redact_never_mutates_and_is_idempotent(policy: RedactionPolicy, value: object) -> None:
    before = copy.deepcopy(value)
    once = policy.redact(value)
    assert value == before
    assert policy.redact(once) == once


def test_redacted_copy_shares_nothing() -> None:
    data = {"a": [{"b": 1}]}
    RedactionPolicy().redact(data)["a"][0]["b"] = 2
    assert data == {"a": [{"b": 1}]}


@pytest.mark.claim("RED-012")
def test_negative_string_length_is_refused() -> None:
    with pytest.raises(ValueError, match="max_string_length"):
        RedactionPolicy(max_string_length=-1)


def test_nonsense_settings_are_refused() -> None:
    with pytest.raises(TypeError, match="sensitive_keys"):
        RedactionPolicy(sensitive_keys="token")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="max_string_length"):
        RedactionPolicy(max_string_length=True)
    with pytest.raises(ValueError, match="sensitive_values"):
        RedactionPolicy(sensitive_values=frozenset({""}))


def test_plain_to_dict_keeps_secrets() -> None:
    assert Task(metadata={"password": "p"}).to_dict()["metadata"] == {"password": "p"}


@pytest.mark.claim("RED-015")
def test_environment_values_are_masked_by_their_keys() -> None:
    environment = {"OPENAI_API_KEY": "k", "DB_PASSWORD": "p", "HOME": "/srv/x"}
    assert RedactionPolicy().redact({"env": environment}) == {
        "env": {"OPENAI_API_KEY": MASK, "DB_PASSWORD": MASK, "HOME": "/srv/x"}
    }


@pytest.mark.claim("RED-016")
def test_output_fields_can_be_configured() -> None:
    policy = RedactionPolicy(sensitive_keys=DEFAULT_SENSITIVE_KEYS | {"stdout"})
    assert policy.redact({"result": {"stdout": "s", "code": 0}, "token": "t"}) == {
        "result": {"stdout": MASK, "code": 0}, "token": MASK,
    }  # fmt: skip


@pytest.mark.claim("RED-018")
def test_secrets_inside_prose_are_not_found() -> None:
    text = "curl -H 'Authorization: Bearer abc' password=hunter2"
    assert RedactionPolicy().redact({"command": text}) == {"command": text}


def test_known_values_are_masked_inside_text() -> None:
    policy = RedactionPolicy(sensitive_values=frozenset({"abc", "abcdef"}))
    assert policy.redact(["x abcdef y abc", {"n": "abcabc"}]) == [f"x {MASK} y {MASK}", {"n": MASK * 2}]
    assert "abcdef" not in repr(policy)


def test_cycles_end() -> None:
    data: dict[str, object] = {"token": "s"}
    data["self"] = [data]
    shared = {"a": 1}
    assert RedactionPolicy().redact(data) == {"token": MASK, "self": ["[CYCLE]"]}
    assert RedactionPolicy().redact([shared, shared]) == [shared, shared]


def test_deep_nesting_is_masked_to_the_bottom() -> None:
    data: object = {"secret": "s"}
    for _ in range(5_000):
        data = [data]
    found = RedactionPolicy().redact(data)
    for _ in range(5_000):
        found = found[0]
    assert found == {"secret": MASK}


class Endless:
    def to_dict(self) -> dict[str, object]:
        return {"next": Endless()}


class Itself:
    def to_dict(self) -> object:
        return self


def test_endless_objects_end() -> None:
    found = RedactionPolicy().redact(Endless())
    depth = 0
    while isinstance(found, dict):
        found, depth = found["next"], depth + 1
    assert found == "[TOO DEEP]"
    assert depth > 1_000
    assert RedactionPolicy().redact(Itself()) == "<Itself>"
