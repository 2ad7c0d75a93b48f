"""Masking recognisable secrets in data that is shown, exported or stored for diagnosis.

``keys`` knows by which names secrets go, ``opening`` what is inside a value, ``shapes`` the texts that carry secrets of
their own, ``walk`` the way through a value. ``masking`` puts them together by what an application chose in ``policy``.
docs/redaction.md lists it all.

Redaction makes a copy; what is executed or stored for recovery is never redacted.
"""

from __future__ import annotations

from .policy import DEFAULT_REDACTION_POLICY, DEFAULT_SENSITIVE_KEYS, RedactionPolicy

__all__ = ["DEFAULT_REDACTION_POLICY", "DEFAULT_SENSITIVE_KEYS", "RedactionPolicy"]
