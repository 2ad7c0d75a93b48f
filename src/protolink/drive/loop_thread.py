"""One background thread with one event loop, for callers that have none.

The very same coroutines run there. Inside a running loop a blocking call would stop that loop, so it is refused before
anything starts.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Awaitable, Callable, Coroutine, Generator
from typing import Any, Generic, TypeVar

from ..models.value import dataclass

T = TypeVar("T")

#: How long an interrupted call waits for its run to come to rest.
SETTLE_SECONDS = 30.0


class LoopThread:
    """An event loop in a daemon thread, started when it is first needed. A forked child starts its own."""

    def __init__(self) -> None:
        self._renew()

    def _renew(self) -> None:
        self._pid = os.getpid()
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None

    def run(self, name: str, make: Callable[[], Coroutine[Any, Any, T]], *, owner: str = "agent") -> T:
        """Run the coroutine there and wait. RuntimeError inside a running loop; it names ``owner``'s method."""
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            pass
        else:
            raise RuntimeError(
                f"{owner}.sync.{name}() would block the running event loop; await {owner}.{name}() instead"
            )
        call = _Call(make(), self._started())
        try:
            call.done.wait()
        except BaseException:
            # A signal in this thread: the run must settle before the caller goes on, so that its state is known.
            call.cancel()
            call.done.wait(SETTLE_SECONDS)
            raise
        return call.result()

    def _started(self) -> asyncio.AbstractEventLoop:
        if self._pid != os.getpid():
            self._renew()  # threads stay with the parent, and its lock may have been held when it forked
        with self._lock:
            if self._loop is None or self._loop.is_closed():
                self._loop = asyncio.new_event_loop()
                threading.Thread(target=self._loop.run_forever, name="protolink-sync", daemon=True).start()
            return self._loop


class _Call(Generic[T]):
    """A coroutine in the loop of another thread. ``done`` is set when it has ended, not when its end was asked for."""

    def __init__(self, work: Coroutine[Any, Any, T], loop: asyncio.AbstractEventLoop) -> None:
        self.done = threading.Event()
        self._loop = loop
        self._task: asyncio.Task[T | _Signal] | None = None
        loop.call_soon_threadsafe(self._begin, work)

    def cancel(self) -> None:
        self._loop.call_soon_threadsafe(self._cancel)

    def result(self) -> T:
        assert self._task is not None
        found = self._task.result()
        if isinstance(found, _Signal):
            raise found.error
        return found

    def _begin(self, work: Coroutine[Any, Any, T]) -> None:
        self._task = self._loop.create_task(_carried(work))
        self._task.add_done_callback(lambda _: self.done.set())

    def _cancel(self) -> None:
        assert self._task is not None
        self._task.cancel()


@dataclass(frozen=True, slots=True)
class _Signal:
    error: BaseException


async def _carried(work: Coroutine[Any, Any, T]) -> T | _Signal:
    """As an exception, a signal that a tool raised would end the loop of everybody; as a value it ends this call."""
    try:
        return await work
    except (KeyboardInterrupt, SystemExit) as error:
        return _Signal(error)


#: The one of this process.
LOOP = LoopThread()


def settled(name: str, make: Callable[[], Coroutine[Any, Any, None]]) -> Awaitable[None]:
    """Inside a running loop the work as a task of that loop; otherwise it is done when this returns."""
    try:
        return asyncio.get_running_loop().create_task(make())
    except RuntimeError:
        LOOP.run(name, make)
        return _Settled()


class _Settled:
    """What is left to await of something that is done."""

    def __await__(self) -> Generator[None, None, None]:
        return
        yield
