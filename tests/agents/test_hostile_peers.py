"""What a broken or hostile peer sends ends the exchange as unknown; it forges nothing, and it hides nothing."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from agent_support import agent, call, codes, delegate, infer, outcome, recorded, script, until

from protolink import (
    Agent,
    AgentCard,
    RunContext,
    RunEvent,
    RunHandle,
    RunReport,
    Task,
    TaskExecutionError,
    ToolFailedError,
    TransportProtocolError,
    TransportTimeoutError,
    UncertainExecutionError,
)
from protolink.agents import remote
from protolink.client import AgentClient
from protolink.discovery import Registry
from protolink.models import Artifact, TaskStatusUpdateEvent
from protolink.transport import RetryPolicy, RuntimeTransport, TransportConfig
from protolink.transport.faults import Fault
from protolink.transport.request import AGENT_CARD, CANCEL_TASK, STREAM_TASK, SUBMIT_TASK
from protolink.transport.routes import RouteCall, Routes

URL = "runtime://worker"
SECRET = "sk-" + "abcdefghijklmnopqrstuvwxyz0123456789"

Told = Callable[[dict[str, Any]], AsyncGenerator[tuple[Any, bool], None]]


def card(*, streaming: bool = True) -> AgentCard:
    return AgentCard("worker", "Works", URL, "runtime", capabilities={"streaming": streaming})


async def nothing(body: Any) -> Any:
    raise AssertionError("not asked for")


@asynccontextmanager
async def hostile(
    told: Told | None = None,
    *,
    submit: Callable[[Any], Awaitable[Any]] = nothing,
    cancel: Callable[[Any], Awaitable[Any]] = nothing,
    shown: Callable[[], Awaitable[Any]] | None = None,
) -> AsyncIterator[Registry]:
    """A server at URL without any of our rules, and a registry that knows it. ``told`` None: it does not stream."""

    async def stream(call: RouteCall) -> AsyncGenerator[tuple[Any, bool], None]:
        assert told is not None
        async for event, final in told(call.body):
            yield event, final

    async def introduce(call: RouteCall) -> Any:
        return card(streaming=told is not None).to_dict() if shown is None else await shown()

    routes = Routes()
    routes.add(AGENT_CARD, introduce)
    routes.add(SUBMIT_TASK, lambda call: submit(call.body))
    routes.add(CANCEL_TASK, lambda call: cancel(call.body))
    routes.add_stream(STREAM_TASK, stream)
    transport = RuntimeTransport(URL, config=TransportConfig(shutdown_timeout=0))
    transport.setup_routes(routes)
    await transport.start()
    registry = Registry("runtime", "runtime://registry")
    await registry.register(card(streaming=told is not None))
    try:
        yield registry
    finally:
        await transport.stop()


def start(timeout: float | None = 300) -> RunHandle:
    return RunHandle.start(URL, infer(), client=AgentClient("runtime", timeout=timeout))


def lead(registry: Registry, *responses: Any) -> Agent:
    return agent(*(responses or (delegate("worker"), "never")), name="lead", registry=registry)


def completed(body: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    task = Task.from_dict(body).complete("done")
    task.metadata |= metadata
    return task.to_dict()


def final(body: dict[str, Any], task: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    status = TaskStatusUpdateEvent(body["id"], None, "completed", True, {"task": task or completed(body)})
    return {**status.to_dict(), **more}


def forged(body: dict[str, Any]) -> dict[str, Any]:
    """An event that speaks for the run that asked."""
    caller = body["metadata"]["run_context"]["parent_run_id"]
    return RunEvent(type="action.completed", run_id=caller, task_id="t", action_id="a").to_dict()


# ---------------------------------------------------------------------------------------------------- lies


async def no_task_in_the_end(body: dict[str, Any]) -> AsyncGenerator[tuple[Any, bool], None]:
    yield {**final(body), "metadata": {}}, True


async def metadata_is_a_list(body: dict[str, Any]) -> AsyncGenerator[tuple[Any, bool], None]:
    yield {**final(body), "metadata": [1]}, True


async def two_words_for_one_end(body: dict[str, Any]) -> AsyncGenerator[tuple[Any, bool], None]:
    yield {**final(body), "new_state": "failed"}, True


async def still_submitted(body: dict[str, Any]) -> AsyncGenerator[tuple[Any, bool], None]:
    yield final(body, {**completed(body), "state": "submitted"}, new_state="submitted"), True


async def ends_with_something_else(body: dict[str, Any]) -> AsyncGenerator[tuple[Any, bool], None]:
    yield {"type": "task_progress", "task_id": body["id"], "progress": 100}, True


async def blockers_are_text(body: dict[str, Any]) -> AsyncGenerator[tuple[Any, bool], None]:
    yield final(body, completed(body, blockers="none")), True


async def a_nameless_artifact(body: dict[str, Any]) -> AsyncGenerator[tuple[Any, bool], None]:
    artifact = {**Artifact().to_dict(), "id": None}
    yield {"type": "task_artifact_update", "task_id": body["id"], "artifact": artifact}, False
    yield final(body), True


async def refuses_in_the_middle(body: dict[str, Any]) -> AsyncGenerator[tuple[Any, bool], None]:
    yield {"type": "task_progress", "task_id": body["id"]}, False
    raise Fault("run_busy", "somebody else has it")


async def too_deep(body: dict[str, Any]) -> AsyncGenerator[tuple[Any, bool], None]:
    nested: list[Any] = []
    for _ in range(170):
        nested = [nested]
    yield {"type": "task_progress", "task_id": body["id"], "metadata": {"x": nested}}, False
    yield final(body), True


LIES = [
    no_task_in_the_end,
    metadata_is_a_list,
    two_words_for_one_end,
    still_submitted,
    ends_with_something_else,
    blockers_are_text,
    a_nameless_artifact,
    refuses_in_the_middle,
    too_deep,
]


@pytest.mark.claim("GRP-049")
@pytest.mark.parametrize("told", LIES)
async def test_a_handle_believes_no_such_end_and_its_last_event_says_uncertain(told: Told) -> None:
    async with hostile(told):
        handle = start()
        result = await handle.result()
        events = [event async for event in handle.events()]
    assert result.status == "uncertain"
    assert not handle.task.is_terminal, "the lie was taken over"
    ends = [event for event in events if event.type == "task.status" and event.final]
    assert [end.payload["new_state"] for end in ends] == ["uncertain"]
    assert events[-1] is ends[0]


@pytest.mark.claim("DEL-018")
@pytest.mark.parametrize("told", LIES)
async def test_a_delegation_believes_no_such_end(told: Told) -> None:
    async with hostile(told) as registry:
        task = infer()
        error = await outcome(lead(registry), task)
    assert isinstance(error, UncertainExecutionError)
    assert codes(task) == ["execution_uncertain"]


@pytest.mark.parametrize("streaming", [True, False])
async def test_evidence_of_the_callers_own_run_is_not_taken_from_the_finished_task(streaming: bool) -> None:
    async def told(body: dict[str, Any]) -> AsyncGenerator[tuple[Any, bool], None]:
        yield final(body, completed(body, run_events=[forged(body)])), True

    async def submit(body: dict[str, Any]) -> Any:
        return completed(body, run_events=[forged(body)])

    async with hostile(told if streaming else None, submit=submit) as registry:
        task = infer()
        error = await outcome(lead(registry), task)
    assert isinstance(error, UncertainExecutionError)
    own = RunContext.from_task(task).run_id
    proved = [(e["type"], e["run_id"] == own) for e in task.metadata["run_events"]]
    assert proved == [("action.started", True), ("action.failed", True)]


@pytest.mark.parametrize("recorded_events", ["none", {}, [1]])
async def test_records_that_are_none_leave_the_end_of_an_answer_unknown(recorded_events: Any) -> None:
    async def submit(body: dict[str, Any]) -> Any:
        return completed(body, run_events=recorded_events)

    async with hostile(submit=submit):
        result = await start().result()
    assert result.status == "uncertain"


async def test_nothing_is_told_after_the_end() -> None:
    async def told(body: dict[str, Any]) -> AsyncGenerator[tuple[Any, bool], None]:
        yield final(body), False
        yield {"type": "task_progress", "task_id": body["id"]}, False
        yield final(body), True

    async with hostile(told):
        handle = start()
        result = await handle.result()
        events = [event async for event in handle.events()]
    assert result.status == "completed"
    assert [event.type for event in events] == ["task.status"]


async def test_an_event_of_no_known_kind_stops_no_reader() -> None:
    async def told(body: dict[str, Any]) -> AsyncGenerator[tuple[Any, bool], None]:
        yield {"type": "task_llm_stream", "task_id": body["id"], "llm_event_type": ["llm_final"]}, False
        yield final(body), True

    async with hostile(told):
        handle = start()
        assert [answer.text async for answer in handle.answer_events()] == ["done"]
        assert len([shown async for shown in handle.presentation_events()]) == 1


async def test_whose_run_it_is_is_not_the_peers_to_say() -> None:
    async def told(body: dict[str, Any]) -> AsyncGenerator[tuple[Any, bool], None]:
        stolen = {"run_id": "theirs", "session_id": "theirs", "parent_run_id": "theirs"}
        yield final(body, completed(body, **stolen, run_context=stolen)), True

    async with hostile(told):
        handle = start()
        before = {key: handle.task.metadata[key] for key in ("run_id", "run_context")}
        await handle.result()
    assert {key: handle.task.metadata[key] for key in ("run_id", "run_context")} == before
    assert "session_id" not in handle.task.metadata
    assert "parent_run_id" not in handle.task.metadata


@pytest.mark.parametrize("streaming", [True, False])
async def test_secrets_in_a_peers_error_go_no_further(streaming: bool) -> None:
    async def told(body: dict[str, Any]) -> AsyncGenerator[tuple[Any, bool], None]:
        yield {"type": "task_progress", "task_id": body["id"]}, False
        raise Fault("internal", f"the key {SECRET} is wrong")

    async def submit(body: dict[str, Any]) -> Any:
        raise Fault("internal", f"the key {SECRET} is wrong")

    async with hostile(told if streaming else None, submit=submit) as registry:
        result = await start().result()
        error = await outcome(lead(registry), infer())
    assert result.error is not None
    assert "is wrong" in result.error["message"]
    assert SECRET not in json.dumps(result.error)
    assert SECRET not in str(error)


# ---------------------------------------------------------------------------------------------------- any nonsense

JUNK: list[Any] = [None, 0, -1, True, "", "x", 1e300, [], [1], {}, {"task": {"id": 3}}, "completed", "working"]


def places(value: Any) -> list[tuple[Any, Any]]:
    """Every member and item at any depth, as its container and its key."""
    found = []
    for key, item in list(value.items()) if isinstance(value, dict) else list(enumerate(value)):
        found.append((value, key))
        if isinstance(item, (dict, list)):
            found += places(item)
    return found


def spoilt(events: list[Any], chance: random.Random) -> list[Any]:
    """Some members replaced, and events doubled, dropped or out of order."""
    for _ in range(chance.choice([1, 1, 2, 3])):
        match chance.randrange(8):
            case 0:
                events.insert(chance.randrange(len(events)), json.loads(json.dumps(chance.choice(events))))
            case 1 if len(events) > 1:
                del events[chance.randrange(len(events))]
            case 2:
                chance.shuffle(events)
            case _:
                container, key = chance.choice(places(events[chance.choice([-1, chance.randrange(len(events))])]))
                container[key] = chance.choice(JUNK)
    return events


async def recording() -> tuple[str, list[dict[str, Any]]]:
    """The events of an honest peer, and the id of its task."""

    def add(a: int, b: int) -> int:
        return a + b

    honest = Agent(card(), llm=script(call("add", a=1, b=2), "three"), transport="runtime", tools=[add], verbosity=0)
    await honest.start()
    task = infer()
    events = [event async for event in AgentClient("runtime").send_task_streaming(URL, task)]
    await honest.stop()
    waiting = {"run_id": "r", "request_id": "q", "kind": "retry", "request": {"code": "a", "message": "b"}}
    kept = {"blockers": [{"code": "x"}], "interruption": waiting, "interruptions": [waiting], "error": "e"}
    events[-1]["metadata"]["task"]["metadata"] |= kept
    return task.id, events


@pytest.mark.parametrize("streaming", [True, False])
async def test_whatever_a_peer_sends_handles_and_delegations_end_in_one_known_way(streaming: bool) -> None:
    old, honest = await recording()
    chance = random.Random(20)

    def replayed(body: dict[str, Any]) -> list[Any]:
        events = json.loads(json.dumps(honest).replace(old, body["id"]))
        state = chance.choice(["completed", "failed", "canceled", "input-required"])
        events[-1]["new_state"] = events[-1]["metadata"]["task"]["state"] = state
        return spoilt(events, chance)

    async def told(body: dict[str, Any]) -> AsyncGenerator[tuple[Any, bool], None]:
        events = replayed(body)
        for event in events:
            yield event, event is events[-1]

    async def submit(body: dict[str, Any]) -> Any:
        ends = [e for e in replayed(body) if isinstance(e, dict) and isinstance(e.get("metadata"), dict)]
        return ends[-1]["metadata"].get("task") if ends else None

    seen: set[str] = set()
    async with hostile(told if streaming else None, submit=submit) as registry:
        for _ in range(40):
            seen.add(await check_handle(start()))
            await check_delegation(lead(registry, delegate("worker"), "done"))
    assert {"completed", "uncertain"} <= seen


async def check_handle(handle: RunHandle) -> str:
    result = await handle.result()
    events = [event async for event in handle.events()]
    ends = [e for e in events if e.type == "task.status" and e.final and e.task_id == handle.task.id]
    assert ends == events[-1:]
    assert ends[0].payload["new_state"] == result.status
    assert [answer async for answer in handle.answer_events()][-1].kind in ("completed", "discarded")
    assert [shown async for shown in handle.presentation_events()]
    ended = {evidence.action_id async for evidence in handle.tool_evidence()}
    assert ended == {evidence.action_id for evidence in result.tool_evidence}
    assert RunReport.from_dict(json.loads(json.dumps(handle.report.to_dict()))).events
    assert handle.task.is_terminal or result.status in ("uncertain", "input-required")
    return result.status


async def check_delegation(coordinator: Agent) -> None:
    task = infer()
    error = await outcome(coordinator, task)
    assert error is None or isinstance(error, (UncertainExecutionError, TaskExecutionError, ToolFailedError))
    assert task.is_terminal
    assert RunReport.from_task(Task.from_dict(json.loads(json.dumps(task.to_dict())))).events


# ---------------------------------------------------------------------------------------------------- what was not sent


@pytest.mark.parametrize("url", ["http://worker:80", "runtime://two words", "runtime://a/b", "nonsense"])
async def test_an_address_that_the_client_cannot_reach_is_a_failure_and_nothing_is_uncertain(url: str) -> None:
    result = await RunHandle.start(url, infer(), client=AgentClient("runtime")).result()
    assert result.status == "failed"
    assert result.error is not None
    assert result.error["code"] == "ValueError"


async def test_a_client_that_is_none_is_refused_at_once() -> None:
    with pytest.raises(TypeError, match="must be an AgentClient, not str"):
        RunHandle.start(URL, infer(), client="runtime")  # type: ignore[arg-type]


async def test_a_task_that_is_no_json_is_a_failure_and_nothing_is_uncertain() -> None:
    async with hostile(no_task_in_the_end):
        task = infer()
        task.metadata["mine"] = object()
        result = await RunHandle.start(URL, task, client=AgentClient("runtime")).result()
    assert result.status == "failed"


async def falls_silent(body: dict[str, Any]) -> AsyncGenerator[tuple[Any, bool], None]:
    yield {"type": "task_progress", "task_id": body["id"]}, False
    await asyncio.Event().wait()


IMPATIENT = TransportConfig(stream_idle_timeout=0.01)


@pytest.mark.claim("GRP-049")
async def test_a_peer_that_falls_silent_leaves_a_handle_uncertain() -> None:
    async with hostile(falls_silent):
        client = AgentClient(RuntimeTransport(None, config=IMPATIENT))
        result = await RunHandle.start(URL, infer(), client=client).result()
    assert result.status == "uncertain"
    assert result.error is not None
    assert result.error["code"] == "remote_outcome_unknown"
    assert "0.01 seconds" in result.error["message"]


@pytest.mark.claim("DEL-018", "DEL-019")
async def test_a_delegation_to_a_peer_that_falls_silent_is_unknown_and_not_sent_again() -> None:
    sent: list[str] = []

    async def told(body: dict[str, Any]) -> AsyncGenerator[tuple[Any, bool], None]:
        sent.append(body["id"])
        async for event in falls_silent(body):
            yield event

    async with hostile(told) as registry:
        transport = RuntimeTransport("runtime://lead", config=IMPATIENT)
        about = AgentCard("lead", "", "runtime://lead", "runtime")
        task = infer()
        boss = Agent(
            about, llm=script(delegate("worker"), "never"), transport=transport, registry=registry, verbosity=0
        )
        error = await outcome(boss, task)
    assert isinstance(error, UncertainExecutionError)
    assert codes(task) == ["execution_uncertain"]
    assert len(sent) == 1


async def test_a_card_that_does_not_come_is_a_failure_as_nothing_was_sent() -> None:
    sent: list[Any] = []

    async def told(body: dict[str, Any]) -> AsyncGenerator[tuple[Any, bool], None]:
        sent.append(body)
        yield final(body), True

    async def never() -> Any:
        await asyncio.Event().wait()

    async with hostile(told, shown=never):
        result = await start(timeout=0.01).result()
    assert (result.status, sent) == ("failed", [])
    assert result.error is not None
    assert result.error["code"] == TransportTimeoutError.__name__


@pytest.mark.parametrize("state", ["submitted", "working"])
async def test_an_answer_before_the_end_is_no_answer(state: str) -> None:
    async def submit(body: Any) -> Any:
        return {**body, "state": state}

    async with hostile(submit=submit):
        with pytest.raises(TransportProtocolError, match=state) as caught:
            await AgentClient("runtime").peer(URL).invoke("go")
    assert caught.value.outcome_unknown


async def test_a_peer_that_waits_for_a_person_gives_no_result() -> None:
    async def submit(body: Any) -> Any:
        return {**body, "state": "input-required"}

    async with hostile(submit=submit):
        peer = AgentClient("runtime").peer(URL)
        assert (await peer.run_task(infer())).state.value == "input-required"
        with pytest.raises(RuntimeError, match="waits for a person"):
            await peer.invoke("go")


@pytest.mark.claim("GRP-050")
async def test_a_busy_peer_is_asked_once_though_its_refusal_could_be_repeated() -> None:
    asked: list[Any] = []

    async def submit(body: Any) -> Any:
        asked.append(body)
        raise Fault("overloaded", "busy")

    eager = TransportConfig(retry=RetryPolicy(max_attempts=5, initial_backoff=0, max_backoff=0, jitter=0))
    async with hostile(submit=submit):
        client = AgentClient(RuntimeTransport(None, config=eager))
        result = await RunHandle.start(URL, infer(), client=client).result()
    assert (result.status, len(asked)) == ("failed", 1)


# ---------------------------------------------------------------------------------------------------- canceling


async def working_for_ever(body: dict[str, Any]) -> AsyncGenerator[tuple[Any, bool], None]:
    yield {"type": "task_progress", "task_id": body["id"]}, False
    await asyncio.Event().wait()


async def agrees(body: Any) -> Any:
    return Task(id=body["id"], state="canceled").to_dict()  # type: ignore[arg-type]


async def cannot(body: Any) -> Any:
    raise Fault("internal", "no")


@pytest.mark.parametrize("cancel", [agrees, cannot, nothing])
async def test_a_peer_that_does_not_end_a_canceled_task_holds_up_nobody(
    cancel: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote, "SETTLE_SECONDS", 0)
    async with hostile(working_for_ever, cancel=cancel):
        handle = start()
        await until(lambda: bool(handle.report.events))
        await handle.cancel("enough")
        assert handle.done
        assert (await handle.result()).status == "uncertain"


async def test_a_task_that_is_canceled_while_the_card_is_asked_for_is_not_sent() -> None:
    asked, sent = asyncio.Event(), []

    async def told(body: dict[str, Any]) -> AsyncGenerator[tuple[Any, bool], None]:
        sent.append(body)
        yield final(body), True

    async def slow() -> Any:
        asked.set()
        await asyncio.Event().wait()

    async with hostile(told, shown=slow):
        handle = start()
        await asked.wait()
        await handle.cancel("enough")
        result = await handle.result()
    assert (result.status, sent) == ("canceled", [])
    assert handle.task.metadata["cancel_reason"] == "enough"


# ---------------------------------------------------------------------------------------------------- own call_agent()


def returning(made: Callable[[Task], Any]) -> type[Agent]:
    class Own(Agent):
        async def call_agent(self, agent_url: str, task: Task) -> Any:  # type: ignore[override]
            return made(task)

    return Own


def junk_events(task: Task) -> Task:
    task.metadata["run_events"] = [1]
    return task.complete("done")


def events_are_text(task: Task) -> Task:
    task.metadata["run_events"] = "none"
    return task.complete("done")


def forges(task: Task) -> Task:
    task.metadata["run_events"] = [forged(task.to_dict())]
    return task.complete("done")


def loses_the_answer(task: Task) -> Task:
    raise TransportTimeoutError("no answer in time", outcome_unknown=True)


WRONG = [
    lambda task: None,
    lambda task: {"id": task.id},
    lambda task: task,
    junk_events,
    events_are_text,
    forges,
    loses_the_answer,
]


@pytest.mark.claim("DEL-018")
@pytest.mark.parametrize("made", WRONG)
async def test_an_own_call_agent_that_brings_no_ended_task_leaves_the_effect_unknown(made: Any) -> None:
    registry = Registry("runtime", "runtime://registry")
    await registry.register(card())
    coordinator = returning(made)(name="lead", llm=script(delegate("worker"), "never"), verbosity=0, registry=registry)
    task = infer()
    error = await outcome(coordinator, task)
    assert isinstance(error, UncertainExecutionError)
    assert "'worker'" in str(error)
    assert recorded(task) == ["action.started", "action.failed"]
