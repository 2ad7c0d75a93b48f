"""Artifact: a result, a receipt, or a preview of something that has not happened yet."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from .ids import new_id, utc_now
from .json import plain
from .part import Part
from .shape import items, mapping, optional_text, table
from .value import dataclass, moment


def _artifact_id() -> str:
    return new_id("art")


@dataclass(slots=True)
class Artifact:
    """Parts with descriptors. ``kind`` is open; the runtime writes result, preview, action_result, action_rejection.

    ``uri`` and ``media_type`` describe a represented resource; ``action_id`` names the action it belongs to.
    """

    id: str = field(default_factory=_artifact_id)
    parts: list[Part] = field(default_factory=list)
    metadata: dict[str, Any] = field(default_factory=dict)
    timestamp: str = moment()
    kind: str = "result"
    name: str | None = None
    uri: str | None = None
    media_type: str | None = None
    action_id: str | None = None

    def add_part(self, part: Part) -> Artifact:
        """Append this very part."""
        self.parts.append(part)
        return self

    def add_text(self, text: str) -> Artifact:
        """Append a text part."""
        return self.add_part(Part.text(text))

    def for_action(self, action_id: str) -> Artifact:
        """Make it belong to another action, in place."""
        self.action_id = action_id
        return self

    def to_dict(self) -> dict[str, Any]:
        """Every field, parts included, as detached JSON."""
        return {
            "id": self.id,
            "parts": [part.to_dict() for part in self.parts],
            "metadata": plain(self.metadata),
            "timestamp": self.timestamp,
            "kind": self.kind,
            "name": self.name,
            "uri": self.uri,
            "media_type": self.media_type,
            "action_id": self.action_id,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Artifact:
        """Read ``to_dict()`` back; missing members get their defaults. ValueError names what is malformed."""
        found = mapping(data, "Artifact")
        return cls(
            id=optional_text(found, "id", "Artifact") or _artifact_id(),
            parts=[Part.from_dict(part) for part in items(found, "parts", "Artifact")],
            metadata=table(found, "metadata", "Artifact"),
            timestamp=optional_text(found, "timestamp", "Artifact") or utc_now(),
            kind=optional_text(found, "kind", "Artifact") or "result",
            name=optional_text(found, "name", "Artifact"),
            uri=optional_text(found, "uri", "Artifact"),
            media_type=optional_text(found, "media_type", "Artifact"),
            action_id=optional_text(found, "action_id", "Artifact"),
        )
