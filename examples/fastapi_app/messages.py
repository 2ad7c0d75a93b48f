"""What a browser is told of a run.

``activity``: a line of what is going on, numbered; its number is where a reader goes on after a break. ``answer``: the
text while it is written; each connection begins it anew, so it needs no number. ``snapshot``: the run as it stands.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

from anyio import Event

from protolink import PresentationEvent, RunHandle, StreamGapError

_END = object()


@dataclass(frozen=True, slots=True)
class Message:
    """One server-sent event. ``number`` is its id."""

    kind: str
    data: dict[str, Any]
    number: int | None = None

    @classmethod
    def activity(cls, event: PresentationEvent) -> Message:
        return cls("activity", event.to_dict(), event.sequence)


@dataclass(frozen=True, slots=True)
class Looks:
    """Looks into the store: activity behind a number, and the run as it stands."""

    stored: Callable[[int], Awaitable[list[Message]]]
    snapshot: Callable[[], Awaitable[dict[str, Any]]]


async def live(handle: RunHandle, after: int, looks: Looks) -> AsyncGenerator[Message, None]:
    """The activity and the answer of a run at work, side by side."""
    async with aclosing(_merged(_activity(handle, after, looks), _answer(handle))) as messages:
        async for message in messages:
            yield message


async def _activity(handle: RunHandle, after: int, looks: Looks) -> AsyncIterator[Message]:
    while True:
        try:
            async for event in handle.presentation_events(after):
                after = event.sequence
                yield Message.activity(event)
            return
        except StreamGapError as gap:
            missed = await looks.stored(after)  # memory keeps them no longer, the store keeps all
            after = gap.first_available - 1
            yield Message("snapshot", await looks.snapshot())
        for message in missed:
            yield message
            after = max(after, message.number or 0)


async def _answer(handle: RunHandle) -> AsyncIterator[Message]:
    while True:
        yield Message("answer", {"kind": "replace", "text": ""})
        try:
            async for answer in handle.answer_events():
                yield Message("answer", {"kind": answer.kind, "text": answer.text})
            return
        except StreamGapError:
            continue  # this reader was too slow; it begins again with what is there


async def until(stop: Event, messages: AsyncGenerator[Message, None]) -> AsyncGenerator[Message, None]:
    """The messages, until the server stops."""
    stopping = asyncio.ensure_future(stop.wait())
    coming = asyncio.ensure_future(anext(messages, None))
    try:
        while await asyncio.wait([coming, stopping], return_when=asyncio.FIRST_COMPLETED):
            if not coming.done() or (message := coming.result()) is None:
                return
            yield message
            coming = asyncio.ensure_future(anext(messages, None))
    finally:
        for waiting in (coming, stopping):
            waiting.cancel()
        await asyncio.gather(coming, stopping, return_exceptions=True)
        await messages.aclose()


async def _merged(*sources: AsyncIterator[Message]) -> AsyncGenerator[Message, None]:
    """All messages as they come. A reader that is slow holds up nobody but itself."""
    queue: asyncio.Queue[Any] = asyncio.Queue(maxsize=100)

    async def read(source: AsyncIterator[Message]) -> None:
        try:
            async for message in source:
                await queue.put(message)
        except Exception as error:
            await queue.put(error)
        await queue.put(_END)

    readers = [asyncio.create_task(read(source)) for source in sources]
    try:
        for _ in readers:
            while (message := await queue.get()) is not _END:
                if isinstance(message, Exception):
                    raise message
                yield message
    finally:
        for reader in readers:
            reader.cancel()
        await asyncio.gather(*readers, return_exceptions=True)
