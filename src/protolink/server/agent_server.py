"""AgentServer: one agent behind one transport."""

from __future__ import annotations

import asyncio

from ..drive.clock import SystemClock
from ..drive.ports import Clock
from ..transport import Routes, Transport
from ..transport.loops import LoopEnded, run_in
from ..transport.request import AGENT_CARD, CANCEL_TASK, STREAM_TASK, SUBMIT_TASK
from .memory import Remembering, add_state_routes
from .served import Served
from .tasks import TaskEndpoints


class AgentServer:
    """Serves the agent's card, its tasks, and its memory where it has one: over a network to known callers only.

    ``routes`` takes further operations until the server starts. The agent works in the loop in which ``start`` was
    awaited. ``clock`` tells how old remembered answers are.
    """

    def __init__(self, agent: Served, transport: Transport, *, clock: Clock | None = None) -> None:
        if not isinstance(transport, Transport):
            raise TypeError(f"AgentServer needs a Transport, not {type(transport).__name__}; see transport_for()")
        if transport.url is None:
            raise ValueError("AgentServer needs a transport with a url to serve under")
        self.agent = agent
        self.transport = transport
        self.routes = Routes()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._tasks = TaskEndpoints(agent, transport.config, clock or SystemClock())
        self.routes.add(AGENT_CARD, self._tasks.card)
        self.routes.add(SUBMIT_TASK, self._tasks.submit)
        self.routes.add(CANCEL_TASK, self._tasks.cancel)
        if transport.supports_streaming:
            self.routes.add_stream(STREAM_TASK, self._tasks.stream)
        if isinstance(agent, Remembering):
            add_state_routes(self.routes, agent, network=transport.network)

    @property
    def url(self) -> str:
        """Where clients find it."""
        assert self.transport.url is not None
        return self.transport.url

    @property
    def running(self) -> bool:
        return self._loop is not None and self._loop.is_running()

    async def start(self) -> None:
        """Serve. Harmless again. TransportConnectionError when the address is taken."""
        if self.running:
            return
        await self.stop()  # of an event loop that has ended meanwhile
        self._loop = asyncio.get_running_loop()
        try:
            self.transport.setup_routes(self.routes)
            self._tasks.reopen()
            await self.transport.start()
        except BaseException:
            self._loop = None
            raise

    async def stop(self) -> None:
        """Take nothing new, let tasks end for the transport's ``shutdown_timeout``, cancel the rest. Harmless again.

        From any loop; a server whose loop has ended is only taken off.
        """
        loop, self._loop = self._loop, None
        if loop is None:
            return
        try:
            await run_in(loop, self._stop)
        except LoopEnded:
            await self.transport.stop()

    async def _stop(self) -> None:
        try:
            await self._tasks.drain(self.transport.config.shutdown_timeout)
        finally:
            await self.transport.stop()
