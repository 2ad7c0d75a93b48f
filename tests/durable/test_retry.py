"""A provider that is down, and preparation that breaks, park a stored run; a plain resume tries again."""

from __future__ import annotations

from typing import Any

import pytest

from protolink import CapabilityPolicy, RunAction, RunBudget, RunInterrupted
from protolink.errors import BudgetExceededError, InferParseError
from protolink.tools import Tool

CALL = ("publish", {"text": "hello"})


class Provider:
    """A model's way to the outside that can be down."""

    def __init__(self, scene: Any, error: Exception | None = None) -> None:
        self.scene = scene
        self.error = error
        self.attempts = 0

    def agent(self, *calls: Any, **how: Any) -> Any:
        agent = self.scene.agent([self.scene.publish()], *calls, **how)
        script = self.scene.scripts[-1]

        def play(history: Any, prompt: str) -> Any:
            self.attempts += 1
            if self.error is not None:
                raise self.error
            return script(history, prompt)

        agent.llm.response_callback = play
        return agent


async def test_a_provider_that_refuses_parks_the_run_at_once(inferred: Any) -> None:
    provider = Provider(inferred, PermissionError("401 no such key"))
    pause = await inferred.pause(provider.agent(CALL))
    found = pause.interruption
    assert (found.kind, provider.attempts) == ("retry", 1)
    assert found.request_id.startswith("retry:run-1:")
    assert (found.request["code"], found.request["attempts"]) == ("PermissionError", 1)
    assert (found.request["provider"], found.request["model"]) == ("mock", "mock-gpt")
    assert "401" in found.request["message"]
    assert isinstance(pause.__cause__, PermissionError)


async def test_passing_failures_are_tried_three_times_and_charged(inferred: Any, clock: Any) -> None:
    provider = Provider(inferred, ConnectionError("reset"))
    agent = provider.agent(CALL, clock=clock)
    pause = await inferred.pause(agent)
    assert (provider.attempts, pause.interruption.request["attempts"]) == (3, 3)
    usage = agent.durability.get("run-1").data["usage"]
    assert (usage["llm_calls"], usage["steps"]) == (3, 1)


async def test_a_plain_resume_tries_again_with_what_was_done(inferred: Any, clock: Any) -> None:
    provider = Provider(inferred)
    agent = provider.agent(CALL, clock=clock)
    play = agent.llm.response_callback

    def fail_after_the_tool(history: Any, prompt: str) -> Any:
        provider.error = ConnectionError("reset") if inferred.effects else None
        return play(history, prompt)

    agent.llm.response_callback = fail_after_the_tool
    pause = await inferred.pause(agent)
    assert pause.interruption.kind == "retry"
    again = Provider(inferred)
    assert await again.agent(clock=clock).resume("run-1") == "done"
    assert (again.attempts, inferred.effects) == (1, ["hello"])
    assert again.agent().durability.get("run-1").data["usage"]["llm_calls"] == 5


async def test_a_provider_that_is_still_down_parks_again_under_a_new_id(inferred: Any) -> None:
    first = await inferred.pause(Provider(inferred, PermissionError("401")).agent(CALL))
    with pytest.raises(RunInterrupted) as caught:
        await Provider(inferred, PermissionError("401")).agent().resume("run-1")
    assert caught.value.interruption.kind == "retry"
    assert caught.value.interruption.request_id != first.interruption.request_id


@pytest.mark.parametrize("response", [{"answer": "again"}, {"approved": True}])
async def test_a_retry_takes_no_response(inferred: Any, response: dict[str, Any]) -> None:
    pause = await inferred.pause(Provider(inferred, PermissionError("401")).agent(CALL))
    with pytest.raises(ValueError, match="no response"):
        await Provider(inferred).agent().resume("run-1", request_id=pause.interruption.request_id, **response)


async def test_a_handle_tells_the_error_of_a_provider_that_is_down(inferred: Any) -> None:
    result = await Provider(inferred, PermissionError("401")).agent(CALL).start_run("go").result()
    assert (result.status, result.handoff) == ("input-required", None)
    assert result.error["code"] == "PermissionError"
    assert "401" in result.error["message"]


async def test_a_live_run_fails_instead(inferred: Any) -> None:
    agent = Provider(inferred, PermissionError("401 no such key")).agent(CALL, durability=None)
    with pytest.raises(RuntimeError, match="401"):
        await inferred.begin(agent)


async def test_attempts_after_a_retry_are_bounded_by_the_budget(inferred: Any) -> None:
    await inferred.pause(Provider(inferred, PermissionError("401")).agent(CALL), budget=RunBudget(max_llm_calls=1))
    provider = Provider(inferred)
    with pytest.raises(BudgetExceededError):
        await provider.agent().resume("run-1")
    assert provider.attempts == 0


async def test_a_model_that_cannot_speak_fails_for_good(inferred: Any) -> None:
    agent = inferred.agent([inferred.publish()], CALL, llm=inferred.model("", "", "", ""))
    with pytest.raises(InferParseError):
        await inferred.begin(agent)
    assert agent.durability.get("run-1").status == "failed"
    with pytest.raises(RuntimeError, match="cannot be resumed"):
        await agent.resume("run-1")


def breaking_builder(scene: Any, errors: list[Exception]) -> Tool:
    def build(arguments: dict[str, Any], context: Any) -> RunAction:
        if errors:
            raise errors.pop()
        return RunAction("tool.call", "publish", {"arguments": arguments})

    return scene.publish(action_builder=build)


@pytest.mark.claim("DUR-068")
async def test_preparation_that_breaks_parks_the_run_and_is_never_uncertain(scene: Any, states_of: Any) -> None:
    agent = scene.agent([breaking_builder(scene, [OSError("the catalogue is away")])], CALL)
    pause = await scene.pause(agent)
    assert pause.interruption.kind == "retry"
    assert pause.interruption.request["message"] == "the catalogue is away"
    assert isinstance(pause.__cause__, OSError)
    assert "uncertain" not in states_of(agent.durability.get("run-1"))
    again = scene.agent([breaking_builder(scene, [])])
    assert await again.resume("run-1") == scene.result({"published": "hello"})
    assert scene.effects == ["hello"]


async def test_a_policy_that_breaks_parks_the_run(scene: Any) -> None:
    class Away:
        async def evaluate(self, action: Any, context: Any) -> Any:
            raise OSError("the policy server is away")

    pause = await scene.pause(scene.agent([scene.publish()], CALL, policy=Away()))
    assert pause.interruption.kind == "retry"
    again = scene.agent([scene.publish()], policy=CapabilityPolicy())
    assert await again.resume("run-1") == scene.result({"published": "hello"})


async def test_broken_preparation_of_a_live_run_is_a_failure(scene: Any) -> None:
    agent = scene.agent([breaking_builder(scene, [OSError("away")])], CALL, durability=None)
    with pytest.raises(RuntimeError):
        await scene.begin(agent)
    assert scene.effects == []
