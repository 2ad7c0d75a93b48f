"""What is known about a model: window size, prices, abilities."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import field, fields, replace
from typing import Any

from .json import plain
from .shape import mapping
from .value import dataclass


@dataclass(frozen=True, slots=True)
class LLMModelProfile:
    """Facts for estimates and metrics; None means unknown.

    ``context_window`` is in tokens, costs are in ``currency`` for one million tokens. Numbers are taken as they
    are; ValueError for a cost that is NaN or infinite, since what is counted with it could not be stored.
    """

    context_window: int | None = None
    input_cost_per_million: float | None = None
    output_cost_per_million: float | None = None
    currency: str = "USD"
    provider: str | None = None
    model: str | None = None
    supports_tools: bool | None = None
    supports_streaming: bool | None = None
    supports_json_schema: bool | None = None
    tokenizer: str | None = None
    metadata: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("input_cost_per_million", "output_cost_per_million"):
            cost = getattr(self, name)
            if isinstance(cost, float) and not math.isfinite(cost):
                raise ValueError(f"LLMModelProfile {name} must be finite, not {cost}")

    def resolved(self, *, provider: str | None = None, model: str | None = None) -> LLMModelProfile:
        """This profile with ``provider`` and ``model`` filled in where they are unknown."""
        return replace(self, provider=self.provider or provider, model=self.model or model)

    def to_dict(self) -> dict[str, Any]:
        """All fields as JSON."""
        return {item.name: plain(getattr(self, item.name)) for item in fields(self)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> LLMModelProfile:
        """Read a mapping of fields; ValueError names the ones that do not exist, since they are most likely typos."""
        found = mapping(data, "LLMModelProfile")
        unknown = sorted(map(str, found.keys() - {item.name for item in fields(cls)}))
        if unknown:
            raise ValueError(f"LLMModelProfile has no field {', '.join(unknown)}")
        return cls(**found)
