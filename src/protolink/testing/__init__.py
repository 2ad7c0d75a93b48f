"""Tools for testing agents: models with a script, a clock, stores that fail on a plan, and crashes at every commit."""

from __future__ import annotations

from .clock import FakeClock
from .conformance import store_conformance
from .crash import CrashReport, Finding, crash_everywhere
from .effects import Effect, EffectLog
from .faulty import Crash, FaultyStore, Outage, SimulatedCrash, Theft
from .scripted import ScriptedModel
from .trial import UncertainAction

__all__ = [
    "Crash",
    "CrashReport",
    "Effect",
    "EffectLog",
    "FakeClock",
    "FaultyStore",
    "Finding",
    "Outage",
    "ScriptedModel",
    "SimulatedCrash",
    "Theft",
    "UncertainAction",
    "crash_everywhere",
    "store_conformance",
]
