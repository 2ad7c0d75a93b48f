"""Readers of one run: the answer while it is written, the activity with a cursor, and a new process that goes on.

Run it at the root of the repository: .venv/bin/python examples/embedded_streaming.py
It needs no key and no network; the model's replies are scripted. The file of runs is temporary.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path

from protolink import LLM, Agent, ConversationHistory, PresentationEvent, RunContext, RunHandle, StreamGapError

RUN = "forecast-1"
CALL = '{"type": "tool_call", "tool": "measure", "args": {"place": "Kiel"}}'
ANSWER = '{"type": "final", "content": "It is 12 degrees in Kiel."}'


class Forecaster(LLM):
    """Plays two replies. The second one comes in pieces, as from any model that streams."""

    def validate_connection(self) -> bool:
        return True

    async def call(self, history: ConversationHistory) -> str:
        return ANSWER if any(message.role == "assistant" for message in history) else CALL

    async def call_stream(self, history: ConversationHistory) -> AsyncIterator[str]:
        reply = await self.call(history)
        for start in range(0, len(reply), 12):
            yield reply[start : start + 12]
            await asyncio.sleep(0)


def measure(place: str) -> int:
    """Degrees at a place."""
    return 12


def application(folder: Path) -> Agent:
    return Agent(
        name="weather", llm=Forecaster("script"), tools=[measure], durability=folder / "runs.sqlite", verbosity=0
    )


async def read_answer(handle: RunHandle) -> None:
    """What a page shows as the answer; a delta is added, anything else takes the place of what is shown."""
    shown = ""
    async for answer in handle.answer_events():
        shown = shown + answer.text if answer.kind == "delta" else answer.text
        print(f"answer {answer.kind}: {shown}")


async def read_activity(handle: RunHandle) -> int:
    """Read some lines of activity, lose the connection, and go on behind the last one; returns the last number."""
    cursor = 0
    async for event in handle.presentation_events():
        cursor = event.sequence
        print(f"activity {cursor}: {event.title}")
        if event.title == "measure started":
            break
    print(f"-- the connection breaks; the reader goes on after={cursor}")
    async for event in handle.presentation_events(after=cursor):
        cursor = event.sequence
        print(f"activity {cursor}: {event.title}")
    return cursor


async def read_too_late(handle: RunHandle) -> None:
    """A window of 5 events has moved on: the report is the snapshot, and reading goes on behind it."""
    try:
        async for _ in handle.events(after=1):
            pass
    except StreamGapError as gap:
        ended = handle.report.events[-1].payload["new_state"]
        print(f"event {gap.requested} is gone; the report knows {ended} as the state")
        rest = [event.type async for event in handle.events(after=gap.first_available - 1)]
        print(f"then {len(rest)} events, the last one {rest[-1]}")


async def first_process(folder: Path) -> None:
    handle = application(folder).start_run("How warm is it in Kiel?")
    await read_answer(handle)
    last = await read_activity(handle)
    print(f"-- another process reads what is stored, on after={last - 8}")
    subprocess.run([sys.executable, __file__, str(folder), handle.context.run_id, str(last - 8)], check=True)
    small = application(folder).start_run("And now?", context=RunContext(run_id=RUN), event_buffer_size=5)
    await small.result()
    await read_too_late(small)


def second_process(folder: Path, run_id: str, after: int) -> None:
    for event in application(folder).run_events(run_id, after=after):
        shown = PresentationEvent.of(event)
        if shown is not None:
            print(f"stored {shown.sequence}: {shown.title}")


def main() -> None:
    if len(sys.argv) == 4:
        second_process(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
        return
    with tempfile.TemporaryDirectory(prefix="protolink-") as folder:
        sys.stdout.reconfigure(line_buffering=True)
        asyncio.run(first_process(Path(folder)))


if __name__ == "__main__":
    main()
