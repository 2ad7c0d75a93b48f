"""Addresses: their userinfo, and the parameters of their queries and fragments."""

from __future__ import annotations

import re
from urllib.parse import unquote_plus

from .keys import KeyRules

_ADDRESS = re.compile(r"(?P<scheme>[A-Za-z][A-Za-z0-9+.\-]*://)(?P<rest>\S+)")
_AUTHORITY_END = re.compile(r"[/?#]")
_HOST_AND_PORT = re.compile(r"(?:\[[^\]]*\]|[^:\[]*)(?::\d*)?(?:,[^:,]*(?::\d*)?)*")
#: A semicolon ends a value only where another parameter follows it.
_PARAMETER = re.compile(r"(?P<before>^|[?&;#])(?P<name>[^?&;#=\s]+)=(?P<value>(?:[^&#;\s]|;(?![^=;&#\s]+=))*)")


class Addresses:
    """Masks the whole userinfo, for a user's name may be the token, and sensitive parameters."""

    __slots__ = ("_replacement", "_rules")

    def __init__(self, rules: KeyRules, replacement: str) -> None:
        self._rules = rules
        self._replacement = replacement

    def masked(self, text: str) -> str:
        """The text with all addresses in it masked."""
        return _ADDRESS.sub(lambda match: match["scheme"] + self.parameters(self._hosted(match["rest"])), text)

    def parameters(self, text: str) -> str:
        """``text``, a query or an address, with its sensitive parameters masked."""
        return _PARAMETER.sub(self._parameter, text)

    def _hosted(self, rest: str) -> str:
        """Without userinfo, which reaches to the last ``@``: an unescaped password may hold any character."""
        last = rest.rfind("@")
        if last < 0:
            return rest
        end = _AUTHORITY_END.search(rest)
        authority = rest[: end.start()] if end else rest
        if "@" not in authority and _HOST_AND_PORT.fullmatch(authority):
            return rest
        return self._replacement + rest[last:]

    def _parameter(self, match: re.Match[str]) -> str:
        sensitivity = self._rules.in_address(unquote_plus(match["name"]))
        if match["value"] and sensitivity.masks_text(match["value"]):
            return f"{match['before']}{match['name']}={self._replacement}"
        return match[0]
