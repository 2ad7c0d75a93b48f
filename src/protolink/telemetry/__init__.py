"""Detailed traces of runs, for looking into them later. Telemetry watches; it cannot stop or change a run."""

from __future__ import annotations

from .feed import TelemetryFeed
from .local import LocalTraceTelemetry
from .multi import MultiTelemetry
from .recorder import LocalTraceRecorder
from .telemetry import Telemetry

__all__ = ["LocalTraceRecorder", "LocalTraceTelemetry", "MultiTelemetry", "Telemetry", "TelemetryFeed"]
