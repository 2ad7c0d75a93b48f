"""What a checkpoint keeps, and what that is good for."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from protolink import CapabilityPolicy, RunBudget, RunContext, RunInterrupted, Task, ToolRejectedError
from protolink.errors import BudgetExceededError
from protolink.llms import MockLLM
from protolink.tools import Tool, ask_user_tool

ASK = CapabilityPolicy({"content.publish": "require_approval"})
QUESTION = ("ask_user", {"question": "Which format?"})
CALL = ("publish", {"text": "hello"})


def fresh(scene: Any, *calls: Any, **how: Any) -> Any:
    return scene.agent([ask_user_tool(), scene.publish()], *(calls or scene.calls), **how)


def family(scene: Any, *calls: Any, tools: Any = None, **how: Any) -> Any:
    """A root that delegates to a worker, which makes the calls."""
    hand_over = ("agent_call", {"agent": "worker", "action": "infer", "prompt": "do it"})
    scene.calls = list(calls or scene.calls)
    worker = scene.agent(tools or [ask_user_tool(), scene.publish()], durability=None)
    worker.card.name = "worker"
    return scene.agent([], subagents=[worker], llm=scene.model(hand_over, "root done", native=False), **how)


@pytest.mark.claim("DUR-050")
async def test_finished_parts_are_skipped(inferred: Any) -> None:
    task = Task.create_tool_call(tool_name="publish", args={"text": "first"}, context=RunContext(run_id="run-1"))
    task.messages[-1].parts.extend(Task.create_infer(prompt="go").messages[-1].parts)
    await fresh(inferred, QUESTION).run_task(task)
    agent = fresh(inferred)
    stored = agent.durability.get("run-1").data
    assert stored["outputs"] == {"0": {"published": "first"}}
    request = stored["interruption"]["request_id"]
    done = await agent.resume_task("run-1", request_id=request, answer="CSV")
    assert done.get_output() == "done"
    assert inferred.effects == ["first"]


@pytest.mark.claim("DUR-051", "DUR-060", "STR-016")
async def test_the_conversation_and_the_pending_action_are_stored(inferred: Any) -> None:
    pause = await inferred.pause(fresh(inferred, CALL, QUESTION, policy=None))
    [loop] = fresh(inferred).durability.get(pause.run_id).data["loops"].values()
    assert [call["tool"] for call in loop["pending"]] == ["ask_user"]
    assert [message["role"] for message in loop["history"]] == ["user", "assistant", "tool", "assistant"]
    assert json.loads(loop["history"][2]["content"])["result"] == {"published": "hello"}
    asked = sum(len(script.seen) for script in inferred.scripts)
    await fresh(inferred, policy=None).resume(pause.run_id, request_id=pause.interruption.request_id, answer="CSV")
    assert sum(len(script.seen) for script in inferred.scripts) == asked + 1
    assert inferred.scripts[-1].seen[-1][-4]["content"] == loop["history"][1]["content"]


@pytest.mark.claim("DUR-052", "DUR-079")
async def test_a_pending_action_keeps_its_id(scene: Any) -> None:
    pause = await scene.pause(fresh(scene, CALL, policy=ASK))
    before = fresh(scene, policy=ASK).durability.get(pause.run_id).data["actions"]
    await fresh(scene, policy=ASK).resume(pause.run_id, request_id=pause.interruption.request_id, approved=True)
    after = fresh(scene, policy=ASK).durability.get(pause.run_id).data["actions"]
    assert [entry["state"] for entry in (*before.values(), *after.values())] == ["waiting", "succeeded"]
    assert [entry["action"]["action_id"] for entry in before.values()] == list(after)


@pytest.mark.claim("DUR-053")
async def test_a_stored_result_is_reused_after_a_pause(inferred: Any) -> None:
    pause = await inferred.pause(fresh(inferred, CALL, QUESTION))
    await fresh(inferred).resume(pause.run_id, request_id=pause.interruption.request_id, answer="CSV")
    assert inferred.effects == ["hello"]
    assert inferred.observed()[0] == {"published": "hello"}


@pytest.mark.claim("DUR-054", "DUR-076", "DUR-077", "DUR-078")
async def test_rejections_and_their_counter_survive_a_pause(inferred: Any) -> None:
    def picky(text: str) -> str:
        """Take nothing."""
        inferred.effects.append(text)
        raise ToolRejectedError(f"{text} is bad", code="bad_text")

    tools = [Tool.from_callable(picky), ask_user_tool()]
    one, two, three = (("picky", {"text": text}) for text in ("one", "two", "three"))
    pause = await inferred.pause(inferred.agent(tools, one, two, QUESTION, three))
    agent = inferred.agent(tools)
    stored = agent.durability.get(pause.run_id).data
    assert [entry["state"] for entry in stored["actions"].values()] == ["rejected", "rejected", "waiting"]
    rejection = next(iter(stored["actions"].values()))["rejection"]
    assert (rejection["code"], rejection["changes_made"]) == ("bad_text", False)
    with pytest.raises(RuntimeError, match="max_tool_corrections=2"):
        await agent.resume(pause.run_id, request_id=pause.interruption.request_id, answer="CSV")
    assert inferred.effects == ["one", "two", "three"]
    assert [result.get("code") for result in inferred.observed()] == ["bad_text", "bad_text", None]


@pytest.mark.claim("DUR-055")
async def test_usage_goes_on_over_a_resume(inferred: Any) -> None:
    budget = RunBudget(max_tool_calls=2)
    calls = CALL, QUESTION, ("publish", {"text": "too much"})
    pause = await inferred.pause(fresh(inferred, *calls), budget=budget)
    before = fresh(inferred).durability.get(pause.run_id).data["usage"]
    assert (before["llm_calls"], before["tool_calls"]) == (2, 2)
    with pytest.raises(BudgetExceededError) as caught:
        await fresh(inferred).resume(pause.run_id, request_id=pause.interruption.request_id, answer="CSV")
    assert (caught.value.decision.limit_name, caught.value.decision.observed) == ("max_tool_calls", 3)
    assert inferred.effects == ["hello"]


@pytest.mark.claim("DUR-055", "DUR-062")
async def test_children_draw_on_the_roots_stored_usage(inferred: Any) -> None:
    pause = await inferred.pause(family(inferred, CALL, QUESTION), budget=RunBudget(max_llm_calls=4))
    stored = family(inferred).durability.get("run-1").data
    assert (stored["usage"]["llm_calls"], stored["usage"]["tool_calls"], stored["subagent_count"]) == (3, 2, 1)
    with pytest.raises(BudgetExceededError):
        await family(inferred).resume("run-1", request_id=pause.interruption.request_id, answer="CSV")
    assert family(inferred).durability.get("run-1").data["usage"]["llm_calls"] == 4


@pytest.mark.claim("DUR-062", "DUR-063")
async def test_a_childs_charge_is_stored_with_the_root_before_the_child_works(inferred: Any, tape: Any) -> None:
    found: list[Any] = []

    def look() -> str:
        """Look at what the root has stored."""
        stored = tape.get("run-1").data
        found.append((stored["subagent_count"], stored["usage"]["llm_calls"], stored["usage"]["tool_calls"]))
        return "looked"

    agent = family(inferred, ("look", {}), tools=[Tool.from_callable(look)], durability=tape)
    assert await inferred.begin(agent) == "root done"
    assert found == [(1, 2, 1)]


@pytest.mark.claim("DUR-007", "DUR-056", "DUR-086")
async def test_a_child_continues_through_its_parent(inferred: Any) -> None:
    pause = await inferred.pause(family(inferred, CALL, QUESTION))
    child = pause.interruption.run_id
    assert (pause.run_id, child != "run-1") == ("run-1", True)
    stored = family(inferred).durability.get(child)
    assert stored.data["root_run_id"] == "run-1"
    assert [entry["state"] for entry in stored.data["actions"].values()] == ["succeeded", "waiting"]
    with pytest.raises(RuntimeError, match="'run-1'"):
        await family(inferred).resume(child, request_id=pause.interruption.request_id, answer="CSV")
    response = {"request_id": pause.interruption.request_id, "answer": "CSV"}
    assert await family(inferred).resume("run-1", **response) == "root done"
    assert inferred.effects == ["hello"]
    assert family(inferred).durability.get(child).status == "completed"


@pytest.mark.claim("DUR-056")
async def test_a_waiting_delegation_is_no_unknown_effect(inferred: Any, states_of: Any) -> None:
    await inferred.pause(family(inferred, QUESTION))
    assert states_of(family(inferred).durability.get("run-1")) == ["waiting"]


@pytest.mark.claim("DUR-058")
async def test_contract_and_schema_version_are_stored(scene: Any) -> None:
    pause = await scene.pause(fresh(scene, QUESTION))
    data = fresh(scene).durability.get(pause.run_id).data
    assert data["version"] == 1
    assert len(data["configuration"]) == 64
    other = fresh(scene, execution_version="2")
    with pytest.raises(RuntimeError, match="version"):
        await other.resume(pause.run_id)


@pytest.mark.claim("DUR-059")
async def test_the_model_is_told_the_same_with_and_without_durability(inferred: Any) -> None:
    for how in ({"durability": None}, {}):
        await inferred.begin(fresh(inferred, CALL, **how))
    live, durable = inferred.scripts
    assert live.seen == durable.seen
    if inferred.mode == "json":
        prompt = durable.seen[0][0]["content"]
        assert "final" in prompt
        assert "tool_call" in prompt


@pytest.mark.claim("DUR-064", "DUR-065")
async def test_only_active_time_counts(inferred: Any, clock: Any) -> None:
    def slow() -> str:
        """Take six seconds."""
        clock.advance(6)
        return "slow"

    tools = [Tool.from_callable(slow), ask_user_tool()]
    again = ("slow", {}), QUESTION, ("ask_user", {"question": "Sure?"})
    pause = await inferred.pause(inferred.agent(tools, *again, clock=clock), budget=RunBudget(max_runtime_seconds=10))
    clock.advance(3600)
    agent = inferred.agent(tools, clock=clock)
    with pytest.raises(RunInterrupted) as second:
        await agent.resume(pause.run_id, request_id=pause.interruption.request_id, answer="CSV")
    assert agent.durability.get(pause.run_id).data["usage"]["runtime_seconds"] == pytest.approx(6)
    assert await agent.resume(pause.run_id, request_id=second.value.interruption.request_id, answer="yes") == "done"


@pytest.mark.claim("DUR-065")
async def test_active_time_before_a_pause_counts_again_after_it(inferred: Any, clock: Any) -> None:
    def slow(seconds: int) -> str:
        """Take some seconds."""
        clock.advance(seconds)
        return "slow"

    tools = [Tool.from_callable(slow), ask_user_tool()]
    calls = ("slow", {"seconds": 6}), QUESTION, ("slow", {"seconds": 5})
    pause = await inferred.pause(inferred.agent(tools, *calls, clock=clock), budget=RunBudget(max_runtime_seconds=10))
    clock.advance(3600)
    agent = inferred.agent(tools, clock=clock)
    with pytest.raises(BudgetExceededError) as caught:
        await agent.resume(pause.run_id, request_id=pause.interruption.request_id, answer="CSV")
    assert caught.value.decision.observed == pytest.approx(11)


@pytest.mark.claim("STR-016")
async def test_a_checkpoint_is_complete_and_not_redacted(inferred: Any) -> None:
    secret = "sk-abcdefghijklmnopqrstuvwxyz123456"
    pause = await inferred.pause(fresh(inferred, ("publish", {"text": secret}), QUESTION))
    agent = fresh(inferred)
    await agent.resume(pause.run_id, request_id=pause.interruption.request_id, answer="Bearer abcdefghijk")
    data = agent.durability.get(pause.run_id).data
    [published, _] = data["actions"].values()
    assert published["result"] == {"published": secret}
    assert data["responses"][pause.interruption.request_id]["response"] == "Bearer abcdefghijk"


@pytest.mark.claim("DUR-090", "DUR-091")
async def test_results_are_json_when_they_are_made_and_when_they_are_read(scene: Any) -> None:
    class Report:
        def to_dict(self) -> dict[str, Any]:
            return {"pages": (1, 2)}

    def report() -> Any:
        """Make a report."""
        return {"report": Report(), "at": datetime(2026, 11, 30, tzinfo=UTC), "pair": (1, 2)}

    agent = scene.agent([Tool.from_callable(report)], ("report", {}))
    first = await scene.begin(agent)
    again = await scene.agent([Tool.from_callable(report)]).resume("run-1")
    assert first == again
    found = first if scene.mode == "direct" else scene.scripts[0].seen[-1][-1]["content"]
    found = found if scene.mode == "direct" else json.loads(found)["result"]
    assert (found["report"], found["pair"]) == ({"pages": [1, 2]}, [1, 2])
    assert isinstance(found["at"], str)
    assert datetime.fromisoformat(found["at"]) == datetime(2026, 11, 30, tzinfo=UTC)


@pytest.mark.claim("DUR-092")
async def test_live_results_stay_what_they_are(direct: Any) -> None:
    moment = datetime(2026, 11, 30, tzinfo=UTC)
    agent = direct.agent([Tool.from_callable(lambda: (1, moment), name="pair")], ("pair", {}), durability=None)
    assert await agent.call_tool("pair") == (1, moment)


async def test_one_store_serves_models_of_all_kinds(tmp_path: Any, inferred: Any) -> None:
    text = fresh(inferred, llm=MockLLM(default_response="plain"))
    assert await text.invoke("go") == "plain"
    assert text.durability.list()[0].status == "completed"
