"""``agent.sync``: the async methods for callers without an event loop.

One background thread runs one loop for the process; the very same coroutines run there. Inside a running loop a
blocking call would stop that loop, so it is refused before anything starts.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from ..models import Task
from ..runtime import RunContext

if TYPE_CHECKING:
    from .agent import Agent

T = TypeVar("T")

#: How long an interrupted call waits for its run to come to rest.
SETTLE_SECONDS = 30.0


class LoopThread:
    """An event loop in a daemon thread, started when it is first needed."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None

    def run(self, name: str, make: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Run the coroutine there and wait. RuntimeError inside a running loop."""
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            pass
        else:
            raise RuntimeError(f"agent.sync.{name}() would block the running event loop; await agent.{name}() instead")
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


@dataclass(frozen=True)
class _Signal:
    error: BaseException


async def _carried(work: Coroutine[Any, Any, T]) -> T | _Signal:
    """As an exception, a signal that a tool raised would end the loop of everybody; as a value it ends this call."""
    try:
        return await work
    except (KeyboardInterrupt, SystemExit) as error:
        return _Signal(error)


LOOP = LoopThread()


class SyncAgent:
    """Blocking twins of an agent's methods, with the same arguments and errors."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent

    def invoke(self, message: Any, *args: Any, **kwargs: Any) -> Any:
        return LOOP.run("invoke", lambda: self._agent.invoke(message, *args, **kwargs))

    def call_tool(self, tool_name: str, /, **kwargs: Any) -> Any:
        return LOOP.run("call_tool", lambda: self._agent.call_tool(tool_name, **kwargs))

    def call_tool_in_context(self, tool_name: str, context: RunContext, /, **kwargs: Any) -> Any:
        return LOOP.run("call_tool_in_context", lambda: self._agent.call_tool_in_context(tool_name, context, **kwargs))

    def run_task(self, task: Task) -> Task:
        return LOOP.run("run_task", lambda: self._agent.run_task(task))

    def cancel_task(self, task_id: Any, reason: str | None = None) -> Task:
        return LOOP.run("cancel_task", lambda: self._agent.cancel_task(task_id, reason))

    def resume(self, run_id: str, **response: Any) -> Any:
        return LOOP.run("resume", lambda: self._agent.resume(run_id, **response))

    def resume_task(self, run_id: str, **response: Any) -> Task:
        return LOOP.run("resume_task", lambda: self._agent.resume_task(run_id, **response))
