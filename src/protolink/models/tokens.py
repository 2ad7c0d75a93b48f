"""Token estimates that need no tokenizer: four characters are one token."""

from __future__ import annotations

from typing import Any

from .json import dumps


def estimate_tokens(value: Any) -> int:
    """Estimated tokens of a text, or of the JSON text of any other value, rounded up. Empty text and None are 0.

    TypeError when a value that is no text has no JSON form either.
    """
    if value is None:
        return 0
    text = value if isinstance(value, str) else dumps(value)
    return (len(text) + 3) // 4
