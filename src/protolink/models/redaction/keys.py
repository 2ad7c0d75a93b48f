"""By which names secrets go.

Names are compared in one spelling: lower case words joined by underscores, whether they were written in camelCase, with
hyphens, dots, spaces or brackets. How a name was recognised decides what it may mask: a name that somebody listed masks
everything, a suffix spares what only counts, and a plural spares collections of counts too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import IntEnum
from typing import Any

_SUFFIXES = (
    "_access_key",
    "_account_key",
    "_api_key",
    "_authorization",
    "_cookie",
    "_credential",
    "_credentials",
    "_passphrase",
    "_passwd",
    "_password",
    "_private_key",
    "_secret",
    "_secret_key",
    "_token",
)

#: Words before "tokens" that make it a count of them.
_COUNTERS = frozenset(
    {
        "available", "avg", "budget", "cached", "completion", "context", "count", "estimated", "generated",
        "history", "image", "input", "left", "limit", "llm", "max", "maximum", "min", "minimum", "num", "number",
        "output", "prompt", "reasoning", "remaining", "reserved", "step", "system", "text", "total", "used", "user",
    }
)  # fmt: skip

#: Sensitive in addresses and connection strings, where elsewhere they are ordinary words.
_QUERY_NAMES = frozenset({"key", "pass", "pwd", "sig", "signature"})

_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_BETWEEN = re.compile(r"[^0-9a-zA-Z\u0080-\U0010ffff]+")
_NUMBERED = re.compile(r"_?\d+$")


class Sensitivity(IntEnum):
    """How a name was recognised."""

    NONE = 0
    PLURAL = 1
    SUFFIX = 2
    NAMED = 3

    def masks(self, value: Any, mask: str) -> bool:
        """Whether a value under such a name is masked. Numbers, booleans and None are, under listed names only.

        ``mask`` is what stands for a value that was masked before.
        """
        if self is Sensitivity.NAMED:
            return True
        if self is Sensitivity.NONE or value is None or isinstance(value, (bool, int, float)):
            return False
        return self is Sensitivity.SUFFIX or not _only_counts(value, mask)

    def masks_text(self, value: str) -> bool:
        """The same for a value that a text spells out: digits are a number there."""
        return self > Sensitivity.PLURAL or (self is Sensitivity.PLURAL and not value.strip().isdecimal())


NONE, PLURAL, SUFFIX, NAMED = Sensitivity


class KeyRules:
    """The listed names, in every spelling, and the suffixes and plurals that always hold."""

    __slots__ = ("_compact", "_names")

    def __init__(self, names: Iterable[str]) -> None:
        self._names = frozenset(spelled(name) for name in names)
        self._compact = frozenset(name.replace("_", "") for name in self._names)

    def sensitivity(self, key: str) -> Sensitivity:
        """How the name is recognised."""
        name = spelled(key)
        if self._listed(name):
            return NAMED
        unnumbered = _NUMBERED.sub("", name)
        if unnumbered != name and self._listed(unnumbered):
            return SUFFIX
        if unnumbered.endswith(_SUFFIXES):
            return SUFFIX
        single = unnumbered.removesuffix("s")
        if single != unnumbered and (self._listed(single) or single.endswith(_SUFFIXES)) and not _counts(unnumbered):
            return PLURAL
        return NONE

    def in_address(self, key: str) -> Sensitivity:
        """The same for a parameter of an address or a connection string."""
        name = spelled(key)
        if name in _QUERY_NAMES or name.endswith("_signature"):
            return NAMED
        return self.sensitivity(key)

    def _listed(self, name: str) -> bool:
        return name in self._names or name.replace("_", "") in self._compact


def spelled(key: str) -> str:
    """The name as lower case words joined by underscores."""
    return _BETWEEN.sub("_", _HUMP.sub("_", key)).strip("_").lower()


def _counts(name: str) -> bool:
    """True for ``max_tokens`` and the like, whose values are readable whatever they are."""
    *before, last = name.split("_")
    return last == "tokens" and bool(before) and before[-1] in _COUNTERS


def _only_counts(value: Any, mask: str) -> bool:
    """True for a flat collection of numbers: ``{"input": 5, "output": 7}``, and still when it was redacted before."""
    if isinstance(value, dict):
        value = list(value.values())
    if not isinstance(value, (list, tuple)):
        return False
    return all(item is None or isinstance(item, (int, float)) or item == mask for item in value)
