"""Where the facts of runs are kept: the contract of a store, the stores that come with protolink, and their codec."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._lazy import by_name, loader

_HOMES = {
    "adapter": (
        "StoreJournal",
        "open_journal",
        "point_to_root",
        "stored_records",
    ),
    "codec": ("SCHEMA_VERSION",),
    "contract": (
        "DurableStore",
        "OpenJournal",
        "RunCheckpoint",
    ),
    "manager": ("RunManager",),
    "memory": ("InMemoryDurableStore",),
    "sqlite": ("SQLiteDurableStore",),
}

__all__ = [
    "SCHEMA_VERSION",
    "DurableStore",
    "InMemoryDurableStore",
    "OpenJournal",
    "RunCheckpoint",
    "RunManager",
    "SQLiteDurableStore",
    "StoreJournal",
    "open_journal",
    "point_to_root",
    "stored_records",
]

if TYPE_CHECKING:
    from .adapter import StoreJournal, open_journal, point_to_root, stored_records
    from .codec import SCHEMA_VERSION
    from .contract import DurableStore, OpenJournal, RunCheckpoint
    from .manager import RunManager
    from .memory import InMemoryDurableStore
    from .sqlite import SQLiteDurableStore

__getattr__, __dir__ = loader(__name__, by_name(_HOMES), globals())
