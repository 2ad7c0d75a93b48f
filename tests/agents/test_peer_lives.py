"""Agents and their peers through circles, cancellations, event loops that come and go, and registries that break."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from agent_support import FakeClock, Gate, agent, call, delegate, infer, outcome, played, script, stream, until

from protolink import (
    Agent,
    AgentCard,
    AgentGroup,
    ApprovalDecision,
    CapabilityPolicy,
    PolicyDecision,
    RunBudget,
    RunContext,
    RunEvent,
    RunHandle,
    Task,
    UncertainExecutionError,
    diff_run_reports,
)
from protolink.agents import network
from protolink.client import AgentClient
from protolink.discovery import Registry, RegistryClient
from protolink.llms import Call, ModelTurn
from protolink.server import tasks
from protolink.transport import RuntimeTransport, TransportConfig, edge, loops
from protolink.transport.board import BOARD


@pytest.fixture(autouse=True)
def nobody_is_left_behind() -> Iterator[None]:
    yield
    left = [url for url, listener in BOARD._listeners.items() if listener.alive]
    BOARD._listeners.clear()
    assert left == []


def served(name: str, *responses: Any, streaming: bool = True, transport: Any = "runtime", **options: Any) -> Agent:
    about = AgentCard(name, f"The {name}", f"runtime://{name}", "runtime", capabilities={"streaming": streaming})
    llm = script(*responses) if responses else None
    return Agent(about, llm=llm, transport=transport, verbosity=0, **options)


@pytest.fixture
def registry() -> Registry:
    """Usable in one process without being served."""
    return Registry("runtime", "runtime://registry")


def add(a: int, b: int) -> int:
    return a + b


# ---------------------------------------------------------------------------------------------------- whom one may ask


async def test_peers_that_delegate_to_each_other_in_a_circle_are_refused_by_name(registry: Registry) -> None:
    first = served("first", delegate("second"), "the second said no", registry=registry)
    second = served("second", delegate("first"), "I was not allowed to ask", registry=registry)
    async with AgentGroup([first, second]):
        task = await first.run_task(infer())
    assert task.get_output() == "the second said no"
    [refusal] = [a.parts[0].content["rejection"] for a in task.artifacts if a.kind == "action_rejection"]
    assert refusal["code"] == "circular_delegation"
    assert "'first' waits for this very work (first > second)" in refusal["message"]


async def test_an_agent_is_no_peer_of_itself_however_its_address_is_spelled(registry: Registry) -> None:
    await registry.register(AgentCard("other name", "", "runtime://me/"))
    me = Agent(AgentCard("me", "", "runtime://me"), registry=registry, verbosity=0)
    assert await me.network.peers(taken=()) == {}


async def test_of_two_peers_with_one_name_the_first_that_registered_keeps_it(registry: Registry) -> None:
    await registry.register(AgentCard("worker", "", "runtime://first"))
    await registry.register(AgentCard("worker", "", "runtime://second"))
    found = await agent(name="lead", registry=registry).network.peers(taken=())
    assert [peer.card.url for peer in found.values()] == ["runtime://first"]


@pytest.mark.parametrize("url", ["http://worker:80", "ftp://worker", "http://[worker", "worker"])
async def test_peers_at_addresses_that_no_transport_reaches_are_not_offered(registry: Registry, url: str) -> None:
    await registry.register(AgentCard("worker", "", url))
    task = await agent(delegate("worker"), "then not", name="lead", registry=registry).run_task(infer())
    assert task.get_output() == "then not"
    [rejection] = [a for a in task.artifacts if a.kind == "action_rejection"]
    assert rejection.parts[0].content["rejection"]["code"] == "unknown_agent"


# ---------------------------------------------------------------------------------------------------- own call_agent()


class KeywordsHandedOn(Agent):
    async def call_agent(self, agent_url: str, task: Task, **how: Any) -> Task:
        return await super().call_agent(agent_url, task, **how)


class EverythingHandedOn(Agent):
    async def call_agent(self, *args: Any, **how: Any) -> Task:
        return await super().call_agent(*args, **how)


@pytest.mark.parametrize("kind", [KeywordsHandedOn, EverythingHandedOn])
async def test_an_override_that_hands_keywords_on_gets_the_live_events(registry: Registry, kind: type[Agent]) -> None:
    worker = served("worker", "hello", registry=registry)
    coordinator = kind(name="lead", llm=script(delegate("worker"), "done"), verbosity=0, registry=registry)
    async with AgentGroup([worker]):
        task = infer()
        events = await stream(coordinator, task)
    told = [RunEvent.from_task_event(e, context=RunContext.from_task(task)) for e in events]
    assert [e for e in told if e.agent_name == "worker" and e.payload.get("llm_event_type") == "llm_chunk"]


async def test_a_sink_that_fails_ends_the_peers_work_too() -> None:
    class Full:
        async def emit(self, event: RunEvent) -> None:
            if event.type == "action.started":
                raise OSError("the disk is full")

    gate = Gate()
    worker = served("worker", call("wait"), "never", tools=[gate.wait])
    async with AgentGroup([worker]):
        with pytest.raises(OSError, match="the disk is full"):
            await agent(name="lead").call_agent("runtime://worker", infer(), event_sink=Full())
        assert worker.active_task_ids == ()


# ---------------------------------------------------------------------------------------------------- canceling


@pytest.mark.parametrize("streaming", [True, False])
async def test_canceling_reaches_the_peer_of_a_peer_and_nothing_is_left_running(
    registry: Registry, streaming: bool
) -> None:
    before = asyncio.all_tasks()
    gate = Gate()
    last = served("last", call("wait"), "never", tools=[gate.wait], registry=registry, streaming=streaming)
    middle = served("middle", delegate("last"), "never", registry=registry, streaming=streaming)
    first = agent(delegate("middle"), "never", name="first", registry=registry)
    async with AgentGroup([last, middle]):
        task = infer()
        running = asyncio.create_task(first.run_task(task))
        await gate.reached.wait()
        await first.cancel_task(task.id, "enough")
        assert (await running).state.value == "canceled"
        await until(lambda: gate.canceled and not middle.active_task_ids and not last.active_task_ids)
    await first.stop()
    assert asyncio.all_tasks() == before


async def test_closing_a_group_ends_runs_at_addresses_even_when_nobody_answers_there_any_more() -> None:
    gate = Gate()
    worker = served("worker", call("wait"), "never", tools=[gate.wait], streaming=False)
    await worker.start()
    async with AgentGroup([], client=AgentClient("runtime")) as group:
        handle = group.run("runtime://worker", "go")
        await gate.reached.wait()
        listener = BOARD._listeners.pop("runtime://worker")
    assert (await handle.result()).status == "uncertain"
    BOARD._listeners["runtime://worker"] = listener
    await worker.cancel_task(worker.active_task_ids[0])
    await worker.stop()


async def test_stopping_does_not_wait_for_ever_for_a_peer_that_was_asked_to_cancel(
    registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(network, "SETTLE_SECONDS", 0)
    gate, asked = Gate(), asyncio.Event()

    class Deaf(Agent):
        async def cancel_task(self, task_id: Any, reason: Any = None) -> Task:
            asked.set()
            await asyncio.Event().wait()
            raise AssertionError

    config = TransportConfig(shutdown_timeout=0)
    about = AgentCard("worker", "", "runtime://worker", "runtime")
    deaf = Deaf(
        about,
        llm=script(call("wait"), "never"),
        transport=RuntimeTransport("runtime://worker", config=config),
        tools=[gate.wait],
        registry=registry,
        verbosity=0,
    )
    await deaf.start()
    coordinator = agent(delegate("worker"), "never", name="lead", registry=registry)
    task = infer()
    running = asyncio.create_task(coordinator.run_task(task))
    await gate.reached.wait()
    await coordinator.cancel_task(task.id)
    await running
    await asked.wait()
    await coordinator.stop()
    await Agent.cancel_task(deaf, deaf.active_task_ids[0])
    await deaf.network._server.transport.stop()  # type: ignore[union-attr]


async def test_work_that_the_peer_cancels_because_it_stops_fails_the_delegation(registry: Registry) -> None:
    gate = Gate()
    transport = RuntimeTransport("runtime://worker", config=TransportConfig(shutdown_timeout=0))
    worker = served("worker", call("wait"), "never", tools=[gate.wait], registry=registry, transport=transport)
    await worker.start()
    task = infer()
    running = asyncio.create_task(outcome(agent(delegate("worker"), "never", name="lead", registry=registry), task))
    await gate.reached.wait()
    await worker.stop()
    error = await running
    assert "The server is stopping" in str(error)
    assert not isinstance(error, UncertainExecutionError)
    assert task.state.value == "failed"


def impatient(monkeypatch: pytest.MonkeyPatch, url: str) -> RuntimeTransport:
    monkeypatch.setattr(edge, "SETTLE_SECONDS", 0)
    monkeypatch.setattr(tasks, "SETTLE_SECONDS", 0)
    return RuntimeTransport(url, config=TransportConfig(shutdown_timeout=0))


@pytest.mark.parametrize("streaming", [True, False])
async def test_a_tool_that_does_not_obey_is_cut_off_when_its_agent_stops(
    streaming: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, opened = asyncio.Event(), asyncio.Event()

    async def deaf() -> None:
        begun.set()
        while not opened.is_set():
            try:
                await opened.wait()
            except asyncio.CancelledError:
                continue

    transport = impatient(monkeypatch, "runtime://worker")
    worker = served("worker", call("deaf"), "never", tools=[deaf], streaming=streaming, transport=transport)
    await worker.start()
    handle = RunHandle.start("runtime://worker", infer(), client=AgentClient("runtime"))
    await begun.wait()
    await worker.stop()
    assert (await handle.result()).status == "uncertain"
    opened.set()
    await until(lambda: not worker.active_task_ids)


@pytest.mark.parametrize("streaming", [True, False])
async def test_a_tool_that_stops_its_own_agent_does_not_wait_for_itself_for_ever(
    streaming: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def stop() -> None:
        await worker.stop()

    transport = impatient(monkeypatch, "runtime://worker")
    worker = served("worker", call("stop"), "never", tools=[stop], streaming=streaming, transport=transport)
    await worker.start()
    result = await RunHandle.start("runtime://worker", infer(), client=AgentClient("runtime")).result()
    assert result.status in ("uncertain", "canceled")
    await until(lambda: not worker.active_task_ids)


# ---------------------------------------------------------------------------------------------------- whose rules


async def test_two_peers_work_at_one_time_and_their_evidence_stays_apart(registry: Registry) -> None:
    left, right = Gate(), Gate()
    peers = [
        served("left", call("wait"), "l", tools=[left.wait], registry=registry),
        served("right", call("wait"), "r", tools=[right.wait], registry=registry),
    ]
    calls = [Call(name, "agent_call", {"agent": name, "action": "infer", "prompt": "go"}) for name in ("left", "right")]
    llm = script(ModelTurn("", tuple(calls)), "both", native=True)
    async with AgentGroup(peers):
        handle = Agent(name="lead", llm=llm, parallel_tool_calls=True, registry=registry, verbosity=0).start_run("go")
        await left.reached.wait()
        await right.reached.wait()
        right.opened.set()
        left.opened.set()
        result = await handle.result()
    assert (result.status, result.output) == ("completed", "both")
    assert {evidence.agent_name for evidence in result.tool_evidence} == {"left", "right"}
    assert len({evidence.delegation_id for evidence in result.tool_evidence}) == 2
    assert len({event.event_id for event in result.report.events}) == len(result.report.events)  # type: ignore[union-attr]


async def test_a_peer_asks_its_own_people(registry: Registry) -> None:
    asked: list[tuple[str, str]] = []

    def person(whose: str) -> Any:
        async def decide(request: Any, context: Any) -> ApprovalDecision:
            asked.append((whose, request.action.name))
            return ApprovalDecision(approved=True, request_id=request.request_id)

        return decide

    class Careful(CapabilityPolicy):
        def evaluate(self, action: Any, context: Any) -> PolicyDecision:
            return PolicyDecision(effect="require_approval", reason="always", policy_name="careful")  # type: ignore[arg-type]

    careful = Careful()
    worker = served(
        "worker",
        call("add", a=1, b=1),
        "two",
        tools=[add],
        registry=registry,
        policy=careful,
        approval_handler=person("worker"),
    )
    coordinator = agent(
        delegate("worker"), "done", name="lead", registry=registry, policy=careful, approval_handler=person("lead")
    )
    async with AgentGroup([worker]):
        await coordinator.run_task(infer())
    assert asked == [("lead", "worker"), ("worker", "add")]


async def test_what_a_peer_uses_is_not_charged_to_its_caller(registry: Registry) -> None:
    both = (call("add", a=1, b=1), "two", call("add", a=1, b=1), "two")
    worker = served("worker", *both, tools=[add], registry=registry)
    coordinator = agent(delegate("worker", "1"), delegate("worker", "2"), "done", name="lead", registry=registry)
    async with AgentGroup([worker]):
        task = await coordinator.run_task(infer(budget=RunBudget(max_llm_calls=3, max_tool_calls=1)))
    assert task.get_output() == "done"
    assert worker.llm is not None
    assert played(worker.llm) == 4  # type: ignore[arg-type]


async def test_runs_with_peers_can_be_compared(registry: Registry) -> None:
    reports = []
    for total in (2, 2, 3):
        worker = served("worker", call("add", a=1, b=total - 1), "sum", tools=[add], registry=registry)
        async with AgentGroup([worker]):
            handle = agent(delegate("worker"), "done", name="lead", registry=registry).start_run("go")
            reports.append((await handle.result()).report)
    assert not diff_run_reports(reports[0], reports[1]).differences
    assert diff_run_reports(reports[0], reports[2]).differences


class Hangs(Registry):
    """It never says whom it knows."""

    def __init__(self, asked: asyncio.Event) -> None:
        super().__init__("runtime", "runtime://registry")
        self._asked = asked

    async def discover(self, *args: Any, **named: Any) -> Any:
        self._asked.set()
        await asyncio.Event().wait()


async def test_a_run_that_is_canceled_while_it_asks_the_registry_ends_canceled() -> None:
    asked = asyncio.Event()

    coordinator = agent("never", name="lead", registry=Hangs(asked))
    task = infer()
    running = asyncio.create_task(coordinator.run_task(task))
    await asked.wait()
    assert (await coordinator.cancel_task(task.id, "enough")).state.value == "canceled"
    assert (await running) is task
    assert task.metadata["cancel_reason"] == "enough"

    asked.clear()
    handle = coordinator.start_run("go")
    await asked.wait()
    await handle.cancel("enough")
    assert (await handle.result()).status == "canceled"
    assert [event.payload["new_state"] async for event in handle.events()] == ["canceled"]


async def test_a_caller_that_is_canceled_while_it_asks_the_registry_is_told_so() -> None:
    asked = asyncio.Event()

    task = infer()
    running = asyncio.create_task(agent("never", name="lead", registry=Hangs(asked)).run_task(task))
    await asked.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert task.state.value == "canceled"


# ---------------------------------------------------------------------------------------------------- event loops


@contextmanager
def other_loop() -> Iterator[asyncio.AbstractEventLoop]:
    """A running loop in a thread of its own. Whoever stops it leaves its tasks as they are; they are ended here."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    yield loop
    thread.join()
    tasks = asyncio.all_tasks(loop)
    for task in tasks:
        task.cancel()
    loop.run_until_complete(asyncio.wait(tasks))
    loop.close()


def test_an_agent_whose_event_loop_has_ended_can_be_started_again(registry: Registry) -> None:
    worker = served("worker", "one", "two", registry=registry, registry_heartbeat_interval=60)

    async def ask() -> Any:
        await worker.start()
        return await AgentClient("runtime").peer("runtime://worker").invoke("go")

    assert [asyncio.run(ask()), asyncio.run(ask())] == ["one", "two"]
    worker.stop()
    assert registry.count() == 0


def test_a_registry_whose_event_loop_has_ended_can_be_started_again(registry: Registry) -> None:
    async def ask() -> Any:
        await registry.start()
        return await RegistryClient("runtime", "runtime://registry").discover()

    assert [asyncio.run(ask()), asyncio.run(ask())] == [[], []]
    asyncio.run(registry.stop())


def test_an_agent_served_in_the_background_is_asked_and_stopped_from_another_loop(registry: Registry) -> None:
    worker = served("worker", "one", "two", registry=registry, registry_heartbeat_interval=60)
    worker.start()

    async def use() -> list[Any]:
        direct = await RunHandle.start("runtime://worker", infer(), client=AgentClient("runtime")).result()
        delegated = await agent(delegate("worker"), "done", name="lead", registry=registry).invoke("go")
        await worker.stop()
        return [direct.output, delegated, registry.count()]

    assert asyncio.run(use()) == ["one", "done", 0]


@pytest.mark.parametrize("streaming", [True, False])
def test_a_servers_loop_that_stops_without_a_word_leaves_the_outcome_unknown(
    streaming: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loops, "LOOK_SECONDS", 0.001)
    reached = threading.Event()

    async def wait() -> None:
        reached.set()
        await asyncio.Event().wait()

    worker = served("worker", call("wait"), "never", tools=[wait], streaming=streaming)
    with other_loop() as loop:
        asyncio.run_coroutine_threadsafe(worker.network.start(), loop).result()

        async def use() -> str:
            handle = RunHandle.start("runtime://worker", infer(), client=AgentClient("runtime"))
            await asyncio.to_thread(reached.wait)
            loop.call_soon_threadsafe(loop.stop)
            return (await handle.result()).status

        assert asyncio.run(use()) == "uncertain"


# ---------------------------------------------------------------------------------------------------- registries


async def test_a_registry_that_is_gone_when_the_peer_is_called_is_not_needed_any_more() -> None:
    registry = Registry("runtime", "runtime://registry")
    await registry.start()
    there = RegistryClient("runtime", "runtime://registry")
    worker = served("worker", "hello", registry=there)
    await worker.start()
    coordinator = agent(call("stop_registry"), delegate("worker"), "done", name="lead", registry=there)

    async def stop_registry() -> str:
        await registry.stop()
        return "gone"

    coordinator.add_tool(stop_registry)
    assert await coordinator.invoke("go") == "done"
    await worker.stop()


async def test_signs_of_life_go_on_after_a_registry_that_breaks(caplog: pytest.LogCaptureFixture) -> None:
    class Breaks(Registry):
        beats = 0

        async def heartbeat(self, url: str) -> None:
            Breaks.beats += 1
            if Breaks.beats == 1:
                raise OSError("the disk is full")
            await super().heartbeat(url)

    registry = Breaks("runtime", "runtime://registry")
    worker = served("worker", registry=registry, registry_heartbeat_interval=10, clock=FakeClock())
    await worker.start()
    await until(lambda: Breaks.beats > 2)
    await worker.stop()
    assert "the disk is full" in caplog.text


async def test_an_agent_whose_registry_breaks_stops_all_the_same(registry: Registry) -> None:
    async def breaks(url: str) -> None:
        raise OSError("the disk is full")

    worker = served("worker", registry=registry)
    await worker.start()
    registry.unregister = breaks  # type: ignore[method-assign]
    with pytest.raises(OSError, match="disk is full"):
        await worker.stop()
    assert "runtime://worker" not in BOARD._listeners


@pytest.mark.claim("DEL-010", "DEL-016")
@pytest.mark.parametrize("streaming", [True, False])
async def test_evidence_of_a_peers_peer_keeps_its_links_and_appears_once(registry: Registry, streaming: bool) -> None:
    last = served("last", call("add", a=1, b=1), "two", tools=[add], registry=registry, streaming=streaming)
    middle = served("middle", delegate("last"), "it is two", registry=registry, streaming=streaming)
    async with AgentGroup([last, middle]):
        handle = agent(delegate("middle"), "done", name="first", registry=registry).start_run("go")
        result = await handle.result()
    events = [event async for event in handle.events()]
    assert len({event.event_id for event in events}) == len(events)
    started = {e.agent_name: e for e in events if e.type == "action.started"}
    assert started["last"].parent_action_id == started["middle"].action_id
    assert started["last"].metadata["parent_run_id"] == started["middle"].run_id
    assert started["middle"].parent_action_id == started["first"].action_id
    assert [(e.agent_name, e.tool_name, e.result_omitted) for e in result.tool_evidence] == [("last", "add", True)]
    receipts = [(a.kind, a.name) for a in result.task.artifacts if a.kind == "action_result"]  # type: ignore[union-attr]
    assert receipts == [("action_result", "add"), ("action_result", "last"), ("action_result", "middle")]
    kept = [event["event_id"] for event in result.task.metadata["run_events"]]  # type: ignore[union-attr]
    assert len(set(kept)) == len(kept)
