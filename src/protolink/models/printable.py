"""Text of others as it can be stored and sent: no UTF-8 holds half a character, as file names and models bring them."""

from __future__ import annotations

from typing import Any


def printable(value: Any) -> Any:
    """Text, or JSON with text in it, with its lone surrogates written as escape sequences."""
    if isinstance(value, str):
        return value if type(value) is str and value.isascii() else value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, dict):
        return {printable(key): printable(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [printable(item) for item in value]
    return value
