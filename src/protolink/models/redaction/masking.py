"""What one policy masks with. Loaded with the first redaction: its patterns take long to compile."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from .keys import KeyRules
from .shapes import Shapes
from .texts import PolicyTexts, pattern_of
from .walk import Keys, Walk


class Masking:
    """``names``: of sensitive fields. ``values``: known secrets. ``limit``: where other texts are cut, None nowhere."""

    __slots__ = ("_keys", "_replacement", "_rules", "_texts")

    def __init__(self, names: Iterable[str], values: Iterable[str], replacement: str, limit: int | None) -> None:
        self._replacement = replacement
        self._rules = KeyRules(names)
        shapes = Shapes(self._rules, replacement, self._inside)
        self._texts = PolicyTexts(shapes, pattern_of(values), replacement, limit)
        self._keys = Keys(self._rules, self._texts.inside(0).masked)

    def is_sensitive(self, key: str) -> bool:
        return bool(self._rules.sensitivity(key))

    def masked(self, value: Any) -> Any:
        return Walk(self._keys, self._texts, self._replacement)(value)

    def _inside(self, value: Any, nesting: int) -> Any:
        return Walk(self._keys, self._texts.inside(nesting), self._replacement)(value)
