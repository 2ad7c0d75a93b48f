"""What tools really did to the world outside, as the only witness that no crash can mislead."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ..models.value import dataclass
from .faulty import Disk


@dataclass(frozen=True, slots=True)
class Effect:
    """``name`` says what was done, the same in every run. ``commits``: how many were stored when it happened.

    ``intended``: the intent of a running action was stored before. ``by_hand``: done by a person while reconciling.
    """

    name: str
    key: str
    result: Any
    commits: int
    intended: bool
    by_hand: bool


class EffectLog:
    """Tools report here what they do: ``return effects.do("mail to bob", result)``.

    ``key`` is the action's idempotency key where the tool knows it: then its own intent must be stored, else that of
    any action. Name what is done so that the same effect has the same name in every run.
    """

    def __init__(self) -> None:
        self.done: list[Effect] = []
        self._disk = Disk()
        self._by_hand = False

    def do(self, name: str, result: Any = None, *, key: str | None = None) -> Any:
        """Record the effect and return ``result``."""
        intents = self._disk.open_intents
        intended = bool(intents) if key is None else key in intents
        effect = Effect(name, key or name, result, len(self._disk.commits), intended or self._by_hand, self._by_hand)
        self.done.append(effect)
        return result

    def has(self, name: str) -> bool:
        """Whether it was done, as a person finds out who looks at the outside system."""
        return any(effect.name == name for effect in self.done)

    def result_of(self, name: str) -> Any:
        """The result of an effect that was done. LookupError when it was not."""
        for effect in self.done:
            if effect.name == name:
                return effect.result
        raise LookupError(f"'{name}' was not done")

    def counts(self) -> Counter[str]:
        """How often each effect was done."""
        return Counter(effect.name for effect in self.done)

    def begin(self, disk: Disk) -> None:
        """Forget everything and watch another disk."""
        self.done = []
        self._disk = disk

    @contextmanager
    def by_hand(self) -> Iterator[None]:
        """What is done meanwhile is done by a person, without an intent."""
        self._by_hand = True
        try:
            yield
        finally:
            self._by_hand = False
