"""Our stores and a minimal one keep the contract; a store that breaks one rule is told which."""

from __future__ import annotations

import threading
import uuid
from pathlib import Path
from typing import Any

import pytest

from protolink import InMemoryDurableStore, RunCheckpoint, SQLiteDurableStore
from protolink.errors import CheckpointMismatchError, RunBusyError
from protolink.models import json
from protolink.testing import FaultyStore, store_conformance


class DictStore:
    """The four methods over a dict, as an application might write them."""

    def __init__(self) -> None:
        self.runs: dict[str, RunCheckpoint] = {}
        self.owners: dict[str, str] = {}
        self.lock = threading.Lock()

    def get(self, run_id: str) -> RunCheckpoint | None:
        found = self.runs.get(run_id)
        return None if found is None else RunCheckpoint(run_id, found.agent_name, found.status, json.plain(found.data))

    def acquire(self, run_id: str, agent_name: str, initial: dict[str, Any]) -> tuple[str, RunCheckpoint]:
        with self.lock:
            self.check_free(run_id)
            found = self.runs.setdefault(run_id, RunCheckpoint(run_id, agent_name, "ready", json.plain(initial)))
            if found.agent_name != agent_name:
                raise CheckpointMismatchError("another agent's run")
            self.owners[run_id] = uuid.uuid4().hex
        stored = self.get(run_id)
        assert stored is not None
        return self.owners[run_id], stored

    def check_free(self, run_id: str) -> None:
        if run_id in self.owners:
            raise RunBusyError("owned")

    def save(self, run_id: str, token: str, status: str, data: dict[str, Any]) -> None:
        self.check_owner(run_id, token)
        self.runs[run_id] = RunCheckpoint(run_id, self.runs[run_id].agent_name, status, json.plain(data))

    def check_owner(self, run_id: str, token: str) -> None:
        if self.owners.get(run_id) != token:
            raise RunBusyError("lost")

    def release(self, run_id: str, token: str) -> None:
        if self.owners.get(run_id) == token:
            del self.owners[run_id]


class Shared(DictStore):
    """Two owners at once."""

    def check_free(self, run_id: str) -> None:
        return


class Unfenced(DictStore):
    """Anybody may save."""

    def check_owner(self, run_id: str, token: str) -> None:
        return


class Attached(DictStore):
    """Gives out its own data."""

    def get(self, run_id: str) -> RunCheckpoint | None:
        return self.runs.get(run_id)


class Forgetful(DictStore):
    """Keeps the status and loses the data."""

    def save(self, run_id: str, token: str, status: str, data: dict[str, Any]) -> None:
        super().save(run_id, token, status, {})


def test_sqlite_store_conforms(tmp_path: Path) -> None:
    store = SQLiteDurableStore(tmp_path / "runs.sqlite")
    try:
        assert store_conformance(lambda: store) == 17
    finally:
        store.close()


def test_memory_stores_conform() -> None:
    for make in (InMemoryDurableStore, FaultyStore):
        store = make()
        assert store_conformance(lambda store=store: store) == 17  # type: ignore[misc]
        store.close()


def test_four_methods_over_a_dict_conform() -> None:
    assert store_conformance(DictStore) == 13


@pytest.mark.parametrize(
    ("broken", "rule"),
    [
        (Shared, "A run that is owned cannot be acquired."),
        (Unfenced, "A former owner, or anybody without the token, saves nothing."),
        (Attached, "Changing what was given or read does not change what is stored."),
        (Forgetful, "What was saved is what is read, and the last save counts."),
    ],
)
def test_broken_store_is_told_which_rule(broken: type[DictStore], rule: str) -> None:
    with pytest.raises(AssertionError) as told:
        store_conformance(broken)
    assert rule in str(told.value)
