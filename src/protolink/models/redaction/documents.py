"""JSON inside texts: a document, or one on each line. What only resembles it is searched for quoted pairs."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from typing import Any

from .keys import KeyRules

#: In a document that was cut off, or a mapping that was printed by another language.
_QUOTED_PAIR = re.compile(
    r"""(?P<head>(["'])(?P<name>[^"'\n]{1,64})\2\s*[:=,]>?\s*b?(?P<quote>["']))(?P<value>(?:\\.|(?!(?P=quote)).)*)""",
    flags=re.DOTALL,
)
_MAX_DIGITS = 4000


class Documents:
    """Masks JSON texts. ``inside`` redacts a value, one level of JSON deeper."""

    __slots__ = ("_inside", "_replacement", "_rules")

    def __init__(self, rules: KeyRules, replacement: str, inside: Callable[[Any, int], Any]) -> None:
        self._rules = rules
        self._replacement = replacement
        self._inside = inside

    def masked(self, text: str, nesting: int) -> str | None:
        """The masked text, or None when there is nothing of JSON in it."""
        found = self._lines([text], nesting)
        if found is None and "\n" in text:
            found = self._lines(text.split("\n"), nesting)
        if found is not None:
            return found
        searched = _QUOTED_PAIR.sub(self._pair, text)
        return None if searched == text else searched

    def _lines(self, lines: list[str], nesting: int) -> str | None:
        try:
            return "\n".join(self._document(line, nesting) if line.strip() else line for line in lines)
        except ValueError:
            return None

    def _document(self, text: str, nesting: int) -> str:
        """ValueError for what is no JSON. What is too deep to be read is not shown."""
        repeats = _Repeats()
        try:
            value = json.loads(text, object_pairs_hook=repeats, parse_int=_whole)
            masked = self._inside(value, nesting + 1)
            return text if masked == value and not repeats.found else _written(masked)
        except RecursionError:
            return self._replacement

    def _pair(self, match: re.Match[str]) -> str:
        sensitive = match["value"] and self._rules.sensitivity(match["name"]).masks_text(match["value"])
        return match["head"] + self._replacement if sensitive else match[0]


class _Repeats:
    """Makes objects for json.loads and notices a name that stands twice: only the last of them would be seen."""

    def __init__(self) -> None:
        self.found = False

    def __call__(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        made = dict(pairs)
        self.found = self.found or len(made) != len(pairs)
        return made


def _whole(digits: str) -> int | str:
    return int(digits) if len(digits) < _MAX_DIGITS else digits


def _written(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    try:
        text.encode()
    except UnicodeEncodeError:  # half a surrogate pair, which only an escape can spell
        return json.dumps(value, separators=(",", ":"))
    return text
