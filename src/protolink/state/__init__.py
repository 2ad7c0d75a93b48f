"""What agents remember between runs, and the operations on it. Names and limits; the storage is given."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._lazy import by_name, loader

_HOMES = {
    "compaction": (
        "HistoryCompactionRequest",
        "HistoryCompactionResult",
    ),
    "limits": ("ConversationLimits",),
    "operation": (
        "StateOperationRequest",
        "StateOperationResult",
        "StoreState",
    ),
    "state": ("State",),
}

__all__ = [
    "ConversationLimits",
    "HistoryCompactionRequest",
    "HistoryCompactionResult",
    "State",
    "StateOperationRequest",
    "StateOperationResult",
    "StoreState",
]

if TYPE_CHECKING:
    from .compaction import HistoryCompactionRequest, HistoryCompactionResult
    from .limits import ConversationLimits
    from .operation import StateOperationRequest, StateOperationResult, StoreState
    from .state import State

__getattr__, __dir__ = loader(__name__, by_name(_HOMES), globals())
