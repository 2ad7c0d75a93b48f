"""Blocking functions in threads: what they see, what they raise, and what a cancellation does to them."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from protolink.drive.ports import NeverBegan
from protolink.errors import ToolFailedError
from protolink.tools.threads import _Call, call_in_thread

NAME: contextvars.ContextVar[str] = contextvars.ContextVar("name", default="nobody")


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(1) as found:
        yield found


async def reached(begun: threading.Event) -> None:
    assert await asyncio.to_thread(begun.wait, 30)


async def test_function_runs_in_another_thread_with_its_arguments(pool: ThreadPoolExecutor) -> None:
    here = threading.get_ident()
    found = await call_in_thread(pool, lambda a, b: (a + b, threading.get_ident()), {"a": 1, "b": 2})
    assert found[0] == 3
    assert found[1] != here


async def test_loop_goes_on_meanwhile(pool: ThreadPoolExecutor) -> None:
    release = threading.Event()
    waiting = asyncio.ensure_future(call_in_thread(pool, release.wait, {}))
    for _ in range(3):
        await asyncio.sleep(0)
    assert not waiting.done()
    release.set()
    assert await waiting is True


@pytest.mark.parametrize("own", [True, False])
async def test_function_sees_the_callers_variables_and_leaves_them_alone(own: bool, pool: ThreadPoolExecutor) -> None:
    def look() -> str:
        before = NAME.get()
        NAME.set("thread")
        return before

    token = NAME.set("caller")
    try:
        assert await call_in_thread(pool if own else None, look, {}) == "caller"
        assert NAME.get() == "caller"
        assert await call_in_thread(pool if own else None, look, {}) == "caller"
    finally:
        NAME.reset(token)


@pytest.mark.parametrize("error", [ValueError("own"), KeyboardInterrupt(), SystemExit(3), GeneratorExit()])
async def test_what_it_raises_arrives_as_it_is(error: BaseException, pool: ThreadPoolExecutor) -> None:
    def fail() -> None:
        raise error

    with pytest.raises(type(error)) as caught:
        await call_in_thread(pool, fail, {})
    assert caught.value is error


async def test_stop_iteration_does_not_leave_the_caller_waiting(pool: ThreadPoolExecutor) -> None:
    with pytest.raises(RuntimeError, match="StopIteration"):
        await call_in_thread(pool, lambda: next(iter(())), {})


async def test_canceled_caller_does_not_wait_for_what_has_begun(pool: ThreadPoolExecutor) -> None:
    begun, release, ended = threading.Event(), threading.Event(), threading.Event()

    def block() -> None:
        begun.set()
        release.wait()
        ended.set()

    calling = asyncio.ensure_future(call_in_thread(pool, block, {}))
    await reached(begun)
    calling.cancel()
    with pytest.raises(asyncio.CancelledError) as caught:
        await calling
    assert not isinstance(caught.value, NeverBegan)
    assert not ended.is_set()
    release.set()
    assert ended.wait(10)


async def test_what_is_canceled_in_the_queue_never_begins(pool: ThreadPoolExecutor) -> None:
    begun, release, ran = threading.Event(), threading.Event(), []

    def block() -> None:
        begun.set()
        release.wait()

    first = asyncio.ensure_future(call_in_thread(pool, block, {}))
    await reached(begun)
    second = asyncio.ensure_future(call_in_thread(pool, lambda: ran.append(1), {}))
    await asyncio.sleep(0)
    second.cancel()
    with pytest.raises(NeverBegan):
        await second
    release.set()
    await first
    await call_in_thread(pool, lambda: None, {})
    assert ran == []


async def test_canceled_wait_is_an_ordinary_cancellation_to_asyncio(pool: ThreadPoolExecutor) -> None:
    release = threading.Event()
    blocking = asyncio.ensure_future(call_in_thread(pool, release.wait, {}))
    queued = asyncio.ensure_future(call_in_thread(pool, lambda: None, {}))
    await asyncio.sleep(0)
    queued.cancel()
    await asyncio.wait([queued])
    assert queued.cancelled()
    release.set()
    await blocking


async def test_executor_that_takes_nothing_any_more_means_that_nothing_happened(pool: ThreadPoolExecutor) -> None:
    pool.shutdown()
    ran: list[Any] = []
    with pytest.raises(ToolFailedError, match="not started") as caught:
        await call_in_thread(pool, lambda: ran.append(1), {})
    assert caught.value.code == "threads_closed"
    assert ran == []


def test_thread_that_comes_too_late_does_not_call_the_function() -> None:
    """The pool may hand out a call in the moment in which it is given up."""
    ran: list[int] = []
    late = _Call(lambda: ran.append(1), {})
    assert late.give_up()
    late.run()
    assert ran == []
    early = _Call(lambda: ran.append(2), {})
    early.run()
    assert not early.give_up()
    assert ran == [2]
