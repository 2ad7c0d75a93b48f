"""A question to a person, and what came back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from protolink.models.ids import new_id
from protolink.models.shape import mapping, optional_text, required_text, texts

from ..models.value import dataclass
from .fields import text_or

UserInputStatus = Literal["answered", "declined", "timed_out"]


@dataclass(frozen=True, slots=True)
class UserInputRequest:
    """One question of a running action. ``options`` are suggestions; an empty tuple means free text."""

    request_id: str
    question: str
    options: tuple[str, ...]
    run_id: str
    task_id: str | None
    action_id: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "options", tuple(self.options))

    def to_dict(self) -> dict[str, Any]:
        """All fields, ``options`` as a list."""
        return {
            "request_id": self.request_id,
            "question": self.question,
            "options": list(self.options),
            "run_id": self.run_id,
            "task_id": self.task_id,
            "action_id": self.action_id,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> UserInputRequest:
        """Read ``to_dict()`` back; other members are ignored. A missing request id is generated."""
        source = mapping(data, "UserInputRequest")
        return cls(
            request_id=text_or(source, "request_id", "UserInputRequest", lambda: new_id("input")),
            question=required_text(source, "question", "UserInputRequest"),
            options=tuple(texts(source, "options", "UserInputRequest")),
            run_id=required_text(source, "run_id", "UserInputRequest"),
            task_id=optional_text(source, "task_id", "UserInputRequest"),
            action_id=required_text(source, "action_id", "UserInputRequest"),
        )


@dataclass(frozen=True, slots=True)
class UserInputResult:
    """The outcome of a question. ``answer`` is text exactly when the status is "answered"; ValueError otherwise."""

    request_id: str
    status: UserInputStatus
    answer: str | None = None

    def __post_init__(self) -> None:
        if self.status not in ("answered", "declined", "timed_out"):
            raise ValueError("UserInputResult status must be answered, declined or timed_out")
        if isinstance(self.answer, str) != (self.status == "answered"):
            raise ValueError("UserInputResult has an answer exactly when its status is answered")

    def to_dict(self) -> dict[str, Any]:
        """All fields."""
        return {"request_id": self.request_id, "status": self.status, "answer": self.answer}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> UserInputResult:
        """Read ``to_dict()`` back."""
        source = mapping(data, "UserInputResult")
        status: Any = required_text(source, "status", "UserInputResult")
        return cls(
            request_id=required_text(source, "request_id", "UserInputResult"),
            status=status,
            answer=optional_text(source, "answer", "UserInputResult"),
        )
