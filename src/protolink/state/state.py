"""State: what an agent remembers from one run to the next."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ..models.value import dataclass
from .limits import ConversationLimits

CONVERSATION = "conversation"

#: What other names would stand for is kept elsewhere.
_ELSEWHERE = {
    "task": "tasks are recorded by run_store=",
    "tools": "what tools keep is the application's, in a Storage of its own",
    "flow": "a flow's state is in its task",
}


@dataclass(frozen=True, slots=True)
class State:
    """What is remembered. ``conversation``: the limits of conversations, None to remember none."""

    conversation: ConversationLimits | None = None

    @property
    def modules(self) -> tuple[str, ...]:
        """The names of what is remembered."""
        return () if self.conversation is None else (CONVERSATION,)

    def to_dict(self) -> dict[str, Any]:
        """Settings by module name."""
        return {} if self.conversation is None else {CONVERSATION: self.conversation.to_dict()}

    @classmethod
    def of(cls, wanted: State | Iterable[str] | Mapping[str, Any] | None) -> State:
        """A state, the names of modules, or ``to_dict()``. ValueError for an unknown module, TypeError for the rest."""
        if isinstance(wanted, State):
            return wanted
        if isinstance(wanted, str) or not isinstance(wanted, (Iterable, type(None))):
            raise TypeError(f"state is a State or a list such as ['{CONVERSATION}'], not {type(wanted).__name__}")
        names = list(wanted or ())
        for name in names:
            _check(name)
        if not names:
            return cls()
        settings = wanted[CONVERSATION] if isinstance(wanted, Mapping) else {}
        return cls(ConversationLimits.from_dict(settings or {}))


def _check(name: Any) -> None:
    if name == CONVERSATION:
        return
    why = f"; {_ELSEWHERE[name]}" if name in _ELSEWHERE else ""
    raise ValueError(f"There is no state module {name!r}{why}. Modules: {CONVERSATION}")
