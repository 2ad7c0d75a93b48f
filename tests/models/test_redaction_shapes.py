"""No listed shape lets a planted secret through, however deep it lies; and counters stay readable."""

from __future__ import annotations

import base64
import json
import pickle
from collections import namedtuple
from collections.abc import Callable
from dataclasses import dataclass, make_dataclass
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, SecretStr

from protolink.models import DEFAULT_REDACTION_POLICY, RedactionPolicy

MASK = "[REDACTED]"
redact = DEFAULT_REDACTION_POLICY.redact
Plant = Callable[[str], Any]

KEYS = [
    "api_key", "apiKey", "API-KEY", "db.password", "client secret", "ClientSecret", "refreshToken", "x-api-key",
    "tokens", "apiKeys", "passwords", "secrets", "cookies", "Set-Cookie", "Proxy-Authorization", "privateKey",
    "aws_secret_access_key", "password2", "TOKEN_1", "apikey", "dbPasswd", "service_credential",
]  # fmt: skip
NAMES = ["Authorization", "x-api-key", "Cookie", "client_secret"]


class Login(BaseModel):
    user: str
    password: str
    inner: list[dict[str, str]] = []


@dataclass
class Record:
    note: str
    access_token: str


Point = namedtuple("Point", "x token")


def under(key: str) -> Plant:
    return lambda secret: {key: secret}


def paired(name: str) -> Plant:
    return lambda secret: [[name, secret], ["Accept", "x"]]


def beside(name: str) -> Plant:
    return lambda secret: {"value": secret, "name": name}


def plain_error(secret: str) -> Exception:
    return ValueError("refused", {"Authorization": secret})


def caused_error(secret: str) -> Exception:
    error = RuntimeError("failed")
    error.__cause__ = ConnectionError(f"postgres://app:{quote(secret, safe='')}@db/app")
    error.add_note(f"token={secret}")
    return error


def pem(secret: str) -> str:
    return f"before\n-----BEGIN RSA PRIVATE KEY-----\n{secret}\n-----END RSA PRIVATE KEY-----\nafter"


#: Where any text may be the secret.
ANYWHERE: dict[str, Plant] = {
    **{f"key {key}": under(key) for key in KEYS},
    **{f"pair {name}": paired(name) for name in NAMES},
    **{f"name and value {name}": beside(name) for name in NAMES},
    "byte pairs": lambda s: [(b"authorization", s.encode()), (b"accept", b"x")],
    "header and value": lambda s: [{"Key": "Password", "Value": s}],
    "flag": lambda s: ["run", "--token", s, "-v"],
    "flag in camel case": lambda s: ["run", "-clientSecret", s],
    "flag with value": lambda s: ["run", f"--api-key={s}"],
    "environment list": lambda s: ["HOME=/root", f"OPENAI_API_KEY={s}"],
    "mapping in a sensitive field": lambda s: {"credentials": {"deep": [s]}},
    "json": lambda s: json.dumps({"note": 1, "password": s}),
    "json in json": lambda s: json.dumps({"body": json.dumps([{"apiKey": s}])}),
    "json lines": lambda s: json.dumps({"a": 1}) + "\n" + json.dumps({"token": s}),
    "json in bytes": lambda s: json.dumps([["Authorization", s]]).encode(),
    "repeated name in json": lambda s: f'{{"a": {{"token": {json.dumps(s)}}}, "a": 1}}',
    "dataclass": lambda s: Record("n", s),
    "pydantic object": lambda s: Login(user="u", password=s),
    "inside a pydantic object": lambda s: Login(user="u", password="p", inner=[{"api_key": s}]),
    "secret of pydantic": lambda s: {"note": SecretStr(s)},
    "named tuple": lambda s: Point(1, s),
    "exception": plain_error,
}

#: Where the secret is spelled as the shape demands.
SPELLED: dict[str, Plant] = {
    "bearer": lambda s: f"Bearer {s}",
    "bearer in bytes": lambda s: f"bearer {s}".encode(),
    "private key": pem,
    "private key in an assignment": lambda s: f'KEY="{pem(s)}"',
    "userinfo": lambda s: f"see https://user:{s}@example.org/path for it",
    "token as user": lambda s: f"https://{s}@example.org",
    "unescaped userinfo": lambda s: f"postgres://app:{s}/?#x@db:5432/app",
    "parameter": lambda s: f"https://example.org/a?b=c&access_token={s}&d=e#f",
    "escaped parameter": lambda s: f"GET https://example.org/?api%5Fkey={s}",
    "signature": lambda s: f"https://example.org/?X-Amz-Signature={s}",
    "fragment": lambda s: f"https://example.org/#access_token={s}",
    "relative address": lambda s: f"/callback?state=1&token={s}",
    "form": lambda s: f"grant_type=x&client_secret={s}",
    "jdbc": lambda s: f"jdbc:sqlserver://h:1433;user=sa;password={s};encrypt=true",
    "settings of libpq": lambda s: f"host=db user=app password='{s}' dbname=x",
    "settings of odbc": lambda s: f"Server=db;User Id=app;Password={s};Timeout=5",
    "settings file": lambda s: f"# all\n[db]\nHOST=db\nexport DB_PASSWORD={s}\nPORT=1",
    "commented out": lambda s: f"A=1\n#API_KEY={s}",
    "value that is an address": lambda s: f"DATABASE_URL=postgres://app:{s}@db/app",
    "header line": lambda s: f"Authorization: Digest {s}",
    "header lines": lambda s: f"GET / HTTP/1.1\nAccept: x\nX-Api-Key: {s}\n",
    "header as an argument": lambda s: ["curl", "-H", f"Cookie: session={s}"],
    "cut json": lambda s: f'{{"note": 1, "password": "{s}", "more": "…',
    "printed mapping": lambda s: str({"note": 1, "api_key": s}),
    "caused exception": caused_error,
    "address as a key": lambda s: {f"https://u:{s}@example.org": 1},
}

secrets = st.text(alphabet="abcXYZ0189-_.", min_size=1, max_size=12).map(lambda text: f"hush{text}hush")
wild = st.text(min_size=1, max_size=12, alphabet=st.characters(exclude_categories=["Cs"])).map(lambda t: f"hush{t}")
wrappers: st.SearchStrategy[list[Plant]] = st.lists(
    st.sampled_from(
        [
            lambda v: [v],
            lambda v: [1, v, "x"],
            lambda v: (v, "other"),
            lambda v: {"a": v},
            lambda v: {"name": "x", "value": v},
            lambda v: {"deep": {"er": [v, v]}},
            lambda v: make_dataclass("Wrapped", ["value"])(v),
            lambda v: ValueError("text", v),
        ]
    ),
    max_size=5,
)


def wrapped(value: Any, around: list[Plant]) -> Any:
    for wrap in around:
        value = wrap(value)
    return value


def check(plant: Plant, secret: str, around: list[Plant]) -> None:
    once = redact(wrapped(plant(secret), around))
    shown = json.dumps(once, ensure_ascii=False)
    assert secret not in shown
    assert json.dumps(secret, ensure_ascii=False)[1:-1] not in shown
    assert redact(once) == once


@pytest.mark.parametrize("shape", ANYWHERE)
@given(wild, wrappers)
@settings(max_examples=25, deadline=None)
def test_no_text_passes_in_a_named_place(shape: str, secret: str, around: list[Plant]) -> None:
    check(ANYWHERE[shape], secret, around)


@pytest.mark.parametrize("shape", SPELLED)
@given(secrets, wrappers)
@settings(max_examples=25, deadline=None)
def test_no_secret_passes_in_a_text_of_a_known_shape(shape: str, secret: str, around: list[Plant]) -> None:
    check(SPELLED[shape], secret, around)


pieces = st.lists(
    st.sampled_from(
        [
            "token",
            "password",
            "=",
            ":",
            " ",
            "//",
            "@",
            "?",
            "&",
            ";",
            "\n",
            '"',
            "'",
            "{",
            "}",
            "[",
            "]",
            ",",
            "--",
            "Bearer ",
            "a",
        ]
    ),
    max_size=12,
).map("".join)
policies = st.builds(
    RedactionPolicy,
    replacement=st.sampled_from([MASK, "*", "", "@", "=", "a;b"]),
    max_string_length=st.none() | st.integers(0, 12),
    sensitive_values=st.frozensets(st.sampled_from(["a", "token", "@", "--"]), max_size=2),
)


@given(
    policies,
    st.recursive(pieces, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(pieces, inner, max_size=2)),
)
@settings(max_examples=300, deadline=None)
def test_redacting_again_changes_nothing_whatever_the_text(policy: RedactionPolicy, value: object) -> None:
    once = policy.redact(value)
    assert policy.redact(once) == once


def test_basic_credentials_are_masked() -> None:
    value = base64.b64encode(b"user:hunter2").decode()
    assert redact(["Basic " + value, "Basic training"]) == ["Basic " + MASK, "Basic training"]


@pytest.mark.parametrize(
    "value",
    [
        {"max_tokens": 5, "input_tokens": 7, "outputTokens": 1, "total-tokens": 3},
        {"max_tokens": "4096", "input_tokens": {"cached": 1}},
        {"tokens": 57, "passwords": 3, "secrets": None, "my_token": True, "x_secret": 0.5},
        {"tokens": {"input": 5, "output": 7}, "api_keys": [1, 2]},
        ["--max-tokens", "100", "--max-tokens=100", "MAX_TOKENS=100"],
        [{"name": "max_tokens", "value": "5"}],
        "host=db port=5432 max_tokens=10",
        "tokens=57",
        {"token_count": "x", "secretary": "y", "tokenizer": "z", "key": "k", "author": "a"},
    ],
)
def test_counters_and_ordinary_names_stay_readable(value: object) -> None:
    assert redact(value) == value


@pytest.mark.parametrize(
    "text",
    [
        "2026-01-01T10:00:00+00:00",
        "https://example.org/a?page=2&sort=name#top",
        "https://medium.example/@writer/story",
        "http://localhost:8080/x@y",
        "sqlite:///data/app.db",
        "a == b",
        "dGVzdA==",
        '{"note": "nothing here",   "n": 1.50}',
        "[not json",
        "Error: the file was not found",
        "PATH=/usr/bin:/bin",
        "-----BEGIN CERTIFICATE-----\nabc\n-----END CERTIFICATE-----",
        "the token=abc stands in a sentence, so nobody looks for it",
    ],
)
@pytest.mark.claim("RED-018")
def test_texts_without_a_shape_stay_as_they_are(text: str) -> None:
    assert redact(text) == text
    assert redact([text, "other"]) == [text, "other"]


def test_only_the_secret_goes() -> None:
    assert redact("https://u:p@h/x?token=t&page=2") == f"https://{MASK}@h/x?token={MASK}&page=2"
    assert redact("Server=db;Password=p;Timeout=5") == f"Server=db;Password={MASK};Timeout=5"
    assert redact('{"a": 1, "token": "t"}') == f'{{"a":1,"token":"{MASK}"}}'
    assert redact(["run", "--token", "t", "file"]) == ["run", "--token", MASK, "file"]
    assert redact([["Authorization", "t"], ["Accept", "x"]]) == [["Authorization", MASK], ["Accept", "x"]]
    assert redact({"name": "Cookie", "value": "t", "path": "/"}) == {"name": "Cookie", "value": MASK, "path": "/"}
    assert redact("GET / HTTP/1.1\r\nCookie: a=b\r\nAccept: x") == f"GET / HTTP/1.1\r\nCookie: {MASK}\r\nAccept: x"


def test_exceptions_show_type_arguments_and_cause() -> None:
    error = RuntimeError("outer", 3)
    error.__cause__ = KeyError("inner")
    assert redact(error) == {
        "type": "RuntimeError",
        "args": ["outer", 3],
        "cause": {"type": "KeyError", "args": ["inner"]},
    }
    group = ExceptionGroup("several", [ValueError("one")])
    assert redact(group)["exceptions"] == [{"type": "ValueError", "args": ["one"]}]


def test_an_iterator_is_not_used_up() -> None:
    numbers = iter([1, 2])
    assert redact({"numbers": numbers}) == {"numbers": "<list_iterator>"}
    assert list(numbers) == [1, 2]


class Broken:
    def to_dict(self) -> dict[str, object]:
        raise OSError("gone")


def test_an_object_that_cannot_be_read_is_named() -> None:
    assert redact([Broken()]) == ["<Broken>"]


@pytest.mark.parametrize("levels", [49, 50, 51, 10_000])
def test_secrets_are_found_at_any_depth(levels: int) -> None:
    lists: object = {"token": "s", "pair": [["Cookie", "s"]]}
    mappings: object = lists
    for _ in range(levels):
        lists, mappings = [lists], {"a": mappings}
    found, under = redact(lists), redact(mappings)
    for _ in range(levels):
        found, under = found[0], under["a"]
    assert found == under == {"token": MASK, "pair": [["Cookie", MASK]]}


@pytest.mark.parametrize("levels", [10, 60])
def test_cycles_end_at_any_depth(levels: int) -> None:
    data: dict[str, Any] = {"token": "s"}
    inner: Any = data
    for _ in range(levels):
        inner = [inner]
    data["self"] = inner
    found = redact(data)["self"]
    for _ in range(levels - 1):
        found = found[0]
    assert found == ["[CYCLE]"]


def test_json_that_is_too_deep_to_be_read_is_not_shown() -> None:
    assert redact("[" * 100_000 + '{"token": "s"}' + "]" * 100_000) == MASK
    text = json.dumps({"token": "s"})
    for _ in range(12):
        text = json.dumps([text])
    assert '"s' not in redact(text)


def test_policies_can_be_pickled() -> None:
    policy = RedactionPolicy(frozenset({"pin"}), "#", 5, sensitive_values=frozenset({"abc"}))
    again = pickle.loads(pickle.dumps(policy))
    assert again == policy
    assert again.redact({"pin": 1, "note": "abc12345"}) == {"pin": "#", "note": "#1234..."}
