"""By which names secrets go: each in each spelling and place where a name counts; and names that only look so."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protolink.models import DEFAULT_REDACTION_POLICY, DEFAULT_SENSITIVE_KEYS, RedactionPolicy

MASK = "[REDACTED]"
SECRET = "hush0secret9"
redact = DEFAULT_REDACTION_POLICY.redact

NAMES = [
    *sorted(DEFAULT_SENSITIVE_KEYS), "bearer", "db_pwd", "sentry_dsn", "session_token", "sql_connection_string",
    "jwt_signing_key", "smtp_pass", "auth_token", "id_jwt", "http_bearer", "openai_api_key", "email_otp",
]  # fmt: skip


def camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(map(str.capitalize, rest))


SPELLINGS: dict[str, Callable[[str], str]] = {
    "snake": str,
    "camel": camel,
    "pascal": lambda name: camel(f"_{name}"),
    "dotted": lambda name: name.replace("_", "."),
    "dashed": lambda name: name.replace("_", "-"),
    "spaced": lambda name: name.replace("_", " "),
    "capital": str.upper,
    "numbered": "{}_2".format,
}
#: Names with blanks are no header names, flags or variables.
NAMED: dict[str, Callable[[str], Any]] = {
    "key": lambda name: {name: SECRET},
    "pair": lambda name: [[name, SECRET]],
    "name and value": lambda name: {"name": name, "value": SECRET},
    "json": lambda name: json.dumps({name: SECRET}),
    "query": lambda name: f"https://example.org/?a=b&{name.replace(' ', '+')}={SECRET}",
    "connection string": lambda name: f"Server=db;{name}={SECRET};Timeout=5",
}
WORDS: dict[str, Callable[[str], Any]] = {
    "flag": lambda name: ["run", f"--{name}", SECRET],
    "flag with value": lambda name: ["run", f"--{name}={SECRET}"],
    "environment list": lambda name: [f"{name}={SECRET}"],
    "environment lines": lambda name: f"HOST=db\n{name}={SECRET}\nPORT=1",
    "header": lambda name: f"{name}: {SECRET}",
}


@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.parametrize("name", NAMES)
def test_each_name_is_found_in_each_spelling_and_place(name: str, spelling: str) -> None:
    spelled = SPELLINGS[spelling](name)
    places = NAMED if " " in spelled else {**NAMED, **WORDS}
    shown = {place: json.dumps(redact(plant(spelled))) for place, plant in places.items()}
    assert [place for place, text in shown.items() if SECRET in text] == []


@pytest.mark.parametrize("name", ["pwd", "jwt", "dsn", "otp", "passcode", "signing_key", "connection_string", "db_pwd"])
def test_plurals_of_names_mask_all_but_counts(name: str) -> None:
    assert redact({f"{name}s": [SECRET], "other": 1}) == {f"{name}s": MASK, "other": 1}
    assert redact({f"{name}s": 3}) == {f"{name}s": 3}


@pytest.mark.parametrize(
    "name",
    [
        "PGPASSWORD", "dbpassword", "userpasswd", "authtoken", "accessToken", "accesstoken", "webhooksecret",
        "openaiapikey", "DBPASS", "EMAIL_HOST_USER_PASS", "password_hash", "PasswordConfirmation", "secretString",
        "token_value", "private_key_pem", "api_key_base64", "password_hash_2", "OTPs", "JWTs",
    ],
)  # fmt: skip
def test_joined_and_extended_names_are_found(name: str) -> None:
    assert redact({name: SECRET}) == {name: MASK}


@pytest.mark.parametrize("label", ["API key: {}", "Client Secret : {}", "private key = {}", "Connection String={}"])
def test_labels_with_blanks_are_found_when_they_are_listed(label: str) -> None:
    assert SECRET not in redact(label.format(SECRET))
    assert SECRET not in redact({"env": [label.format(SECRET)]})["env"][0]


@pytest.mark.parametrize(
    "text", ["the token: abc is not here", "remember the password: it is long", "my secret = none"]
)
@pytest.mark.claim("RED-018")
def test_sentences_that_mention_a_name_are_prose(text: str) -> None:
    assert redact([text]) == [text]


ORDINARY = [
    "forward", "keyboard", "monkey", "author", "authority", "pinned", "passing", "passed", "bypass", "compass",
    "keywords", "secretary", "secret_name", "tokenizer", "token_type", "token_url", "password_policy", "option",
    "adopt", "dsn_count", "jwt_algorithm", "bearer_format", "primary_key", "cache_key", "idempotency_key",
    "public_key", "foreign_key", "access_key_id", "session_id", "trace_id", "first_pass", "low_pass", "hash",
    "connection", "string", "max_tokens", "input_tokens", "maxTokens", "inputtokens", "token_count",
    "tokens_per_second", "tokens_used", "prompt_token_count",
]  # fmt: skip


@pytest.mark.parametrize("name", ORDINARY)
def test_counters_and_ordinary_words_are_no_names_of_secrets(name: str) -> None:
    assert not DEFAULT_REDACTION_POLICY.is_sensitive_key(name)
    values = [plant(name) for plant in (*NAMED.values(), *WORDS.values())]
    assert redact(values) == values


def test_numbers_are_masked_under_listed_names_only() -> None:
    assert redact({"otp": 123456, "pwd": 1234, "email_otp": 5, "db_pwd": 0.5}) == {
        "otp": MASK, "pwd": MASK, "email_otp": 5, "db_pwd": 0.5,
    }  # fmt: skip


def test_bearer_masks_what_is_no_collection() -> None:
    data = {"security": [{"bearer": []}], "schemes": {"bearer": {"type": "http"}}, "bearer": SECRET}
    assert redact(data) == {**data, "bearer": MASK}
    assert redact({"bearer": bytearray(b"hush")}) == {"bearer": MASK}


def test_directories_of_a_shell_are_readable_and_passwords_are_not() -> None:
    assert redact({"PWD": "/srv/app", "OLDPWD": b"/srv"}) == {"PWD": "/srv/app", "OLDPWD": "/srv"}
    assert redact("HOME=/root\nPWD=/srv/app") == "HOME=/root\nPWD=/srv/app"
    assert redact({"pwd": "/srv/app", "DB_PWD": "/srv"}) == {"pwd": MASK, "DB_PWD": MASK}
    assert redact([{"PWD": SECRET}, f"PWD={SECRET}", {"OLDPWD": SECRET}]) == [
        {"PWD": MASK}, f"PWD={MASK}", {"OLDPWD": MASK},
    ]  # fmt: skip


def test_own_names_replace_the_listed_ones_and_endings_hold() -> None:
    policy = RedactionPolicy(sensitive_keys=frozenset({"card"}))
    data = {"card": "c", "jwt": "j", "dsn": "d", "pwd": "p", "id_jwt": "j", "db_pwd": "p", "pgpassword": "p"}
    assert policy.redact(data) == {
        "card": MASK, "jwt": "j", "dsn": "d", "pwd": "p", "id_jwt": MASK, "db_pwd": MASK, "pgpassword": MASK,
    }  # fmt: skip


@given(
    st.builds(
        RedactionPolicy,
        replacement=st.sampled_from([MASK, "", "/", "*"]),
        max_string_length=st.none() | st.integers(0, 6),
        sensitive_values=st.frozensets(st.sampled_from(["srv", "b"]), max_size=2),
    ),
    st.dictionaries(
        st.sampled_from(["PWD", "OLDPWD", "bearer", "pwd", "tokens"]),
        st.sampled_from(["/srv/app", "srv", "...", "", MASK, b"/srv", b"\xff"]) | st.lists(st.just("b")),
    ),
)
def test_redacting_again_changes_nothing_whatever_the_name(policy: RedactionPolicy, value: object) -> None:
    once = policy.redact(value)
    assert policy.redact(once) == once
