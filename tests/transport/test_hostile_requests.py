"""Whatever is sent to whatever path, the sender is told a typed fault of its own, and the server goes on."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from network_support import address, card, serving

from protolink import (
    Agent,
    AgentInterface,
    AgentNotFoundError,
    Artifact,
    Part,
    ProtolinkError,
    Registry,
    RunBudget,
    RunContext,
    RuntimeTransport,
    Task,
    TaskCancellationError,
    TransportRemoteError,
)
from protolink.transport.board import BOARD
from protolink.transport.request import (
    AGENT_CARD,
    AGENT_HEARTBEAT,
    CANCEL_TASK,
    LIST_AGENTS,
    REGISTER_AGENT,
    STREAM_TASK,
    SUBMIT_TASK,
    UNREGISTER_AGENT,
    Request,
)

ROUTES = [
    AGENT_CARD,
    SUBMIT_TASK,
    STREAM_TASK,
    CANCEL_TASK,
    REGISTER_AGENT,
    LIST_AGENTS,
    AGENT_HEARTBEAT,
    UNREGISTER_AGENT,
]
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["", " ", "user", "infer", "tool_call", "working", "completed", "1e999", "runtime://x"])
)
NAMES = st.sampled_from(
    [
        *Task().to_dict(),
        *card().to_dict(),
        *("role", "parts", "type", "content", "timestamp", "kind", "task_id", "reason", "agent_url", "run_context"),
        *("run_id", "budget", "max_steps", "tool_name", "args", "prompt", "call_id", "session_id", "agent_chain"),
    ]
)
JSON = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES | st.text(max_size=4), inner, max_size=5),
    max_leaves=20,
)
PARAMS = st.dictionaries(st.text(max_size=5) | NAMES, st.lists(st.text(max_size=4)), max_size=2)


def _tasks() -> list[Task]:
    context = RunContext(session_id="s", permissions={"a": True}, agent_chain=["x"], budget=RunBudget(max_steps=3))
    full = Task.create_tool_call("add", {"x": 1}, context=context)
    full.add_artifact(Artifact(parts=[Part.json({"a": 1})], kind="result", name="n"))
    full.metadata |= {"run_events": [{}], "interruption": {}, "blockers": [{}], "state_history": []}
    full.metadata |= {"subagent_runs": [{}], "parent_agent": "p", "canceled": False, "budget": {}}
    return [Task.create("text"), Task.create_infer(prompt="p", output_schema={"type": "integer"}), full]


VALID = [
    *[task.to_dict() for task in _tasks()] * 3,
    {"id": "t", "metadata": {"reason": "r"}},
    card(tags=["a"], security_schemes={"s": {}}, interfaces=[AgentInterface("runtime://i", "runtime")]).to_dict(),
    {"agent_url": "runtime://x"},
]


@st.composite
def nearly_valid(draw: st.DrawFn) -> Any:
    """A body that would be taken, with one or two members replaced or left out."""
    found = json.loads(json.dumps(draw(st.sampled_from(VALID))))
    for _ in range(draw(st.integers(1, 2))):
        places = list(_places(found))
        if not places:
            break
        parent, key = draw(st.sampled_from(places))
        if isinstance(parent, dict) and draw(st.booleans()):
            parent.pop(key, None)
        else:
            parent[key] = draw(JSON)
    return found


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    """Every member and every item, at any depth, as its container and its key."""
    members = list(value.items()) if isinstance(value, dict) else list(enumerate(value))
    for key, item in members:
        yield value, key
        if isinstance(item, (dict, list)):
            yield from _places(item)


@asynccontextmanager
async def servers() -> AsyncIterator[list[str]]:
    """An agent with a tool and without a model, and a registry."""
    agent = Agent(name="adder")

    @agent.tool
    def add(x: int, y: int = 1) -> int:
        return x + y

    registry = Registry(url=address("registry"))
    await registry.start()
    async with serving(agent) as server:
        yield [server.url, registry.url]
    await registry.stop()


def check(error: ProtolinkError) -> None:
    """The sender's own fault, told as such."""
    if isinstance(error, TransportRemoteError):
        assert 400 <= (error.status_code or 0) < 500, error
    else:
        assert isinstance(error, (TaskCancellationError, AgentNotFoundError)), error


@pytest.mark.parametrize("spec", ROUTES, ids=lambda spec: f"{spec.method}{spec.path}")
@settings(max_examples=50)
@given(body=JSON | nearly_valid(), params=PARAMS)
async def test_any_json_is_answered_or_refused_with_a_typed_error(spec: Any, body: Any, params: Any) -> None:
    text = json.dumps(body).encode()
    async with servers() as urls:
        for url in urls:
            request = Request(spec.method, spec.path, text, params, "r1")
            client = RuntimeTransport(None)
            try:
                if spec.streaming:
                    async for answer in client.replies(request, url):
                        client._value(answer, url, request)
                else:
                    client._value(await client.exchange(request, url), url, request)
            except ProtolinkError as error:
                check(error)


@pytest.mark.parametrize("spec", [SUBMIT_TASK, CANCEL_TASK, REGISTER_AGENT], ids=lambda spec: spec.path)
@settings(max_examples=50)
@given(body=st.binary(min_size=1, max_size=40))
async def test_any_bytes_are_refused_with_a_typed_error(spec: Any, body: bytes) -> None:
    async with servers() as urls:
        for url in urls:
            reply = await BOARD.find(url).handle(Request(spec.method, spec.path, body))
            assert 400 <= reply.status < 500


@pytest.mark.parametrize(
    "body",
    [
        b"[" * 199 + b"]" * 199,
        b"[" * 100_000,
        b'{"id":"t","metadata":' + b'{"a":' * 170 + b"1" + b"}" * 171,
        b"1e999",
        b"NaN",
        b'"\\ud800"',
        b"1" * 5000,
        b'{"id":"t","id":"u"}',
    ],
)
@pytest.mark.parametrize("spec", [SUBMIT_TASK, CANCEL_TASK], ids=["submit", "cancel"])
async def test_json_at_its_edges_is_a_bad_request(spec: Any, body: bytes) -> None:
    async with servers() as urls:
        reply = await BOARD.find(urls[0]).handle(Request(spec.method, spec.path, body))
    assert reply.status in (400, 404)


@given(method=st.text(max_size=6), path=st.text(max_size=20))
async def test_any_path_and_method_is_told_apart(method: str, path: str) -> None:
    async with servers() as urls:
        reply = await BOARD.find(urls[0]).handle(Request(method, path))
    assert reply.status in (404, 405)
