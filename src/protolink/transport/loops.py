"""From one event loop into another of the same process."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

#: Seconds between two looks whether the other loop still runs. A loop that is stopped tells nobody.
LOOK_SECONDS = 1.0


class LoopEnded(Exception):
    """The other loop does not run, or ended first. ``began``: the work had been handed over."""

    def __init__(self, began: bool) -> None:
        super().__init__("the other event loop has ended")
        self.began = began


async def run_in(loop: asyncio.AbstractEventLoop, make: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run ``make()`` in that loop and wait for it. Canceling the waiter cancels it. LoopEnded, or its own error."""
    if loop is asyncio.get_running_loop():
        return await make()
    if not loop.is_running():
        raise LoopEnded(began=False)
    work = make()
    try:
        future = asyncio.run_coroutine_threadsafe(work, loop)
    except RuntimeError:  # closed in this very moment
        work.close()
        raise LoopEnded(began=False) from None
    answer = asyncio.wrap_future(future)
    look_no_more = watch(loop, answer.cancel)
    try:
        return await answer
    except asyncio.CancelledError:
        task = asyncio.current_task()
        if task is not None and task.cancelling() > 0:
            raise
        raise LoopEnded(began=True) from None
    finally:
        look_no_more()


def watch(loop: asyncio.AbstractEventLoop, lost: Callable[[], object]) -> Callable[[], None]:
    """Call ``lost`` in the running loop when the other one has stopped; returns what ends that."""
    here = asyncio.get_running_loop()
    timer: asyncio.TimerHandle

    def look() -> None:
        nonlocal timer
        if loop.is_running():
            timer = here.call_later(LOOK_SECONDS, look)
        else:
            lost()

    timer = here.call_later(LOOK_SECONDS, look)
    return lambda: timer.cancel()


def call_in(loop: asyncio.AbstractEventLoop, what: Callable[[], object]) -> bool:
    """Have it called in that loop, which may be this one. False when the loop is closed."""
    try:
        loop.call_soon_threadsafe(what)
    except RuntimeError:
        return False
    return True
