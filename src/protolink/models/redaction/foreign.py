"""Texts of other people's errors, as they may be stored and shown."""

from __future__ import annotations

from .policy import DEFAULT_REDACTION_POLICY
from .provider_keys import without_keys


def foreign_text(text: str) -> str:
    """The text without recognisable secrets."""
    return str(DEFAULT_REDACTION_POLICY.redact(without_keys(text)))
