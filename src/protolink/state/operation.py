"""Operations on what an agent remembers, as they are asked for and answered, also over a wire."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, field, fields
from typing import Any

from ..models.json import plain
from ..models.shape import items, optional_text, required_text, table, texts
from ..models.value import dataclass
from .members import check_count, check_session, members


@dataclass(frozen=True, slots=True)
class StateOperationRequest:
    """Which part of an agent's state is meant. ``session_id`` None: all sessions. ``modules`` empty: all there are.

    ``include_data``: a description shows the stored messages. ``keep_turns`` and ``keep_work`` are for compacting: how
    many of the newest turns are kept (None: all), and how many of those with their tool calls and results. ValueError
    for a blank session or a number below 0.
    """

    session_id: str | None = None
    modules: tuple[str, ...] = ()
    include_data: bool = False
    keep_turns: int | None = None
    keep_work: int = 1

    def __post_init__(self) -> None:
        check_session(self.session_id)
        object.__setattr__(self, "modules", _names(self.modules))
        if not isinstance(self.include_data, bool):
            raise ValueError("include_data must be true or false")
        if self.keep_turns is not None:
            check_count("keep_turns", self.keep_turns)
        check_count("keep_work", self.keep_work)

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "modules": list(self.modules)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> StateOperationRequest:
        """Read ``to_dict()`` back; what is missing has its default. ValueError names what is unknown or malformed."""
        found = members(data, cls, "State operation")
        return cls(**{**found, "modules": tuple(texts(found, "modules", "State operation"))})


def _names(modules: Any) -> tuple[str, ...]:
    if isinstance(modules, str) or not all(isinstance(name, str) for name in modules):
        raise ValueError("modules must be a list of names")
    return tuple(modules)


@dataclass(frozen=True, slots=True)
class StoreState:
    """One module. ``item_count``: sessions, ``message_count``: messages, both after the operation.

    ``data``: ``{session_id: [messages]}`` where it was asked for. ``error`` says why it cannot be read.
    """

    name: str
    enabled: bool = True
    exists: bool = False
    item_count: int = 0
    message_count: int = 0
    cleared: bool = False
    compacted: bool = False
    data: Any = None
    metadata: dict[str, Any] = field(default_factory=dict)
    error: str | None = None

    def to_dict(self) -> dict[str, Any]:
        return {item.name: plain(getattr(self, item.name)) for item in fields(self)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> StoreState:
        found = members(data, cls, "State of a store")
        required_text(found, "name", "State of a store")
        return cls(**{**found, "metadata": table(found, "metadata", "State of a store")})


@dataclass(frozen=True, slots=True)
class StateOperationResult:
    """What an operation found or did. ``operation``: describe, reset or compact.

    ``cleared`` and ``compacted`` name the modules that changed, ``missing`` the ones that were asked for and that the
    agent does not remember. ``errors``: texts of what cannot be read; an operation that changes something raises.
    """

    operation: str
    session_id: str | None = None
    stores: tuple[StoreState, ...] = ()
    cleared: tuple[str, ...] = ()
    compacted: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    errors: tuple[str, ...] = ()
    metadata: dict[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        return {
            "operation": self.operation,
            "session_id": self.session_id,
            "stores": [store.to_dict() for store in self.stores],
            **{name: list(getattr(self, name)) for name in ("cleared", "compacted", "missing", "errors")},
            "metadata": plain(self.metadata),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> StateOperationResult:
        what = "Result of a state operation"
        found = members(data, cls, what)
        return cls(
            operation=required_text(found, "operation", what),
            session_id=optional_text(found, "session_id", what),
            stores=tuple(map(StoreState.from_dict, items(found, "stores", what))),
            metadata=table(found, "metadata", what),
            **{name: tuple(texts(found, name, what)) for name in ("cleared", "compacted", "missing", "errors")},
        )
