"""An approval binds one person's yes to one exact prepared operation."""

from __future__ import annotations

from typing import Any

import pytest

from protolink import (
    ActionDeniedError,
    Artifact,
    CapabilityPolicy,
    CheckpointMismatchError,
    Part,
    RunAction,
    RunInterrupted,
)
from protolink.errors import DurableExecutionError
from protolink.tools import PreparedTool, Tool

ASK = CapabilityPolicy({"content.publish": "require_approval"})
CALL = ("publish", {"text": "hello"})


def fresh(scene: Any, *calls: Any, policy: Any = ASK, **how: Any) -> Any:
    return scene.agent([scene.publish()], *(calls or scene.calls), policy=policy, **how)


def approving(pause: Any, **more: Any) -> dict[str, Any]:
    return {"request_id": pause.interruption.request_id, "approved": True, **more}


class Document:
    """A resource outside, and the tool that replaces its text. The action says which revision it replaces."""

    def __init__(self) -> None:
        self.text, self.revision = "old", 1
        self.executions: list[Any] = []

    def tool(self) -> PreparedTool:
        def replace(text: str) -> dict[str, int]:
            """Replace the text of the document."""
            raise AssertionError("only a signature")

        return PreparedTool(replace, prepare=self._prepare, execute=self._execute, capabilities=["content.publish"])

    def _prepare(self, arguments: dict[str, Any], context: Any) -> RunAction:
        preview = Artifact(kind="preview", parts=[Part.text(f"{self.text} -> {arguments['text']}")])
        payload = {"arguments": arguments, "revision": self.revision}
        return RunAction("document.replace", "replace", payload, artifacts=(preview,))

    async def _execute(self, execution: Any) -> dict[str, int]:
        self.executions.append(execution)
        self.text = execution.authorization.action.payload["arguments"]["text"]
        self.revision += 1
        return {"revision": self.revision}


@pytest.mark.claim("DUR-034", "DUR-035", "DUR-039")
async def test_the_stored_request_has_the_prepared_action_and_the_policys_decision(scene: Any) -> None:
    agent = fresh(scene, CALL)
    pause = await scene.pause(agent)
    request = pause.interruption.request
    assert request["action"]["name"] == "publish"
    assert request["action"]["payload"]["arguments"] == {"text": "hello"}
    assert request["action"]["capabilities"] == ["content.publish"]
    assert request["policy_decision"]["effect"] == "require_approval"
    assert agent.durability.get(pause.run_id).data["interruption"]["request"] == request


@pytest.mark.claim("DUR-039")
async def test_the_stored_request_has_the_previews(scene: Any) -> None:
    document = Document()
    pause = await scene.pause(scene.agent([document.tool()], ("replace", {"text": "new"}), policy=ASK))
    [preview] = pause.interruption.request["action"]["artifacts"]
    assert preview["parts"][0]["content"] == "old -> new"
    assert document.executions == []


@pytest.mark.claim("DUR-026", "DUR-032", "DUR-036")
async def test_an_approved_tool_runs_exactly_once(scene: Any) -> None:
    pause = await scene.pause(fresh(scene, CALL))
    response = approving(pause, fingerprint=pause.interruption.fingerprint)
    assert await fresh(scene).resume(pause.run_id, **response) == scene.result({"published": "hello"})
    assert await fresh(scene).resume(pause.run_id) == scene.result({"published": "hello"})
    assert scene.effects == ["hello"]


@pytest.mark.claim("DUR-005", "DUR-036")
def test_request_approval_and_reading_are_processes_of_their_own(processes: Any) -> None:
    asked = processes.run("start", ask=True)
    assert (asked["paused"], processes.published()) == ("approval", 0)
    approve = {"request_id": asked["request_id"], "fingerprint": asked["fingerprint"], "approved": True}
    done = processes.run("resume", ask=True, **approve)
    assert "output" in done
    assert processes.run("resume", ask=True) == done
    assert processes.published() == 1


@pytest.mark.claim("DUR-038")
async def test_a_refused_action_fails_the_run_with_its_denial(scene: Any) -> None:
    pause = await scene.pause(fresh(scene, CALL))
    with pytest.raises(ActionDeniedError, match="not today") as caught:
        await fresh(scene).resume(
            pause.run_id, request_id=pause.interruption.request_id, approved=False, reason="not today"
        )
    assert caught.value.action.name == "publish"
    assert scene.effects == []
    assert fresh(scene).durability.get(pause.run_id).status == "failed"
    with pytest.raises(DurableExecutionError, match="cannot be resumed"):
        await fresh(scene).resume(pause.run_id)


@pytest.mark.claim("APR-055")
@pytest.mark.parametrize("blank", ["", "  "])
async def test_a_blank_reason_is_stored_as_none(scene: Any, blank: str) -> None:
    pause = await scene.pause(fresh(scene, CALL))
    agent, request = fresh(scene), pause.interruption.request_id
    with pytest.raises(ActionDeniedError) as caught:
        await agent.resume(pause.run_id, request_id=request, approved=False, reason=blank)
    assert str(caught.value) == caught.value.decision.reason
    data = agent.durability.get(pause.run_id).data
    assert (data["responses"][request]["reason"], data["task"]["metadata"]["error"]) == (None, str(caught.value))


@pytest.mark.claim("DUR-038")
async def test_resume_task_raises_the_denial_after_the_failure_is_stored(scene: Any) -> None:
    pause = await scene.pause(fresh(scene, CALL))
    agent = fresh(scene)
    with pytest.raises(ActionDeniedError):
        await agent.resume_task(pause.run_id, request_id=pause.interruption.request_id, approved=False)
    task = agent.durability.get(pause.run_id).data["task"]
    assert (task["state"], task["metadata"]["blockers"][-1]["code"]) == ("failed", "action_denied")


@pytest.mark.claim("DUR-040", "DUR-070")
async def test_a_finished_effect_is_not_asked_for_again(inferred: Any) -> None:
    calls = CALL, ("publish", {"text": "second"})
    first = await inferred.pause(fresh(inferred, *calls))
    with pytest.raises(RunInterrupted) as caught:
        await fresh(inferred).resume(first.run_id, **approving(first))
    second = caught.value.interruption
    assert [found.request["action"]["payload"]["arguments"]["text"] for found in caught.value.interruptions] == [
        "second"
    ]
    stored = fresh(inferred).durability.get(first.run_id).data["actions"].values()
    done = next(entry for entry in stored if entry["state"] == "succeeded")
    assert done["authorization"]["policy_decision"]["effect"] == "require_approval"
    assert done["authorization"]["approval"]
    # A stricter policy of today says nothing about what is done already.
    await fresh(inferred).resume(first.run_id, request_id=second.request_id, approved=True)
    assert inferred.effects == ["hello", "second"]


@pytest.mark.claim("DUR-042", "DUR-044", "DUR-045")
async def test_a_changed_resource_runs_nothing(scene: Any) -> None:
    document = Document()
    pause = await scene.pause(scene.agent([document.tool()], ("replace", {"text": "new"}), policy=ASK))
    document.text, document.revision = "changed by somebody", 2
    agent = scene.agent([document.tool()], policy=ASK)
    with pytest.raises(CheckpointMismatchError) as caught:
        await agent.resume(pause.run_id, **approving(pause, fingerprint=pause.interruption.fingerprint))
    assert any("revision" in change["part"] for change in caught.value.changes)
    assert document.executions == []
    assert agent.durability.get(pause.run_id).status == "failed"


@pytest.mark.claim("DUR-042", "DUR-045")
async def test_a_preview_alone_that_differs_runs_nothing(scene: Any) -> None:
    document = Document()
    pause = await scene.pause(scene.agent([document.tool()], ("replace", {"text": "new"}), policy=ASK))
    document.text = "same revision, other text"
    with pytest.raises(CheckpointMismatchError):
        await scene.agent([document.tool()], policy=ASK).resume(pause.run_id, **approving(pause))
    assert document.executions == []


@pytest.mark.claim("DUR-042", "DUR-052", "DUR-084")
async def test_an_unchanged_action_runs_under_its_saved_id(scene: Any) -> None:
    document = Document()
    pause = await scene.pause(scene.agent([document.tool()], ("replace", {"text": "new"}), policy=ASK))
    saved = pause.interruption.request["action"]["action_id"]
    await scene.agent([document.tool()], policy=ASK).resume(pause.run_id, **approving(pause))
    [execution] = document.executions
    assert execution.authorization.action.action_id == saved
    assert execution.idempotency_key == saved
    assert execution.authorization.approval_decision.request_id == pause.interruption.request_id


@pytest.mark.claim("DUR-043")
async def test_a_policy_that_now_denies_stops_an_approved_action(scene: Any) -> None:
    pause = await scene.pause(fresh(scene, CALL))
    denying = fresh(scene, policy=CapabilityPolicy({"content.publish": "deny"}))
    with pytest.raises(ActionDeniedError):
        await denying.resume(pause.run_id, **approving(pause))
    assert scene.effects == []
    assert denying.durability.get(pause.run_id).status == "failed"


@pytest.mark.claim("DUR-043")
async def test_a_policy_that_now_allows_still_waits_for_the_person(scene: Any) -> None:
    pause = await scene.pause(fresh(scene, CALL))
    allowing = CapabilityPolicy({"content.publish": "allow"})
    with pytest.raises(RunInterrupted) as caught:
        await fresh(scene, policy=allowing).resume(pause.run_id)
    assert caught.value.interruption == pause.interruption
    await fresh(scene, policy=allowing).resume(pause.run_id, **approving(pause))
    assert scene.effects == ["hello"]


@pytest.mark.claim("DUR-048", "DUR-029")
async def test_an_approval_opens_its_own_request_alone(native: Any) -> None:
    both = [CALL, ("publish", {"text": "second"})]
    pause = await native.pause(fresh(native, both))
    first, second = pause.interruptions
    with pytest.raises(RunInterrupted) as caught:
        await fresh(native).resume(pause.run_id, request_id=second.request_id, approved=True)
    assert caught.value.interruptions == (first,)
    assert native.effects == ["second"]
    assert await fresh(native).resume(pause.run_id, request_id=first.request_id, approved=True) == "done"
    assert native.effects == ["second", "hello"]
    assert native.observed() == [{"published": "hello"}, {"published": "second"}]


@pytest.mark.claim("DUR-048")
async def test_an_approval_is_used_up_by_its_action(inferred: Any) -> None:
    calls = CALL, ("publish", {"text": "other"}), ("publish", {"text": "hello there"})
    first = await inferred.pause(fresh(inferred, *calls))
    with pytest.raises(RunInterrupted):
        await fresh(inferred).resume(first.run_id, **approving(first))
    with pytest.raises(RunInterrupted) as caught:
        await fresh(inferred).resume(first.run_id, **approving(first))
    assert caught.value.interruption.request_id != first.interruption.request_id
    assert inferred.effects == ["hello"]


async def test_one_denial_of_several_closes_the_other_requests(native: Any) -> None:
    pause = await native.pause(fresh(native, [CALL, ("publish", {"text": "second"})]))
    first, second = pause.interruptions
    with pytest.raises(ActionDeniedError):
        await fresh(native).resume(pause.run_id, request_id=second.request_id, approved=False)
    stored = fresh(native).durability.get(pause.run_id)
    assert stored.data["interruptions"] == []
    assert stored.data["responses"][first.request_id]["status"] == "canceled"
    assert native.effects == []


@pytest.mark.claim("DUR-049", "MGR-021")
async def test_the_ids_identify_and_grant_nothing(scene: Any, tmp_path: Any) -> None:
    pause = await scene.pause(fresh(scene, CALL))
    ids = approving(pause, fingerprint=pause.interruption.fingerprint)
    stranger = fresh(scene, durability=str(tmp_path / "own.sqlite"))
    with pytest.raises(DurableExecutionError, match="no run"):
        await stranger.resume(pause.run_id, **ids)
    # Whoever holds the store and the ids is believed: it is the application that authenticates.
    await fresh(scene).resume(pause.run_id, **ids)
    assert scene.effects == ["hello"]


async def test_the_prepared_payload_is_what_runs(direct: Any) -> None:
    def shout(arguments: dict[str, Any], context: Any) -> RunAction:
        return RunAction("tool.call", "publish", {"arguments": {"text": arguments["text"].upper()}})

    def publish(text: str) -> str:
        """Publish a text."""
        direct.effects.append(text)
        return text

    tool = Tool.from_callable(publish, capabilities=["content.publish"], action_builder=shout)
    pause = await direct.pause(direct.agent([tool], CALL, policy=ASK))
    assert pause.interruption.request["action"]["payload"]["arguments"] == {"text": "HELLO"}
    await direct.agent([tool], policy=ASK).resume(pause.run_id, **approving(pause))
    assert direct.effects == ["HELLO"]
