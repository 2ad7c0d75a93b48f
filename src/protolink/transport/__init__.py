"""How agents reach each other. Transports that need an optional package are loaded when they are used."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._lazy import by_name, loader

_HOMES = {
    "aliases": ("transport_for", "transport_name"),
    "config": (
        "RetryPolicy",
        "TransportConfig",
        "TransportLimits",
    ),
    "exchange": ("WireTransport",),
    "metrics": ("TransportMetrics",),
    "request": ("RequestSpec",),
    "routes": (
        "RouteCall",
        "Routes",
    ),
    "runtime": ("RuntimeTransport",),
    "transport": (
        "Transport",
        "TransportCapabilities",
    ),
}

__all__ = [
    "RequestSpec",
    "RetryPolicy",
    "RouteCall",
    "Routes",
    "RuntimeTransport",
    "Transport",
    "TransportCapabilities",
    "TransportConfig",
    "TransportLimits",
    "TransportMetrics",
    "WireTransport",
    "transport_for",
    "transport_name",
]

if TYPE_CHECKING:
    from .aliases import transport_for, transport_name
    from .config import RetryPolicy, TransportConfig, TransportLimits
    from .exchange import WireTransport
    from .metrics import TransportMetrics
    from .request import RequestSpec
    from .routes import RouteCall, Routes
    from .runtime import RuntimeTransport
    from .transport import Transport, TransportCapabilities

__getattr__, __dir__ = loader(__name__, by_name(_HOMES), globals())
