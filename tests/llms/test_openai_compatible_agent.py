"""An agent whose model is behind a server: turns, waits, parks and goes on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from protolink import Agent, RunContext, RunInterrupted, Task
from protolink.llms import create_llm
from protolink.testing import FakeClock
from protolink.tools import Tool

KEY = "sk-very-secret-key"
RUN = "run-1"
BUSY = {"error": {"message": f"overloaded, {KEY}"}}


class Scene:
    """What outlives a process: the server, the effects, the store and the clock."""

    def __init__(self, chat: Any, mode: str, path: Path | None) -> None:
        self.chat = chat
        self.mode = mode
        self.path = path
        self.clock = FakeClock()
        self.effects: list[str] = []

    def agent(self, server: Any, **how: Any) -> Agent:
        """The agent as a new process makes it."""

        def publish(text: str) -> dict[str, str]:
            """Publish a text."""
            self.effects.append(text)
            return {"published": text}

        llm = create_llm("openai-compatible:small", base_url=server.url, api_key=KEY, tool_calling=self.mode)
        durability = str(self.path) if self.path else None
        return Agent(
            name="clerk",
            llm=llm,
            tools=[Tool.from_callable(publish)],
            durability=durability,
            clock=self.clock,
            verbosity=0,
            **how,
        )

    def call(self, text: str) -> bytes:
        if self.mode == "native":
            return self.chat.completion(None, (f"c-{text}", "publish", json.dumps({"text": text})))
        return self.chat.completion(json.dumps({"type": "tool_call", "tool": "publish", "args": {"text": text}}))

    def answer(self, text: str = "done") -> bytes:
        return self.chat.completion(text if self.mode == "native" else json.dumps({"type": "final", "content": text}))

    async def invoke(self, agent: Agent) -> Any:
        return await agent.invoke("go", context=RunContext(run_id=RUN))


@pytest.fixture(params=["native", "json"])
def scene(request: pytest.FixtureRequest, chat: Any, tmp_path: Path) -> Scene:
    return Scene(chat, request.param, tmp_path / "runs.sqlite")


@pytest.fixture
def live(chat: Any) -> Scene:
    return Scene(chat, "native", None)


async def test_the_model_sees_what_its_call_brought(scene: Scene) -> None:
    async with scene.chat.Server(scene.call("hello"), scene.answer()) as server:
        assert await scene.invoke(scene.agent(server)) == "done"
    assert scene.effects == ["hello"]
    result = server.body["messages"][-1]
    assert json.loads(result["content"])["result"] == {"published": "hello"}
    assert result["role"] == ("tool" if scene.mode == "native" else "user")
    assert result.get("tool_call_id") == ("c-hello" if scene.mode == "native" else None)


async def test_a_failing_provider_parks_the_run_and_resuming_goes_on(scene: Scene) -> None:
    fail = scene.chat.http(500, BUSY)
    async with scene.chat.Server(scene.call("hello"), fail, fail, fail, scene.answer()) as server:
        with pytest.raises(RunInterrupted) as caught:
            await scene.invoke(scene.agent(server))
        assert caught.value.interruption.kind == "retry"
        assert len(server.requests) == 4
        assert await scene.agent(server).resume(RUN) == "done"
    assert scene.effects == ["hello"]
    assert len(server.requests) == 5


async def test_a_wrong_key_parks_at_once_and_stands_nowhere_in_the_store(scene: Scene) -> None:
    refusal = scene.chat.http(401, {"error": {"message": f"Incorrect key {KEY}"}})
    async with scene.chat.Server(refusal, scene.answer()) as server:
        with pytest.raises(RunInterrupted) as caught:
            await scene.invoke(scene.agent(server))
        assert len(server.requests) == 1
        assert "HTTP 401" in caught.value.interruption.request["message"]
        assert await scene.agent(server).resume(RUN) == "done"
    assert scene.path is not None
    stored = b"".join(file.read_bytes() for file in scene.path.parent.iterdir())
    assert b"HTTP 401" in stored
    assert KEY.encode() not in stored


@pytest.mark.parametrize(
    ("told", "waited"),
    [({}, 0.5), ({"retry_after": "7"}, 7.0), ({"retry_after": "0"}, 0.0), ({"retry_after": "9000"}, 60.0)],
)
async def test_the_second_attempt_waits_as_the_provider_asks(live: Scene, told: dict[str, str], waited: float) -> None:
    async with live.chat.Server(live.chat.http(429, BUSY, **told), live.answer()) as server:
        start = live.clock.now()
        assert await live.invoke(live.agent(server)) == "done"
    assert live.clock.now() - start == pytest.approx(waited)


async def test_a_live_run_fails_when_the_provider_stays_away(live: Scene) -> None:
    fail = live.chat.http(503, BUSY)
    async with live.chat.Server(fail, fail, fail, live.answer()) as server:
        task = await _failed(live.agent(server))
    assert len(server.requests) == 3
    assert "HTTP 503: overloaded, [REDACTED]" in task.metadata["error"]


async def _failed(agent: Agent) -> Task:
    task = Task.create_infer(prompt="go")
    with pytest.raises(Exception, match="503"):
        await agent.run_task(task)
    return task


async def test_an_empty_reply_is_answered_with_feedback(scene: Scene) -> None:
    async with scene.chat.Server(scene.chat.completion(""), scene.answer()) as server:
        assert await scene.invoke(scene.agent(server)) == "done"
    assert "no valid action" in server.body["messages"][-1]["content"]


async def test_several_streamed_calls_of_a_turn_run_and_are_answered_by_id(live: Scene) -> None:
    calls = [
        {"index": n, "id": f"c{n}", "function": {"name": "publish", "arguments": json.dumps({"text": text})}}
        for n, text in enumerate(["one", "two"])
    ]
    first = live.chat.stream(
        live.chat.delta(content="Both."), live.chat.delta(tool_calls=calls), live.chat.delta("stop")
    )
    async with live.chat.Server(first, live.chat.stream(*live.chat.words("do", "ne"))) as server:
        events = [event async for event in live.agent(server).handle_task_streaming(Task.create_infer(prompt="go"))]
    assert live.effects == ["one", "two"]
    assert [message["tool_call_id"] for message in server.body["messages"] if message["role"] == "tool"] == ["c0", "c1"]
    chunks = [event.content for event in events if getattr(event, "llm_event_type", "") == "llm_chunk"]
    assert chunks == ["Both.", "do", "ne"]


async def test_usage_of_the_server_is_charged(live: Scene) -> None:
    usage = {"prompt_tokens": 111, "completion_tokens": 7}
    async with live.chat.Server(live.chat.stream(*live.chat.words("done", usage=usage))) as server:
        events = [event async for event in live.agent(server).handle_task_streaming(Task.create_infer(prompt="go"))]
    [metrics] = [e.metadata for e in events if getattr(e, "llm_event_type", "") == "llm_call_metrics"]
    assert metrics["usage"]["output_tokens"] == 7
    assert metrics["usage"]["input_tokens"] == 111
    assert metrics["usage"]["estimated"] is False
