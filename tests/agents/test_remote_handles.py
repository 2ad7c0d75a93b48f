"""Run handles of tasks at other addresses, over runtime://."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest
from agent_support import Gate, agent, call, infer, script, until

from protolink import Agent, AgentCard, RunHandle, RunReport, Task
from protolink.client import AgentClient
from protolink.models import TaskStatusUpdateEvent
from protolink.server import AgentServer
from protolink.transport import RetryPolicy, RuntimeTransport, TransportConfig

URL = "runtime://worker"


def card(streaming: bool) -> AgentCard:
    return AgentCard("worker", "Works", URL, "runtime", capabilities={"streaming": streaming})


def worker(*responses: Any, streaming: bool = True, **options: Any) -> Agent:
    return Agent(card(streaming), llm=script(*responses), transport="runtime", verbosity=0, **options)


def add(a: int, b: int) -> int:
    return a + b


class Remote:
    """A served agent and a client of it."""

    def __init__(self, served: Any) -> None:
        self.client = AgentClient("runtime")
        self._server = AgentServer(served, RuntimeTransport(URL))

    async def __aenter__(self) -> AgentClient:
        await self._server.start()
        return self.client

    async def __aexit__(self, *failure: object) -> None:
        await self._server.stop()


async def kinds(handle: RunHandle) -> list[str]:
    return [event.payload.get("llm_event_type") or event.type async for event in handle.events()]


async def test_an_address_needs_a_client() -> None:
    with pytest.raises(ValueError, match="AgentClient"):
        RunHandle.start(URL, infer())


@pytest.mark.claim("GRP-019")
async def test_a_card_with_streaming_gives_live_events_of_a_remote_model() -> None:
    gate = Gate()
    async with Remote(worker(call("wait"), "done", tools=[gate.wait])) as client:
        handle = RunHandle.start(URL, infer(), client=client)
        await gate.reached.wait()
        await until(lambda: any(e.type == "action.started" for e in handle.report.events))
        assert not handle.done
        gate.opened.set()
        result = await handle.result()
    assert (result.status, result.output) == ("completed", "done")
    told = await kinds(handle)
    assert told.count("llm_chunk") == 2
    assert told[-1] == "task.status"


@pytest.mark.claim("GRP-019", "GRP-052")
async def test_without_streaming_a_handle_gets_the_finished_task_and_its_recorded_events() -> None:
    served = worker(call("add", a=1, b=2), "three", tools=[add], streaming=False)
    async with Remote(served) as client:
        handle = RunHandle.start(URL, infer(), client=client)
        result = await handle.result()
    assert (result.status, result.output) == ("completed", "three")
    assert await kinds(handle) == ["action.started", "action.completed", "task.status"]
    assert [evidence.tool_name for evidence in result.tool_evidence] == ["add"]


@pytest.mark.claim("GRP-019")
async def test_local_runs_stream_without_the_cards_flag() -> None:
    local = agent("hello", name="local")
    assert local.card.capabilities.streaming is False
    handle = local.start_run("go")
    assert "llm_chunk" in await kinds(handle)


async def test_numbers_of_remote_events_are_the_handles_own_and_gapless() -> None:
    async with Remote(worker("hello")) as client:
        handle = RunHandle.start(URL, infer(), client=client)
        await handle.result()
        assert [e.sequence async for e in handle.events()] == list(range(1, handle.report.events[-1].sequence + 1))
        late = [e.sequence async for e in handle.events(after=3)]
        assert late[0] == 4


async def test_the_answer_of_a_remote_model_grows_as_a_local_one() -> None:
    async with Remote(worker("hello there")) as client:
        handle = RunHandle.start(URL, infer(), client=client)
        answers = [answer async for answer in handle.answer_events()]
    assert answers[-1].kind == "completed"
    assert answers[-1].text == "hello there"


async def test_canceling_a_handle_cancels_the_task_where_it_runs() -> None:
    gate = Gate()
    served = worker(call("wait"), "never", tools=[gate.wait])
    async with Remote(served) as client:
        handle = RunHandle.start(URL, infer(), client=client)
        await gate.reached.wait()
        await handle.cancel("enough")
        result = await handle.result()
        assert result.status == "canceled"
        assert result.task is not None
        assert result.task.metadata["cancel_reason"] == "enough"
        assert gate.canceled
        await handle.cancel("again")


async def test_a_cancellation_that_overtakes_its_task_is_repeated() -> None:
    gate = Gate()
    served = worker(call("wait"), "never", tools=[gate.wait])
    async with Remote(served) as client:
        handle = RunHandle.start(URL, infer(), client=client)
        await asyncio.sleep(0)
        await handle.cancel("at once")
        assert (await handle.result()).status == "canceled"
    assert served.active_task_ids == ()


async def test_a_canceled_waiter_leaves_the_remote_run_alone() -> None:
    gate = Gate()
    async with Remote(worker(call("wait"), "done", tools=[gate.wait])) as client:
        handle = RunHandle.start(URL, infer(), client=client)
        waiter = asyncio.create_task(handle.result())
        await gate.reached.wait()
        waiter.cancel()
        gate.opened.set()
        assert (await handle.result()).status == "completed"


async def test_nothing_is_spawned_beside_a_remote_run() -> None:
    async with Remote(worker("hello")) as client:
        handle = RunHandle.start(URL, infer(), client=client)
        with pytest.raises(RuntimeError, match="another address"):
            await handle.spawn("child", "go")
        await handle.result()


async def test_a_failed_remote_task_is_a_failed_result() -> None:
    def explode() -> None:
        raise RuntimeError("no")

    async with Remote(worker(call("explode"), tools=[explode])) as client:
        result = await RunHandle.start(URL, infer(), client=client).result()
    assert result.status == "failed"
    assert result.output is None
    assert result.error is not None


async def test_nobody_at_the_address_is_a_failure_and_nothing_is_uncertain() -> None:
    handle = RunHandle.start("runtime://nobody", infer(), client=AgentClient("runtime"))
    result = await handle.result()
    assert result.status == "failed"
    assert result.error is not None
    assert result.error["code"] == "TransportConnectionError"
    assert (await kinds(handle))[-1] == "task.status"


class Lossy:
    """A served agent that loses every task; it counts them."""

    def __init__(self, streaming: bool) -> None:
        self.card = card(streaming)
        self.submitted: list[str] = []

    async def run_task(self, task: Task, /) -> Task:
        self.submitted.append(task.id)
        raise SystemError("died")

    async def handle_task_streaming(self, task: Task, /) -> AsyncGenerator[Any, None]:
        self.submitted.append(task.id)
        yield TaskStatusUpdateEvent(task.id, "submitted", "working")

    async def cancel_task(self, task_id: Any, /) -> Task:
        raise AssertionError("nobody canceled")


@pytest.mark.claim("GRP-049", "GRP-051")
@pytest.mark.parametrize("streaming", [True, False])
async def test_a_lost_end_is_uncertain_and_the_task_is_sent_once_whatever_the_retry_policy_says(
    streaming: bool,
) -> None:
    served = Lossy(streaming)
    eager = TransportConfig(retry=RetryPolicy(max_attempts=5, initial_backoff=0, max_backoff=0, jitter=0))
    async with Remote(served):
        client = AgentClient(RuntimeTransport(None, config=eager))
        handle = RunHandle.start(URL, infer(), client=client)
        result = await handle.result()
    assert result.status == "uncertain"
    assert result.output is None
    assert result.error is not None
    assert result.error["code"] == "remote_outcome_unknown"
    assert len(served.submitted) == 1
    events = [event async for event in handle.events()]
    assert events[-1].final
    assert events[-1].payload["new_state"] == "uncertain"


@pytest.mark.claim("GRP-051")
async def test_reading_a_handle_again_sends_nothing_again() -> None:
    served = Lossy(True)
    async with Remote(served) as client:
        handle = RunHandle.start(URL, infer(), client=client)
        for _ in range(3):
            await handle.result()
            await kinds(handle)
    assert len(served.submitted) == 1


async def test_the_report_of_a_remote_run_goes_to_the_store_of_the_handle() -> None:
    saved: list[RunReport] = []

    class Store:
        def save_task(self, task: Task, **about: Any) -> None: ...

        def save_report(self, report: RunReport, **about: Any) -> None:
            saved.append(report)

    async with Remote(worker("hello")) as client:
        handle = RunHandle.start(URL, infer(), client=client, store=Store())
        result = await handle.result()
    assert saved == [result.report]


async def test_the_run_context_of_a_remote_run_stays_the_callers() -> None:
    task = infer(session_id="s1")
    async with Remote(worker("hello")) as client:
        handle = RunHandle.start(URL, task, client=client)
        mine = handle.context.run_id
        result = await handle.result()
    assert result.task is task
    assert task.metadata["run_context"]["run_id"] == mine
    assert task.metadata["run_context"]["session_id"] == "s1"
