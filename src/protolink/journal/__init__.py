"""Where the facts of runs are kept: the contract of a store, the stores that come with protolink, and their codec."""

from __future__ import annotations

from .adapter import StoreJournal, open_journal, point_to_root, stored_records
from .codec import SCHEMA_VERSION
from .contract import DurableStore, OpenJournal, RunCheckpoint
from .manager import RunManager
from .memory import InMemoryDurableStore
from .sqlite import SQLiteDurableStore

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
