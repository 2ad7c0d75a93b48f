"""What the tests of the network share: an agent written by hand, servers, wires that are watched, and other threads."""

from __future__ import annotations

import asyncio
import itertools
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Iterator
from contextlib import aclosing, asynccontextmanager, contextmanager
from typing import Any

from protolink import (
    AgentCard,
    AgentServer,
    RuntimeTransport,
    Task,
    TaskCancellationRequest,
    TaskNotCancelableError,
    TaskNotFoundError,
    TaskProgressEvent,
    TaskStatusUpdateEvent,
    TransportConfig,
)
from protolink.transport.request import Request
from protolink.transport.wire import Answer

_numbers = itertools.count(1)


def address(name: str = "agent") -> str:
    """An address that no other test uses."""
    return f"runtime://{name}-{next(_numbers)}"


def card(url: str = "runtime://desk", name: str = "desk", **fields: Any) -> AgentCard:
    return AgentCard(name=name, description="A desk", url=url, **fields)


def work(text: str = "do it") -> Task:
    return Task.create(text)


class Desk:
    """An agent that completes every task with an echo, once its gate is open. It is no ``Agent`` at all."""

    def __init__(self, url: str = "runtime://desk", *, open: bool = True) -> None:
        self.card = card(url)
        self.begun: list[str] = []
        self.canceled: list[TaskCancellationRequest] = []
        self.reached = asyncio.Event()
        self.gate = asyncio.Event()
        if open:
            self.gate.set()
        self.raises: Exception | None = None
        self.ends: Callable[[Task], Any] = lambda task: task.complete("echo")
        self._tasks: dict[str, tuple[Task, asyncio.Event]] = {}

    async def run_task(self, task: Task, /) -> Task:
        async with aclosing(self.handle_task_streaming(task)) as events:
            async for _ in events:
                pass
        return task

    async def handle_task_streaming(self, task: Task, /) -> AsyncGenerator[Any, None]:
        self.begun.append(task.id)
        gone = asyncio.Event()
        self._tasks[task.id] = (task, gone)
        try:
            yield TaskStatusUpdateEvent(task.id, task.state.value, "working")
            self.reached.set()
            await self._pass(gone)
            if self.raises is not None:
                raise self.raises
            if not task.is_terminal:
                yield TaskProgressEvent(task.id, 50, "half of it")
                self.ends(task)
            yield TaskStatusUpdateEvent(task.id, "working", task.state.value, True)
        except (GeneratorExit, asyncio.CancelledError):
            task.cancel("left")
            raise
        finally:
            del self._tasks[task.id]

    async def cancel_task(self, task_id: TaskCancellationRequest, /) -> Task:
        self.canceled.append(task_id)
        found = self._tasks.get(task_id.id)
        if found is None:
            raise TaskNotFoundError("no such task")
        task, gone = found
        if task.is_terminal:
            raise TaskNotCancelableError("it has ended")
        task.cancel(task_id.metadata.get("reason"))
        gone.set()
        return task

    async def _pass(self, gone: asyncio.Event) -> None:
        waits = [asyncio.ensure_future(self.gate.wait()), asyncio.ensure_future(gone.wait())]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()


@asynccontextmanager
async def serving(
    agent: Any, url: str | None = None, config: TransportConfig | None = None, **options: Any
) -> AsyncIterator[AgentServer]:
    """A started server for an agent."""
    server = AgentServer(agent, RuntimeTransport(url or address(), config=config), **options)
    await server.start()
    try:
        yield server
    finally:
        await server.stop()


class WatchedTransport(RuntimeTransport):
    """Keeps every request that is sent, retries too. ``fails``: what is raised in place of sending them."""

    def __init__(self, *args: Any, fails: Callable[[], Exception] | None = None, **options: Any) -> None:
        super().__init__(*args, **options)
        self.sent: list[Request] = []
        self.fails = fails

    async def exchange(self, request: Request, base_url: str) -> Answer:
        self._keep(request)
        return await super().exchange(request, base_url)

    async def replies(self, request: Request, base_url: str) -> AsyncGenerator[Answer, None]:
        self._keep(request)
        async with aclosing(super().replies(request, base_url)) as answers:
            async for answer in answers:
                yield answer

    @property
    def asked(self) -> list[tuple[str, str]]:
        """Method and path of every request."""
        return [(request.method, request.path) for request in self.sent]

    def _keep(self, request: Request) -> None:
        self.sent.append(request)
        if self.fails is not None:
            raise self.fails()


class OtherLoop:
    """An event loop that runs in a thread of its own."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever)
        self._thread.start()

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Do it there and wait here, blocking."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result()

    async def there(self, work: Coroutine[Any, Any, Any]) -> Any:
        """Do it there while this loop goes on."""
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self.loop))

    def end(self) -> None:
        """Cancel what runs there and close the loop, as the end of ``asyncio.run`` does. Harmless again."""
        if self.loop.is_closed():
            return
        self.run(_cancel_others())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()


@contextmanager
def other_loop() -> Iterator[OtherLoop]:
    found = OtherLoop()
    try:
        yield found
    finally:
        found.end()


async def _cancel_others() -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    await asyncio.gather(*others, return_exceptions=True)


async def until(condition: Callable[[], bool]) -> None:
    """Let others run until the condition holds. Bounded by turns of the loop, not by time."""
    for _ in range(10_000):
        if condition():
            return
        await asyncio.sleep(0)
    raise AssertionError("the awaited condition never held")
