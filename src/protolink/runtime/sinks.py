"""Consumers of run events. A sink observes; it cannot approve or stop anything."""

from __future__ import annotations

from typing import Any, Protocol

from .context import RunContext
from .events import RunEvent


class EventSink(Protocol):
    """Takes normalized events, one at a time, in order."""

    async def emit(self, event: RunEvent) -> None: ...


class InMemoryEventSink:
    """Keeps every event. For one event loop: it has no lock."""

    def __init__(self) -> None:
        self._events: list[RunEvent] = []
        self._next = 1

    @property
    def events(self) -> tuple[RunEvent, ...]:
        """The recorded objects in the order of their arrival."""
        return tuple(self._events)

    async def emit(self, event: RunEvent) -> None:
        """Record the event itself. Without a number it gets the next one; a larger number moves the counter on."""
        if event.sequence is None:
            event.sequence = self._next
        self._next = max(self._next, event.sequence + 1)
        self._events.append(event)

    async def emit_task_event(self, event: Any, *, context: RunContext | None = None) -> RunEvent:
        """Normalize a task event, record it and return it."""
        normalized = RunEvent.from_task_event(event, context=context)
        await self.emit(normalized)
        return normalized

    def to_list(self) -> list[dict[str, Any]]:
        """All events as mappings, not redacted."""
        return [event.to_dict() for event in self._events]

    def clear(self) -> None:
        """Forget all events and number from one again."""
        self._events.clear()
        self._next = 1
