"""RunRecorder: an event sink that keeps what it saw and makes reports of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from .context import RunContext
from .events import RunEvent
from .report import RunReport
from .sinks import InMemoryEventSink

if TYPE_CHECKING:
    from protolink.models import RedactionPolicy


class RunRecorder:
    """Keeps events in memory, numbered like ``InMemoryEventSink`` does. For one event loop.

    ``context`` is the default for normalizing and for reports; a mapping is read as a serialized RunContext. TypeError
    for anything else.
    """

    def __init__(self, *, context: RunContext | Mapping[str, Any] | None = None) -> None:
        if isinstance(context, Mapping):
            context = RunContext.from_dict(context)
        if context is not None and not isinstance(context, RunContext):
            raise TypeError(f"context must be a RunContext or its mapping, not {type(context).__name__}")
        self.context = context
        self._sink = InMemoryEventSink()

    @property
    def events(self) -> tuple[RunEvent, ...]:
        """The recorded objects in the order of their arrival."""
        return self._sink.events

    async def emit(self, event: RunEvent) -> None:
        """Record a normalized event."""
        await self._sink.emit(event)

    async def emit_task_event(self, event: Any, *, context: RunContext | None = None) -> RunEvent:
        """Normalize a task event, record it and return it. ``context`` wins over the recorder's own."""
        return await self._sink.emit_task_event(event, context=self.context if context is None else context)

    async def record_event(self, event: RunEvent) -> RunEvent:
        """Record a normalized event and return it."""
        await self._sink.emit(event)
        return event

    async def record_task_event(self, event: Any, *, context: RunContext | None = None) -> RunEvent:
        """The same as ``emit_task_event``."""
        return await self.emit_task_event(event, context=context)

    def to_report(
        self,
        *,
        context: RunContext | None = None,
        final_task: dict[str, Any] | None = None,
        metadata: Mapping[str, Any] | None = None,
        redaction_policy: RedactionPolicy | None = None,
    ) -> RunReport:
        """A new report of what was recorded so far; a masked one when a redaction policy is given."""
        chosen = self.context if context is None else context
        report = RunReport.from_events(self._sink.events, context=chosen, final_task=final_task, metadata=metadata)
        return report if redaction_policy is None else report.redacted(redaction_policy)

    def clear(self) -> None:
        """Forget all events and number from one again. The context stays."""
        self._sink.clear()
