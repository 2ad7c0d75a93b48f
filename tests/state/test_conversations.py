"""Conversations in a storage: sessions, agents and turns keep to themselves, and no turn is lost or stored twice."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import protolink
from protolink.errors import StoreCorruptError
from protolink.state import ConversationLimits
from protolink.state.conversations import Conversations
from protolink.state.turns import Message, marked
from protolink.storage import InMemoryStorage, SQLiteStorage, Storage

LIMITS = ConversationLimits()


class Custom(Storage):
    """An application's own: no more than it has to be."""

    def __init__(self) -> None:
        self.value: Any = None

    def load(self) -> Any:
        return self.value

    def save(self, data: Any) -> None:
        self.value = data

    def delete(self) -> None:
        self.value = None


@pytest.fixture(params=["memory", "sqlite", "custom"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Storage:
    made: dict[str, Callable[[], Storage]] = {
        "memory": InMemoryStorage,
        "sqlite": lambda: SQLiteStorage(tmp_path / "state.sqlite"),
        "custom": Custom,
    }
    return made[request.param]()


def turn(name: str, agent: str = "a") -> list[Message]:
    origin = {"agent": agent, "run_id": name, "turn": name}
    return [
        marked({"role": "user", "content": f"{name}?"}, "prompt", **origin),
        marked({"role": "assistant", "content": f"{name}!"}, "answer", **origin),
    ]


def kept(storage: Storage, agent: str = "a", limits: ConversationLimits = LIMITS) -> Conversations:
    return Conversations(storage, agent, limits)


def test_each_session_is_a_part_of_the_storage_and_the_latest_stands_last(storage: Storage) -> None:
    kept(storage).add("s", turn("one"))
    kept(storage).add("t", turn("two"))
    kept(storage).add("s", turn("three"))
    assert storage.parts() == ["t", "s"]
    assert storage.part("s").load() == [*turn("one"), *turn("three")]


def test_sessions_of_a_custom_storage_are_members_of_its_value() -> None:
    storage = Custom()
    kept(storage).add("s", turn("one"))
    assert storage.load() == {"s": turn("one")}


def test_turn_is_written_without_touching_other_sessions(tmp_path: Path) -> None:
    storage = SQLiteStorage(tmp_path / "state.sqlite")
    storage.part("broken").save("what cannot be read")
    kept(storage).add("s", turn("one"))
    assert kept(storage).messages("s") == {"s": turn("one")}


def test_one_session_or_all_of_them_are_read(storage: Storage) -> None:
    assert kept(storage).messages() == {}
    kept(storage).add("s", turn("one"))
    kept(storage).add("t", turn("two"))
    assert kept(storage).messages("s") == {"s": turn("one")}
    assert kept(storage).messages("nobody's") == {}
    assert kept(storage).messages() == {"s": turn("one"), "t": turn("two")}


def test_turn_that_is_stored_again_changes_nothing(storage: Storage) -> None:
    kept(storage).add("s", turn("one"))
    kept(storage).add("s", turn("two"))
    kept(storage).add("s", turn("one"))
    assert kept(storage).messages("s") == {"s": [*turn("one"), *turn("two")]}


def test_agents_of_one_storage_do_not_hear_one_another(storage: Storage) -> None:
    kept(storage, "a").add("s", turn("one", "a"))
    kept(storage, "b").add("s", turn("two", "b"))
    assert kept(storage, "a").messages() == {"s": turn("one", "a")}
    assert kept(storage, "b").messages() == {"s": turn("two", "b")}
    assert kept(storage, "b").replace(None, lambda messages: []) == (2, 0)
    assert kept(storage, "a").messages() == {"s": turn("one", "a")}
    assert kept(storage, "b").messages() == {}


def test_what_an_application_put_there_is_everybodys(storage: Storage) -> None:
    storage.part("s").save([{"role": "user", "content": "from elsewhere"}])
    kept(storage, "a").add("s", turn("one", "a"))
    assert [item["content"] for item in kept(storage, "a").messages("s")["s"]] == ["from elsewhere", "one?", "one!"]
    assert [item["content"] for item in kept(storage, "b").messages("s")["s"]] == ["from elsewhere"]


def test_limits_are_those_of_each_agent_in_each_session(storage: Storage) -> None:
    for index in range(5):
        kept(storage, "a", ConversationLimits(4)).add("s", turn(f"a{index}", "a"))
        kept(storage, "b").add("s", turn(f"b{index}", "b"))
    assert [item["content"] for item in kept(storage, "a").messages("s")["s"]] == ["a3?", "a3!", "a4?", "a4!"]
    assert len(kept(storage, "b").messages("s")["s"]) == 10


def test_sessions_that_were_silent_longest_are_forgotten(storage: Storage) -> None:
    few = kept(storage, limits=ConversationLimits(max_sessions=2))
    for session, name in (("s", "one"), ("t", "two"), ("s", "three"), ("u", "four")):
        few.add(session, turn(name))
    assert set(few.messages()) == {"s", "u"}


def test_replacing_counts_and_forgets_empty_sessions(storage: Storage) -> None:
    for session in ("s", "t"):
        kept(storage).add(session, turn(session))
    assert kept(storage).replace("s", lambda messages: messages[:1]) == (2, 1)
    assert kept(storage).replace("s", lambda messages: []) == (1, 0)
    assert kept(storage).replace("nobody's", lambda messages: []) == (0, 0)
    assert storage.parts() == ["t"]


@pytest.mark.parametrize(
    "value", [{}, "text", 5, [5], [{"role": "user"}], [{"content": "x"}], [{"role": 5, "content": 5}]]
)
def test_session_that_holds_something_else_is_left_alone(value: Any, storage: Storage) -> None:
    storage.part("s").save(value)
    for use in (
        lambda: kept(storage).messages("s"),
        lambda: kept(storage).messages(),
        lambda: kept(storage).add("s", turn("one")),
        lambda: kept(storage).replace(None, lambda messages: []),
    ):
        with pytest.raises(StoreCorruptError, match=r"Session 's' .* namespace of its own"):
            use()
    assert storage.part("s").load() == value


def test_custom_storage_that_holds_something_else_is_left_alone() -> None:
    storage = Custom()
    storage.save(["not mine"])
    for use in (lambda: kept(storage).messages(), lambda: kept(storage).add("s", turn("one"))):
        with pytest.raises(StoreCorruptError, match="namespace of its own"):
            use()
    assert storage.load() == ["not mine"]


def test_threads_that_add_at_once_lose_nothing(storage: Storage) -> None:
    barrier = threading.Barrier(4)

    def add(name: str) -> None:
        barrier.wait(30)
        for index in range(5):
            kept(storage).add("s", turn(f"{name}{index}"))

    threads = [threading.Thread(target=add, args=(name,)) for name in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    said = {item["content"] for item in kept(storage).messages("s")["s"]}
    assert said == {f"{name}{index}{mark}" for name in "abcd" for index in range(5) for mark in "?!"}


ADD = """
import sys
sys.path.insert(0, sys.argv[1])
from protolink.state import ConversationLimits
from protolink.state.conversations import Conversations
from protolink.storage import SQLiteStorage
sys.stdin.readline()
for index in range(10):
    turn = {"agent": "a", "run_id": "r", "turn": f"{sys.argv[3]}{index}", "part": "prompt"}
    message = {"role": "user", "content": turn["turn"], "metadata": turn}
    Conversations(SQLiteStorage(sys.argv[2]), "a", ConversationLimits()).add("s", [message])
"""


def test_processes_that_add_at_once_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "state.sqlite"
    kept(SQLiteStorage(path)).add("s", turn("first"))
    source = str(Path(protolink.__file__).parents[1])
    others = [
        subprocess.Popen([sys.executable, "-c", ADD, source, str(path), name], stdin=subprocess.PIPE) for name in "ab"
    ]
    for other in others:
        assert other.stdin is not None
        other.stdin.write(b"go\n")
        other.stdin.flush()
    for other in others:
        other.communicate()
        assert other.returncode == 0
    assert len(kept(SQLiteStorage(path)).messages("s")["s"]) == 22


def test_file_is_the_owners_alone(tmp_path: Path) -> None:
    path = tmp_path / "state.sqlite"
    kept(SQLiteStorage(path)).add("s", turn("one"))
    assert [oct(found.stat().st_mode & 0o777) for found in tmp_path.iterdir()] == ["0o600"]
