"""The half of a transport that is the same on every wire: what is sent, how often, for how long, and what comes of it.

A transport of a new kind derives from WireTransport and says how one request is exchanged, how a stream is read, and
how it listens: ``exchange``, ``replies``, ``listen`` and ``hang_up``.
"""

from __future__ import annotations

import asyncio
import random
from abc import abstractmethod
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from typing import Any, TypeVar

from ..drive.clock import SystemClock
from ..drive.ports import Clock
from ..errors import (
    ProtolinkError,
    TransportConnectionError,
    TransportError,
    TransportLimitError,
    TransportProtocolError,
    TransportTimeoutError,
)
from ..models import Task
from ..models.ids import new_id
from ..models.json import encode
from .config import TransportConfig
from .edge import Edge
from .faults import error_of
from .metrics import TransportMetrics
from .request import STREAM_TASK, Request, RequestSpec
from .routes import Routes
from .transport import Transport
from .wire import Answer

T = TypeVar("T")


class WireTransport(Transport):
    """``clock`` and ``chance`` (random numbers from 0 to 1) rule the waits between attempts."""

    def __init__(
        self,
        url: str | None,
        *,
        config: TransportConfig | None = None,
        clock: Clock | None = None,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self.url = None if url is None else self.address(url)
        self.config = config or TransportConfig()
        self.metrics = TransportMetrics(self.config.collect_metrics)
        self._clock: Clock = clock or SystemClock()
        self._chance = chance
        self._routes: Routes | None = None
        self._edge: Edge | None = None

    # ------------------------------------------------------------------------------------------------ one kind of wire

    def address(self, url: str) -> str:
        """The address in its one spelling. ValueError for one that this transport cannot reach."""
        if not isinstance(url, str) or not url.startswith(tuple(f"{scheme}://" for scheme in self.schemes)):
            wanted = " or ".join(f"{scheme}://" for scheme in self.schemes)
            raise ValueError(f"the {self.transport_type} transport needs an address that starts with {wanted}")
        return url.rstrip("/")

    @abstractmethod
    async def exchange(self, request: Request, base_url: str) -> Answer:
        """Send one request and read its answer. TransportError when that cannot be done."""

    @abstractmethod
    def replies(self, request: Request, base_url: str) -> AsyncGenerator[Answer, None]:
        """Send one request and read the answers of its stream. Closing the iterator tells the server."""

    @abstractmethod
    async def listen(self, url: str, edge: Edge) -> None:
        """Take requests to ``url`` and give them to the edge."""

    @abstractmethod
    async def hang_up(self, edge: Edge) -> None:
        """Take no more requests. Those that run are the edge's."""

    # ------------------------------------------------------------------------------------------------ serving

    def setup_routes(self, routes: Routes) -> None:
        if self._edge is not None:
            raise RuntimeError("the transport serves already; set the routes before it starts")
        self._routes = routes

    async def start(self) -> None:
        if self._edge is not None:
            return
        if self.url is None:
            raise ValueError(f"the {self.transport_type} transport needs a url to serve under")
        if self._routes is None:
            raise RuntimeError("the transport has no routes; an AgentServer or a Registry sets them")
        edge = Edge(self._routes, self.config.limits, self.metrics)
        await self.listen(self.url, edge)
        self._edge = edge

    async def stop(self) -> None:
        edge, self._edge = self._edge, None
        if edge is not None:
            await self.close(edge)

    async def close(self, edge: Edge) -> None:
        """Let what runs come to its end while it can still be canceled from outside, then hang up."""
        try:
            await edge.close(self.config.shutdown_timeout)
        finally:
            await self.hang_up(edge)

    async def health(self) -> dict[str, Any]:
        edge = self._edge
        return {
            "status": "stopped" if edge is None else "serving",
            "transport": self.transport_type,
            "url": self.url,
            "active_requests": 0 if edge is None else edge.active_requests,
            "active_streams": 0 if edge is None else edge.active_streams,
        }

    # ------------------------------------------------------------------------------------------------ asking

    async def send(
        self,
        request_spec: RequestSpec,
        base_url: str,
        data: Any = None,
        params: Mapping[str, Any] | None = None,
        *,
        request_id: str | None = None,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> Any:
        url = self.address(base_url)
        request = self._request(request_spec, data, params, request_id, idempotency_key)
        self.metrics.add("requests_sent")
        try:
            async with asyncio.timeout(timeout):
                return await self._attempts(request_spec, request, url)
        except TimeoutError as error:
            raise self._late(error, url, request, timeout) from None
        except ProtolinkError:
            self.metrics.add("errors")
            raise

    async def subscribe(
        self,
        url: str,
        task: Task | Mapping[str, Any],
        *,
        request_id: str | None = None,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> AsyncGenerator[dict[str, Any], None]:
        if not self.supports_streaming:
            raise NotImplementedError(f"the {self.transport_type} transport does not stream; use send_task()")
        url = self.address(url)
        request = self._request(STREAM_TASK, task, None, request_id, idempotency_key)
        self.metrics.add("streams_opened")
        try:
            async with aclosing(self.replies(request, url)) as replies:
                answer = await self._next(replies, url, request, timeout)
                while answer is not None:
                    yield self._event(answer, url, request)
                    if answer.final:
                        return
                    answer = await self._next(replies, url, request, self.config.stream_idle_timeout)
                raise TransportConnectionError("The stream ended before the task did", outcome_unknown=True)
        except ProtolinkError as error:
            self.metrics.add("errors")
            _name_request(error, url, request)
            raise

    # ------------------------------------------------------------------------------------------------ inside

    def _request(
        self,
        spec: RequestSpec,
        data: Any,
        params: Mapping[str, Any] | None,
        request_id: str | None,
        key: str | None,
    ) -> Request:
        request_id = request_id or new_id("request")
        body = b"" if data is None else encode(data)
        limit = self.config.limits.max_request_bytes
        if len(body) > limit:
            text = f"The request has {len(body)} bytes and the limit is {limit}; it was not sent"
            raise TransportLimitError(text, request_id=request_id)
        self.metrics.add("bytes_sent", len(body))
        return Request(spec.method, spec.path, body, _params(params), request_id, key or request_id)

    async def _attempts(self, spec: RequestSpec, request: Request, url: str) -> Any:
        policy = self.config.retry
        allowed = policy.max_attempts if spec.retryable and spec.method in policy.retryable_methods else 1
        attempt = 1
        while True:
            try:
                return self._value(await self.exchange(request, url), url, request)
            except TransportError as error:
                _name_request(error, url, request)
                if attempt >= allowed or not error.retryable:
                    raise
            attempt += 1
            self.metrics.add("retries")
            await self._clock.sleep_until(self._clock.now() + policy.wait_before(attempt, self._chance()))

    def _value(self, answer: Answer, url: str, request: Request) -> Any:
        if answer.fault is not None:
            raise error_of(answer.fault, url=url, request_id=request.request_id)
        return answer.value

    def _event(self, answer: Answer, url: str, request: Request) -> dict[str, Any]:
        event = self._value(answer, url, request)
        if not isinstance(event, dict):
            raise TransportProtocolError("An event of the stream is no JSON object", outcome_unknown=True)
        return event

    async def _next(
        self, replies: AsyncGenerator[Answer, None], url: str, request: Request, timeout: float | None
    ) -> Answer | None:
        try:
            async with asyncio.timeout(timeout):
                return await anext(replies, None)
        except TimeoutError as error:
            raise self._late(error, url, request, timeout) from None

    def _late(self, error: TimeoutError, url: str, request: Request, timeout: float | None) -> TransportTimeoutError:
        if isinstance(error, TransportTimeoutError):  # the wire's own
            return error
        return TransportTimeoutError(
            f"No answer from {url} within {timeout} seconds; what was asked for may still be going on",
            url=url,
            request_id=request.request_id,
            outcome_unknown=True,
        )


def _name_request(error: ProtolinkError, url: str, request: Request) -> None:
    """An error that a wire raised tells from here on what was asked, and where."""
    if isinstance(error, TransportError):
        error.url = error.url or url
        error.request_id = error.request_id or request.request_id


def _params(given: Mapping[str, Any] | None) -> dict[str, list[str]]:
    """Query parameters as lists of texts; what is None is left out."""
    found: dict[str, list[str]] = {}
    for name, value in (given or {}).items():
        if value is not None:
            found[name] = [value] if isinstance(value, str) else [str(item) for item in value]
    return found
