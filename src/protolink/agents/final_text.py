"""The text of a final answer while the JSON action that holds it is still being written.

A model without native tool calls writes ``{"type": "final", "content": "..."}`` piece by piece. Each character is
looked at once. Nothing but the content of a final action comes out: no envelope, no thought, no arguments of tools.
"""

from __future__ import annotations

import json
import re

_PLAIN = re.compile(r'[^"\\]+')
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f"}
_UNICODE = 4


class FinalText:
    """Reads one reply. ``feed`` returns what a piece adds to the answer.

    Content that comes before the type is held back until the type is known. Content that is no text gives nothing.
    """

    def __init__(self) -> None:
        self._depth = 0
        self._in_text = False
        self._escape: str | None = None
        self._high: str = ""
        self._at_value = False
        self._key = ""
        self._text: list[str] = []
        self._type: str | None = None
        self._held: list[str] = []
        self._out: list[str] = []
        self._over = False

    def feed(self, piece: str) -> str:
        self._out = []
        at = 0
        while at < len(piece) and not self._over:
            at = self._in_string(piece, at) if self._in_text else self._outside(piece, at)
        return "".join(self._out)

    def _outside(self, piece: str, at: int) -> int:
        mark = piece[at]
        if self._depth == 0:
            start = piece.find("{", at)
            self._depth = 1 if start >= 0 else 0
            return start + 1 if start >= 0 else len(piece)
        match mark:
            case '"':
                self._in_text, self._text = True, []
            case "{" | "[":
                self._depth += 1
            case "}" | "]":
                self._depth -= 1
                self._over = self._depth == 0
            case ":" if self._depth == 1:
                self._at_value = True
            case "," if self._depth == 1:
                self._at_value = False
            case _:
                pass
        return at + 1

    def _in_string(self, piece: str, at: int) -> int:
        if self._escape is not None:
            self._escaped(piece[at])
            return at + 1
        found = _PLAIN.match(piece, at)
        if found is not None:
            self._take(found[0])
            return found.end()
        if piece[at] == "\\":
            self._escape = ""
        else:
            self._closed()
        return at + 1

    def _escaped(self, mark: str) -> None:
        assert self._escape is not None
        if self._escape == "" and mark != "u":
            self._escape = None
            self._take(_ESCAPES.get(mark, mark))
            return
        self._escape += mark
        if len(self._escape) <= _UNICODE:
            return
        code, self._escape = self._escape, None
        try:
            self._unicode(json.loads(f'"\\{code}"'))
        except ValueError:  # no such character: the reply is no action, and its reader will say so
            self._over = True

    def _unicode(self, mark: str) -> None:
        """One half of a pair waits for the other."""
        if "\ud800" <= mark <= "\udbff":
            self._high = mark
            return
        both = (self._high + mark).encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        self._high = ""
        self._take(both)

    def _take(self, text: str) -> None:
        if self._depth != 1:
            return
        if not (self._at_value and self._key == "content"):
            self._text.append(text)
        elif self._type == "final":
            self._out.append(text)
        elif self._type is None:
            self._held.append(text)

    def _closed(self) -> None:
        self._in_text = False
        if self._depth != 1:
            return
        if not self._at_value:
            self._key = "".join(self._text)
        elif self._key == "type":
            self._type = "".join(self._text)
            if self._type == "final":
                self._out.extend(self._held)
            self._held = []
