"""``agent.sync``: the async methods for callers without an event loop.

One background thread runs one loop for the process; the very same coroutines run there. Inside a running loop a
blocking call would stop that loop, so it is refused before anything starts.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

from ..models import Task
from ..runtime import RunContext

if TYPE_CHECKING:
    from .agent import Agent

T = TypeVar("T")


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
        future = asyncio.run_coroutine_threadsafe(make(), self._started())
        try:
            return future.result()
        except BaseException:
            # A signal in this thread: the run must settle before the caller goes on, so that its state is known.
            if not future.done():
                future.cancel()
                _settle(future)
            raise

    def _started(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None or self._loop.is_closed():
                self._loop = asyncio.new_event_loop()
                threading.Thread(target=self._loop.run_forever, name="protolink-sync", daemon=True).start()
            return self._loop


def _settle(future: Any) -> None:
    done = threading.Event()
    future.add_done_callback(lambda _: done.set())
    done.wait(timeout=30)


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
