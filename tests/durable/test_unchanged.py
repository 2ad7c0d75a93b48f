"""An effect that turns out never to have happened: recorded as such, told to the model, and open to a new proposal."""

from __future__ import annotations

import json
from typing import Any

import pytest

from protolink import Agent, RunManager, ToolRejectedError, UncertainExecutionError
from protolink.engine.fold import fold
from protolink.errors import DurableExecutionError
from protolink.journal import stored_records
from protolink.runtime import collect_tool_evidence
from protolink.tools import Tool

CALL = ("publish", {"text": "hello"})
WHY = "the service never got it"


def losing_once(scene: Any) -> Tool:
    """Loses its first request on the way; nothing was published then."""

    def publish(text: str) -> dict[str, str]:
        """Publish a text."""
        scene.effects.append(text)
        if len(scene.effects) == 1:
            raise ConnectionError("reset")
        return {"published": text}

    return Tool.from_callable(publish)


def agent(scene: Any, *calls: Any, **how: Any) -> Agent:
    found: Agent = scene.agent([losing_once(scene)], *calls, **how)
    return found


async def lost(scene: Any, *calls: Any, **how: Any) -> UncertainExecutionError:
    with pytest.raises(UncertainExecutionError, match="unchanged=") as caught:
        await scene.begin(agent(scene, *calls, **how))
    return caught.value


async def test_the_model_is_told_and_may_propose_the_same_again(inferred: Any) -> None:
    error = await lost(inferred, CALL, CALL)
    agent(inferred).reconcile("run-1", error.action_id, unchanged=WHY)
    stored = agent(inferred).durability.get("run-1")
    [entry] = stored.data["actions"].values()
    assert (stored.status, entry["state"], entry["reconciled"]) == ("ready", "rejected", True)
    assert (entry["rejection"]["message"], entry["rejection"]["changes_made"]) == (WHY, False)
    assert await agent(inferred).resume("run-1") == "done"
    seen, _ = inferred.observed()
    assert (seen["type"], seen["message"]) == ("tool_rejection", WHY)
    # The repeat is no duplicate of what never happened, and is an action of its own.
    assert inferred.effects == ["hello", "hello"]
    first, second = agent(inferred).durability.get("run-1").data["actions"].values()
    assert first["action"]["action_id"] != second["action"]["action_id"]
    assert second["state"] == "succeeded"


async def test_it_costs_no_correction(inferred: Any) -> None:
    model = inferred.model(CALL, "done")
    model.max_tool_corrections = 0
    error = await lost(inferred, llm=model)
    again = inferred.model(CALL, "done")
    again.max_tool_corrections = 0
    agent(inferred, llm=again).reconcile("run-1", error.action_id, unchanged=WHY)
    assert await agent(inferred, llm=again).resume("run-1") == "done"
    [loop] = agent(inferred, llm=again).durability.get("run-1").data["loops"].values()
    assert loop["tool_corrections"] == 0


async def test_a_direct_call_ends_as_rejected(direct: Any) -> None:
    error = await lost(direct, CALL)
    agent(direct).reconcile("run-1", error.action_id, unchanged=WHY)
    task = await agent(direct).resume_task("run-1")
    assert task.state.value == "failed"
    assert WHY in task.metadata["error"]
    assert direct.effects == ["hello"]
    with pytest.raises(DurableExecutionError, match="cannot be resumed"):
        await agent(direct).resume("run-1")


async def test_evidence_and_events_tell_of_a_rejection(inferred: Any) -> None:
    error = await lost(inferred, CALL)
    agent(inferred).reconcile("run-1", error.action_id, unchanged=WHY)
    task = await agent(inferred).resume_task("run-1")
    events = agent(inferred).run_events("run-1")
    [told] = [event for event in events if event.type == "action.rejected"]
    assert (told.action_id, told.payload["metadata"]["phase"]) == (error.action_id, "reconciliation")
    assert not any(event.type == "action.completed" for event in events)
    assert [found.outcome for found in collect_tool_evidence(events)] == ["rejected"]
    [receipt] = [event for event in task.metadata["run_events"] if event["type"] == "action.rejected"]
    assert receipt["event_id"] == told.event_id
    assert "action_rejection" in {artifact.kind for artifact in task.artifacts}


async def test_a_worker_tool_that_did_nothing_costs_its_caller_nothing(inferred: Any) -> None:
    def tree() -> Agent:
        child = Agent(name="child", tools=[losing_once(inferred)])
        model = inferred.model(("child_publish", CALL[1]), ("child_publish", CALL[1]), "done")
        model.max_tool_corrections = 0
        found = inferred.agent([], subagents=[child], llm=model)
        found.add_worker_tool("child", tool="publish")
        return found

    with pytest.raises(UncertainExecutionError) as caught:
        await inferred.begin(tree())
    RunManager(tree()).reconcile(caught.value.run_id, caught.value.action_id, unchanged=WHY)
    assert await tree().resume("run-1") == "done"
    assert inferred.effects == ["hello", "hello"]


@pytest.mark.parametrize(
    "outcome", [{}, {"result": 1, "unchanged": WHY}, {"unchanged": " "}, {"unchanged": 5}], ids=json.dumps
)
async def test_exactly_one_outcome_is_given(direct: Any, outcome: dict[str, Any]) -> None:
    error = await lost(direct, CALL)
    for reconcile in (agent(direct).reconcile, RunManager(agent(direct)).reconcile):
        with pytest.raises(ValueError, match="unchanged"):
            reconcile("run-1", error.action_id, **outcome)
    assert agent(direct).durability.get("run-1").status == "uncertain"


async def test_none_is_a_result_like_any_other(direct: Any) -> None:
    error = await lost(direct, CALL)
    agent(direct).reconcile("run-1", error.action_id, result=None)
    assert await agent(direct).resume("run-1") is None


async def test_a_reconciled_rejection_folds_to_what_the_executors_own_would_be(inferred: Any, tmp_path: Any) -> None:
    def refusing(text: str) -> str:
        """Publish a text."""
        raise ToolRejectedError(WHY, code="not_done")

    error = await lost(inferred, CALL)
    agent(inferred).reconcile("run-1", error.action_id, unchanged=WHY)
    await agent(inferred).resume("run-1")
    other = inferred.agent([Tool.from_callable(refusing, name="publish")], CALL, durability=tmp_path / "other.sqlite")
    await inferred.begin(other)
    [mine] = fold(stored_records(agent(inferred).durability.get("run-1"))).actions.values()
    [theirs] = fold(stored_records(other.durability.get("run-1"))).actions.values()
    assert (mine.state, mine.rejection) == (theirs.state, theirs.rejection)
