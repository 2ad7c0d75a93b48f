"""Which action a tool is asked to prepare."""

from __future__ import annotations

from contextvars import ContextVar

#: The id that the run has for the action which a tool is asked for, while it is asked. A tool that builds the action
#: itself names it so at once; what an application builds is renamed by ``identity.identified``.
asked_for: ContextVar[str | None] = ContextVar("asked_for", default=None)
