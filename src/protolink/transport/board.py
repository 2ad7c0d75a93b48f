"""Who serves which ``runtime://`` address in this process, and how to get from one event loop into another."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator
from contextlib import aclosing

from ..errors import TransportConnectionError
from ..models.value import dataclass
from .edge import AHEAD, Edge
from .faults import Fault
from .loops import LoopEnded, call_in, run_in, watch
from .request import Request
from .wire import Reply, reply_of

_LOST = "The event loop of the server has ended, and with it the server"

#: Events after which the reader in another loop gives room back: waking that loop for each would cost more.
_BATCH = AHEAD // 2


@dataclass(frozen=True, slots=True)
class Listener:
    """A server and the loop in which it lives. It may be asked from any loop of any thread."""

    edge: Edge
    loop: asyncio.AbstractEventLoop

    @property
    def alive(self) -> bool:
        return self.loop.is_running()

    async def handle(self, request: Request) -> Reply:
        """TransportConnectionError when the server's loop ends before it has answered."""
        try:
            return await run_in(self.loop, lambda: self.edge.handle(request))
        except LoopEnded as ended:
            raise TransportConnectionError(_LOST, outcome_unknown=ended.began, retryable=not ended.began) from None

    async def stream(self, request: Request) -> AsyncGenerator[Reply, None]:
        """Closing it cancels the work; in one loop it waits until that has settled, within bounds."""
        if self.loop is asyncio.get_running_loop():
            async with aclosing(self.edge.stream(request)) as replies:
                async for reply in replies:
                    yield reply
            return
        across = _Across(self, request, asyncio.get_running_loop())
        try:
            while (found := await across.next()) is not None:
                yield found
        finally:
            across.close()

    async def close(self, seconds: float) -> None:
        """Close the edge in its own loop. When that loop has ended there is nothing left to close."""
        try:
            await run_in(self.loop, lambda: self.edge.close(seconds))
        except LoopEnded:
            pass


class _Across:
    """A stream whose work is in the server's loop and whose reader is in another one."""

    def __init__(self, listener: Listener, request: Request, reader: asyncio.AbstractEventLoop) -> None:
        self._server = listener.loop
        self._reader = reader
        self._queue: asyncio.Queue[Reply | None] = asyncio.Queue()  # bounded by the room of the other side
        self._room = asyncio.Semaphore(AHEAD)  # the server's loop takes of it and gives back
        self._read = 0
        self._work: asyncio.Task[None] | None = None
        self._look_no_more = watch(self._server, self._lose)
        call_in(self._server, lambda: self._begin(listener.edge, request))

    async def next(self) -> Reply | None:
        found = await self._queue.get()
        self._read += 1
        if self._read == _BATCH:
            self._read = 0
            call_in(self._server, self._make_room)
        return found

    def close(self) -> None:
        self._look_no_more()
        call_in(self._server, self._cancel)

    def _lose(self) -> None:
        self._queue.put_nowait(reply_of(Fault("interrupted", _LOST)))
        self._queue.put_nowait(None)

    def _begin(self, edge: Edge, request: Request) -> None:
        self._work = edge.open(request, self._deliver, self._room)

    def _make_room(self) -> None:
        for _ in range(_BATCH):
            self._room.release()

    def _deliver(self, reply: Reply | None) -> None:
        if not call_in(self._reader, lambda: self._queue.put_nowait(reply)):
            self._cancel()  # nobody reads any more

    def _cancel(self) -> None:
        if self._work is not None:
            self._work.cancel()


class Board:
    """By address. Safe to use from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._listeners: dict[str, Listener] = {}

    def open(self, url: str, listener: Listener) -> None:
        """TransportConnectionError when somebody serves there. One whose loop has ended does not."""
        with self._lock:
            found = self._listeners.get(url)
            if found is not None and found.alive:
                raise TransportConnectionError(f"{url} is served already in this process", url=url)
            self._listeners[url] = listener

    def close(self, url: str, edge: Edge) -> None:
        """Take that server off; another one stays."""
        with self._lock:
            found = self._listeners.get(url)
            if found is not None and found.edge is edge:
                del self._listeners[url]

    def find(self, url: str) -> Listener:
        """TransportConnectionError when nobody serves there: nothing was sent, so it may be tried again."""
        with self._lock:
            found = self._listeners.get(url)
        if found is None or not found.alive:
            text = f"Nobody serves {url} in this process: start the agent's server first, and check the address"
            raise TransportConnectionError(text, url=url, retryable=True)
        return found


#: The one board of this process. An address is the only way to a server on it.
BOARD = Board()
