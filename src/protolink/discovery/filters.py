"""Which agents somebody looks for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ..models import AgentCard
from ..models.value import dataclass

_NAMES = ("name", "role", "tags")


@dataclass(frozen=True, slots=True)
class Filter:
    """A name, a role, and tags that must all be there. What is None or empty is not asked for."""

    name: str | None = None
    role: str | None = None
    tags: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        filter_by: Mapping[str, Any] | None,
        name: str | None = None,
        role: str | None = None,
        tags: Sequence[str] | str | None = None,
    ) -> Filter:
        """A filter of keywords, or of a mapping of them. ValueError for both, and for other names and shapes."""
        given = {key: value for key, value in (("name", name), ("role", role), ("tags", tags)) if value is not None}
        if filter_by and given:
            raise ValueError("give either filter_by or name, role and tags")
        found = dict(filter_by or given)
        unknown = [key for key in found if key not in _NAMES]
        if unknown:
            raise ValueError(f"agents are found by {', '.join(_NAMES)}, not by {unknown[0]!r}")
        return cls(_text(found, "name"), _text(found, "role"), _texts(found.get("tags")))

    @classmethod
    def from_params(cls, params: Mapping[str, Sequence[str]]) -> Filter:
        """Read the query of a request. ValueError for unknown names and for a name or role given twice."""
        single = {key: values for key, values in params.items() if key != "tags"}
        for key, values in single.items():
            if isinstance(values, str) or len(values) != 1:
                raise ValueError(f"'{key}' must be given once")
        return cls.of({**{key: values[0] for key, values in single.items()}, "tags": list(params.get("tags", ()))})

    def to_params(self) -> dict[str, Any]:
        """The query that ``from_params`` reads."""
        return {"name": self.name, "role": self.role, "tags": list(self.tags) or None}

    def matches(self, card: AgentCard) -> bool:
        return (
            (self.name is None or card.name == self.name)
            and (self.role is None or card.role == self.role)
            and set(self.tags).issubset(card.tags)
        )


def _text(found: Mapping[str, Any], key: str) -> str | None:
    value = found.get(key)
    if value is not None and not isinstance(value, str):
        raise ValueError(f"'{key}' must be text, not {type(value).__name__}")
    return value or None


def _texts(value: Any) -> tuple[str, ...]:
    if isinstance(value, str):
        return (value,)
    if value is None:
        return ()
    if not isinstance(value, (list, tuple, set, frozenset)) or not all(isinstance(item, str) for item in value):
        raise ValueError("'tags' must be a text or a list of texts")
    return tuple(value)
