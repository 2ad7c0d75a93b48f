"""The edge of a server: every request of every transport comes in here, as bytes, and leaves as bytes.

Nothing that a client sends raises here: it is told a Fault. Work belongs to the server, not to the request that brought
it: a client that goes away leaves a submitted task running. Only a stream's reader takes its task along.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import aclosing, contextmanager
from contextvars import Context, copy_context
from typing import Any, cast

from ..models.json import encode, loads, plain
from ..runtime.request_context import below
from .config import TransportLimits
from .faults import Fault, bad_request, fault_of
from .metrics import TransportMetrics
from .request import Request, RequestSpec
from .routes import Handler, Route, RouteCall, Routes, StreamHandler
from .wire import Reply, reply_of

_log = logging.getLogger("protolink.transport")

#: Work is told twice to stop: the first time it may finish what it is at, the second time it is given up. Each time it
#: has so many seconds.
_CANCELLATIONS = 2
SETTLE_SECONDS = 2.0
#: Seconds for which the reader of a stream that it leaves early waits until the work behind it has settled.
LEAVE_SECONDS = 10.0
#: Events that a stream may be ahead of its reader. Then the work's events wait for it where they are made.
AHEAD = 64

Deliver = Callable[[Reply | None], None]


class Edge:
    """Made in the server's loop. Handlers see the context variables of that moment, never those of a client."""

    def __init__(self, routes: Routes, limits: TransportLimits, metrics: TransportMetrics) -> None:
        self._routes = routes
        self._limits = limits
        self._metrics = metrics
        with below(None):  # a request context of who starts the server is not for its clients
            self._context: Context = copy_context()
        self._running: set[asyncio.Task[Any]] = set()
        self._requests = 0
        self._streams = 0
        self._closing = False

    @property
    def active_requests(self) -> int:
        return self._requests

    @property
    def active_streams(self) -> int:
        return self._streams

    async def handle(self, request: Request) -> Reply:
        """Answer one request. Canceling the caller leaves the work alone."""
        work = self._begin(self._answered(request))
        await asyncio.wait([work])
        reply = (
            reply_of(Fault("interrupted", "The server stopped in the middle")) if work.cancelled() else work.result()
        )
        self._count("requests_served", reply)
        return reply

    def open(self, request: Request, deliver: Deliver, room: asyncio.Semaphore) -> asyncio.Task[None]:
        """Answer with a stream: ``deliver`` takes every reply as it comes, then None. It neither waits nor raises.

        ``room``: taken for each event, to be given back when it was read; the end of a stream needs none. Canceling the
        returned task closes the stream; it ends when the work behind it has settled.
        """
        return self._begin(self._told(request, deliver, room))

    async def stream(self, request: Request) -> AsyncGenerator[Reply, None]:
        """``open`` as an iterator, for transports whose answers are written in the server's own loop."""
        queue: asyncio.Queue[Reply | None] = asyncio.Queue()
        room = asyncio.Semaphore(AHEAD)
        work = self.open(request, queue.put_nowait, room)
        try:
            while (reply := await queue.get()) is not None:
                room.release()
                yield reply
        finally:
            work.cancel()
            await asyncio.wait([work], timeout=LEAVE_SECONDS)
            if not work.done():  # its reader has an answer to give meanwhile; close() deals with it
                _log.warning("The work behind a stream did not end when its reader left; the reader waits no longer")

    async def close(self, seconds: float) -> None:
        """Refuse what is new, wait ``seconds`` for what runs, cancel the rest, and leave alone what does not obey."""
        self._closing = True
        running = self._running - {asyncio.current_task()}
        if running:
            _, running = await asyncio.wait(running, timeout=seconds)
        for _ in range(_CANCELLATIONS):
            for task in running:
                task.cancel()
            if running:
                _, running = await asyncio.wait(running, timeout=SETTLE_SECONDS)
        if running:
            _log.warning("%d requests did not end when the server stopped; nobody waits for them", len(running))

    # ------------------------------------------------------------------------------------------------ inside

    def _begin(self, work: Any) -> asyncio.Task[Any]:
        task = asyncio.get_running_loop().create_task(work, context=self._context.copy())
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        return task

    async def _answered(self, request: Request) -> Reply:
        try:
            route = self._routes.find(request.method, request.path)
            if route.spec.streaming:
                raise bad_request(f"{route.spec.path} answers with a stream; this request cannot take one")
            with self._place(route.spec):
                value = await cast(Handler, route.handler)(self._call(request))
            return self._reply(value, final=True)
        except Exception as error:
            return _refusal(error)

    async def _told(self, request: Request, deliver: Deliver, room: asyncio.Semaphore) -> None:
        final = False
        try:
            route = self._streaming(request)
            with self._place(route.spec):
                events = cast(StreamHandler, route.handler)(self._call(request))
                async with aclosing(events):
                    async for event, final in events:
                        if not final:
                            await room.acquire()
                        deliver(self._reply(event, final=final))
                        if final:
                            break
            if not final:
                raise Fault("internal", "The agent's stream ended without a final status")
            self._metrics.add("streams_served")
        except asyncio.CancelledError:
            if not final:
                deliver(reply_of(Fault("interrupted", "The server stopped in the middle")))
            raise
        except Exception as error:
            if not final:
                deliver(_refusal(error))
            self._metrics.add("faults_served")
        finally:
            deliver(None)

    def _streaming(self, request: Request) -> Route:
        route = self._routes.find(request.method, request.path)
        if not route.spec.streaming:
            raise bad_request(f"{route.spec.path} does not answer with a stream")
        return route

    @contextmanager
    def _place(self, spec: RequestSpec) -> Iterator[None]:
        """One of the limited places. Control requests need none: they free places."""
        if spec.control:
            yield
            return
        if self._closing:
            raise Fault("unavailable", "The server is stopping and takes nothing new")
        taken, limit = (
            (self._streams, self._limits.max_concurrent_streams)
            if spec.streaming
            else (self._requests, self._limits.max_concurrent_requests)
        )
        if taken >= limit:
            kind = "streams" if spec.streaming else "requests"
            raise Fault("overloaded", f"The server is busy with {taken} {kind}, which is its limit; try again later")
        self._count_place(spec, 1)
        try:
            yield
        finally:
            self._count_place(spec, -1)

    def _count_place(self, spec: RequestSpec, change: int) -> None:
        if spec.streaming:
            self._streams += change
        else:
            self._requests += change

    def _call(self, request: Request) -> RouteCall:
        if len(request.body) > self._limits.max_request_bytes:
            raise Fault(
                "too_large",
                f"The request has {len(request.body)} bytes; this server takes {self._limits.max_request_bytes}",
            )
        body = _read(request.body)
        return RouteCall(body, request.params, request.request_id, request.idempotency_key, request.caller)

    def _reply(self, value: Any, *, final: bool) -> Reply:
        body = encode(value)
        limit = self._limits.max_response_bytes if final else self._limits.max_event_bytes
        if len(body) > limit:
            kind = "answer" if final else "event"
            raise Fault(
                "response_too_large",
                f"The {kind} has {len(body)} bytes and this server sends at most {limit}; it was not sent",
            )
        self._metrics.add("bytes_served", len(body))
        return Reply(body, final=final)

    def _count(self, served: Any, reply: Reply) -> None:
        self._metrics.add(served if reply.ok else "faults_served")


def _read(body: bytes) -> Any:
    if not body:
        return None
    try:
        # The parser takes numbers that become infinite and more levels than can be written again; plain() does not.
        return plain(loads(body))
    except ValueError:
        raise bad_request("The body of the request is not JSON") from None
    except TypeError as error:
        raise bad_request(f"The body of the request cannot be taken: {error}") from None


def _refusal(error: Exception) -> Reply:
    """What the client is told. What nobody foresaw is logged too, as the client sees no more than its class."""
    fault = fault_of(error)
    if fault.status == 500 and not isinstance(error, Fault):
        _log.error("A request failed in the agent's code", exc_info=error)
    return reply_of(fault)
