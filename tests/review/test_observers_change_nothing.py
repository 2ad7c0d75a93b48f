"""Whoever reads a run's events may do with them what he likes: the run, its approver and its tools see none of it."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from protolink import Agent, ApprovalDecision, ApprovalRequest, CapabilityPolicy, RunContext, Task
from protolink.journal import InMemoryDurableStore
from protolink.llms import MockLLM


def spoil(value: Any, seen: set[int] | None = None) -> None:
    """Overwrite every container that can be reached, events and artifacts included."""
    seen = set() if seen is None else seen
    if id(value) in seen:
        return
    seen.add(id(value))
    if isinstance(value, dict):
        for item in list(value.values()):
            spoil(item, seen)
        for key in list(value):
            value[key] = "spoiled"
        value["spoiled"] = True
    elif isinstance(value, list):
        for item in value:
            spoil(item, seen)
        value.append("spoiled")
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        for field in dataclasses.fields(value):
            spoil(getattr(value, field.name), seen)


class Desk:
    """An agent whose tool, approver and child note what they were given."""

    def __init__(self, store: Any = None) -> None:
        self.got: list[Any] = []
        self.shown: list[Any] = []
        child = Agent(
            name="child",
            llm=MockLLM(
                sequential_responses=[
                    {"type": "tool_call", "tool": "look", "args": {"at": {"deep": [1, {"x": 2}]}}},
                    "looked",
                ]
            ),
            verbosity=0,
        )
        child.tool(self.look)
        self.agent = Agent(
            name="desk",
            llm=MockLLM(
                sequential_responses=[
                    {"type": "tool_call", "tool": "send", "args": {"letter": {"to": ["a", "b"], "text": "hi"}}},
                    {"type": "agent_call", "agent": "child", "action": "infer", "prompt": "look"},
                    {"type": "tool_call", "tool": "unknown", "args": {"a": [1]}},
                    "done",
                ]
            ),
            policy=CapabilityPolicy({} if store else {"mail": "ask"}),
            approval_handler=self.approve,
            subagents=[child],
            durability=store,
            expose_tool_results=True,
            verbosity=0,
        )
        self.agent.tool(capabilities=["mail"])(self.send)

    def send(self, letter: dict[str, Any]) -> dict[str, Any]:
        self.got.append(repr(letter))
        return {"sent": [letter["text"]], "meta": {"n": [1]}}

    def look(self, at: dict[str, Any]) -> dict[str, Any]:
        self.got.append(repr(at))
        return {"seen": [at]}

    def approve(self, request: ApprovalRequest, context: RunContext) -> ApprovalDecision:
        self.shown.append(repr(request.action.payload))
        return ApprovalDecision(True, request.request_id)

    async def run(self, reader: Any) -> tuple[Any, ...]:
        task = Task.create_infer(prompt="go")
        async for event in self.agent.handle_task_streaming(task):
            reader(event)
        told = [(event["type"], event["payload"].get("args")) for event in task.metadata["run_events"]]
        parts = [part.to_dict() for artifact in task.artifacts for part in artifact.parts]
        kept = [
            {k: v for k, v in part["content"].items() if "id" not in k}
            if isinstance(part["content"], dict)
            else part["content"]
            for part in parts
        ]
        return task.state.value, task.get_output(), self.got, self.shown, told, kept


@pytest.mark.parametrize("durable", [False, True])
async def test_a_reader_that_rewrites_every_event_changes_nothing(durable: bool) -> None:
    def store() -> Any:
        return InMemoryDurableStore() if durable else None

    untouched = await Desk(store()).run(lambda event: None)
    assert untouched[0] == "completed"
    assert untouched[2], "the tools were called"
    spoiled = await Desk(store()).run(spoil)
    assert spoiled == untouched


async def test_a_reader_of_a_direct_call_changes_nothing() -> None:
    desk = Desk()
    task = Task.create_tool_call("send", {"letter": {"to": [], "text": "hi"}})
    async for event in desk.agent.handle_task_streaming(task):
        spoil(event)
    assert task.state.value == "completed"
    assert task.get_output() == {"sent": ["hi"], "meta": {"n": [1]}}
    assert desk.got == [repr({"to": [], "text": "hi"})]


async def test_a_reader_of_a_handle_changes_nothing() -> None:
    desk = Desk()
    handle = desk.agent.start_run("go")
    async for event in handle.events():
        spoil(event.payload)
    result = await handle.result()
    assert (result.status, result.output) == ("completed", "done")
    assert "spoiled" not in repr(desk.got) + repr(desk.shown)
