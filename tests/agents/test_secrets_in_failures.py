"""What foreign code says when it fails becomes facts and events; recognisable secrets do not go with it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from protolink import Agent, RunInterrupted, Task
from protolink.llms import MockLLM

SECRET = "sk-4f9a1c77d2e84b5f"
TEXT = f"401 for https://user:{SECRET}@example.test/v1?api_key={SECRET}"


def told(task: Task) -> str:
    return json.dumps(task.to_dict())


async def test_a_tools_exception_is_told_without_its_secrets() -> None:
    def connect() -> str:
        """Fail with a secret."""
        raise OSError(TEXT)

    task = Task.create_tool_call(tool_name="connect")
    agent = Agent(name="a", tools=[connect], verbosity=0)
    events = [event async for event in agent.handle_task_streaming(task)]
    assert SECRET not in told(task)
    assert SECRET not in json.dumps([event.to_dict() for event in events])


@pytest.mark.parametrize(
    "key",
    [
        "sk-proj-abcdefghijklmnop1234",
        "ghp_abcdefghijklmnopqrstuvwxyz0123",
        "AKIAIOSFODNN7EXAMPLE",
        "xoxb-123456789012-abcdef",
    ],
)
async def test_a_key_in_the_middle_of_an_errors_sentence_is_masked(key: str) -> None:
    def connect() -> str:
        """Fail with a key."""
        raise OSError(f"the key {key} is not accepted")

    task = Task.create_tool_call(tool_name="connect")
    await Agent(name="a", tools=[connect], verbosity=0).run_task(task)
    assert task.state.value == "failed"
    assert key not in told(task)
    assert "is not accepted" in told(task)


async def test_a_providers_failure_is_stored_without_its_secrets(tmp_path: Any) -> None:
    llm = MockLLM(sequential_responses=[RuntimeError(TEXT)])
    agent = Agent(name="a", llm=llm, durability=tmp_path / "runs.sqlite", verbosity=0)
    with pytest.raises(RunInterrupted) as caught:
        await agent.invoke("go")
    assert caught.value.interruption.kind == "retry"
    assert SECRET not in json.dumps(caught.value.interruption.request)
    assert SECRET.encode() not in b"".join(path.read_bytes() for path in tmp_path.iterdir())
