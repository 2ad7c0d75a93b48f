"""Detailed traces of runs, for looking into them later. Telemetry watches; it cannot stop or change a run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._lazy import by_name, loader

_HOMES = {
    "feed": ("TelemetryFeed",),
    "local": ("LocalTraceTelemetry",),
    "multi": ("MultiTelemetry",),
    "recorder": ("LocalTraceRecorder",),
    "telemetry": ("Telemetry",),
}

__all__ = [
    "LocalTraceRecorder",
    "LocalTraceTelemetry",
    "MultiTelemetry",
    "Telemetry",
    "TelemetryFeed",
]

if TYPE_CHECKING:
    from .feed import TelemetryFeed
    from .local import LocalTraceTelemetry
    from .multi import MultiTelemetry
    from .recorder import LocalTraceRecorder
    from .telemetry import Telemetry

__getattr__, __dir__ = loader(__name__, by_name(_HOMES), globals())
