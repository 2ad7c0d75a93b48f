"""What can be stored is stored; what cannot is refused before anything runs."""

from __future__ import annotations

from typing import Any

import pytest

from protolink import Agent, DurableExecutionError, RunContext, RunInterrupted, SubagentLimits
from protolink.llms import MockLLM
from protolink.tools import ask_user_tool

CALL = ("publish", {"text": "hello"})
QUESTION = ("ask_user", {"question": "Which format?"})


class OwnHandler(Agent):
    """Handles tasks in its own way."""

    async def handle_task(self, task: Any) -> Any:
        return task.begin().complete("handled")


class OwnLoop(MockLLM):
    """Infers in its own way."""

    async def infer(self, *args: Any, **kwargs: Any) -> Any:
        raise AssertionError("never reached")


@pytest.mark.claim("DUR-093")
@pytest.mark.parametrize("way", ["invoke", "call_tool", "stream"])
async def test_an_own_task_handler_is_refused(inferred: Any, way: str) -> None:
    agent = OwnHandler(
        name="helper", llm=inferred.model("done"), tools=[inferred.publish()], durability=str(inferred.path)
    )
    with pytest.raises(DurableExecutionError, match="handle_task"):
        if way == "invoke":
            await agent.invoke("go")
        elif way == "call_tool":
            await agent.call_tool("publish", text="hello")
        else:
            result = await agent.start_run("go").result()
            raise DurableExecutionError(result.error["message"])
    assert inferred.effects == []
    assert agent.durability.list() == []


@pytest.mark.claim("DUR-093")
async def test_an_own_task_handler_is_fine_in_live_runs(inferred: Any) -> None:
    agent = OwnHandler(name="helper", llm=inferred.model("done"))
    assert (await agent.start_run("go").result()).status == "completed"


@pytest.mark.claim("DUR-094")
async def test_an_own_inference_loop_is_refused(direct: Any) -> None:
    agent = direct.agent([direct.publish()], CALL, llm=OwnLoop())
    with pytest.raises(DurableExecutionError, match="infer"):
        await agent.invoke("go")
    assert agent.durability.list() == []


@pytest.mark.claim("DUR-095")
@pytest.mark.parametrize("retrieval", ["always", "required"])
async def test_eager_retrieval_is_refused(inferred: Any, retrieval: str) -> None:
    agent = inferred.agent([inferred.publish()], CALL, retrieval=retrieval)
    with pytest.raises(DurableExecutionError, match=retrieval):
        await inferred.begin(agent)
    assert inferred.effects == []


@pytest.mark.claim("DUR-095")
async def test_retrieval_on_demand_is_allowed(inferred: Any) -> None:
    assert await inferred.begin(inferred.agent([inferred.publish()], CALL, retrieval="auto")) == "done"


@pytest.mark.claim("DUR-093", "DUR-094", "DUR-095")
@pytest.mark.parametrize("kind", ["handler", "loop", "retrieval"])
async def test_a_childs_unsupported_ways_are_refused_too(direct: Any, kind: str) -> None:
    if kind == "handler":
        child: Agent = OwnHandler(name="worker", llm=MockLLM())
    else:
        llm = OwnLoop() if kind == "loop" else MockLLM()
        child = Agent(name="worker", llm=llm, retrieval="always" if kind == "retrieval" else "auto")
    agent = direct.agent([direct.publish()], CALL, subagents=[child])
    with pytest.raises(DurableExecutionError):
        await direct.begin(agent)
    assert direct.effects == []


@pytest.mark.claim("DUR-096")
async def test_a_peer_that_is_no_local_child_gets_no_delegation(inferred: Any, states_of: Any) -> None:
    away = ("agent_call", {"agent": "remote", "action": "infer", "prompt": "publish"})
    llm = inferred.model(away, "done", native=False)
    handle = inferred.agent([inferred.publish()], CALL, llm=llm).start_run("go", context=RunContext(run_id="run-1"))
    types = [event.type async for event in handle.events()]
    assert "action.started" not in types
    stored = inferred.agent([inferred.publish()]).durability.get("run-1")
    assert "succeeded" not in states_of(stored)
    assert inferred.effects == []


@pytest.mark.claim("DUR-097")
def test_background_children_are_refused_at_construction(direct: Any) -> None:
    with pytest.raises(ValueError, match="background"):
        direct.agent([], CALL, subagent_limits=SubagentLimits(background=True))
    assert not direct.path.exists() or direct.agent([], CALL).durability.list() == []


@pytest.mark.claim("DUR-007")
async def test_a_durable_child_of_a_live_parent_is_refused(inferred: Any, tmp_path: Any) -> None:
    child = inferred.agent([inferred.publish()], CALL)
    child.card.name = "worker"
    parent = inferred.agent([], durability=None, llm=MockLLM(default_response="done"), subagents=[child])
    with pytest.raises(DurableExecutionError, match="worker"):
        await parent.invoke("go")


@pytest.mark.claim("DUR-007", "DUR-087")
async def test_a_childs_own_durability_is_ignored_under_a_durable_parent(inferred: Any, tmp_path: Any) -> None:
    own = str(tmp_path / "child.sqlite")
    child = inferred.agent([inferred.publish(), ask_user_tool()], CALL, QUESTION, durability=own)
    child.card.name = "worker"
    hand_over = ("agent_call", {"agent": "worker", "action": "infer", "prompt": "do it"})
    parent = inferred.agent([], subagents=[child], llm=inferred.model(hand_over, "root done", native=False))
    with pytest.raises(RunInterrupted) as caught:
        await parent.invoke("go")
    assert child.durability.list() == []
    request = caught.value.interruption.request_id
    assert await parent.resume(caught.value.run_id, request_id=request, answer="CSV") == "root done"


@pytest.mark.claim("DUR-087", "DUR-088")
async def test_every_way_of_calling_a_tool_leaves_intent_and_receipt(scene: Any, tape: Any, states_of: Any) -> None:
    await scene.begin(scene.agent([scene.publish()], CALL, durability=tape))
    seen = [
        [entry["state"] for entry in data["actions"].values()]
        for run_id, _, _, data in tape.saves
        if run_id == "run-1" and data.get("actions")
    ]
    assert ["executing"] in seen
    assert seen[-1] == ["succeeded"]
    assert seen.index(["executing"]) < seen.index(["succeeded"])


async def test_a_governed_call_in_a_context_is_never_stored(direct: Any) -> None:
    agent = direct.agent([direct.publish()], CALL)
    context = RunContext(run_id="run-7")
    assert await agent.call_tool_in_context("publish", context, text="hello") == {"published": "hello"}
    assert agent.durability.get("run-7") is None
    assert direct.effects == ["hello"]


async def test_slices_need_durability(inferred: Any) -> None:
    agent = inferred.agent([inferred.publish()], CALL, durability=None, yield_after_steps=2)
    with pytest.raises(ValueError, match="durability"):
        await agent.invoke("go")
