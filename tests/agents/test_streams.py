"""Streams: fragments, order, several readers' freedom to leave, and failures that end a stream instead of raising."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from agent_support import Gate, agent, call, infer, kinds, limited, only, stream

from protolink import Agent, CapabilityPolicy, Task, TaskLLMStreamEvent, TaskState, TaskStatusUpdateEvent, Tool
from protolink.journal import InMemoryDurableStore
from protolink.llms import LLM


class Fragments(LLM):
    """Streams its answer word by word."""

    model_type = "local"
    provider = "fragments"

    def __init__(self, *words: str, fail: bool = False) -> None:
        super().__init__("words")
        self.words = words
        self.fail = fail
        self.gate: Gate | None = None

    async def call(self, history: Any) -> str:
        return "".join(self.words)

    async def call_stream(self, history: Any) -> AsyncIterator[str]:
        for word in self.words:
            yield word
        if self.gate is not None:
            await self.gate.wait()
        if self.fail:
            raise PermissionError("cut off")

    def validate_connection(self) -> bool:
        return True


ANSWER = ('{"type": "final", ', '"content": ', '"one two"}')


async def test_fragments_arrive_one_by_one_before_the_answer() -> None:
    task = infer()
    events = await stream(Agent(name="a", llm=Fragments(*ANSWER), verbosity=0), task)
    chunks = [e for e in events if isinstance(e, TaskLLMStreamEvent) and e.llm_event_type == "llm_chunk"]
    assert [chunk.content for chunk in chunks] == list(ANSWER)
    assert only(events, "llm_final").content == task.get_output() == "one two"
    assert [chunk.final for chunk in chunks] == [False] * 3


@pytest.mark.parametrize("durable", [False, True])
async def test_fragments_are_seen_while_the_model_still_speaks(durable: bool) -> None:
    llm, seen = Fragments(*ANSWER), list[str]()
    llm.gate = Gate()
    options = {"durability": InMemoryDurableStore()} if durable else {}
    async for event in Agent(name="a", llm=llm, verbosity=0, **options).handle_task_streaming(infer()):
        seen += kinds([event])
        if seen.count("llm_chunk") == 3 and not llm.gate.opened.is_set():
            assert "llm_call_completed" not in seen
            llm.gate.opened.set()
    assert seen[-1] == "status:completed"


async def test_run_that_nobody_streams_asks_the_model_for_no_fragments() -> None:
    llm = Fragments(*ANSWER, fail=True)
    assert await Agent(name="a", llm=llm, verbosity=0).invoke("go") == "one two"


@pytest.mark.parametrize(
    "make",
    [
        lambda: (agent(), infer()),
        lambda: (Agent(name="a", llm=Fragments(*ANSWER, fail=True), verbosity=0), infer()),
        lambda: (agent(call("act"), "never", tools=[guarded()], policy=CapabilityPolicy({"act": "deny"})), infer()),
        lambda: (agent("never"), limited(max_llm_calls=0)),
        lambda: (agent("", "", ""), infer()),
    ],
    ids=["no-model", "provider", "denied", "budget", "no-action"],
)
async def test_failure_ends_the_stream_and_does_not_raise(make: Any) -> None:
    found, task = make()
    events = await stream(found, task)
    assert kinds(events)[-2:] == ["task.error", "status:failed"]
    assert events[-1].final
    assert task.state is TaskState.FAILED
    assert only(events, "task.error").error_code == task.metadata["blockers"][-1]["code"]
    assert only(events, "task.error").error_message == task.metadata["error"]


def guarded() -> Tool:
    return Tool.from_callable(lambda: "acted", name="act", capabilities=["act"])


async def test_first_event_tells_that_the_work_began() -> None:
    [first, *_] = await stream(agent("done"), infer())
    assert isinstance(first, TaskStatusUpdateEvent)
    assert (first.previous_state, first.new_state, first.final) == ("submitted", "working", False)


async def test_run_task_streaming_is_the_same_stream() -> None:
    events = [e async for e in agent("done").run_task_streaming(infer())]
    assert kinds(events) == kinds(await stream(agent("done"), infer()))


async def test_closing_run_task_streaming_early_cancels_the_task() -> None:
    gate, task = Gate(), infer()
    found = agent(call("wait"), "never")

    @found.tool
    async def wait() -> None:
        await gate.wait()

    events = found.run_task_streaming(task)
    async for _ in events:
        if gate.reached.is_set():
            break
        await asyncio.sleep(0)
    await events.aclose()
    assert gate.canceled
    assert task.state is TaskState.CANCELED
    assert found.active_task_ids == ()


async def test_slow_reader_gets_everything_in_order() -> None:
    events: list[Any] = []
    found, task = agent(call("act"), "done", tools=[guarded()]), infer()
    async for event in found.handle_task_streaming(task):
        for _ in range(50):
            await asyncio.sleep(0)
        events.append(event)
    assert kinds(events) == kinds(await stream(agent(call("act"), "done", tools=[guarded()]), infer()))


async def test_two_tasks_of_one_agent_stream_side_by_side() -> None:
    found = Agent(name="a", llm=Fragments(*ANSWER), verbosity=0)
    first, second = infer(), infer()
    both = await asyncio.gather(stream(found, first), stream(found, second))
    for task, events in zip((first, second), both, strict=True):
        assert {e.task_id for e in events} == {task.id}
        assert task.get_output() == "one two"


async def test_durable_pause_ends_the_stream_with_a_final_input_required() -> None:
    found = agent(call("act"), "done", tools=[guarded()], policy=CapabilityPolicy({"act": "ask"}))
    found = Agent(
        name="a",
        llm=found.llm,
        tools=[guarded()],
        policy=CapabilityPolicy({"act": "ask"}),
        durability=InMemoryDurableStore(),
        verbosity=0,
    )
    task = infer()
    events = await stream(found, task)
    assert kinds(events)[-2:] == ["approval_required", "status:input-required"]
    assert events[-1].final
    assert task.state is TaskState.INPUT_REQUIRED
    assert events[-1].metadata["interruption"] == task.metadata["interruption"]


async def test_streaming_a_paused_task_again_leaves_it_paused() -> None:
    found = Agent(
        name="a",
        llm=agent(call("act"), "done").llm,
        tools=[guarded()],
        policy=CapabilityPolicy({"act": "ask"}),
        durability=InMemoryDurableStore(),
        verbosity=0,
    )
    task = infer()
    await stream(found, task)
    again = await stream(found, task)
    assert kinds(again) == ["status:input-required"]
    assert again[0].final


async def test_overridden_handler_streams_its_end() -> None:
    class Custom(Agent):
        async def handle_task(self, task: Task) -> Task:
            return task.complete("mine")

    class Failing(Agent):
        async def handle_task(self, task: Task) -> Task:
            raise KeyError("broken")

    assert kinds(await stream(Custom(name="c", verbosity=0), infer())) == ["status:working", "status:completed"]
    task = infer()
    events = await stream(Failing(name="f", verbosity=0), task)
    assert kinds(events) == ["status:working", "task.error", "status:failed"]
    assert task.state is TaskState.FAILED


@pytest.mark.claim("DEL-005")
async def test_overridden_handler_is_authoritative_in_a_started_run() -> None:
    class Custom(Agent):
        async def handle_task(self, task: Task) -> Task:
            return task.complete("mine")

    result = await Custom(name="c", llm="mock", verbosity=0).start_run("go").result()
    assert result.output == "mine"
