"""Storage: one JSON value under one name, the same in memory and in a file."""

from __future__ import annotations

import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from protolink.storage import InMemoryStorage, SQLiteStorage, Storage


@pytest.fixture(params=["memory", "sqlite"])
def make(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[str], Storage]:
    """Storages of one place, by namespace."""
    if request.param == "sqlite":
        return lambda namespace: SQLiteStorage(tmp_path / "values.db", namespace=namespace)
    shared: dict[str, tuple[str, float | None]] = {}
    return lambda namespace: InMemoryStorage(namespace, store=shared)


def test_a_value_is_saved_loaded_and_deleted(make: Callable[[str], Storage]) -> None:
    storage = make("a")
    assert storage.load() is None
    storage.save({"n": [1, "ä", None]})
    assert make("a").load() == {"n": [1, "ä", None]}
    storage.delete()
    storage.delete()
    assert make("a").load() is None


def test_update_replaces(make: Callable[[str], Storage]) -> None:
    make("a").save({"one": 1})
    make("a").update({"two": 2})
    assert make("a").load() == {"two": 2}


def test_namespaces_are_apart(make: Callable[[str], Storage]) -> None:
    make("a").save(1)
    make("b").save(2)
    make("b").delete()
    assert (make("a").load(), make("b").load()) == (1, None)


def test_loaded_and_saved_values_are_detached(make: Callable[[str], Storage]) -> None:
    value: dict[str, list[int]] = {"n": []}
    make("a").save(value)
    value["n"].append(1)
    make("a").load()["n"].append(2)
    assert make("a").load() == {"n": []}


def test_what_is_no_json_is_refused_and_changes_nothing(make: Callable[[str], Storage]) -> None:
    make("a").save(1)
    for wrong in (object(), {"n": float("nan")}):
        with pytest.raises(TypeError):
            make("a").save(wrong)
    assert make("a").load() == 1


def test_memory_is_private_without_a_store() -> None:
    InMemoryStorage().save(1)
    assert InMemoryStorage().load() is None


def test_values_expire() -> None:
    now = [0.0]
    shared: dict[str, tuple[str, float | None]] = {}
    brief = InMemoryStorage("brief", 10, shared, clock=lambda: now[0])
    InMemoryStorage("kept", store=shared, clock=lambda: now[0]).save(1)
    brief.save(2)
    now[0] = 9.9
    assert brief.load() == 2
    now[0] = 10
    assert brief.load() is None
    assert (brief.cleanup_expired(), brief.cleanup_expired()) == (1, 0)
    assert list(shared) == ["kept"]
    with pytest.raises(ValueError, match="ttl"):
        InMemoryStorage(ttl=0)


def test_the_file_is_private_and_survives(tmp_path: Path) -> None:
    path = tmp_path / "v.db"
    SQLiteStorage(str(path), namespace="approvals").save([1])
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert SQLiteStorage(str(path), namespace="approvals").load() == [1]
    with pytest.raises(ValueError, match="table_name"):
        SQLiteStorage(path, table_name="x; drop")
    with pytest.raises(ValueError, match=":memory:"):
        SQLiteStorage(":memory:")
