"""Approving something else than was asked, and questions whose time runs out."""

from __future__ import annotations

from typing import Any

import pytest

from protolink import (
    ActionDeniedError,
    CapabilityPolicy,
    DurableExecutionError,
    PolicyDecision,
    RunAction,
    RunInterrupted,
    RunManager,
)
from protolink.tools import Tool

ASK = CapabilityPolicy({"content.publish": "require_approval"})
CALL = ("publish", {"text": "hello"})


def fresh(scene: Any, *calls: Any, policy: Any = ASK, **how: Any) -> Any:
    return scene.agent([scene.publish()], *(calls or scene.calls), policy=policy, **how)


def edited(pause: Any, text: Any = "better", **more: Any) -> dict[str, Any]:
    request = pause.interruption.request_id
    return {"request_id": request, "approved": True, "arguments": {"text": text}, **more}


async def test_an_edit_is_a_new_action_that_is_judged_from_the_start(scene: Any) -> None:
    pause = await scene.pause(fresh(scene, CALL))
    with pytest.raises(RunInterrupted) as caught:
        await fresh(scene).resume(pause.run_id, **edited(pause))
    again = caught.value.interruption
    assert again.request_id != pause.interruption.request_id
    action = again.request["action"]
    assert action["payload"]["arguments"] == {"text": "better"}
    assert action["metadata"]["edited_from"] == pause.interruption.request["action"]["action_id"]
    assert scene.effects == []
    found = await fresh(scene).resume(pause.run_id, request_id=again.request_id, approved=True)
    assert found == scene.result({"published": "better"})
    outputs = fresh(scene).durability.get(pause.run_id).data["outputs"]
    assert outputs == {"0": scene.result({"published": "better"})}
    assert scene.effects == ["better"]


async def test_the_old_request_is_closed_as_edited(scene: Any) -> None:
    pause = await scene.pause(fresh(scene, CALL))
    with pytest.raises(RunInterrupted):
        await fresh(scene).resume(pause.run_id, **edited(pause))
    stored = fresh(scene).durability.get(pause.run_id).data
    assert stored["responses"][pause.interruption.request_id]["status"] == "edited"
    with pytest.raises(DurableExecutionError) as caught:
        await fresh(scene).resume(pause.run_id, request_id=pause.interruption.request_id, approved=True)
    assert caught.value.recorded["status"] == "edited"
    assert scene.effects == []


async def test_an_edit_that_policy_allows_by_itself_runs_at_once(scene: Any) -> None:
    class ByText:
        """Asks for everything but what is harmless."""

        async def evaluate(self, action: RunAction, context: Any) -> Any:
            harmless = action.payload["arguments"]["text"] == "harmless"
            return PolicyDecision("allow" if harmless else "require_approval", "by its text", "test")

    pause = await scene.pause(fresh(scene, CALL, policy=ByText()))
    found = await fresh(scene, policy=ByText()).resume(pause.run_id, **edited(pause, "harmless"))
    assert found == scene.result({"published": "harmless"})


async def test_an_edit_that_policy_denies_does_not_run(scene: Any) -> None:
    pause = await scene.pause(fresh(scene, CALL))
    denying = fresh(scene, policy=CapabilityPolicy({"content.publish": "deny"}))
    with pytest.raises(ActionDeniedError):
        await denying.resume(pause.run_id, **edited(pause))
    assert scene.effects == []


async def test_an_edit_with_unusable_arguments_is_told_to_the_model(inferred: Any) -> None:
    pause = await inferred.pause(fresh(inferred, CALL))
    assert await fresh(inferred).resume(pause.run_id, **edited(pause, 5)) == "done"
    assert inferred.effects == []
    assert inferred.observed()[0]["code"] == "invalid_arguments"


@pytest.mark.parametrize(
    "change", [{"approved": False}, {"approved": None}, {"arguments": "text"}, {"approved": None, "answer": "x"}]
)
async def test_arguments_come_with_an_approval_only(direct: Any, change: dict[str, Any]) -> None:
    pause = await direct.pause(fresh(direct, CALL))
    with pytest.raises(ValueError):
        await fresh(direct).resume(pause.run_id, **edited(pause) | change)
    assert fresh(direct).durability.get(pause.run_id).data["interruption"] == pause.interruption.to_dict()


# ---------------------------------------------------------------------------------------------------- expiry


def limited(scene: Any, seconds: float = 60) -> Tool:
    """The publishing tool; a person has some seconds to approve it."""

    def build(arguments: dict[str, Any], context: Any) -> RunAction:
        return RunAction("tool.call", "publish", {"arguments": arguments}, metadata={"expires_in": seconds})

    return scene.publish(action_builder=build)


async def expiring(scene: Any, clock: Any) -> tuple[Any, Any]:
    agent = scene.agent([limited(scene)], CALL, policy=ASK, clock=clock)
    return agent, await scene.pause(agent)


async def test_a_response_in_time_is_taken(scene: Any, clock: Any) -> None:
    agent, pause = await expiring(scene, clock)
    clock.advance(59)
    await agent.resume(pause.run_id, request_id=pause.interruption.request_id, approved=True)
    assert scene.effects == ["hello"]


@pytest.mark.parametrize("approved", [True, False])
async def test_a_late_response_is_refused_and_the_run_stays_parked(scene: Any, clock: Any, approved: bool) -> None:
    agent, pause = await expiring(scene, clock)
    clock.advance(61)
    before = agent.durability.get(pause.run_id)
    with pytest.raises(DurableExecutionError, match="has passed"):
        await agent.resume(pause.run_id, request_id=pause.interruption.request_id, approved=approved)
    assert agent.durability.get(pause.run_id) == before
    assert (before.status, scene.effects) == ("input-required", [])


async def test_a_plain_resume_after_the_time_denies_the_action(scene: Any, clock: Any) -> None:
    agent, pause = await expiring(scene, clock)
    clock.advance(61)
    with pytest.raises(ActionDeniedError):
        await agent.resume(pause.run_id)
    stored = agent.durability.get(pause.run_id)
    assert (stored.status, stored.data["interruptions"], scene.effects) == ("failed", [], [])


async def test_an_expired_run_can_be_canceled_instead(scene: Any, clock: Any) -> None:
    agent, pause = await expiring(scene, clock)
    clock.advance(61)
    assert RunManager(agent).cancel(pause.run_id)["status"] == "canceled"


async def test_nothing_expires_by_itself(scene: Any, clock: Any) -> None:
    agent, pause = await expiring(scene, clock)
    clock.advance(10_000)
    assert agent.durability.get(pause.run_id).data["interruption"] == pause.interruption.to_dict()
