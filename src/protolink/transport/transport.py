"""Transport: how requests get to another agent, and how they are taken from one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Mapping
from typing import Any, ClassVar

from ..models import Task
from ..models.value import dataclass
from .config import TransportConfig
from .metrics import TransportMetrics
from .request import RequestSpec
from .routes import Routes


@dataclass(frozen=True, slots=True)
class TransportCapabilities:
    """``streaming``: events arrive while work goes on. ``network``: it reaches other processes."""

    streaming: bool
    network: bool


class Transport(ABC):
    """Both halves: clients ask with ``send`` and ``subscribe``, servers answer after ``setup_routes`` and ``start``.

    ``url`` is the address served, or that of the one server a client always asks; None for a client of many.
    """

    transport_type: ClassVar[str]
    schemes: ClassVar[tuple[str, ...]]
    supports_streaming: ClassVar[bool] = False
    network: ClassVar[bool] = True

    url: str | None
    config: TransportConfig
    metrics: TransportMetrics

    @property
    def capabilities(self) -> TransportCapabilities:
        return TransportCapabilities(streaming=self.supports_streaming, network=self.network)

    @abstractmethod
    def setup_routes(self, routes: Routes) -> None:
        """Say what is served. Before ``start``; RuntimeError while it serves."""

    @abstractmethod
    async def start(self) -> None:
        """Serve under ``url``. Harmless again. TransportConnectionError when the address is taken."""

    @abstractmethod
    async def stop(self) -> None:
        """Take nothing new, let what runs end for ``shutdown_timeout`` seconds, then cancel it. Harmless again."""

    @abstractmethod
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
        """Ask the server at ``base_url`` and return its JSON value. ``data``: what has a JSON form; TypeError if not.

        ``timeout``: seconds for all attempts together, None for no end. Raises TransportError, or the error of
        ``protolink.errors`` that the server told of.
        """

    @abstractmethod
    def subscribe(
        self,
        url: str,
        task: Task | Mapping[str, Any],
        *,
        request_id: str | None = None,
        idempotency_key: str | None = None,
        timeout: float | None = None,
    ) -> AsyncGenerator[dict[str, Any], None]:
        """Submit a task and yield its events as JSON objects, the final status last. Closing early cancels the task.

        ``timeout``: seconds until the first event; later ones come within the ``stream_idle_timeout`` of the config.
        TransportTimeoutError otherwise, and NotImplementedError where the transport does not stream.
        """

    @abstractmethod
    async def health(self) -> dict[str, Any]:
        """``{"status": "serving" | "stopped", "transport", "url", "active_requests", "active_streams"}``."""
