"""Message: what one participant says, as a list of parts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from .ids import new_id, utc_now
from .part import Part
from .shape import items, mapping, optional_text
from .value import dataclass


def _message_id() -> str:
    return new_id("msg")


@dataclass(slots=True)
class Message:
    """``role`` is one of agent, assistant, system, user, or an application's own; it is not checked."""

    id: str = field(default_factory=_message_id)
    role: str = "user"
    parts: list[Part] = field(default_factory=list)
    timestamp: str = field(default_factory=utc_now)

    @classmethod
    def user(cls, text: str) -> Message:
        """One text part from the user."""
        return cls(role="user", parts=[Part.text(text)])

    @classmethod
    def agent(cls, text: str) -> Message:
        """One text part from an agent."""
        return cls(role="agent", parts=[Part.text(text)])

    @classmethod
    def assistant(cls, text: str) -> Message:
        """One text part from a model."""
        return cls(role="assistant", parts=[Part.text(text)])

    @classmethod
    def infer(
        cls,
        *,
        prompt: str | None = None,
        user: str | None = None,
        output_schema: Mapping[str, Any] | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> Message:
        """A user's request to a model; the arguments are those of ``Part.infer``."""
        part = Part.infer(prompt=prompt, user=user, output_schema=output_schema, metadata=metadata)
        return cls(role="user", parts=[part])

    @classmethod
    def tool_call(cls, *, tool_name: str, args: Mapping[str, Any] | None = None, call_id: str | None = None) -> Message:
        """A user's request to a tool."""
        return cls(role="user", parts=[Part.tool_call(tool_name=tool_name, args=args, call_id=call_id)])

    @classmethod
    def route(
        cls,
        route_key: str,
        *,
        reason: str | None = None,
        confidence: float | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> Message:
        """An agent's choice of route."""
        part = Part.route(route_key, reason=reason, confidence=confidence, metadata=metadata)
        return cls(role="agent", parts=[part])

    def add_part(self, part: Part) -> Message:
        """Append this very part."""
        self.parts.append(part)
        return self

    def add_text(self, text: str) -> Message:
        """Append a text part."""
        return self.add_part(Part.text(text))

    def to_dict(self) -> dict[str, Any]:
        """``{"id", "role", "parts", "timestamp"}``."""
        return {
            "id": self.id,
            "role": self.role,
            "parts": [part.to_dict() for part in self.parts],
            "timestamp": self.timestamp,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Message:
        """Read ``to_dict()`` back; missing members get their defaults. ValueError names what is malformed."""
        found = mapping(data, "Message")
        return cls(
            id=optional_text(found, "id", "Message") or _message_id(),
            role=optional_text(found, "role", "Message") or "user",
            parts=[Part.from_dict(part) for part in items(found, "parts", "Message")],
            timestamp=optional_text(found, "timestamp", "Message") or utc_now(),
        )
