"""Commands: what the run wants done now. Derived from the state, never stored.

A command is a frozen value and its own key: the driver never starts an equal one twice. Waiting for time is no command;
``wake_at`` bounds the driver's wait.
"""

from __future__ import annotations

from ..models.value import value
from .facts import Fact


@value
class Stage:
    """Stage this fact."""

    fact: Fact


@value
class Compose:
    """Estimate the next request to the model. A read."""

    frame: str
    turn: int
    attempt: int


@value
class CallModel:
    frame: str
    turn: int
    attempt: int
    tokens: int


@value
class Prepare:
    """Find out exactly what the action would do. A read. ``again`` counts the drives in which that was asked."""

    action: str
    epoch: int


@value
class Authorize:
    """Ask policy. A read."""

    action: str
    epoch: int


@value
class Ask:
    """Put a stored question to somebody who is connected. A durable run has nobody connected: it parks."""

    request: str


@value
class Invoke:
    """Perform the authorized action."""

    action: str


Command = Stage | Compose | CallModel | Prepare | Authorize | Ask | Invoke
