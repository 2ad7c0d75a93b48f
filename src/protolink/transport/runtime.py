"""RuntimeTransport: agents of one process talk as if they were far apart.

No socket is opened. Everything still passes as JSON text, through the same edge as on a network, so that what works
here works there: no object, no context variable and no exception of one agent reaches another.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace
from typing import ClassVar

from .board import BOARD, Listener
from .edge import Edge
from .exchange import WireTransport
from .request import Request
from .wire import Answer, pack, unpack


class RuntimeTransport(WireTransport):
    """``runtime://name``: serves and reaches agents of this process, in any thread and event loop of it.

    ``url`` None makes a transport that only asks. A server lives in the loop in which it was started. While it
    serves it asks under its own address: that is how the other side tells its callers apart. Others it cannot tell.
    """

    transport_type: ClassVar[str] = "runtime"
    schemes: ClassVar[tuple[str, ...]] = ("runtime",)
    supports_streaming: ClassVar[bool] = True
    network: ClassVar[bool] = False

    _listener: Listener | None = None

    def address(self, url: str) -> str:
        found = super().address(url)
        name = found.partition("://")[2]
        if not name or "/" in name or any(mark.isspace() for mark in name):
            raise ValueError(
                "an address of the runtime transport is runtime://name; the name has neither '/' nor spaces"
            )
        return found

    async def exchange(self, request: Request, base_url: str) -> Answer:
        reply = await BOARD.find(base_url).handle(self._signed(request))
        return unpack(pack(reply, request.request_id), self.config.limits)

    async def replies(self, request: Request, base_url: str) -> AsyncGenerator[Answer, None]:
        async with aclosing(BOARD.find(base_url).stream(self._signed(request))) as found:
            async for reply in found:
                yield unpack(pack(reply, request.request_id, stream=True), self.config.limits, stream=True)

    async def listen(self, url: str, edge: Edge) -> None:
        listener = Listener(edge, asyncio.get_running_loop())
        BOARD.open(url, listener)
        self._listener = listener

    async def hang_up(self, edge: Edge) -> None:
        assert self.url is not None
        BOARD.close(self.url, edge)

    async def close(self, edge: Edge) -> None:
        assert self._listener is not None
        try:
            await self._listener.close(self.config.shutdown_timeout)
        finally:
            await self.hang_up(edge)

    def _signed(self, request: Request) -> Request:
        """``url`` alone proves nothing: that of a client is its server's."""
        return request if self._edge is None else replace(request, caller=self.url)
