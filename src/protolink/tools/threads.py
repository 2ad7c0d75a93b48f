"""Blocking functions in threads, so that the event loop goes on.

A thread cannot be stopped. A caller that is canceled does not wait for it: what has begun goes on by itself, what has
not begun never will.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from typing import Any

from ..drive.ports import NeverBegan
from ..errors import ToolFailedError


async def call_in_thread(executor: Executor | None, func: Callable[..., Any], values: Mapping[str, Any]) -> Any:
    """The function's result. It sees the caller's context variables. ``executor`` None is the loop's own.

    Raises what the function raises, signals included; NeverBegan (a CancelledError) when it was canceled in the queue,
    ToolFailedError when the executor takes nothing any more.
    """
    call = _Call(func, values)
    try:
        running = asyncio.get_running_loop().run_in_executor(executor, contextvars.copy_context().run, call.run)
    except RuntimeError as error:
        raise ToolFailedError(f"it was not started: {error}", code="threads_closed") from error
    try:
        await running
    except asyncio.CancelledError as error:
        if call.give_up():
            raise NeverBegan("canceled before it began") from error
        raise
    return call.outcome()


class _Call:
    """One call. Its outcome is kept as a value: a future takes no StopIteration, and a loop no signals."""

    def __init__(self, func: Callable[..., Any], values: Mapping[str, Any]) -> None:
        self._func = func
        self._values = values
        self._lock = threading.Lock()
        self._begun = False
        self._given_up = False
        self._result: Any = None
        self._error: BaseException | None = None

    def run(self) -> None:
        with self._lock:
            if self._given_up:
                return
            self._begun = True
        try:
            self._result = self._func(**self._values)
        except BaseException as error:  # the application's, signals included; outcome() raises it to who waits
            self._error = error

    def give_up(self) -> bool:
        """Nobody waits any more. True when the function has not begun; then it never will."""
        with self._lock:
            self._given_up = True
            return not self._begun

    def outcome(self) -> Any:
        if self._error is not None:
            raise self._error
        return self._result
