"""By which names secrets go.

Names are compared in one spelling: lower case words joined by underscores, whether they were written in camelCase, with
hyphens, dots, spaces or brackets. How a name was recognised decides what it may mask: a name that somebody listed masks
everything, a suffix spares what only counts, a plural spares collections of counts too, and a name that often means
something else masks texts only.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from enum import IntEnum
from typing import Any

#: How names end under which secrets go, whatever is listed.
_SUFFIXES = tuple(
    f"_{ending}"
    for ending in (
        "access_key", "account_key", "api_key", "auth_code", "auth_key", "authorization", "authorization_header",
        "client_assertion", "code_verifier", "conn_str", "connection_string", "cookie", "credential", "credentials",
        "decryption_key", "dsn", "encryption_key", "hmac_key", "jwt", "master_key", "mfa_code", "otp", "otp_code",
        "passcode", "passphrase", "passwd", "password", "private_key", "pwd", "recovery_code", "secret", "secret_key",
        "session_key", "signing_key", "ssh_key", "subscription_key", "token", "totp",
    )
)  # fmt: skip

#: The same in one word, such as ``pgpassword``. "token" and "pass" alone end ordinary words too.
_JOINED = re.compile(
    r".*(?:.(?:password|passwd|passphrase|passcode|pwd|secret|credential)"
    r"|.(?:access|api|encryption|private|secret|signing)key|.connectionstring"
    r"|(?:access|api|auth|bearer|refresh|security|session)token"
    r"|(?:admin|database|db|email|ftp|imap|ldap|mail|mysql|pg|postgres|proxy|redis|root|smtp|ssh|user)pass)"
)

#: Words behind the name of a secret that is still there: ``password_hash``, ``SecretString``.
_HELD = re.compile(r"_(?:b64|base64|confirm|confirmation|encrypted|hash|pem|plaintext|string|value)(?:_?\d+)?$")

#: In the environment of a shell these are directories.
_DIRECTORIES = frozenset({"PWD", "OLDPWD"})

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
    TEXT = 1
    PLURAL = 2
    SUFFIX = 3
    NAMED = 4

    def masks(self, value: Any, mask: str) -> bool:
        """Whether a value under such a name is masked. Numbers, booleans and None are, under listed names only.

        ``mask`` is what stands for a value that was masked before.
        """
        if self is Sensitivity.NAMED:
            return True
        if self is Sensitivity.NONE or value is None or isinstance(value, (bool, int, float)):
            return False
        if self is Sensitivity.TEXT:
            return not isinstance(value, (dict, list)) and not _is_path(value, mask)
        return self is Sensitivity.SUFFIX or not _only_counts(value, mask)

    def masks_text(self, value: str) -> bool:
        """The same for a value that a text spells out: digits are a number there."""
        if self is Sensitivity.TEXT:
            return not value.startswith("/")
        return self > Sensitivity.PLURAL or (self is Sensitivity.PLURAL and not value.strip().isdecimal())


NONE, TEXT, PLURAL, SUFFIX, NAMED = Sensitivity


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
            return TEXT if key in _DIRECTORIES else NAMED
        unnumbered = _NUMBERED.sub("", name)
        if any(map(self._is_secret, {unnumbered, _HELD.sub("", name)})):
            return TEXT if key in _DIRECTORIES else SUFFIX
        single = unnumbered.removesuffix("s")
        if single != unnumbered and self._is_secret(single) and not _counts(unnumbered):
            return PLURAL
        return TEXT if unnumbered == "bearer" or unnumbered.endswith("_bearer") else NONE

    def labelled(self, label: str) -> Sensitivity:
        """The same for what stands before a colon or an equals sign. Several words are prose unless listed."""
        found = self.sensitivity(label)
        return found if found is NAMED or len(label.split()) == 1 else NONE

    def in_address(self, key: str) -> Sensitivity:
        """The same for a parameter of an address or a connection string."""
        name = spelled(key)
        if name in _QUERY_NAMES or name.endswith("_signature"):
            return NAMED
        return self.sensitivity(key)

    def _is_secret(self, name: str) -> bool:
        return self._listed(name) or name.endswith(_SUFFIXES) or bool(_JOINED.fullmatch(name.replace("_", "")))

    def _listed(self, name: str) -> bool:
        return name in self._names or name.replace("_", "") in self._compact


def spelled(key: str) -> str:
    """The name as lower case words joined by underscores."""
    return _BETWEEN.sub("_", _HUMP.sub("_", key)).strip("_").lower()


def _counts(name: str) -> bool:
    """True for ``max_tokens`` and the like, whose values are readable whatever they are."""
    *before, last = name.split("_")
    return last == "tokens" and bool(before) and before[-1] in _COUNTERS


def _is_path(value: Any, mask: str) -> bool:
    """True for an absolute path, and still when it was redacted before: cut, or its beginning masked."""
    text = value.decode(errors="replace") if isinstance(value, bytes) else value
    return isinstance(text, str) and bool(mask) and text.startswith(("/", "...", mask))


def _only_counts(value: Any, mask: str) -> bool:
    """True for a flat collection of numbers: ``{"input": 5, "output": 7}``, and still when it was redacted before."""
    if isinstance(value, dict):
        value = list(value.values())
    if not isinstance(value, (list, tuple)):
        return False
    return all(item is None or isinstance(item, (int, float)) or item == mask for item in value)
