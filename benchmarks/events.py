"""Events on their way to a reader, against an ``asyncio.Queue`` that carries objects which are ready already.

Producers pause after each event, as models and networks do, so the reader is woken for each one, on both sides.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterable
from pathlib import Path
from time import process_time
from typing import Any

from protolink import Agent, RunContext, RunEvent, Task
from protolink.agents.window import EventWindow
from protolink.llms import MockLLM, ModelTurn

from .row import Row
from .timing import alternated
from .workload import Script, agent, budget, count

TURNS = 200
CHUNKS = 10_000
ROUNDS = 15


def rows(directory: Path) -> list[Row]:
    """``directory`` is not needed."""
    raw, context = asyncio.run(_recorded())
    ready = [RunEvent.from_task_event(event, context=context) for event in raw]
    chunks = asyncio.run(_spoken(CHUNKS))
    short, long = asyncio.run(_filled(chunks[:CHUNKS])), asyncio.run(_filled(chunks[:CHUNKS] * 2))
    delivered, carried, streamed, queued, spoken, late, later = alternated(
        _timed(lambda: _normalized(raw, context)),
        _timed(lambda: _queue(ready)),
        _timed(lambda: _window(chunks)),
        _timed(lambda: _queue(chunks)),
        _timed(lambda: _spoken(CHUNKS)),
        _timed(lambda: _read(short)),
        _timed(lambda: _read(long)),
        times=ROUNDS,
    )
    each, chunk, replayed = 1e6 / len(raw), 1e6 / len(chunks), 1e6 / CHUNKS
    return [
        Row("normalize and deliver an event, CPU", delivered * each, "us", 2.5, floor=carried * each),
        Row(f"stream of {CHUNKS:,} chunks to a reader, CPU of each", streamed * chunk, "us", 2.5, floor=queued * chunk),
        Row("  from the model through a whole run", spoken * chunk, "us", 8, 2.5, floor=queued * chunk),
        Row("  replay of twice as many to a late reader", later * replayed, "us", 2.2, 2.05, floor=late * replayed),
    ]


class Speaker(MockLLM):
    """A model that says ``words`` fragments, one after the other."""

    def __init__(self, words: int) -> None:
        super().__init__(tool_calling="native")
        self._words = words

    async def turn(self, history: Any, *, emit: Callable[[str], None] | None = None, **options: Any) -> ModelTurn:
        for _ in range(self._words):
            if emit is not None:
                emit("word ")
            await asyncio.sleep(0)
        return ModelTurn("word " * self._words)


def _timed(work: Callable[[], Coroutine[Any, Any, Any]]) -> Callable[[], float]:
    async def measure() -> float:
        began = process_time()
        await work()
        return process_time() - began

    return lambda: asyncio.run(measure())


async def _recorded() -> tuple[list[Any], RunContext]:
    """The raw events of a run with tool calls."""
    task = Task.create_infer(prompt="go", budget=budget(TURNS))
    runner = agent(Script("count", TURNS), count)
    found = [event async for event in runner.handle_task_streaming(task)]
    return found, RunContext.from_task(task)


async def _spoken(words: int) -> list[RunEvent]:
    """What a reader of a run gets, whose model says so many fragments."""
    handle = Agent(name="bench", description="measured", llm=Speaker(words)).start_run("go")
    return [event async for event in handle.events()]


async def _normalized(events: Iterable[Any], context: RunContext) -> None:
    """What a run's handle does with the events of its agent."""
    await _window(events, lambda event: RunEvent.from_task_event(event, context=context, own=True))


async def _window(events: Iterable[Any], made: Callable[[Any], RunEvent] = lambda event: event) -> None:
    window = EventWindow()

    async def write() -> None:
        for event in events:
            window.add(made(event))
            await asyncio.sleep(0)
        window.end()

    await asyncio.gather(_drain(window.read()), write())


async def _queue(events: Iterable[Any]) -> None:
    queue: asyncio.Queue[Any] = asyncio.Queue()

    async def write() -> None:
        for event in events:
            queue.put_nowait(event)
            await asyncio.sleep(0)
        queue.put_nowait(None)

    async def read() -> None:
        while await queue.get() is not None:
            pass

    await asyncio.gather(read(), write())


async def _filled(events: Iterable[RunEvent]) -> EventWindow:
    window = EventWindow()
    for event in events:
        window.add(event)
    window.end()
    return window


async def _read(window: EventWindow) -> None:
    await _drain(window.read())


async def _drain(events: AsyncIterator[Any]) -> None:
    async for _ in events:
        pass
