"""Header lines: ``Name: value``, one of them or a block."""

from __future__ import annotations

import re

from .keys import NONE, KeyRules

#: The name may have blanks: ``API key: ...``.
_LINE = re.compile(
    r"(?P<name>[A-Za-z][\w.\-]*+(?: [\w.\-]++){0,2}+)(?P<colon> ?:(?!//)[ \t]*)(?P<value>[^\s].*?)?(?P<end>\r?)"
)

#: Truthy for a text that begins like a header.
is_header = _LINE.match


class Headers:
    """Masks the values of sensitive headers."""

    __slots__ = ("_replacement", "_rules")

    def __init__(self, rules: KeyRules, replacement: str) -> None:
        self._rules = rules
        self._replacement = replacement

    def masked(self, text: str) -> str:
        """The text masked, when each line is a header; the first of several may be the request or the status."""
        lines = text.split("\n")
        found: list[str] = []
        hidden = False
        for place, line in enumerate(lines):
            match = _LINE.fullmatch(line)
            if match is not None:
                sensitivity = self._rules.labelled(match["name"]) if len(match["name"]) <= 64 else NONE
                hidden = bool(match["value"]) and sensitivity.masks_text(match["value"])
                found.append(f"{match['name']}{match['colon']}{self._replacement}{match['end']}" if hidden else line)
            elif place and line[:1] in (" ", "\t"):
                if not hidden:  # else the line goes on with a value that is masked
                    found.append(line)
            elif line.strip() and (place or len(lines) == 1):
                return text
            else:
                found.append(line)
        return "\n".join(found)
