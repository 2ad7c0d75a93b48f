"""Delegation to agents at other addresses, found through a registry, over runtime://."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest
from agent_support import (
    FakeClock,
    Gate,
    agent,
    call,
    codes,
    delegate,
    delegate_tool,
    infer,
    outcome,
    recorded,
    script,
    stream,
    until,
)

from protolink import (
    ActionDeniedError,
    Agent,
    AgentCard,
    AgentGroup,
    CapabilityPolicy,
    ConversationHistory,
    DurableExecutionError,
    InMemoryEventSink,
    RunContext,
    RunEvent,
    Task,
    TaskExecutionError,
    ToolFailedError,
    UncertainExecutionError,
)
from protolink.client import AgentClient
from protolink.discovery import Registry, RegistryClient
from protolink.engine.facts import Relayed
from protolink.journal import InMemoryDurableStore
from protolink.llms import Call, MockLLM, ModelTurn
from protolink.models import TaskStatusUpdateEvent
from protolink.server import AgentServer
from protolink.tools import ask_user_tool
from protolink.transport import RouteCall, Routes, RuntimeTransport, TransportConfig
from protolink.transport.request import LIST_AGENTS


def card(name: str, *, streaming: bool = True, **more: Any) -> AgentCard:
    return AgentCard(name, f"The {name}", f"runtime://{name}", "runtime", capabilities={"streaming": streaming}, **more)


def peer(name: str, *responses: Any, streaming: bool = True, **options: Any) -> Agent:
    """A served agent."""
    llm = script(*responses) if responses else None
    return Agent(card(name, streaming=streaming), llm=llm, transport="runtime", verbosity=0, **options)


class Town:
    """A registry and the agents around it, up while the test runs."""

    def __init__(self) -> None:
        self.registry = Registry("runtime", "runtime://registry")
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Town:
        await self.registry.start()
        self._stack.push_async_callback(self.registry.stop)
        return self

    async def __aexit__(self, *failure: object) -> None:
        await self._stack.aclose()

    async def add(self, *agents: Agent) -> None:
        for member in agents:
            await member.start()
            self._stack.push_async_callback(_stopped, member)


async def _stopped(member: Agent) -> None:
    await member.stop()


def lead(town: Town, *responses: Any, **options: Any) -> Agent:
    """An agent that only looks for peers and is not served itself."""
    return agent(*responses, name="lead", registry=town.registry, **options)


def native(events: list[Any], task: Task) -> list[RunEvent]:
    return [RunEvent.from_task_event(event, context=RunContext.from_task(task)) for event in events]


def add(a: int, b: int) -> int:
    return a + b


# ---------------------------------------------------------------------------------------------------- the plain way


@pytest.mark.claim("GRP-017")
async def test_runtime_agents_discover_and_delegate_without_sockets(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*args: Any, **kwargs: Any) -> Any:
        raise AssertionError("a socket was opened")

    async with Town() as town:
        monkeypatch.setattr(socket, "socket", refuse)
        worker = peer("worker", call("add", a=2, b=3), "five", tools=[add], registry=town.registry)
        coordinator = lead(town, delegate("worker", "add two and three"), "the sum is five")
        async with AgentGroup([worker, coordinator]):
            assert [found.name for found in await coordinator.discover_agents()] == ["worker"]
            assert await coordinator.invoke("what is the sum?") == "the sum is five"


async def test_a_tool_of_a_peer_can_be_called_and_its_result_is_what_the_model_sees() -> None:
    shown: list[str] = []

    def speak(history: ConversationHistory, system_prompt: str) -> Any:
        shown.append(history.messages[-1]["content"])
        return delegate_tool("worker", "add", a=2, b=3) if len(shown) == 1 else "done"

    async with Town() as town:
        await town.add(peer("worker", tools=[add], registry=town.registry))
        coordinator = lead(town)
        coordinator.llm = MockLLM(response_callback=speak)
        assert await coordinator.invoke("go") == "done"
    assert json.loads(shown[1]) == {"type": "agent_result", "agent": "worker", "action": "tool_call", "result": 5}


async def test_the_model_is_told_of_the_peers_that_are_there() -> None:
    prompts: list[str] = []

    def speak(history: ConversationHistory, system_prompt: str) -> Any:
        prompts.append(system_prompt)
        return "done"

    async with Town() as town:
        coordinator = lead(town)
        coordinator.llm = MockLLM(response_callback=speak)
        await coordinator.invoke("before")
        await town.add(peer("worker", tools=[add], registry=town.registry))
        await coordinator.invoke("after")
    assert "The worker" not in prompts[0]
    assert "The worker" in prompts[1]


async def test_the_peer_works_under_a_run_and_session_of_its_own() -> None:
    seen: list[RunContext] = []

    class Watching(Agent):
        async def run_task(self, task: Task) -> Task:
            seen.append(RunContext.from_task(task))
            return await super().run_task(task)

    async with Town() as town:
        await town.add(
            Watching(
                card("worker", streaming=False),
                llm=agent("yes").llm,
                transport="runtime",
                verbosity=0,
                registry=town.registry,
            )
        )
        task = infer(session_id="mine")
        await lead(town, delegate("worker"), "done").run_task(task)
    [context] = seen
    assert context.parent_run_id == RunContext.from_task(task).run_id
    assert context.run_id not in (context.parent_run_id, task.id)
    assert context.session_id != "mine"
    assert context.agent_chain == ["lead", "worker"]


async def test_children_come_before_peers_of_the_same_name() -> None:
    async with Town() as town:
        await town.add(peer("worker", "from the peer", registry=town.registry))
        coordinator = lead(town, delegate("worker"), "done", subagents=[agent("from the child", name="worker")])
        task = await coordinator.run_task(infer())
        assert [run["agent"] for run in task.metadata["subagent_runs"]] == ["worker"]


async def test_unknown_names_are_corrections_that_list_children_and_peers() -> None:
    async with Town() as town:
        await town.add(peer("worker", "yes", registry=town.registry))
        coordinator = lead(town, delegate("nobody"), "I give up", subagents=[agent("x", name="child")])
        task = await coordinator.run_task(infer())
        [rejection] = [a for a in task.artifacts if a.kind == "action_rejection"]
        assert rejection.parts[0].content["rejection"]["code"] == "unknown_agent"
        assert "child, worker" in rejection.parts[0].content["rejection"]["message"]


@pytest.mark.parametrize(
    ("wanted", "code"),
    [
        ({"action": "tool_call", "tool": "nothing", "args": {}}, "unknown_delegated_tool"),
        ({"action": "infer", "prompt": " "}, "invalid_arguments"),
    ],
)
async def test_what_the_card_does_not_offer_is_refused_before_it_is_sent(wanted: dict[str, Any], code: str) -> None:
    async with Town() as town:
        worker = peer("worker", "never", tools=[add], registry=town.registry)
        await town.add(worker)
        lead_ = agent(name="lead", registry=town.registry)
        bad = ModelTurn("", (Call("c1", "agent_call", {"agent": "worker", **wanted}),))
        lead_.llm = script(bad, "done", native=True)
        task = await lead_.run_task(infer())
        [rejection] = [a for a in task.artifacts if a.kind == "action_rejection"]
        assert rejection.parts[0].content["rejection"]["code"] == code
        assert worker.llm is not None
        assert worker.llm._played == 0


# ---------------------------------------------------------------------------------------------------- what peers tell


@pytest.mark.claim("DEL-003", "LIV-017")
async def test_a_streaming_peer_tells_its_events_while_it_works() -> None:
    gate = Gate()
    async with Town() as town:
        await town.add(peer("worker", call("wait"), "finished", tools=[gate.wait], registry=town.registry))
        coordinator = lead(town, delegate("worker"), "done")
        task, seen = infer(), []

        async def read() -> None:
            async for event in coordinator.handle_task_streaming(task):
                seen.append(RunEvent.from_task_event(event, context=RunContext.from_task(task)))

        reading = asyncio.create_task(read())
        await gate.reached.wait()
        await until(lambda: any(e.type == "action.started" and e.agent_name == "worker" for e in seen))
        fragments = [e for e in seen if e.payload.get("llm_event_type") == "llm_chunk" and e.agent_name == "worker"]
        assert fragments, "the peer's text did not arrive while it worked"
        assert not any(e.type == "action.completed" and e.agent_name == "worker" for e in seen)
        gate.opened.set()
        await reading
    assert task.state.value == "completed"


@pytest.mark.claim("DEL-006", "LIV-016", "LIV-017", "LIV-019")
async def test_a_peer_without_streaming_gives_its_receipts_with_the_returned_task() -> None:
    async with Town() as town:
        await town.add(
            peer("worker", call("add", a=1, b=1), "two", tools=[add], streaming=False, registry=town.registry)
        )
        coordinator = lead(town, delegate("worker"), "done")
        task = infer()
        events = native(await stream(coordinator, task), task)
    theirs = [event for event in events if event.agent_name == "worker"]
    assert [event.type for event in theirs if event.type.startswith("action.")] == [
        "action.started",
        "action.completed",
    ]
    assert not [event for event in theirs if event.payload.get("llm_event_type") == "llm_chunk"]
    assert {"action.started", "action.completed"} <= set(recorded(task))


@pytest.mark.claim("DEL-006")
async def test_an_older_call_agent_without_a_sink_gives_the_receipts_of_its_task() -> None:
    class Older(Agent):
        async def call_agent(self, agent_url: str, task: Task) -> Task:  # type: ignore[override]
            return await AgentClient("runtime").send_task(agent_url, task)

    async with Town() as town:
        await town.add(peer("worker", call("add", a=1, b=1), "two", tools=[add], registry=town.registry))
        coordinator = Older(name="lead", llm=agent(delegate("worker"), "done").llm, verbosity=0, registry=town.registry)
        task = await coordinator.run_task(infer())
    assert recorded(task).count("action.completed") == 2  # the peer's tool, and the delegation


@pytest.mark.parametrize("streaming", [True, False])
async def test_a_peers_events_keep_their_ids_and_name_the_calling_action(streaming: bool) -> None:
    async with Town() as town:
        await town.add(
            peer("worker", call("add", a=1, b=1), "two", tools=[add], streaming=streaming, registry=town.registry)
        )
        coordinator = lead(town, delegate("worker"), "done")
        task = infer()
        events = native(await stream(coordinator, task), task)
    own = RunContext.from_task(task).run_id
    [started] = [e for e in events if e.type == "action.started" and e.agent_name == "lead"]
    theirs = [event for event in events if event.run_id != own]
    assert theirs
    assert {event.parent_action_id for event in theirs} == {started.action_id}
    assert {event.delegation_id for event in theirs if event.agent_name == "worker"} == {started.action_id}
    assert not any(event.final for event in theirs)
    assert {event.metadata["parent_run_id"] for event in theirs} == {own}
    assert len({event.event_id for event in events}) == len(events), "an event was told twice"
    assert any(event.metadata["source_final"] for event in theirs) or not streaming


@pytest.mark.parametrize("streaming", [True, False])
async def test_a_peers_artifacts_are_kept_on_the_caller_once(streaming: bool) -> None:
    async with Town() as town:
        await town.add(
            peer("worker", call("add", a=1, b=1), "two", tools=[add], streaming=streaming, registry=town.registry)
        )
        task = await lead(town, delegate("worker"), "done").run_task(infer())
    labels = [(artifact.kind, artifact.name) for artifact in task.artifacts]
    assert labels.count(("action_result", "add")) == 1
    assert labels.count(("action_result", "worker")) == 1
    assert len({artifact.id for artifact in task.artifacts}) == len(task.artifacts)


async def test_a_failed_peer_fails_the_run_and_keeps_its_evidence() -> None:
    def explode() -> None:
        raise RuntimeError("the disk is full")

    async with Town() as town:
        await town.add(peer("worker", call("explode"), tools=[explode], registry=town.registry))
        task = infer()
        error = await outcome(lead(town, delegate("worker"), "never"), task)
    assert isinstance(error, TaskExecutionError)
    assert task.state.value == "failed"
    assert "action.failed" in recorded(task)
    assert [a for a in task.metadata["run_events"] if a["agent_name"] == "worker"]


async def test_a_peer_that_waits_for_a_person_fails_the_delegation_by_name() -> None:
    async with Town() as town:
        waiting = peer(
            "worker",
            call("ask_user", question="Which?"),
            tools=[ask_user_tool()],
            registry=town.registry,
            durability=InMemoryDurableStore(),
        )
        await town.add(waiting)
        error = await outcome(lead(town, delegate("worker"), "never"), infer())
    assert isinstance(error, ToolFailedError)
    assert error.code == "peer_input_required"


# ---------------------------------------------------------------------------------------------------- lost peers


class Broken:
    """A served agent whose stream ends as the test says; it counts what it was given."""

    def __init__(self, *, streaming: bool, events: Any) -> None:
        self.card = card("worker", streaming=streaming)
        self.submitted: list[str] = []
        self._events = events

    async def run_task(self, task: Task, /) -> Task:
        self.submitted.append(task.id)
        raise SystemError("the process of the peer died")

    async def handle_task_streaming(self, task: Task, /) -> AsyncGenerator[Any, None]:
        self.submitted.append(task.id)
        async for event in self._events(task):
            yield event

    async def cancel_task(self, task_id: Any, /) -> Task:
        raise AssertionError("nobody canceled")


async def breaks(task: Task) -> AsyncGenerator[Any, None]:
    yield TaskStatusUpdateEvent(task.id, "submitted", "working")
    raise SystemError("the line broke")


async def stops_short(task: Task) -> AsyncGenerator[Any, None]:
    yield TaskStatusUpdateEvent(task.id, "submitted", "working")


async def answers_for_another(task: Task) -> AsyncGenerator[Any, None]:
    other = Task.create_infer(prompt="x")
    other.state = other.state.__class__("completed")
    yield TaskStatusUpdateEvent(task.id, None, "completed", True, {"task": other.to_dict()})


async def speaks_for_its_caller(task: Task) -> AsyncGenerator[Any, None]:
    yield RunEvent(type="action.completed", run_id=RunContext.from_task(task).parent_run_id, task_id="t")


@pytest.mark.claim("DEL-018", "DEL-019")
@pytest.mark.parametrize("events", [breaks, stops_short, answers_for_another, speaks_for_its_caller])
async def test_a_lost_stream_fails_the_delegation_with_unknown_effects_and_is_not_sent_again(events: Any) -> None:
    served = Broken(streaming=True, events=events)
    await check_lost(served)


@pytest.mark.claim("DEL-018", "DEL-019")
async def test_a_lost_answer_fails_the_delegation_with_unknown_effects_and_is_not_sent_again() -> None:
    await check_lost(Broken(streaming=False, events=breaks))


async def check_lost(served: Broken) -> None:
    async with Town() as town:
        server = AgentServer(served, RuntimeTransport("runtime://worker"))
        await server.start()
        await town.registry.register(served.card)
        try:
            task = infer()
            error = await outcome(lead(town, delegate("worker"), "never"), task)
        finally:
            await server.stop()
    assert isinstance(error, UncertainExecutionError)
    assert len(served.submitted) == 1
    assert task.state.value == "failed"
    assert codes(task) == ["execution_uncertain"]
    assert "worker" in str(error)
    assert "not sent again" in str(error)


async def test_a_peer_that_cannot_be_reached_fails_the_delegation_and_nothing_is_uncertain() -> None:
    async with Town() as town:
        await town.registry.register(card("worker"))  # nobody serves there
        task = infer()
        error = await outcome(lead(town, delegate("worker"), "never"), task)
    assert error is not None
    assert not isinstance(error, UncertainExecutionError)
    assert task.state.value == "failed"


async def test_a_registry_that_is_away_stops_nobody_who_needs_no_peer(caplog: pytest.LogCaptureFixture) -> None:
    registry = Registry("runtime", "runtime://registry")
    coordinator = agent("alone", name="lead", registry=RegistryClient(RuntimeTransport("runtime://registry")))
    assert registry.count() == 0
    assert await coordinator.invoke("go") == "alone"
    assert "could not ask its registry" in caplog.text


@pytest.mark.claim("DEL-012")
@pytest.mark.parametrize("streaming", [True, False])
async def test_events_of_a_peer_keep_their_place_in_its_own_stream(streaming: bool) -> None:
    async with Town() as town:
        await town.add(peer("worker", call("add", a=1, b=1), "two", tools=[add], streaming=streaming))
        await town.registry.register(card("worker", streaming=streaming))
        handle = lead(town, delegate("worker"), "done").start_run("go")
        events = [event async for event in handle.events()]
    assert (await handle.result()).status == "completed"
    inner = [event for event in events if event.agent_name == "worker"]
    assert {event.metadata["parent_run_id"] for event in inner} == {handle.context.run_id}
    places = [event.metadata["source_sequence"] for event in inner]
    # What the finished task tells afterwards is only known without its place.
    assert places == (list(range(1, len(inner) + 1)) if streaming else [None] * len(inner))


@pytest.mark.parametrize("name", ["wor\nker", "\x1b[31mworker"])
async def test_a_peer_whose_name_cannot_be_printed_is_not_offered(name: str) -> None:
    """It would stand in prompts, events and terminals."""
    registry = Registry("runtime", "runtime://registry")
    await registry.register(AgentCard(name, "", "runtime://worker", "runtime"))
    coordinator = agent(name="lead", registry=registry)
    assert await coordinator.network.peers(taken=()) == {}


@asynccontextmanager
async def silent_registry() -> AsyncIterator[list[str]]:
    """A registry that takes questions and never answers; those that wait for it."""
    asked: list[str] = []

    async def never(call: RouteCall) -> Any:
        asked.append("asked")
        await asyncio.Event().wait()

    routes = Routes()
    routes.add(LIST_AGENTS, never)
    transport = RuntimeTransport("runtime://registry", config=TransportConfig(shutdown_timeout=0))
    transport.setup_routes(routes)
    await transport.start()
    try:
        yield asked
    finally:
        await transport.stop()


def impatient() -> RegistryClient:
    return RegistryClient("runtime", "runtime://registry", timeout=None, discovery_timeout=0.01)


async def test_a_registry_that_does_not_answer_delays_a_run_for_its_own_short_time_only(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async with silent_registry() as asked:
        assert await agent("alone", name="lead", registry=impatient()).invoke("go") == "alone"
    assert asked == ["asked"]
    assert "'lead' could not ask its registry for peers, and goes on without them" in caplog.text
    assert "no answer within 0.01 seconds" in caplog.text


async def test_a_registry_that_does_not_answer_is_asked_by_the_whole_tree_at_the_same_time() -> None:
    """Each of the four would wait for its own time, one after the other."""
    waiting: list[int] = []
    together = asyncio.Event()

    class Slow(RegistryClient):
        async def discover(self, *wanted: Any, **named: Any) -> list[AgentCard]:
            waiting.append(1)
            if len(waiting) == 4:
                together.set()
            await together.wait()
            return []

    registry = Slow("runtime", "runtime://registry", discovery_timeout=None)
    children = [agent(name=f"kid{number}", registry=registry) for number in range(3)]
    async with asyncio.timeout(10):
        assert await agent("done", name="lead", registry=registry, subagents=children).invoke("go") == "done"


# ---------------------------------------------------------------------------------------------------- rules


async def test_policy_sees_where_a_delegation_goes_and_can_keep_it_here() -> None:
    class Home(CapabilityPolicy):
        def evaluate(self, action: Any, context: Any) -> Any:
            assert action.metadata["url"] == "runtime://worker"
            return CapabilityPolicy(rules={"agent.delegate": "deny"}).evaluate(action, context)

    async with Town() as town:
        worker = peer("worker", "never", registry=town.registry)
        await town.add(worker)
        error = await outcome(lead(town, delegate("worker"), "never", policy=Home()), infer())
    assert isinstance(error, ActionDeniedError)
    assert worker.llm is not None
    assert worker.llm._played == 0


async def test_durable_runs_refuse_remote_peers_before_anything_starts() -> None:
    async with Town() as town:
        worker = peer("worker", "never", registry=town.registry)
        await town.add(worker)
        coordinator = lead(town, delegate("worker"), "never", durability=InMemoryDurableStore())
        task = infer()
        error = await outcome(coordinator, task)
    assert isinstance(error, DurableExecutionError)
    assert "remote agent 'worker'" in str(error)
    assert task.state.value == "failed"
    assert "action.started" not in recorded(task)
    assert codes(task) == ["remote_delegation"]
    assert worker.llm is not None
    assert worker.llm._played == 0


async def test_canceling_the_caller_asks_the_peer_to_cancel_its_task() -> None:
    gate = Gate()
    async with Town() as town:
        worker = peer("worker", call("wait"), "never", tools=[gate.wait], registry=town.registry)
        await town.add(worker)
        coordinator = lead(town, delegate("worker"), "never")
        task = infer()
        running = asyncio.create_task(coordinator.run_task(task))
        await gate.reached.wait()
        await coordinator.cancel_task(task.id, "enough")
        assert (await running).state.value == "canceled"
        await until(lambda: gate.canceled and not worker.active_task_ids)
        await coordinator.stop()


async def test_a_cached_answer_of_the_registry_is_used_for_its_time() -> None:
    clock = FakeClock()
    async with Town() as town:
        await town.add(peer("worker", "a", "b", registry=town.registry))
        coordinator = lead(town, delegate("worker"), "1", "2", "3", discovery_ttl=60, clock=clock)
        assert await coordinator.invoke("go") == "1"
        asked: list[int] = []
        discover = town.registry.discover

        async def counted(*args: Any, **kwargs: Any) -> Any:
            asked.append(1)
            return await discover(*args, **kwargs)

        town.registry.discover = counted  # type: ignore[method-assign]
        await coordinator.invoke("again")
        assert asked == []
        clock.advance(61)
        await coordinator.invoke("later")
        assert asked == [1]


# ---------------------------------------------------------------------------------------------------- direct work


async def test_a_peer_is_reached_by_address_card_and_name() -> None:
    async with Town() as town:
        worker = peer("worker", "one", "two", "three", tools=[add], registry=town.registry)
        await town.add(worker)
        coordinator = lead(town)
        answers = [await coordinator.peer(t).invoke("go") for t in ("runtime://worker", worker.card, "worker")]
        assert answers == ["one", "two", "three"]
        assert await coordinator.peer("worker").call_tool("add", a=2, b=3) == 5
        assert (await coordinator.peer("worker").card()).name == "worker"


async def test_a_name_that_is_not_exactly_one_agent_is_refused() -> None:
    async with Town() as town:
        await town.registry.register(AgentCard("twin", "", "runtime://one"))
        await town.registry.register(AgentCard("twin", "", "runtime://two"))
        coordinator = lead(town)
        with pytest.raises(ValueError, match="2 agents named 'twin'"):
            await coordinator.peer("twin").invoke("go")
        with pytest.raises(ValueError, match="no agent named 'nobody'"):
            await coordinator.peer("nobody").invoke("go")
    with pytest.raises(ValueError, match="is a name"):
        agent(name="alone").peer("worker")
    with pytest.raises(TypeError):
        agent(name="alone").peer(3)  # type: ignore[arg-type]


def test_a_peer_is_usable_without_a_loop() -> None:
    worker = peer("worker", "hello", tools=[add])
    worker.start()
    try:
        remote = AgentClient("runtime").peer("runtime://worker").sync
        assert remote.invoke("go") == "hello"
        assert remote.call_tool("add", a=1, b=1) == 2
        assert remote.card().name == "worker"
    finally:
        worker.stop()


async def test_call_agent_returns_the_callers_task_and_tells_a_sink() -> None:
    async with Town() as town:
        await town.add(peer("worker", "hello"))
        sink = InMemoryEventSink()
        task = infer()
        done = await agent(name="alone").call_agent("runtime://worker", task, event_sink=sink)
        assert done is task
        assert done.get_output() == "hello"
        assert sink.events[-1].final


async def test_fragments_of_a_peers_text_are_shown_and_not_kept() -> None:
    async with Town() as town:
        await town.add(peer("worker", call("add", a=1, b=1), "two", tools=[add], registry=town.registry))
        coordinator = lead(town, delegate("worker"), "done")
        task, kept = infer(), []
        async for event in coordinator.handle_task_streaming(task):
            active = coordinator._active.get(task.id)
            if active is not None and active.driver is not None:
                kept = active.driver.run.receipts
            assert event
    relayed = [record.fact.event["type"] for record in kept if isinstance(record.fact, Relayed)]
    assert relayed == ["action.requested", "action.policy", "action.started", "action.completed"]


async def test_a_peer_of_a_subagent_cannot_speak_for_the_root() -> None:
    ids: list[str] = []

    async def speaks_for_the_root(task: Task) -> AsyncGenerator[Any, None]:
        yield RunEvent(type="action.completed", run_id=ids[0], task_id="t")

    async with Town() as town:
        server = AgentServer(Broken(streaming=True, events=speaks_for_the_root), RuntimeTransport("runtime://worker"))
        await server.start()
        await town.registry.register(card("worker"))
        child = agent(delegate("worker"), "never", name="child", registry=town.registry)
        root = agent(delegate("child"), "never", name="root", subagents=[child])
        task = infer()
        ids.append(RunContext.ensure_task_context(task).run_id)
        error = await outcome(root, task)
        await server.stop()
    assert isinstance(error, UncertainExecutionError)
    assert task.state.value == "failed"
    assert "action.completed" not in recorded(task)
