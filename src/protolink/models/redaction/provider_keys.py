"""Keys of well-known providers inside the texts of errors.

Errors of SDKs like to repeat the key that was refused, in the middle of a sentence. Only such texts are searched: they
are short and rare, while searching every text of a run would cost more than everything else that redaction does.
"""

from __future__ import annotations

import re

_KEY = re.compile(
    r"\b(?:sk-[A-Za-z0-9_\-]{12,}"
    r"|(?:sk|rk)_(?:live|test)_[A-Za-z0-9]{10,}|whsec_[A-Za-z0-9+/]{16,}"
    r"|gh[pousr]_[A-Za-z0-9]{20,}|github_pat_\w{20,}|glpat-[\w\-]{16,}"
    r"|(?:AKIA|ASIA)[0-9A-Z]{16}"
    r"|xox[abeprs]-[\w\-]{10,}|xapp-[\w\-]{10,}"
    r"|AIza[\w\-]{30,}|ya29\.[\w\-]{20,}"
    r"|(?:gsk|hf|npm|r8|shpat|dop_v1)_[A-Za-z0-9]{20,}|(?:nvapi|pplx|tvly|xai)-[A-Za-z0-9_\-]{20,}"
    r"|pypi-[\w\-]{30,}|SG\.[\w\-]{16,}\.[\w\-]{16,}"
    r"|eyJ[\w\-]{8,}\.[\w\-]{8,}\.[\w\-]*)"
)
#: Behind its scheme in a sentence; a word is no value.
_BEARER = re.compile(r"\b(?P<scheme>bearer\s+)(?=[^\s\d]*\d)[A-Za-z0-9\-._~+/]{16,}=*", re.IGNORECASE)


def without_keys(text: str, replacement: str = "[REDACTED]") -> str:
    """The text with such keys replaced."""
    return _BEARER.sub(lambda match: match["scheme"] + replacement, _KEY.sub(replacement, text))
