"""Texts of errors: keys are found in the middle of a sentence there."""

from __future__ import annotations

import pytest

from protolink.models.redaction.foreign import foreign_text

MASK = "[REDACTED]"


@pytest.mark.parametrize(
    "key",
    [
        "sk-abcdefghijkl", "sk_" + "live_abcdefghijkl", "ghp_" + "a" * 36, "github_pat_" + "a" * 22,
        "glpat-" + "a" * 20, "AKIA" + "A" * 16, "xoxb-" + "1" * 12, "AIza" + "a" * 35, "hf_" + "a" * 34,
        "gsk_" + "a" * 24, "npm_" + "a" * 36, "xai-" + "a" * 24, "SG." + "a" * 22 + "." + "b" * 22,
        "eyJhbGciOiJI.eyJzdWIiOiIx.abc",
    ],
)  # fmt: skip
def test_keys_of_providers_are_masked_in_a_sentence(key: str) -> None:
    assert foreign_text(f"the key {key} was refused, see the manual") == f"the key {MASK} was refused, see the manual"


def test_bearer_values_are_masked_in_a_sentence() -> None:
    assert foreign_text("401 for Bearer abcdef0123456789 here") == f"401 for Bearer {MASK} here"


@pytest.mark.parametrize(
    "text", ["bearer authentication-is-needed for 3 calls", "run npm-install-everything-again first", "ask-me-anything"]
)
def test_words_are_not_taken_for_keys(text: str) -> None:
    assert foreign_text(text) == text
