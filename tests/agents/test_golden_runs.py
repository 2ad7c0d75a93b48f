"""Runs as golden files: silent, and told by a sink as lists that can be compared."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest
from agent_support import agent, call, delegate

from protolink import Agent, InMemoryEventSink, RunEvent, Tool, create_llm


def scene() -> Agent:
    act = Tool.from_callable(lambda: "acted", name="act")
    boom = Tool.from_callable(lambda: 1 / 0, name="boom")
    kid = agent(call("act"), "kid", name="kid", tools=[act])
    return agent(call("act"), delegate("kid"), call("boom"), tools=[act, boom], subagents=[kid])


@pytest.mark.claim("INT-012")
async def test_agent_with_verbosity_zero_is_silent(capfd: Any, caplog: pytest.LogCaptureFixture) -> None:
    """A tool, a child and a failure: nothing is printed, and nothing is logged at any level."""
    caplog.set_level(logging.DEBUG)
    target = scene()
    assert target.verbosity == 0
    result = await target.start_run("go").result()
    assert result.status == "failed"
    assert await Agent(llm="mock", name="b", verbosity=0).invoke("go")
    assert capfd.readouterr() == ("", "")
    assert [record for record in caplog.records if record.name.startswith("protolink")] == []


@pytest.mark.claim("INT-013")
async def test_list_of_a_sink_is_a_golden_snapshot() -> None:
    async def snapshot() -> list[dict[str, Any]]:
        sink = InMemoryEventSink()
        target = Agent(llm=create_llm("mock", default_response="done"), name="a", verbosity=0)
        async for event in target.start_run("go").events():
            await sink.emit(event)
        return sink.to_list()

    first, second = await snapshot(), await snapshot()
    assert first
    for item in first:
        assert {"sequence", "type", "summary", "final"} <= item.keys()
        assert isinstance(item["sequence"], int)
        assert isinstance(item["type"], str)
        assert isinstance(item["summary"], str)
        assert isinstance(item["final"], bool)
    assert json.loads(json.dumps(first)) == first
    assert [RunEvent.from_dict(item).to_dict() for item in first] == first
    golden = [[(item["sequence"], item["type"], item["final"]) for item in found] for found in (first, second)]
    assert golden[0] == golden[1]
    assert golden[0][0] == (1, "task.status", False)
    assert golden[0][-1] == (len(first), "task.status", True)
