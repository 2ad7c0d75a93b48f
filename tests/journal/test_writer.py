"""The thread that writes for everybody: groups, refusals, and how those who wait hear of it."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from protolink.journal.writer import Writer


@pytest.fixture
def connection() -> sqlite3.Connection:
    found = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
    found.execute("CREATE TABLE names (name TEXT PRIMARY KEY)")
    return found


@pytest.fixture
def writer(connection: sqlite3.Connection) -> Iterator[Writer]:
    found = Writer(lambda: connection, lambda error: RuntimeError(str(error)), lambda: None)
    yield found
    found.close()


def adds(name: str, *, refused: bool = False) -> Callable[[sqlite3.Connection], str]:
    def work(db: sqlite3.Connection) -> str:
        db.execute("INSERT INTO names VALUES (?)", (name,))
        if refused:
            raise ValueError(f"{name} is refused")
        return name

    return work


def refuses(db: sqlite3.Connection) -> None:
    raise ValueError("refused at once")


async def together(writer: Writer, *work: Callable[[sqlite3.Connection], Any]) -> list[Any]:
    """All of it in one group: the thread is held until everything waits."""
    began, held = threading.Event(), threading.Event()

    def hold(db: sqlite3.Connection) -> None:
        began.set()
        held.wait()

    first = writer.submit(hold)
    began.wait()
    waiting = [writer.submit(item) for item in work]
    held.set()
    await first
    return await asyncio.gather(*waiting, return_exceptions=True)


def test_a_refusal_takes_nothing_back_from_the_group(writer: Writer) -> None:
    async def scene() -> list[Any]:
        return await together(writer, adds("a"), adds("b", refused=True), refuses, adds("c"))

    a, b, at_once, c = asyncio.run(scene())
    assert (a, c) == ("a", "c")
    assert [str(error) for error in (b, at_once)] == ["b is refused", "refused at once"]
    assert writer.call(lambda db: [name for (name,) in db.execute("SELECT name FROM names ORDER BY name")]) == [
        "a",
        "c",
    ]


def test_a_group_is_one_commit_and_one_call_into_the_loop(writer: Writer) -> None:
    async def scene() -> int:
        loop = asyncio.get_running_loop()
        told = loop.call_soon_threadsafe
        calls = []

        def counted(*args: Any, **options: Any) -> Any:
            calls.append(args)
            return told(*args, **options)

        loop.call_soon_threadsafe = counted  # type: ignore[method-assign]
        await together(writer, adds("a"), adds("b"), adds("c"))
        return len(calls)

    assert asyncio.run(scene()) == 2  # the work that held the thread, and the group
    assert writer.transactions == 1


def test_what_the_database_refuses_fails_alone(writer: Writer) -> None:
    async def scene() -> list[Any]:
        return await together(writer, adds("a"), adds("a"), adds("b"))

    first, again, other = asyncio.run(scene())
    assert (first, other) == ("a", "b")
    assert isinstance(again, RuntimeError)


def test_a_closed_loop_does_not_stop_the_writer(writer: Writer) -> None:
    held = threading.Event()

    async def leave() -> None:
        writer.submit(lambda db: held.wait())
        writer.submit(adds("left"))

    asyncio.run(leave())
    held.set()
    assert writer.call(lambda db: db.execute("SELECT count(*) FROM names").fetchone()[0]) == 1
