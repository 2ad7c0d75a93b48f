"""The way through a value: by recursion as far as values usually go, then by a loop, so that depth costs no stack.

Scalars and plain texts, which are nearly everything, are copied without a call: what ``shapes.suspicious`` looks for
stands inline here, and ``benchmarks/redaction.py`` watches that. A loop alone was measured at one and a half times the
recursion. What surrounds a value decides about it here: its key, the name beside it, the flag before it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from .keys import NONE, KeyRules, Sensitivity, spelled
from .opening import bytes_text, opened
from .shapes import BEGINNINGS, PRIVATE_KEY, begun, coloned

CYCLE = "[CYCLE]"
TOO_DEEP = "[TOO DEEP]"
#: Ends objects whose to_dict() makes ever new objects; plain containers may be as deep as they like.
MAX_OBJECT_DEPTH = 10_000
_RECURSION = 50
_MAX_KEYS = 4096
_MAX_NAME = 128
_SCALARS = frozenset({int, float, bool, type(None)})
_NAMING = frozenset({"field", "header", "key", "name", "option", "parameter", "variable"})


class Texts(Protocol):
    """What a walk does with the texts that it meets. ``all``: also with those that no shape can be in."""

    @property
    def all(self) -> bool: ...
    def masked(self, text: str) -> str: ...
    def entry(self, text: str) -> str | None: ...


class Keys:
    """The keys that were met: ``harmless`` has the text of those that say nothing about what they hold."""

    __slots__ = ("_masked", "_rules", "_telling", "harmless")

    def __init__(self, rules: KeyRules, masked: Callable[[str], str]) -> None:
        self._rules = rules
        self._masked = masked
        self.harmless: dict[Any, str] = {}
        self._telling: dict[Any, tuple[str, Sensitivity]] = {}

    def __call__(self, key: Any, container: dict[Any, Any]) -> tuple[str, Sensitivity]:
        """The text of a key, and how sensitive what it holds is in this container."""
        found = self._telling.get(key) or self._met(key)
        return (found[0], max(found[1], self._beside(container))) if _is_value(found[0]) else found

    def _met(self, key: Any) -> tuple[str, Sensitivity]:
        name = _text_of(key)
        text = self._masked(name)
        sensitivity = max(map(self._of, (name, text)))  # the copy is judged as its original was
        if type(key) is str and len(key) <= _MAX_NAME:
            if len(self.harmless) + len(self._telling) >= _MAX_KEYS:
                self.harmless.clear()
                self._telling.clear()
            if sensitivity is NONE and not _is_value(text):
                self.harmless[key] = text
            else:
                self._telling[key] = text, sensitivity
        return text, sensitivity

    def naming(self, *names: Any) -> Sensitivity:
        """Of a name that is a value itself, and of its copy. One that was cut is none: it was another before."""
        texts = [_text_of(name) for name in names if isinstance(name, (str, bytes, bytearray))]
        return max((self._of(text) for text in texts if not text.endswith("...")), default=NONE)

    def _of(self, name: str) -> Sensitivity:
        return self._rules.sensitivity(name) if len(name) <= _MAX_NAME else NONE

    def _beside(self, container: dict[Any, Any]) -> Sensitivity:
        """``{"name": "Authorization", "value": "..."}``: how sensitive the name is."""
        names = [item for key, item in container.items() if spelled(_text_of(key)) in _NAMING]
        return max(
            (self.naming(name, self._masked(name) if isinstance(name, str) else "") for name in names), default=NONE
        )


class Walk:
    """One redaction of one value."""

    __slots__ = ("_active", "_keys", "_replacement", "_texts", "_work")

    def __init__(self, keys: Keys, texts: Texts, replacement: str) -> None:
        self._keys = keys
        self._texts = texts
        self._replacement = replacement
        self._active: set[int] = set()
        #: (container, its copy, what it was opened from, depth, inside a list); without a copy: its end is reached
        self._work: list[tuple[Any, Any, Any, int, bool]] = []

    def __call__(self, value: Any) -> Any:
        return self._enter(value, 0, False)

    def _drain(self) -> None:
        """Fill what was left open, and whatever that opens. Nothing recurses at this depth."""
        work, active = self._work, self._active
        while work:
            container, copy, source, depth, listed = work.pop()
            if copy is None:
                active.discard(id(source))
                continue
            active.add(id(source))  # ``work`` keeps the source, so no other object can get its id meanwhile
            work.append((None, None, source, 0, False))
            if type(container) is dict:
                self._mapping(container, copy, depth + 1)
            else:
                self._sequence(container, copy, depth + 1, listed and len(container) == 2)

    def _mapping(self, container: dict[Any, Any], copy: dict[str, Any], depth: int) -> None:
        harmless, every = self._keys.harmless, self._texts.all
        for key, item in container.items():
            name = harmless.get(key)
            if name is None:
                name, sensitivity = self._keys(key, container)
                if sensitivity.masks(item, self._replacement):
                    copy[name] = self._replacement
                    continue
            kind = type(item)
            if kind is str:
                shaped = (
                    "=" in item
                    or (":" in item and coloned(item))
                    or (item[:1] in BEGINNINGS and begun(item))
                    or PRIVATE_KEY in item
                )
                copy[name] = self._texts.masked(item) if shaped or every else item
            elif kind in _SCALARS:
                copy[name] = item
            elif kind is dict or kind is list:
                copy[name] = self._open(item, item, depth, False)
            else:
                copy[name] = self._enter(item, depth, False)

    def _sequence(self, container: list[Any], copy: list[Any], depth: int, pair: bool) -> None:
        """``pair``: the first item may name the second. Elsewhere a flag names what follows it."""
        every, follows = self._texts.all, NONE
        for item in container:
            kind = type(item)
            if follows and follows.masks(item, self._replacement):
                copy.append(self._replacement)
            elif kind is str:
                shaped = (
                    "=" in item
                    or (":" in item and coloned(item))
                    or (item[:1] in BEGINNINGS and begun(item))
                    or PRIVATE_KEY in item
                )
                copy.append(self._item(item) if shaped or every else item)
            elif kind in _SCALARS:
                copy.append(item)
            elif kind is dict or kind is list:
                copy.append(self._open(item, item, depth, True))
            else:
                copy.append(self._enter(item, depth, True))
            names = pair or (kind is str and item[:1] == "-")
            follows = self._keys.naming(item, copy[-1]) if names else NONE

    def _item(self, text: str) -> str:
        found = self._texts.entry(text)
        return self._texts.masked(text if found is None else found)

    def _enter(self, item: Any, depth: int, listed: bool) -> Any:
        """The copy of anything."""
        if id(item) in self._active:
            return CYCLE
        if depth > MAX_OBJECT_DEPTH:
            return TOO_DEEP
        container = opened(item)
        if isinstance(container, str):
            return self._item(container) if listed else self._texts.masked(container)
        if isinstance(container, dict):
            return self._open(dict(container), item, depth, listed)
        return self._open(container, item, depth, listed) if isinstance(container, list) else container

    def _open(self, container: Any, source: Any, depth: int, listed: bool) -> Any:
        """The copy of a container, which was opened from ``source`` or is it."""
        me = id(source)
        if me in self._active:
            return CYCLE
        copy: Any = {} if type(container) is dict else []
        if depth < _RECURSION:
            self._active.add(me)
            if type(container) is dict:
                self._mapping(container, copy, depth + 1)
            else:
                self._sequence(container, copy, depth + 1, listed and len(container) == 2)
            self._active.discard(me)
        elif container:
            self._work.append((container, copy, source, depth, listed))
            if depth == _RECURSION:
                self._drain()
        return copy


def _text_of(key: Any) -> str:
    return bytes_text(bytes(key)) if isinstance(key, (bytes, bytearray)) else str(key)


def _is_value(name: str) -> bool:
    return name.lower() in ("value", "values")
