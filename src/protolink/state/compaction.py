"""Making a history shorter on request."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from ..models.shape import mapping
from ..models.value import dataclass
from .members import check_count, check_session, members


@dataclass(frozen=True, slots=True)
class HistoryCompactionRequest:
    """Keep the newest ``keep`` messages: of one session's conversation, or, without a session, of the model's own chat.

    A conversation is cut between turns, so fewer may stay. ValueError for a blank session or a number below 0.
    """

    keep: int = 20
    session_id: str | None = None

    def __post_init__(self) -> None:
        check_count("keep", self.keep)
        check_session(self.session_id)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> HistoryCompactionRequest:
        return cls(**members(data, cls, "History compaction"))


@dataclass(frozen=True, slots=True)
class HistoryCompactionResult:
    """How many messages there were and are, the system prompt not counted."""

    session_id: str | None
    messages_before: int
    messages_after: int

    @property
    def removed(self) -> int:
        return self.messages_before - self.messages_after

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "removed": self.removed}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> HistoryCompactionResult:
        found = {key: value for key, value in mapping(data, "History compaction").items() if key != "removed"}
        return cls(**members(found, cls, "History compaction"))
