"""Texts that consist of assignments: environment lines, command-line flags, settings and connection strings."""

from __future__ import annotations

import re
from collections.abc import Callable

from .keys import KeyRules

_ASSIGNMENT = re.compile(
    r"(?P<head>\s*(?:#\s*)?(?:export\s+|set\s+)?-{0,2}(?P<name>[A-Za-z_][\w.\-\[\]]*)[ \t]*=(?!=)[ \t]*)(?P<value>.*)",
    flags=re.DOTALL,
)
#: The same with blanks in the name.
_LABELLED = re.compile(
    r"(?P<head>\s*(?P<name>[A-Za-z]\w*(?:[ \t]+\w+){1,2})[ \t]*=(?!=)[ \t]*)(?P<value>.*)", flags=re.DOTALL
)
_IGNORED = re.compile(r"\s*(?:[#;].*|\[[^\]]*\]\s*)?")
#: ``name = value`` with blanks or commas between the pairs; values in quotes may hold both.
_SPACED = re.compile(
    r"[\s,]*(?P<name>[A-Za-z_][\w.\-]*)\s*=\s*"
    r"(?P<value>'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|[^\s'\",][^\s,]*|)(?=[\s,]|\Z)"
)
#: The same with semicolons; names and values may hold blanks.
_SEMICOLONS = re.compile(
    r"\s*(?P<name>[A-Za-z_][^=;]{0,63}?)\s*=\s*"
    r"(?P<value>'[^']*'(?=\s*(?:;|\Z))|\"[^\"]*\"(?=\s*(?:;|\Z))|[^;]*)(?:;\s*|\Z)"
)


class Assignments:
    """Masks the values of sensitive names."""

    __slots__ = ("_replacement", "_rules")

    def __init__(self, rules: KeyRules, replacement: str) -> None:
        self._rules = rules
        self._replacement = replacement

    def whole(self, text: str) -> str | None:
        """One assignment to a sensitive name, whatever follows it belonging to its value; None for anything else."""
        match = _ASSIGNMENT.fullmatch(text) or _LABELLED.fullmatch(text)
        if match is None or not self._rules.labelled(match["name"]).masks_text(match["value"]):
            return None
        return match["head"] + self._replacement if match["value"] else text

    def masked(self, text: str, value_masked: Callable[[str], str]) -> str | None:
        """The masked text, or None unless each line is an assignment, a comment, empty or goes on with a masked value.

        ``value_masked`` masks a value whose name is harmless: it may be an address or JSON.
        """
        lines: list[str] = []
        hidden = False
        for line in text.split("\n"):
            found = self.whole(line)
            if found is not None:
                hidden = True
            else:
                found = self._harmless(line, value_masked)
                if found is None:
                    if not hidden:
                        return None
                    continue
                hidden = hidden and not line.strip()
            lines.append(found)
        return "\n".join(lines)

    def _harmless(self, line: str, value_masked: Callable[[str], str]) -> str | None:
        """A line that does not begin with a sensitive assignment; None when it is no assignment at all."""
        found = self._several(line)
        if found is not None:
            return found
        match = _ASSIGNMENT.fullmatch(line)
        if match is not None:
            return match["head"] + value_masked(match["value"])
        return line if _IGNORED.fullmatch(line) else None

    def _several(self, line: str) -> str | None:
        """Two or more assignments on one line; None when it is something else."""
        found = self._split(line, _SEMICOLONS) if ";" in line else None
        return self._split(line, _SPACED) if found is None else found

    def _split(self, line: str, pattern: re.Pattern[str]) -> str | None:
        pieces: list[str] = []
        position = count = 0
        while position < len(line) and (match := pattern.match(line, position)):
            pieces.append(self._piece(line, match))
            position, count = match.end(), count + 1
        if count < 2 or line[position:].strip(" ,;\r"):
            return None
        return "".join([*pieces, line[position:]])

    def _piece(self, line: str, match: re.Match[str]) -> str:
        if not match["value"] or not self._rules.in_address(match["name"]).masks_text(match["value"]):
            return match[0]
        return line[match.start() : match.start("value")] + self._replacement + line[match.end("value") : match.end()]
