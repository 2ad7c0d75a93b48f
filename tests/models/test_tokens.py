from __future__ import annotations

import pytest

from protolink.models import estimate_tokens


@pytest.mark.parametrize(
    ("value", "tokens"),
    [("", 0), (None, 0), ("a", 1), ("abcd", 1), ("abcde", 2), ({"a": 1}, 2), ([1, 2, 3], 2), (12345, 2)],
)
def test_four_characters_are_a_token(value: object, tokens: int) -> None:
    assert estimate_tokens(value) == tokens


def test_value_without_json_form_is_refused() -> None:
    with pytest.raises(TypeError):
        estimate_tokens(object())
