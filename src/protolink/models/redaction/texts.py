"""What a policy does with a text: the shapes, the secrets that the application knows, the cut."""

from __future__ import annotations

import re
from collections.abc import Iterable

from .shapes import Shapes, suspicious

_MAX_PASSES = 8


class PolicyTexts:
    """Masks texts until nothing changes: a mask beside other text, or a cut, may make a new shape.

    ``limit`` None cuts nothing. ``nesting``: how many JSON texts the text is inside of.
    """

    __slots__ = ("_known", "_limit", "_nesting", "_replacement", "_shapes", "all")

    def __init__(
        self, shapes: Shapes, known: re.Pattern[str] | None, replacement: str, limit: int | None, nesting: int = 0
    ) -> None:
        self._shapes = shapes
        self._known = known
        self._replacement = replacement
        self._limit = limit
        self._nesting = nesting
        self.all = known is not None or limit is not None

    def masked(self, text: str) -> str:
        """The masked text. Where masking does not come to an end, nothing of it is left."""
        for _ in range(_MAX_PASSES):
            done = self._once(text)
            if done == text:
                return text
            text = done
        return self._replacement

    def entry(self, text: str) -> str | None:
        """An item of a list that is one assignment to a sensitive name, masked; else None."""
        return self._shapes.entry(text)

    def inside(self, nesting: int) -> PolicyTexts:
        """The same for the texts inside a JSON text, which are never cut."""
        return PolicyTexts(self._shapes, self._known, self._replacement, None, nesting)

    def _once(self, text: str) -> str:
        if suspicious(text):
            text = self._shapes.masked(text, self._nesting)
        if self._known is not None:
            pieces = text.split(self._replacement) if self._replacement else [text]
            text = self._replacement.join(self._known.sub(lambda _: self._replacement, piece) for piece in pieces)
        limit = self._limit
        whole = limit is None or len(text) <= limit or text == self._replacement
        return text if whole else f"{text[:limit]}..."


def pattern_of(values: Iterable[str]) -> re.Pattern[str] | None:
    """What finds any of the values, the longest first; None without values."""
    longest_first = sorted(values, key=lambda value: (-len(value), value))
    return re.compile("|".join(map(re.escape, longest_first))) if longest_first else None
