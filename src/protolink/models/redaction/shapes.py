"""Texts that carry secrets of their own, whatever they are called.

Private keys and addresses are found anywhere in a text, because their own syntax tells where they begin and end. All
other shapes count only when the text as a whole has them: prose is not searched. Where it is open how far a secret
reaches, more is masked rather than less.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable
from typing import Any

from .addresses import Addresses
from .assignments import Assignments
from .documents import Documents
from .headers import Headers, is_header
from .keys import KeyRules

_PRIVATE_KEY = re.compile(
    r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----.*?(?:-----END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----|\Z)",
    flags=re.DOTALL,
)
_SCHEME = re.compile(r"\s*(?P<scheme>bearer|basic)\s+(?P<value>\S+)\s*", re.IGNORECASE)
_TOKEN68 = re.compile(r"[A-Za-z0-9\-._~+/|:]+=*")
#: A text may have a shape when it begins with one of these, or when there is "=", ":" or this in it. These signs are
#: looked for in every text, inline where it matters.
BEGINNINGS = frozenset("{[\"'(`Bb \t\r\n")
PRIVATE_KEY = "PRIVATE KEY"
_DOCUMENT = frozenset("{[\"'(")
_BEGINNING_WORDS = ("bearer", "basic", "```")
_MAX_NESTING = 8


class Shapes:
    """Masks texts. ``inside`` redacts the value of a JSON text, one level of JSON deeper."""

    __slots__ = ("_addresses", "_assignments", "_documents", "_headers", "_replacement")

    def __init__(self, rules: KeyRules, replacement: str, inside: Callable[[Any, int], Any]) -> None:
        self._replacement = replacement
        self._addresses = Addresses(rules, replacement)
        self._assignments = Assignments(rules, replacement)
        self._headers = Headers(rules, replacement)
        self._documents = Documents(rules, replacement, inside)

    def masked(self, text: str, nesting: int = 0) -> str:
        """The text with the secrets of its shape masked; the very same when it has none."""
        if nesting > _MAX_NESTING:
            return self._replacement
        if "-----BEGIN" in text:
            text = _PRIVATE_KEY.sub(lambda _: self._replacement, text)
        if text.lstrip()[:1] in _DOCUMENT:
            found = self._documents.masked(text, nesting)
            if found is not None:
                return found
        credentials = _SCHEME.fullmatch(text)
        if credentials is not None and _is_credentials(credentials):
            return text[: credentials.start("value")] + self._replacement + text[credentials.end("value") :]
        if "{" in text or "[" in text:
            text = self._documents.among(text, nesting)
        if "://" in text:
            text = self._addresses.masked(text)
        if "=" in text:
            text = self._pairs(text, nesting)
        return self._headers.masked(text) if ":" in text else text

    def entry(self, text: str) -> str | None:
        """An item of a list that is one assignment to a sensitive name, else None. All of it is the value."""
        return self._assignments.whole(text) if "=" in text else None

    def _pairs(self, text: str, nesting: int) -> str:
        """Assignments, else what looks like an address without its scheme, or the body of a form."""
        found = self._assignments.masked(text, lambda value: self.masked(value, nesting + 1))
        if found is not None:
            text = found
        bare = text.strip()
        return text if " " in bare or "\n" in bare or "://" in bare else self._addresses.parameters(text)


def suspicious(text: str) -> bool:
    """False when the text has none of the shapes for certain."""
    return (
        "=" in text
        or (":" in text and coloned(text))
        or (text[:1] in BEGINNINGS and begun(text))
        or PRIVATE_KEY in text
    )


def coloned(text: str) -> bool:
    """Whether a text with a colon in it may have a shape that needs one."""
    if "{" in text or "[" in text or "\n" in text or "@" in text:
        return True
    return text[0].isalpha() and not text.startswith("//", text.index(":") + 1) and is_header(text) is not None


def begun(text: str) -> bool:
    """Whether a text that begins with one of ``BEGINNINGS`` may have a shape that does."""
    begins = text[:16].lstrip()
    return begins[:1] in _DOCUMENT or begins.lower().startswith(_BEGINNING_WORDS) or not begins


def _is_credentials(match: re.Match[str]) -> bool:
    if match["scheme"].lower() != "basic":
        return _TOKEN68.fullmatch(match["value"]) is not None
    try:
        return b":" in base64.b64decode(match["value"], validate=True)
    except (binascii.Error, ValueError):
        return False
