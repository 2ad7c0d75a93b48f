"""How much of its conversations an agent keeps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from ..models.value import dataclass
from .members import members


@dataclass(frozen=True, slots=True)
class ConversationLimits:
    """Bounds of what is stored; the oldest goes first. None is no bound.

    ``max_messages`` and ``max_tokens`` (estimated) are for one session of one agent, and its newest turn is kept even
    when it is larger. ``max_sessions`` counts the sessions of a whole storage: the ones that were silent longest are
    forgotten. ValueError for anything but whole numbers above 0.
    """

    max_messages: int | None = 200
    max_tokens: int | None = 32_000
    max_sessions: int | None = 1_000

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if value is not None and (type(value) is not int or value < 1):
                raise ValueError(f"{name} must be a whole number above 0, or None")

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> ConversationLimits:
        """Read ``to_dict()`` back. ValueError names what is unknown or malformed."""
        return cls(**members(data, cls, "Conversation limits"))
