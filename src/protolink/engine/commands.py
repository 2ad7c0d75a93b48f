"""Commands: what the run wants done now. Derived from the state, never stored.

A command is a frozen value and its own key: the driver never starts an equal one twice. Waiting for time is no command;
``wake_at`` bounds the driver's wait.
"""

from __future__ import annotations

from dataclasses import dataclass

from .facts import Fact


@dataclass(frozen=True, slots=True, eq=False)
class Stage:
    """Stage this fact."""

    fact: Fact


@dataclass(frozen=True, slots=True)
class Compose:
    """Estimate the next request to the model. A read."""

    frame: str
    turn: int
    attempt: int


@dataclass(frozen=True, slots=True)
class CallModel:
    frame: str
    turn: int
    attempt: int
    tokens: int


@dataclass(frozen=True, slots=True)
class Prepare:
    """Find out exactly what the action would do. A read. ``again`` counts the drives in which that was asked."""

    action: str
    epoch: int


@dataclass(frozen=True, slots=True)
class Authorize:
    """Ask policy. A read."""

    action: str
    epoch: int


@dataclass(frozen=True, slots=True)
class Ask:
    """Put a stored question to somebody who is connected. A durable run has nobody connected: it parks."""

    request: str


@dataclass(frozen=True, slots=True)
class Invoke:
    """Perform the authorized action."""

    action: str


Command = Stage | Compose | CallModel | Prepare | Authorize | Ask | Invoke
