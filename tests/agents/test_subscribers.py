"""Readers of a run that come, go, lag and come back: hypothesis plays them against a scripted run."""

from __future__ import annotations

import asyncio
from typing import Any

from agent_support import agent, call
from hypothesis import given, settings
from hypothesis import strategies as st

from protolink import RunAction, RunEvent, RunHandle, StreamGapError
from protolink.tools import PreparedTool, ToolExecution

TICKS = 12


def ticking() -> PreparedTool:
    """A tool that tells something in several bursts."""

    def tick() -> int:
        return TICKS

    async def execute(execution: ToolExecution) -> int:
        for number in range(TICKS):
            await execution.emit("app.tick", n=number)
            if number % 4 == 3:
                await asyncio.sleep(0)
        return TICKS

    def prepare(arguments: Any, context: Any) -> RunAction:
        return RunAction("tool.call", "tick", {"arguments": dict(arguments)})

    return PreparedTool(tick, prepare=prepare, execute=execute, capabilities=())


def started(size: int | None) -> RunHandle:
    return agent(call("tick"), "a long answer", tools=[ticking()]).start_run("go", event_buffer_size=size)


class Reader:
    """One subscriber. ``gap``: it fell behind and was told so. ``over``: its stream has ended."""

    def __init__(self, handle: RunHandle, after: int | None) -> None:
        self.handle = handle
        self.after = after
        self.stream = handle.events(after)
        self.seen: list[RunEvent] = []
        self.gap: StreamGapError | None = None
        self.over = False

    async def read(self, most: int) -> None:
        """Read up to ``most`` events, never waiting for one that has not come."""
        for _ in range(most):
            if self.over or self.gap or (self.position >= self.handle._window.last and not self.handle.done):
                return
            await self._next()

    async def drain(self) -> None:
        while not (self.over or self.gap):
            await self._next()

    @property
    def position(self) -> int:
        if self.seen:
            return self.seen[-1].sequence or 0
        return self.handle._window.first - 1 if self.after is None else self.after

    async def _next(self) -> None:
        window = self.handle._window
        evicted = self.position + 1 < window.first and (bool(self.seen) or self.after is not None)
        try:
            event = await anext(self.stream)
        except StreamGapError as error:
            self.gap = error
        except StopAsyncIteration:
            self.over = True
        else:
            if self.seen:
                assert event.sequence == self.position + 1
            elif self.after is not None:
                assert event.sequence == self.after + 1
            self.seen.append(event)
        # Told exactly when it is so: neither a gap where the event was there, nor one that is skipped in silence.
        assert (self.gap is not None) is evicted
        if self.gap is not None:
            assert (self.gap.requested, self.gap.first_available) == (self.position + 1, window.first)


OPS = st.lists(
    st.one_of(
        st.tuples(st.just("join"), st.none() | st.integers(0, 80)),
        st.tuples(st.just("read"), st.integers(0, 5), st.integers(1, 9)),
        st.tuples(st.just("leave"), st.integers(0, 5)),
        st.tuples(st.just("return"), st.integers(0, 5)),
        st.tuples(st.just("wait"), st.integers(1, 12)),
    ),
    max_size=25,
)


WHOLE: list[tuple[Any, ...]] = []


async def undisturbed() -> list[tuple[Any, ...]]:
    """The run as it is when nobody reads it until its end; played once."""
    handle = started(None)
    await handle.result()
    WHOLE.extend([shape(event) async for event in handle.events()])
    return WHOLE


def shape(event: RunEvent) -> tuple[Any, ...]:
    return event.sequence, event.type, event.final, event.payload.get("llm_event_type"), event.payload.get("n")


@given(OPS, st.none() | st.integers(1, 30))
@settings(max_examples=60)
async def test_every_reader_sees_every_event_in_order_or_is_told_of_the_gap(ops: list[Any], size: int | None) -> None:
    whole = WHOLE[:] or await undisturbed()
    handle = started(size)
    readers: list[Reader] = []
    for op, *args in ops:
        if op == "join":
            readers.append(Reader(handle, args[0]))
        elif op == "wait":
            for _ in range(args[0]):
                await asyncio.sleep(0)
        elif readers:
            reader = readers[args[0] % len(readers)]
            if op == "read":
                await reader.read(args[1])
            elif op == "leave":
                await reader.stream.aclose()
                readers.remove(reader)
            elif reader.gap or reader.seen:  # comes back with what it knows
                after = reader.gap.first_available - 1 if reader.gap else reader.position
                readers[readers.index(reader)] = Reader(handle, after)
    result = await asyncio.wait_for(handle.result(), 30)
    assert (result.status, result.output) == ("completed", "a long answer")
    for reader in [*readers, Reader(handle, None), Reader(handle, 0)]:
        await reader.drain()
        numbers = [event.sequence for event in reader.seen]
        assert numbers == list(range(numbers[0], numbers[-1] + 1)) if numbers else True
        assert [shape(event) for event in reader.seen] == [whole[(n or 0) - 1] for n in numbers]
        if reader.over and (reader.after is None or reader.after < len(whole)):
            assert reader.seen[-1].final
            assert reader.seen[-1].type == "task.status"
        while reader.gap:  # it goes on where the window begins, and is in time in the end
            assert size is not None
            reader = Reader(handle, reader.gap.first_available - 1)
            await reader.drain()
        assert reader.over
    late = Reader(handle, None)
    await late.drain()
    assert len(late.seen) == (len(whole) if size is None else min(size, len(whole)))
    assert asyncio.all_tasks() == {asyncio.current_task()}


@given(OPS)
@settings(max_examples=25)
async def test_readers_do_not_slow_the_run(ops: list[Any]) -> None:
    """The run needs no more turns of the loop when it has readers that stand still."""

    async def turns(count: int) -> int:
        handle = started(5)
        lagging = [handle.events() for _ in range(count)]
        for reader in lagging:
            await anext(reader)
        found = 0
        while not handle.done:
            await asyncio.sleep(0)
            found += 1
        return found

    joins = sum(op == "join" for op, *_ in ops)
    assert abs(await turns(joins) - await turns(0)) <= 8
