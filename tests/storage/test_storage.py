"""Storage: one JSON value under one name, the same in memory and in a file."""

from __future__ import annotations

import stat
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

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


def test_a_change_gets_the_value_and_stores_what_it_returns(make: Callable[[str], Storage]) -> None:
    assert make("a").change(lambda value: [value]) == [None]
    assert make("a").change(lambda value: [*value, 1]) == [None, 1]
    assert make("a").load() == [None, 1]


def test_a_change_that_fails_changes_nothing(make: Callable[[str], Storage]) -> None:
    make("a").save({"n": 1})

    def change(value: Any) -> Any:
        value["n"] = 2
        raise LookupError

    with pytest.raises(LookupError):
        make("a").change(change)
    with pytest.raises(TypeError):
        make("a").change(lambda value: object())
    assert make("a").load() == {"n": 1}


class Meeting(Storage):
    """Whoever loads waits for a second one to load as well, but not for ever."""

    def __init__(self) -> None:
        self.value = 0
        self.barrier = threading.Barrier(2)

    def load(self) -> int:
        found = self.value
        try:
            self.barrier.wait(0.2)
        except threading.BrokenBarrierError:
            pass  # nobody else is loading, as it should be
        return found

    def save(self, data: int) -> None:
        self.value = data

    def delete(self) -> None:
        self.value = 0


def test_changes_of_a_custom_storage_come_one_after_the_other() -> None:
    storage = Meeting()
    threads = [threading.Thread(target=storage.change, args=(lambda value: value + 1,)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert storage.value == 2


class Plain(Storage):
    """An application's own storage: no more than it has to be."""

    value: Any = None

    def load(self) -> Any:
        return self.value

    def save(self, data: Any) -> None:
        self.value = data

    def delete(self) -> None:
        self.value = None


@pytest.fixture(params=["memory", "sqlite", "custom"])
def whole(request: pytest.FixtureRequest, tmp_path: Path) -> Storage:
    if request.param == "custom":
        return Plain()
    return InMemoryStorage("a") if request.param == "memory" else SQLiteStorage(tmp_path / "values.db", namespace="a")


def test_a_change_to_none_forgets_the_value(whole: Storage) -> None:
    whole.save(1)
    assert whole.change(lambda value: None) is None
    assert whole.load() is None
    whole.part("p").save(1)
    whole.part("p").change(lambda value: None)
    assert whole.parts() == []


def test_parts_have_values_of_their_own(whole: Storage) -> None:
    assert (whole.parts(), whole.part("p").load()) == ([], None)
    whole.part("p").save(1)
    whole.part("q").change(lambda value: [value])
    assert (whole.part("p").load(), whole.part("q").load()) == (1, [None])
    whole.part("p").delete()
    whole.part("p").delete()
    assert (whole.part("p").load(), whole.parts()) == (None, ["q"])


def test_parts_are_listed_in_the_order_in_which_they_were_written(whole: Storage) -> None:
    for name in ("p", "q", "r", "p"):
        whole.part(name).change(lambda value: (value or 0) + 1)
    assert whole.parts() == ["q", "r", "p"]
    whole.part("q").save(5)
    assert whole.parts() == ["r", "p", "q"]


@pytest.mark.parametrize("name", ["", "a/b", "ä\u2603", "50%", "x\x1fy", "a" * 300, "line\nbreak", "'; DROP"])
def test_any_text_is_the_name_of_a_part(name: str, whole: Storage) -> None:
    whole.part("other").save(0)
    whole.part(name).save(1)
    assert whole.part(name).load() == 1
    assert whole.parts() == ["other", name]


def test_parts_of_parts_and_of_other_namespaces_are_apart(make: Callable[[str], Storage]) -> None:
    places = [
        make("a"), make("b"), make("a").part("b"), make("a").part("b").part("c"), make("a").part("b\x1fc"),
        make("a b"), make("ab"), make("a/b"), make("b").part("b"),
    ]  # fmt: skip
    for number, place in enumerate(places):
        place.save(number)
    assert [place.load() for place in places] == list(range(len(places)))
    assert make("a").parts() == ["b", "b\x1fc"]
    assert make("b").parts() == ["b"]


def test_a_custom_storage_keeps_its_parts_as_members() -> None:
    whole = Plain()
    whole.part("p").save(1)
    whole.part("q").save([2])
    assert whole.load() == {"p": 1, "q": [2]}
    whole.save([1])
    for use in (whole.parts, whole.part("p").load, whole.part("p").delete):
        with pytest.raises(ValueError, match="holds list and has no parts"):
            use()


def test_parts_in_memory_expire_one_by_one() -> None:
    now = [0.0]
    whole = InMemoryStorage(ttl=10, clock=lambda: now[0])
    whole.part("p").save(1)
    now[0] = 6.0
    whole.part("q").save(2)
    now[0] = 12.0
    assert (whole.parts(), whole.part("p").load()) == (["q"], None)
    assert whole.cleanup_expired() == 1
