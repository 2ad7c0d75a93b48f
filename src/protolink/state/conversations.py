"""Conversations: what one agent keeps of its sessions, in a storage that others may use too.

Each session is a part of the storage, a list of messages, so a turn costs the same whatever the number of sessions.
Messages carry the agent and the turn that they come from: agents that share a storage do not hear one another, and a
turn that is stored a second time changes nothing. Every change of a session is atomic: two runs at once lose no turn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Protocol

from ..errors import StoreCorruptError
from . import turns
from .limits import ConversationLimits
from .turns import Message


class Part(Protocol):
    """One session's value. What ``change`` makes of it is stored; None forgets it."""

    def load(self) -> Any: ...

    def change(self, change: Callable[[Any], Any]) -> Any: ...

    def delete(self) -> None: ...


class Keeper(Protocol):
    """What is needed of a storage; ``parts`` ends with the one that was written last."""

    def part(self, name: str) -> Part: ...

    def parts(self) -> list[str]: ...


class Conversations:
    """One agent's conversations. Everything blocks, and raises what the storage raises.

    StoreCorruptError when a session holds something else; then nothing is changed.
    """

    def __init__(self, storage: Keeper, agent: str, limits: ConversationLimits) -> None:
        self._storage = storage
        self._agent = agent
        self._limits = limits

    def messages(self, session_id: str | None = None) -> dict[str, list[Message]]:
        """The stored messages of one session, or of all that have any."""
        found = {name: self._own(self._load(name)) for name in self._names(session_id)}
        return {name: own for name, own in found.items() if own}

    def add(self, session_id: str, turn: list[Message]) -> None:
        """Append a turn and keep the limits. Nothing when it is there already."""
        known = turns.turn_id(turn[0])

        def change(value: Any) -> list[Message]:
            session = _checked(session_id, value)
            own = self._own(session)
            if all(turns.turn_id(item) != known for item in own):
                own = turns.bounded([*own, *turn], self._limits)
            return self._joined(session, own)

        with _its_own(session_id):
            self._storage.part(session_id).change(change)
        self._forget_oldest()

    def replace(self, session_id: str | None, rule: Callable[[list[Message]], list[Message]]) -> tuple[int, int]:
        """Put ``rule(messages)`` in place of the messages of one session, or of each. Returns counts before and after.

        A session that is left without messages is forgotten.
        """
        before = after = 0
        for name in self._names(session_id):
            counts = self._replace_in(name, rule)
            before, after = before + counts[0], after + counts[1]
        return before, after

    def _replace_in(self, name: str, rule: Callable[[list[Message]], list[Message]]) -> tuple[int, int]:
        counts = [0, 0]

        def change(value: Any) -> list[Message] | None:
            session = _checked(name, value)
            own = self._own(session)
            kept = rule(own)
            counts[:] = len(own), len(kept)
            return self._joined(session, kept) or None

        with _its_own(name):
            self._storage.part(name).change(change)
        return counts[0], counts[1]

    def _load(self, name: str) -> list[Message]:
        with _its_own(name):
            return _checked(name, self._storage.part(name).load())

    def _names(self, session_id: str | None) -> list[str]:
        return self._parts() if session_id is None else [session_id]

    def _parts(self) -> list[str]:
        with _its_own(None):
            return self._storage.parts()

    def _own(self, session: list[Message]) -> list[Message]:
        return [item for item in session if turns.belongs(item, self._agent)]

    def _joined(self, session: list[Message], own: list[Message]) -> list[Message]:
        """What other agents have in the session stays."""
        return [*(item for item in session if not turns.belongs(item, self._agent)), *own]

    def _forget_oldest(self) -> None:
        most = self._limits.max_sessions
        if most is None:
            return
        names = self._parts()
        for name in names[: max(0, len(names) - most)]:
            self._storage.part(name).delete()


@contextmanager
def _its_own(name: str | None) -> Iterator[None]:
    """A storage raises ValueError for what is not in the form in which it writes."""
    try:
        yield
    except ValueError as error:
        raise _foreign(name) from error


def _checked(name: str, value: Any) -> list[Message]:
    if value is None:
        return []
    if not isinstance(value, list) or not all(map(_is_message, value)):
        raise _foreign(name)
    return value


def _is_message(item: Any) -> bool:
    return isinstance(item, Mapping) and isinstance(item.get("role"), str) and "content" in item


def _foreign(name: str | None) -> StoreCorruptError:
    where = "The storage does not hold" if name is None else f"Session '{name}' of the storage does not hold"
    return StoreCorruptError(
        f"{where} messages of conversations. Give the agent a storage with a namespace of its own, or delete what is "
        "in this one",
        place="storage",
    )
