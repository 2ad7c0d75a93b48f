"""JSON inside texts: a document, one on each line, or documents among other words, as behind a label or in a fence.

What only resembles JSON is searched for quoted pairs.
"""

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
#: Where a document may begin among other words, or a document as JSON text.
_OPENING = re.compile(r"""[{\[]\s*["'{\[]|"[{\[](?:\s|\\n)*[\\]["]""")
_MAX_DIGITS = 4000
#: How often a text is read in vain from somewhere within, and what counts as several times: reading a string up to the
#: end of the text. The limit keeps the work linear.
_MAX_TRIES = 100
_STRING_TRIES = 10
_BEGINNINGS = ("{", "[", '"', "'", "(")


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
        searched = self.among(text, nesting)
        return None if searched == text else searched

    def among(self, text: str, nesting: int) -> str:
        """The text with the documents masked that stand among other words in it, or what resembles them."""
        pieces: list[str] = []
        done = at = tries = 0
        while tries < _MAX_TRIES and (opening := _OPENING.search(text, at)):
            start = opening.start()
            try:
                document, end = self._beginning(text, start, nesting)
            except json.JSONDecodeError as error:
                at, tries = start + 1, tries + (_STRING_TRIES if error.msg.startswith("Unterminated") else 1)
                continue
            pieces += text[done:start], document
            done = at = end
        pieces.append(text[done:])
        if tries or text.lstrip().startswith(_BEGINNINGS):
            pieces[::2] = [_QUOTED_PAIR.sub(self._pair, piece) for piece in pieces[::2]]
        return "".join(pieces)

    def _lines(self, lines: list[str], nesting: int) -> str | None:
        try:
            return "\n".join(self._document(line, nesting) if line.strip() else line for line in lines)
        except ValueError:
            return None

    def _document(self, text: str, nesting: int) -> str:
        """ValueError for what is no JSON. What is too deep to be read is not shown."""
        bare = text.strip()
        document, end = self._beginning(bare, 0, nesting)
        if end < len(bare):
            raise ValueError("there is more than a document")
        return text if document == bare else document

    def _beginning(self, text: str, start: int, nesting: int) -> tuple[str, int]:
        """The document that begins at ``start``, masked, and where it ends."""
        repeats = _Repeats()
        try:
            value, end = json.JSONDecoder(object_pairs_hook=repeats, parse_int=_whole).raw_decode(text, start)
            masked = self._inside(value, nesting + 1)
        except RecursionError:
            return self._replacement, len(text)
        return text[start:end] if masked == value and not repeats.found else _written(masked), end

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
