"""Several agents as one part of an application, started and stopped together."""

from __future__ import annotations

from .group import AgentGroup
from .limits import GroupLimits

__all__ = ["AgentGroup", "GroupLimits"]
