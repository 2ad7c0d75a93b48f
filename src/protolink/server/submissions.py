"""What was submitted under which key, and how it ended: nothing runs twice because somebody asks twice.

A key is one caller's own. Two callers with the same key have two pieces of work, and learn nothing of each other.
"""

from __future__ import annotations

import asyncio
from dataclasses import field
from typing import Any, TypeAlias

from ..drive.ports import Clock
from ..models.value import dataclass
from ..transport.config import TransportConfig
from ..transport.faults import Fault

#: A caller, None for all that cannot be told apart, and the key that it chose.
Key: TypeAlias = tuple[str | None, str]


@dataclass(slots=True)
class Submission:
    """One piece of work. Once ``done`` is set, ``outcome`` is its JSON answer or a Fault, and ``at`` that time."""

    digest: str
    done: asyncio.Event = field(default_factory=asyncio.Event)
    outcome: Any = None
    at: float = 0.0

    async def answer(self) -> Any:
        """Wait for the answer. Raises the Fault."""
        await self.done.wait()
        if isinstance(self.outcome, Fault):
            raise self.outcome
        return self.outcome


class Submissions:
    """By key. Answers are kept for ``idempotency_ttl`` seconds and the latest ``idempotency_cache_size`` of them."""

    def __init__(self, config: TransportConfig, clock: Clock) -> None:
        self._config = config
        self._clock = clock
        self._running: dict[Key, Submission] = {}
        self._ended: dict[Key, Submission] = {}  # the first that ended stands first

    def find(self, key: Key | None, digest: str) -> Submission | None:
        """The earlier submission of the same body under this key. Fault ``idempotency_conflict`` for another body."""
        if key is None:
            return None
        self._forget_old()
        found = self._running.get(key) or self._ended.get(key)
        if found is not None and found.digest != digest:
            raise Fault(
                "idempotency_conflict",
                "Another body was sent under this idempotency key: send the first one again, or use a new key",
            )
        return found

    def begin(self, key: Key | None, digest: str) -> Submission:
        """New work; whoever asks again from now on waits for its answer."""
        found = Submission(digest)
        if key is not None:
            self._running[key] = found
        return found

    def settle(self, key: Key | None, submission: Submission, outcome: Any) -> None:
        """The work has ended, or may have had effects before it was cut off. Later outcomes are left out."""
        if submission.done.is_set():
            return
        submission.outcome = outcome
        submission.at = self._clock.now()
        submission.done.set()
        if key is not None:
            self._running.pop(key, None)
            self._ended.pop(key, None)
            self._ended[key] = submission

    def drop(self, key: Key | None, submission: Submission, fault: Fault) -> None:
        """Nothing was done, so the key may be used again."""
        self.settle(None, submission, fault)
        if key is not None:
            self._running.pop(key, None)

    def _forget_old(self) -> None:
        oldest = self._clock.now() - self._config.idempotency_ttl
        while self._ended:
            key, first = next(iter(self._ended.items()))
            if len(self._ended) <= self._config.idempotency_cache_size and first.at > oldest:
                return
            del self._ended[key]
