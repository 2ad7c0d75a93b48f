"""The events of one run as its readers see them: each at its own place, none able to hold up the run.

Readers have no queues: a reader is a position in one shared record, so one that is slow or gone costs nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator

from ..errors import StreamGapError
from ..runtime import RunEvent


class EventWindow:
    """Numbered on from ``last``. ``size``: how many of the latest events can be read again; None keeps all.

    Events that leave the window are still told to the report, fragments of a model's text excepted. The last event of
    a run is never out of the window.
    """

    def __init__(self, size: int | None = None, last: int = 0) -> None:
        self.size = size
        self.last = last
        self.ended = False
        self._events: dict[int, RunEvent] = {}
        self._left: list[RunEvent] = []
        self._waiting: list[asyncio.Future[None]] = []

    @property
    def first(self) -> int:
        """The number of the oldest event that can be read."""
        return self.last - len(self._events) + 1

    def add(self, event: RunEvent) -> None:
        """Take the next event; it is numbered already, by ``last + 1``."""
        self.last = last = self.last + 1
        self._events[last] = event
        if self.size is not None and len(self._events) > self.size:
            gone = self._events.pop(last - self.size)
            if not is_fragment(gone):
                self._left.append(gone)
        if self._waiting:
            self._tell()

    def end(self) -> None:
        """Nothing more will come."""
        self.ended = True
        self._tell()

    def newest(self) -> RunEvent | None:
        return self._events.get(self.last)

    def kept(self) -> list[RunEvent]:
        """Everything that a report can tell of."""
        return [*self._left, *self._events.values()]

    async def read(self, after: int | None = None) -> AsyncGenerator[RunEvent, None]:
        """What has come, then what comes, until the end. ``after`` None: from the oldest that is still here.

        StreamGapError when an event that is wanted next has left the window.
        """
        position = self.first - 1 if after is None else max(0, after)
        loop = asyncio.get_running_loop()
        while True:
            while position < self.last:
                event = self._events.get(position + 1)
                if event is None:
                    raise StreamGapError(position + 1, self.first)
                position += 1
                yield event
            if self.ended:
                return
            change = loop.create_future()
            self._waiting.append(change)
            await change

    def _tell(self) -> None:
        for change in self._waiting:
            if not change.done():  # a reader that was canceled
                change.set_result(None)
        self._waiting.clear()


def is_fragment(event: RunEvent) -> bool:
    """A piece of a model's text."""
    return event.type == "llm.stream" and event.payload.get("llm_event_type") == "llm_chunk"
