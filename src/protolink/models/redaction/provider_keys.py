"""Keys of well-known providers inside the texts of errors.

Errors of SDKs like to repeat the key that was refused, in the middle of a sentence. Only such texts are searched: they
are short and rare, while searching every text of a run would cost more than everything else that redaction does.
"""

from __future__ import annotations

import re

_KEY = re.compile(
    r"\b(?:sk-[A-Za-z0-9_\-]{12,}"
    r"|gh[pousr]_[A-Za-z0-9]{20,}|github_pat_\w{20,}"
    r"|(?:AKIA|ASIA)[0-9A-Z]{16}"
    r"|xox[abeprs]-[\w\-]{10,}"
    r"|AIza[\w\-]{30,}"
    r"|hf_[A-Za-z0-9]{20,}"
    r"|eyJ[\w\-]{8,}\.[\w\-]{8,}\.[\w\-]*)"
)


def without_keys(text: str, replacement: str = "[REDACTED]") -> str:
    """The text with such keys replaced."""
    return _KEY.sub(replacement, text)
