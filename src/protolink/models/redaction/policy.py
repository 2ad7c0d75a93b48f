"""RedactionPolicy: which names and values are masked, and by what."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from .keys import DEFAULT_SENSITIVE_KEYS, KeyRules
from .shapes import Shapes
from .texts import PolicyTexts, pattern_of
from .walk import Keys, Walk


@dataclass(frozen=True, slots=True)
class RedactionPolicy:
    """What to mask and how. ValueError for a negative ``max_string_length`` or a blank known value.

    ``sensitive_keys`` are names of fields; case, separators and camelCase do not matter. ``max_string_length`` cuts
    other strings to that many characters and ``...``. ``sensitive_values`` are secrets to mask inside any text.
    """

    sensitive_keys: frozenset[str] = DEFAULT_SENSITIVE_KEYS
    replacement: str = "[REDACTED]"
    max_string_length: int | None = None
    sensitive_values: frozenset[str] = field(default=frozenset(), kw_only=True, repr=False)
    _rules: KeyRules = field(init=False, repr=False, compare=False)
    _texts: PolicyTexts = field(init=False, repr=False, compare=False)
    _keys: Keys = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        limit = self.max_string_length
        if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int)):
            raise TypeError("RedactionPolicy max_string_length must be an int or None")
        if limit is not None and limit < 0:
            raise ValueError("RedactionPolicy max_string_length must not be negative")
        if not isinstance(self.replacement, str):
            raise TypeError("RedactionPolicy replacement must be text")
        keys = _text_set(self.sensitive_keys, "sensitive_keys")
        values = _text_set(self.sensitive_values, "sensitive_values")
        rules = KeyRules(keys)
        texts = PolicyTexts(Shapes(rules, self.replacement, self._inside), pattern_of(values), self.replacement, limit)
        made = {
            "sensitive_keys": keys,
            "sensitive_values": values,
            "_rules": rules,
            "_texts": texts,
            "_keys": Keys(rules, texts.inside(0).masked),
        }
        for name, value in made.items():
            object.__setattr__(self, name, value)

    def is_sensitive_key(self, key: Any) -> bool:
        """True for a name under which a text would be masked. Only text can be a name."""
        return isinstance(key, str) and bool(self._rules.sensitivity(key))

    def redact(self, value: Any) -> Any:
        """A masked copy made of JSON types; redacting it again changes nothing.

        Objects with ``to_dict()``, dataclasses, pydantic models, exceptions, sets and bytes are converted; what has no
        JSON form becomes ``<TypeName>``. A container inside itself becomes ``[CYCLE]``.
        """
        return Walk(self._keys, self._texts, self.replacement)(value)

    def __reduce__(self) -> tuple[Any, ...]:
        """Copies and pickles are made anew from what the application chose."""
        return _made, (self.sensitive_keys, self.replacement, self.max_string_length, self.sensitive_values)

    def _inside(self, value: Any, nesting: int) -> Any:
        return Walk(self._keys, self._texts.inside(nesting), self.replacement)(value)


def _made(keys: frozenset[str], replacement: str, limit: int | None, values: frozenset[str]) -> RedactionPolicy:
    return RedactionPolicy(keys, replacement, limit, sensitive_values=values)


def _text_set(values: Iterable[str], name: str) -> frozenset[str]:
    if isinstance(values, str):
        raise TypeError(f"RedactionPolicy {name} must be a set of texts, not one text")
    found = frozenset(values)
    if not all(isinstance(value, str) for value in found):
        raise TypeError(f"RedactionPolicy {name} must hold texts only")
    if not all(value.strip() for value in found):
        raise ValueError(f"RedactionPolicy {name} must not hold blank text")
    return found


DEFAULT_REDACTION_POLICY = RedactionPolicy()
