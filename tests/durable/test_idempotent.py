"""Tools that say what repeating them means: read_only, idempotent, and a probe that looks up what happened."""

from __future__ import annotations

from typing import Any

import pytest

from protolink import ActionDeniedError, CapabilityPolicy, RunAction, UncertainExecutionError
from protolink.errors import DurableExecutionError
from protolink.tools import PreparedTool, ProbeFinding, Tool

CALL = ("publish", {"text": "hello"})


def failing_once(scene: Any, **traits: Any) -> Tool:
    """Publishes, and raises the first time although the effect happened."""

    def publish(text: str) -> str:
        """Publish a text."""
        scene.effects.append(text)
        if len(scene.effects) == 1:
            raise OSError("connection reset")
        return text

    return Tool.from_callable(publish, capabilities=["content.publish"], **traits)


def crashed(scene: Any, tape: Any) -> Any:
    """The store as a crash after the intent leaves it."""
    return tape.after(tape.first(lambda status, data: [e["state"] for e in data["actions"].values()] == ["executing"]))


@pytest.mark.parametrize("traits", [{"read_only": True}, {"idempotent": True}])
async def test_an_exception_of_a_harmless_tool_is_a_failure_with_a_receipt(
    scene: Any, traits: Any, states_of: Any
) -> None:
    agent = scene.agent([failing_once(scene, **traits)], CALL)
    with pytest.raises(RuntimeError) as caught:
        await scene.begin(agent)
    assert not isinstance(caught.value, UncertainExecutionError)
    stored = agent.durability.get("run-1")
    assert (stored.status, states_of(stored)) == ("failed", ["failed"])


async def test_a_lost_read_is_prepared_and_run_again_and_charged_again(scene: Any, tape: Any) -> None:
    tools = [scene.publish(read_only=True)]
    await scene.begin(scene.agent(tools, CALL, durability=tape))
    left = crashed(scene, tape)
    assert await scene.agent(tools, durability=left).resume("run-1") == scene.result({"published": "hello"})
    assert scene.effects == ["hello", "hello"]
    assert left.get("run-1").data["usage"]["tool_calls"] == 2


@pytest.mark.claim("DUR-075")
async def test_a_lost_idempotent_action_is_not_run_again_by_itself(scene: Any, tape: Any) -> None:
    tools = [scene.publish(idempotent=True)]
    await scene.begin(scene.agent(tools, CALL, durability=tape))
    left = crashed(scene, tape)
    for _ in range(2):
        with pytest.raises(UncertainExecutionError):
            await scene.agent(tools, durability=left).resume("run-1")
    assert scene.effects == ["hello"]


@pytest.mark.parametrize("noticed", [True, False])
async def test_a_lost_idempotent_action_runs_again_when_that_is_wanted(scene: Any, tape: Any, noticed: bool) -> None:
    keys: list[str] = []

    def publish(text: str) -> str:
        """Publish a text."""
        raise AssertionError("only a signature")

    def execute(execution: Any) -> str:
        keys.append(execution.idempotency_key)
        return "published"

    def tool() -> PreparedTool:
        return PreparedTool(
            publish,
            prepare=lambda arguments, context: RunAction("tool.call", "publish", {"arguments": arguments}),
            execute=execute,
            capabilities=["content.publish"],
            idempotent=True,
        )

    await scene.begin(scene.agent([tool()], CALL, durability=tape))
    left = crashed(scene, tape)
    [action] = left.get("run-1").data["actions"]
    agent = scene.agent([tool()], durability=left)
    if noticed:
        with pytest.raises(UncertainExecutionError):
            await agent.resume("run-1")
    assert await agent.resume("run-1", rerun=action) == scene.result("published")
    assert keys == [action, action]  # the same key: an outside service can tell that it is the same operation


async def test_running_again_needs_todays_policy(scene: Any, tape: Any) -> None:
    tools = [scene.publish(idempotent=True)]
    await scene.begin(scene.agent(tools, CALL, durability=tape))
    left = crashed(scene, tape)
    [action] = left.get("run-1").data["actions"]
    agent = scene.agent(tools, durability=left, policy=CapabilityPolicy({"content.publish": "deny"}))
    with pytest.raises(ActionDeniedError):
        await agent.resume("run-1", rerun=action)
    assert scene.effects == ["hello"]


@pytest.mark.claim("DUR-075")
async def test_an_ordinary_tool_cannot_be_made_to_run_again(scene: Any, tape: Any) -> None:
    tools = [scene.publish()]
    await scene.begin(scene.agent(tools, CALL, durability=tape))
    left = crashed(scene, tape)
    [action] = left.get("run-1").data["actions"]
    agent = scene.agent(tools, durability=left)
    with pytest.raises(DurableExecutionError, match="not declared idempotent"):
        await agent.resume("run-1", rerun=action)
    with pytest.raises(DurableExecutionError, match="no uncertain action"):
        await agent.resume("run-1", rerun="action_x")
    assert scene.effects == ["hello"]


def probing(scene: Any, tape: Any, look: Any) -> Any:
    """The agent of the next process after a crash between the effect and its receipt."""
    return scene.agent([scene.publish(probe=look)], durability=crashed(scene, tape))


@pytest.mark.parametrize("kind", ["sync", "async", "plain value"])
async def test_a_probes_finding_is_proposed_and_not_believed_by_itself(scene: Any, tape: Any, kind: str) -> None:
    asked: list[Any] = []

    def look(action: Any) -> Any:
        asked.append(action)
        found = {"published": action.payload["arguments"]["text"]}
        return found if kind == "plain value" else ProbeFinding.done(found)

    async def look_later(action: Any) -> Any:
        return look(action)

    probe = look_later if kind == "async" else look
    await scene.begin(scene.agent([scene.publish(probe=probe)], CALL, durability=tape))
    agent = probing(scene, tape, probe)
    with pytest.raises(UncertainExecutionError) as caught:
        await agent.resume("run-1")
    assert caught.value.proposal == {"result": {"published": "hello"}}
    assert asked[0].action_id == caught.value.action_id
    assert agent.durability.get("run-1").status == "uncertain"
    agent.reconcile("run-1", caught.value.action_id, **caught.value.proposal)
    assert await agent.resume("run-1") == scene.result({"published": "hello"})
    assert scene.effects == ["hello"]


async def test_a_probe_that_finds_nothing_done_proposes_that(inferred: Any, tape: Any, states_of: Any) -> None:
    await inferred.begin(inferred.agent([inferred.publish()], CALL, durability=tape))
    agent = probing(inferred, tape, lambda action: ProbeFinding.absent("no such text"))
    with pytest.raises(UncertainExecutionError) as caught:
        await agent.resume("run-1")
    assert caught.value.proposal == {"unchanged": "no such text"}
    assert caught.value.finding == "nothing was done: no such text"
    agent.reconcile("run-1", caught.value.action_id, **caught.value.proposal)
    assert states_of(agent.durability.get("run-1")) == ["rejected"]


def failing_probe(action: Any) -> Any:
    raise OSError("the service is away")


@pytest.mark.parametrize(
    "probe",
    [
        failing_probe,
        lambda action: ProbeFinding.unknown(),
        lambda action: None,
        lambda action: ProbeFinding.done(object()),
    ],
    ids=["fails", "unknown", "nothing", "no JSON"],
)
async def test_a_probe_that_does_not_know_leaves_the_action_uncertain_without_a_proposal(
    direct: Any, tape: Any, probe: Any
) -> None:
    await direct.begin(direct.agent([direct.publish()], CALL, durability=tape))
    with pytest.raises(UncertainExecutionError) as caught:
        await probing(direct, tape, probe).resume("run-1")
    assert caught.value.proposal is None


async def test_what_a_probe_cannot_settle_is_told_in_words(direct: Any, tape: Any) -> None:
    words = "the first half is there; asked with sk-abcdefghijklmnopqrstuvwxyz123456"
    await direct.begin(direct.agent([direct.publish()], CALL, durability=tape))
    with pytest.raises(UncertainExecutionError, match="Its probe found: the first half is there") as caught:
        await probing(direct, tape, lambda action: ProbeFinding.unknown(words)).resume("run-1")
    assert caught.value.proposal is None
    assert "the first half is there" in str(caught.value.finding)
    assert "sk-abc" not in f"{caught.value} {caught.value.finding}"


async def test_the_key_that_a_tool_may_send_stands_in_its_receipts(inferred: Any) -> None:
    keys: list[str] = []

    def publish(text: str) -> str:
        """Publish a text."""
        raise AssertionError("only a signature")

    def execute(execution: Any) -> str:
        keys.append(execution.idempotency_key)
        return "published"

    tool = PreparedTool(
        publish,
        prepare=lambda arguments, context: RunAction("tool.call", "publish", {"arguments": arguments}),
        execute=execute,
        capabilities=["content.publish"],
    )
    agent = inferred.agent([tool], CALL, ("publish", {"text": "again"}))
    await inferred.begin(agent)
    stored = agent.durability.get("run-1").data
    receipts = [item["action_id"] for item in stored["task"]["artifacts"] if item["kind"] == "action_result"]
    told = [event.action_id for event in agent.run_events("run-1") if event.type == "action.completed"]
    assert receipts == told == list(stored["actions"]) == keys
    assert len(set(keys)) == 2
