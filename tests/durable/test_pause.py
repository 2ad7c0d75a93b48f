"""A run that needs a person stops, is stored, and holds nothing open."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from protolink import Agent, CapabilityPolicy, RunInterrupted, Task, TaskState
from protolink.runtime import RunContext
from protolink.tools import Tool, ask_user_tool

QUESTION = ("ask_user", {"question": "Which format?"})


@pytest.mark.claim("DUR-001", "DUR-002", "DUR-003")
def test_a_question_in_a_blocking_call_interrupts_the_run(direct: Any) -> None:
    agent = Agent(name="helper", tools=[ask_user_tool()], durability=str(direct.path))
    with pytest.raises(RunInterrupted) as caught:
        agent.sync.call_tool("ask_user", question="Which format?")
    pause = caught.value
    assert pause.run_id == pause.interruption.run_id
    assert pause.interruption.request_id.startswith("input_")
    assert direct.path.exists()


@pytest.mark.claim("DUR-008", "DUR-009", "DUR-011", "DUR-035", "DUR-002")
@pytest.mark.parametrize("kind", ["input", "approval"])
async def test_what_needs_a_person_interrupts_every_kind_of_call(scene: Any, kind: str) -> None:
    call = QUESTION if kind == "input" else ("publish", {"text": "hello"})
    policy = CapabilityPolicy({"content.publish": "require_approval"})
    pause = await scene.pause(scene.agent([ask_user_tool(), scene.publish()], call, policy=policy))
    assert pause.interruption.kind == kind
    assert scene.effects == []


@pytest.mark.claim("DUR-008", "DUR-037")
async def test_a_direct_call_needs_no_model_and_is_stored_as_a_task(direct: Any) -> None:
    agent = Agent(name="helper", tools=[ask_user_tool()], durability=str(direct.path))
    with pytest.raises(RunInterrupted) as caught:
        await agent.call_tool("ask_user", question="Which format?")
    stored = agent.durability.get(caught.value.run_id)
    assert stored.status == "input-required"
    assert stored.data["task"]["id"] == caught.value.task.id


@pytest.mark.claim("DUR-037")
async def test_a_direct_call_that_ran_is_stored_with_its_receipt(direct: Any, states_of: Any) -> None:
    agent = Agent(name="helper", tools=[direct.publish()], durability=str(direct.path))
    assert await agent.call_tool("publish", text="hello") == {"published": "hello"}
    [stored] = agent.durability.list()
    assert (stored.status, states_of(stored)) == ("completed", ["succeeded"])


@pytest.mark.claim("DUR-010", "DUR-023", "DUR-024")
async def test_run_task_returns_the_paused_task(scene: Any) -> None:
    agent = scene.agent([ask_user_tool()], QUESTION)
    if scene.mode == "direct":
        task = Task.create_tool_call(tool_name="ask_user", args=QUESTION[1])
    else:
        task = Task.create_infer(prompt="go")
    assert await agent.run_task(task) is task
    assert task.state is TaskState.INPUT_REQUIRED
    assert task.metadata["interruption"]["kind"] == "input"
    assert task.metadata["interruptions"] == [task.metadata["interruption"]]


@pytest.mark.claim("DUR-010", "DUR-025", "DUR-047")
async def test_a_handle_ends_its_stream_with_the_paused_task(inferred: Any) -> None:
    agent = inferred.agent([ask_user_tool()], QUESTION)
    handle = agent.start_run("go")
    events = [event async for event in handle.events()]
    result = await handle.result()
    assert (result.status, result.output) == ("input-required", None)
    last = events[-1].payload
    assert (last["new_state"], last["final"]) == ("input-required", True)
    assert last["metadata"]["task"]["metadata"]["interruption"]["kind"] == "input"
    assert agent.active_task_ids == ()
    request = result.task.metadata["interruption"]["request_id"]
    await agent.resume(handle.context.run_id, request_id=request, answer="CSV")
    assert len([event async for event in handle.events()]) == len(events)
    assert (await handle.result()).status == "input-required"


async def test_a_pauses_last_event_says_that_the_task_is_paused(inferred: Any) -> None:
    handle = inferred.agent([ask_user_tool()], QUESTION).start_run("go")
    events = [event async for event in handle.events()]
    assert events[-1].type == "task.status"
    assert events[-1].summary == "Task paused: input"


@pytest.mark.claim("DUR-012")
async def test_the_interruption_brings_the_outputs_so_far(direct: Any) -> None:
    agent = direct.agent([direct.publish(), ask_user_tool()])
    task = Task.create_tool_call(tool_name="publish", args={"text": "first"})
    more = Task.create_tool_call(tool_name="ask_user", args=QUESTION[1])
    task.messages[-1].parts.extend(more.messages[-1].parts)
    await agent.run_task(task)
    run_id = RunContext.from_task(task).run_id
    with pytest.raises(RunInterrupted) as caught:
        await agent.resume(run_id)
    shown = caught.value.task
    assert [part.content.result for artifact in shown.artifacts for part in artifact.parts] == [{"published": "first"}]
    assert shown.metadata["interruption"]["request"]["question"] == "Which format?"


@pytest.mark.claim("DUR-013", "DUR-017", "DUR-003")
async def test_the_stored_request_is_the_one_that_was_raised(scene: Any) -> None:
    agent = scene.agent([ask_user_tool()], ("ask_user", {"question": "Which format?", "options": ["CSV", "XML"]}))
    pause = await scene.pause(agent)
    found = pause.interruption
    assert (found.kind, found.request["question"], found.request["options"]) == (
        "input",
        "Which format?",
        ["CSV", "XML"],
    )
    assert agent.durability.get(pause.run_id).data["interruption"] == found.to_dict()


@pytest.mark.claim("DUR-047")
async def test_a_waiting_run_keeps_no_coroutine(scene: Any) -> None:
    pause = await scene.pause(scene.agent([ask_user_tool()], QUESTION))
    assert asyncio.all_tasks() == {asyncio.current_task()}
    assert pause.interruption.kind == "input"


@pytest.mark.claim("DUR-046", "DUR-047")
async def test_a_durable_run_asks_no_connected_handler(scene: Any) -> None:
    asked: list[Any] = []

    async def answer(request: Any) -> str:
        asked.append(request)
        return "CSV"

    def approve(request: Any, context: Any) -> bool:
        asked.append(request)
        return True

    policy = CapabilityPolicy({"content.publish": "require_approval"})
    tools = [ask_user_tool(answer), scene.publish()]
    first = await scene.pause(scene.agent(tools, QUESTION, policy=policy, approval_handler=approve))
    call = ("publish", {"text": "hello"})
    second = await scene.pause(scene.agent(tools, call, policy=policy, approval_handler=approve), run_id="run-2")
    assert (first.interruption.kind, second.interruption.kind) == ("input", "approval")
    assert (asked, scene.effects) == ([], [])


@pytest.mark.claim("DUR-046")
async def test_a_live_run_asks_the_connected_handlers(scene: Any) -> None:
    async def answer(request: Any) -> str:
        return "CSV"

    policy = CapabilityPolicy({"content.publish": "require_approval"})
    live = {"durability": None, "policy": policy, "approval_handler": lambda request, context: True}
    tools = [ask_user_tool(answer), scene.publish()]
    found = await scene.begin(scene.agent(tools, QUESTION, **live))
    if scene.mode == "direct":
        assert found["answer"] == "CSV"
    else:
        assert [item["answer"] for item in scene.observed()] == ["CSV"]
    await scene.begin(scene.agent(tools, ("publish", {"text": "hello"}), **live))
    assert scene.effects == ["hello"]


@pytest.mark.claim("DUR-006")
async def test_neither_a_report_nor_a_conversation_makes_a_run_resumable(inferred: Any, tmp_path: Any) -> None:
    pause = await inferred.pause(inferred.agent([ask_user_tool()], QUESTION))
    exported = json.loads(json.dumps(pause.task.to_dict()))
    elsewhere = inferred.agent([ask_user_tool()], QUESTION, durability=str(tmp_path / "other.sqlite"))
    restored = Task.from_dict(exported)
    assert restored.metadata["interruption"]["request_id"] == pause.interruption.request_id
    with pytest.raises(RuntimeError, match="no run"):
        await elsewhere.resume(pause.run_id, request_id=pause.interruption.request_id, answer="CSV")


async def test_a_live_agent_has_nothing_to_resume(inferred: Any) -> None:
    live = inferred.agent([Tool.from_callable(lambda: 1, name="one")], ("one", {}), durability=None)
    await inferred.begin(live)
    with pytest.raises(RuntimeError, match="durability"):
        await live.resume("run-1")
