"""JSON among other words: behind a label, in a code fence, in a line of a log."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protolink.models import DEFAULT_REDACTION_POLICY

MASK = "[REDACTED]"
redact = DEFAULT_REDACTION_POLICY.redact

TEXTS: dict[str, Callable[[str], str]] = {
    "label": "body: {}".format,
    "words": "POST /login with {} was refused".format,
    "line of a log": "[ERROR] 10:00 request {}".format,
    "call": "connect({})".format,
    "code fence": "Here it is:\n```json\n{}\n```\nDone.".format,
    "nothing but a fence": "```\n{}\n```".format,
    "behind what only resembles JSON": "f: {{x}} [y {{'z' {}".format,
    "behind another": 'first: {{"a": [1]}}, then: {}'.format,
    "before another": '{} and {{"a": 1}}'.format,
    "behind a colon in brackets": "see [1]: {}".format,
}
WRITTEN: dict[str, Callable[[Any], str]] = {
    "compact": json.dumps,
    "indented": lambda value: json.dumps(value, indent=2),
    "as a JSON text": lambda value: json.dumps(json.dumps(value)),
}
HOLDING: dict[str, Callable[[str], Any]] = {
    "key": lambda secret: {"note": 1, "password": secret},
    "below a key": lambda secret: {"credentials": {"deep": [secret]}},
    "name and value": lambda secret: {"name": "Cookie", "value": secret},
    "header pair": lambda secret: {"headers": [["Authorization", secret]]},
    "flag": lambda secret: {"argv": ["run", "--token", secret]},
    "environment": lambda secret: {"env": [f"API_KEY={secret}"]},
    "json": lambda secret: {"body": json.dumps({"pwd": secret})},
}
secrets = st.text(min_size=1, max_size=8, alphabet=st.characters(exclude_categories=["Cs"])).map("hush{}".format)


@pytest.mark.parametrize("text", TEXTS)
@pytest.mark.parametrize("written", WRITTEN)
@given(secret=secrets, holding=st.sampled_from(sorted(HOLDING)))
@settings(max_examples=20, deadline=None)
def test_no_secret_passes_in_json_among_words(text: str, written: str, secret: str, holding: str) -> None:
    planted = TEXTS[text](WRITTEN[written](HOLDING[holding](secret)))
    for value in (planted, {"a": [planted]}, [planted.encode()]):
        once = redact(value)
        assert "hush" not in json.dumps(once)
        assert redact(once) == once


@pytest.mark.parametrize(
    "text",
    [
        'body: {"a":  1.50, "note": "x"}',
        "Here:\n```json\n[1,\n 2]\n```",
        "see [1]: {x}",
        "f: {'a': 'b'}",
        'usage: {"max_tokens": 5, "input_tokens":  7}',
        'he said: "hello [\\"you\\"]"',
        'f("token", "x"): done',
    ],
)
def test_json_without_secrets_stays_as_it_is(text: str) -> None:
    assert redact(text) == text


def test_only_the_document_is_written_anew() -> None:
    assert redact('a: {"b":  1}, c: {"pwd":  "x", "d": 1}!') == f'a: {{"b":  1}}, c: {{"pwd":"{MASK}","d":1}}!'


def test_what_was_cut_off_or_printed_is_searched_for_pairs() -> None:
    assert redact('body: {"note": 1, "password": "hush') == f'body: {{"note": 1, "password": "{MASK}'
    assert redact("headers: {'Authorization': 'hush', 'n': 1}") == f"headers: {{'Authorization': '{MASK}', 'n': 1}}"
    assert redact('x: {"a": {"secret": {"b": "hush"}}, "c') == f'x: {{"a": {{"secret":"{MASK}"}}, "c'


def test_json_that_is_too_deep_is_not_shown_and_nor_is_what_follows() -> None:
    assert redact('x: {"token": "a"} ' + '{"a":' * 100_000 + '"hush"') == f'x: {{"token":"{MASK}"}} {MASK}'


@pytest.mark.parametrize(
    ("piece", "bound"), [('x: {"a": "b", ', 100), ("{' ", 100), ('["" ', 100), ('[\\"', 10), ('{"a": 1} ', 5_000)]
)
def test_a_text_is_not_read_to_its_end_from_everywhere_in_it(piece: str, bound: int) -> None:
    reads = 0

    def counting(frame: FrameType, event: str, argument: object) -> None:
        nonlocal reads
        reads += event == "call" and frame.f_code.co_name == "raw_decode"

    text = "y: " + piece * (40_000 // len(piece))
    sys.setprofile(counting)
    try:
        redact(text)
    finally:
        sys.setprofile(None)
    assert 0 < reads <= bound
