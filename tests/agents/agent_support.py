"""What the tests of agents share: a clock that tests move, scripted models, and a run in every mode."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from protolink import (
    Agent,
    RunBudget,
    RunContext,
    RunEvent,
    Task,
    TaskArtifactUpdateEvent,
    TaskErrorEvent,
    TaskLLMStreamEvent,
    TaskProgressEvent,
    TaskStatusUpdateEvent,
)
from protolink.journal import InMemoryDurableStore
from protolink.llms import Call, MockLLM, ModelTurn

#: The events of one model turn before its actions, without fragments.
BLOCK = [
    "llm_step",
    "context_prepared",
    "llm_context",
    "llm_call_started",
    "llm_call_metrics",
    "llm_call_completed",
    "llm_response",
    "llm_action",
]
WITH_CHUNK = [*BLOCK[:4], "llm_chunk", *BLOCK[4:]]
BEGUN = ["action_requested", "policy_decision", "tool_start"]


class FakeClock:
    """Time that only moves when somebody sleeps or a test says so."""

    def __init__(self, start: float = 1_700_000_000.0) -> None:
        self.time = start
        self.slept: list[float] = []
        self._timers: list[tuple[float, Callable[[], None]]] = []

    def now(self) -> float:
        return self.time

    async def sleep_until(self, when: float) -> None:
        self.slept.append(round(when - self.time, 6))
        self.advance(max(0.0, when - self.time))
        await asyncio.sleep(0)

    def call_at(self, when: float, callback: Callable[[], None]) -> Callable[[], None]:
        timer = (when, callback)
        self._timers.append(timer)
        return lambda: self._timers.remove(timer) if timer in self._timers else None

    def advance(self, seconds: float) -> None:
        self.time += seconds
        for timer in [timer for timer in self._timers if timer[0] <= self.time]:
            asyncio.get_running_loop().call_soon(self._fire, timer)

    def _fire(self, timer: tuple[float, Callable[[], None]]) -> None:
        """As the loop's own timers: from the loop, and only if nobody forgot it meanwhile."""
        if timer in self._timers:
            self._timers.remove(timer)
            timer[1]()


class StoppedClock(FakeClock):
    """Sleepers on it sleep for ever; ``sleeping`` tells that one has begun."""

    def __init__(self) -> None:
        super().__init__()
        self.sleeping = asyncio.Event()

    async def sleep_until(self, when: float) -> None:
        self.sleeping.set()
        await asyncio.Event().wait()


class Gate:
    """A place in a tool or a model where it stops until the test lets it go on."""

    def __init__(self) -> None:
        self.reached = asyncio.Event()
        self.opened = asyncio.Event()
        self.canceled = False

    async def wait(self) -> None:
        self.reached.set()
        try:
            await self.opened.wait()
        except asyncio.CancelledError:
            self.canceled = True
            raise


def call(tool: str, /, **args: Any) -> dict[str, Any]:
    """A model's tool call as a JSON action."""
    return {"type": "tool_call", "tool": tool, "args": args}


def delegate(agent: str, prompt: str = "do it") -> dict[str, Any]:
    return {"type": "agent_call", "agent": agent, "action": "infer", "prompt": prompt}


def delegate_tool(agent: str, tool: str, /, **args: Any) -> dict[str, Any]:
    return {"type": "agent_call", "agent": agent, "action": "tool_call", "tool": tool, "args": args}


def turn(*calls: tuple[str, dict[str, Any]]) -> ModelTurn:
    """A native turn of several calls."""
    return ModelTurn("", tuple(Call(f"call-{index}", tool, args) for index, (tool, args) in enumerate(calls)))


def script(*responses: Any, native: bool = False, **options: Any) -> MockLLM:
    """A model that plays these responses, then fails the test instead of repeating the last."""
    exhausted = AssertionError("the model was asked once too often")
    how = {"tool_calling": "native"} if native else {}
    return MockLLM(sequential_responses=[*responses, exhausted], **how, **options)


def played(llm: MockLLM) -> int:
    """How many responses the model has given."""
    return llm._played


def agent(*responses: Any, name: str = "agent", native: bool = False, **options: Any) -> Agent:
    """An agent with a scripted model."""
    llm = script(*responses, native=native) if responses else None
    return Agent(name=name, llm=llm, verbosity=0, **options)


def infer(prompt: str = "go", **how: Any) -> Task:
    return Task.create_infer(prompt=prompt, **how)


def limited(**limits: Any) -> Task:
    """A task for the model under a budget."""
    return infer(budget=RunBudget(**limits))


async def stream(target: Agent, task: Task) -> list[Any]:
    return [event async for event in target.handle_task_streaming(task)]


async def outcome(target: Agent, task: Task) -> BaseException | None:
    """What ``run_task`` raises; the task itself tells the rest."""
    try:
        found = await target.run_task(task)
    except Exception as error:
        return error
    assert found is task
    return None


def kind(event: Any) -> str:
    """One word for an event: its own type for a model's loop, else as RunEvents name it."""
    match event:
        case TaskLLMStreamEvent():
            return event.llm_event_type
        case TaskStatusUpdateEvent():
            return f"status:{event.new_state}"
        case TaskArtifactUpdateEvent():
            return f"artifact:{event.artifact.kind}"
        case TaskProgressEvent():
            return "task.progress"
        case TaskErrorEvent():
            return "task.error"
        case RunEvent():
            return event.type
    raise AssertionError(f"no event: {event!r}")


def kinds(events: list[Any]) -> list[str]:
    return [kind(event) for event in events]


def only(events: list[Any], wanted: str) -> Any:
    """The one event of that kind."""
    [found] = [event for event in events if kind(event) == wanted]
    return found


def receipts(task: Task) -> list[tuple[str, str]]:
    """Kind and name of every artifact that is the receipt of an action."""
    return [(a.kind, a.name or "") for a in task.artifacts if a.kind in ("action_result", "action_rejection")]


def recorded(task: Task) -> list[str]:
    """Types of the events kept with the task."""
    return [event["type"] for event in task.metadata.get("run_events", [])]


def codes(task: Task) -> list[str]:
    return [blocker["code"] for blocker in task.metadata.get("blockers", [])]


def run_id(task: Task) -> str:
    return RunContext.from_task(task).run_id


async def until(condition: Callable[[], bool]) -> None:
    """Let others run until the condition holds. Bounded by turns of the loop, not by time."""
    for _ in range(10_000):
        if condition():
            return
        await asyncio.sleep(0)
    raise AssertionError("the awaited condition never held")


@dataclass(frozen=True)
class Mode:
    """One way of running the same work."""

    durable: bool = False
    streamed: bool = False
    native: bool = False

    def __str__(self) -> str:
        words = ("durable" if self.durable else "live", "native" if self.native else "json")
        return "-".join((*words, "streamed") if self.streamed else words)

    def agent(self, *responses: Any, **options: Any) -> Agent:
        if self.durable:
            options.setdefault("durability", InMemoryDurableStore())
        return agent(*responses, native=self.native, **options)

    async def run(self, target: Agent, task: Task) -> Ran:
        if self.streamed:
            return Ran(task, None, await stream(target, task))
        return Ran(task, await outcome(target, task))


@dataclass
class Ran:
    """How a run ended. ``error`` is known when it was not streamed, ``events`` when it was."""

    task: Task
    error: BaseException | None = None
    events: list[Any] = field(default_factory=list)


MODES = [
    Mode(),
    Mode(native=True),
    Mode(streamed=True),
    Mode(streamed=True, native=True),
    Mode(durable=True),
    Mode(durable=True, streamed=True, native=True),
]
