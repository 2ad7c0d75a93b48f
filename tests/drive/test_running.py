"""The work of a drive that is under way: what it brings, and what a cancellation makes of it."""

from __future__ import annotations

import asyncio
import gc
import warnings
from collections.abc import Coroutine
from typing import Any

from protolink.drive.outcome import Outcome
from protolink.drive.running import Running
from protolink.engine import facts as f
from protolink.engine.commands import Command, Invoke

COMMAND = Invoke("action_1")
DONE = Outcome((f.ToolReturned("action_1", "done"),))


class Seen:
    """Keeps what arrives; an exception becomes a failure of the tool."""

    def __init__(self) -> None:
        self.arrived: list[tuple[Command, Outcome]] = []
        self.running = Running(lambda command, outcome: self.arrived.append((command, outcome)), self.broken)

    def broken(self, command: Command, error: BaseException) -> Outcome:
        return Outcome((f.ToolFailed("action_1", type(error).__name__, str(error)),), error, error)

    def codes(self) -> list[str]:
        return [getattr(fact, "code", "") for _, outcome in self.arrived for fact in outcome.facts]


async def done() -> Outcome:
    return DONE


def test_what_it_brings_arrives_in_its_last_step() -> None:
    async def scene() -> list[Any]:
        seen = Seen()
        seen.running.start(COMMAND, done())
        await asyncio.sleep(0)  # one turn of the loop, the task's only step
        return seen.arrived

    assert asyncio.run(scene()) == [(COMMAND, DONE)]


def test_canceled_before_its_first_step_it_never_began() -> None:
    async def scene() -> Seen:
        seen = Seen()
        task = seen.running.start(COMMAND, done())
        seen.running.cancel()
        await asyncio.wait([task])
        await asyncio.sleep(0)
        return seen

    seen = asyncio.run(scene())
    assert seen.codes() == ["canceled"]
    assert not seen.running.tasks


def test_what_never_began_leaves_nothing_that_somebody_should_have_awaited() -> None:
    """Python warns of a coroutine that is dropped before it was ever awaited."""

    async def inner() -> None:
        raise AssertionError("it never began")

    async def middle(waited: Coroutine[Any, Any, None]) -> None:
        await waited

    async def outer(waited: Coroutine[Any, Any, None]) -> Outcome:
        await waited
        return DONE

    async def scene() -> None:
        seen = Seen()
        task = seen.running.start(COMMAND, outer(middle(inner())))
        seen.running.cancel()
        await asyncio.wait([task])
        await asyncio.sleep(0)

    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        asyncio.run(scene())
        gc.collect()
    assert [str(warning.message) for warning in told] == []


def test_a_signal_is_an_outcome_and_not_an_exception() -> None:
    async def interrupted() -> Outcome:
        raise KeyboardInterrupt

    async def scene() -> Seen:
        seen = Seen()
        await seen.running.start(COMMAND, interrupted())
        return seen

    assert asyncio.run(scene()).codes() == ["KeyboardInterrupt"]


def test_what_is_wanted_is_not_canceled_and_the_rest_once() -> None:
    async def scene() -> list[int]:
        seen = Seen()
        other, gate = Invoke("action_2"), asyncio.Event()

        async def stubborn() -> Outcome:
            try:
                await gate.wait()
            except asyncio.CancelledError:
                await gate.wait()
            return DONE

        tasks = [seen.running.start(command, stubborn()) for command in (COMMAND, other)]
        await asyncio.sleep(0)
        for _ in range(2):
            seen.running.cancel(lambda command: command is other)
            await asyncio.sleep(0)
        gate.set()
        await asyncio.wait(tasks)
        return [task.cancelling() for task in tasks]

    assert asyncio.run(scene()) == [1, 0]


def test_what_was_given_up_is_not_heard_of_again() -> None:
    async def scene() -> Seen:
        seen = Seen()
        gate = asyncio.Event()

        async def late() -> Outcome:
            await gate.wait()
            return DONE

        task = seen.running.start(COMMAND, late())
        await asyncio.sleep(0)
        assert seen.running.give_up() == [COMMAND]
        gate.set()
        await task
        return seen

    assert asyncio.run(scene()).arrived == []


def test_stopping_returns_what_still_came() -> None:
    async def scene() -> list[Outcome]:
        seen = Seen()

        async def records_its_end() -> Outcome:
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                return DONE
            raise AssertionError

        seen.running.start(COMMAND, records_its_end())
        await asyncio.sleep(0)
        found = await seen.running.stop()
        assert seen.arrived == []
        return found

    assert asyncio.run(scene()) == [DONE]
