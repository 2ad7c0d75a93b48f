"""An effect whose outcome is unknown is never repeated; a person looks, reconciles, and the loop goes on."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from protolink import TaskExecutionError, ToolFailedError, UncertainExecutionError
from protolink.errors import DurableExecutionError
from protolink.runtime import RunContext
from protolink.tools import Tool

CALL = ("publish", {"text": "hello"})


def flaky(scene: Any, error: BaseException) -> Tool:
    """The tool whose effect happens before it raises."""

    def publish(text: str) -> dict[str, str]:
        """Publish a text."""
        scene.effects.append(text)
        raise error

    return Tool.from_callable(publish)


def broken(scene: Any, *calls: Any, **how: Any) -> Any:
    return scene.agent([flaky(scene, OSError("connection reset"))], *(calls or scene.calls), **how)


async def uncertain(scene: Any, agent: Any) -> UncertainExecutionError:
    with pytest.raises(UncertainExecutionError) as caught:
        await scene.begin(agent)
    return caught.value


@pytest.mark.claim("DUR-072", "DUR-075", "DUR-079")
async def test_an_ordinary_exception_leaves_the_effect_uncertain(scene: Any, states_of: Any) -> None:
    agent = broken(scene, CALL)
    error = await uncertain(scene, agent)
    stored = agent.durability.get("run-1")
    assert (stored.status, states_of(stored)) == ("uncertain", ["uncertain"])
    [entry] = stored.data["actions"].values()
    assert (error.run_id, error.action_id) == ("run-1", entry["action"]["action_id"])
    assert isinstance(error.__cause__, OSError)
    assert "reconcile" in str(error)
    for _ in range(2):
        with pytest.raises(UncertainExecutionError) as again:
            await broken(scene).resume("run-1")
        assert again.value.action_id == error.action_id
    assert scene.effects == ["hello"]


async def test_the_task_of_an_unknown_effect_failed_and_says_which(scene: Any) -> None:
    agent = broken(scene, CALL)
    error = await uncertain(scene, agent)
    task = agent.durability.get("run-1").data["task"]
    blocker = task["metadata"]["blockers"][-1]
    assert task["state"] == "failed"
    assert (blocker["code"], blocker["run_id"], blocker["action_id"]) == (
        "execution_uncertain",
        "run-1",
        error.action_id,
    )


async def test_a_handle_tells_an_unknown_effect_as_a_failure(inferred: Any) -> None:
    result = await broken(inferred, CALL).start_run("go").result()
    assert (result.status, result.error["code"]) == ("failed", "execution_uncertain")


@pytest.mark.claim("DUR-028", "DUR-033", "DUR-080", "DUR-081", "DUR-083")
async def test_a_reconciled_result_is_what_the_loop_goes_on_with(scene: Any, states_of: Any) -> None:
    error = await uncertain(scene, broken(scene, CALL))
    agent = broken(scene)
    found = agent.reconcile("run-1", error.action_id, result={"published": "found outside"})
    assert found is None
    stored = agent.durability.get("run-1")
    assert (stored.status, states_of(stored)) == ("ready", ["succeeded"])
    assert next(iter(stored.data["actions"].values()))["reconciled"]
    assert await agent.resume("run-1") == scene.result({"published": "found outside"})
    if scene.mode != "direct":
        assert scene.observed() == [{"published": "found outside"}]
    assert scene.effects == ["hello"]  # neither repeated nor taken back


@pytest.mark.claim("DUR-033")
def test_reconcile_is_no_coroutine(direct: Any) -> None:
    assert not inspect.iscoroutinefunction(broken(direct, CALL).reconcile)


@pytest.mark.claim("DUR-082")
@pytest.mark.parametrize("nothing", [{"status": "not published", "effect": None}, None, False, ""])
async def test_a_result_may_say_that_nothing_happened(inferred: Any, nothing: Any) -> None:
    error = await uncertain(inferred, broken(inferred, CALL))
    agent = broken(inferred)
    agent.reconcile("run-1", error.action_id, result=nothing)
    assert await agent.resume("run-1") == "done"
    assert inferred.observed() == [nothing]


async def test_an_action_is_reconciled_once(scene: Any) -> None:
    error = await uncertain(scene, broken(scene, CALL))
    agent = broken(scene)
    agent.reconcile("run-1", error.action_id, result=1)
    with pytest.raises(DurableExecutionError, match="no unresolved action"):
        agent.reconcile("run-1", error.action_id, result=2)
    with pytest.raises(DurableExecutionError, match="no unresolved action"):
        agent.reconcile("run-1", "action_x", result=2)
    assert next(iter(agent.durability.get("run-1").data["actions"].values()))["result"] == 1


@pytest.mark.parametrize("result", [object(), float("nan"), {"a": [object()]}])
async def test_a_result_that_is_no_json_changes_nothing(direct: Any, result: Any) -> None:
    error = await uncertain(direct, broken(direct, CALL))
    agent = broken(direct)
    before = agent.durability.get("run-1")
    with pytest.raises(TypeError):
        agent.reconcile("run-1", error.action_id, result=result)
    assert agent.durability.get("run-1") == before


async def test_an_action_that_is_known_cannot_be_reconciled(scene: Any) -> None:
    agent = scene.agent([scene.publish()], CALL)
    await scene.begin(agent)
    [entry] = agent.durability.get("run-1").data["actions"].values()
    with pytest.raises(DurableExecutionError, match="no unresolved action"):
        agent.reconcile("run-1", entry["action"]["action_id"], result="other")


@pytest.mark.claim("DUR-089")
@pytest.mark.parametrize("result", [object(), float("inf"), {"handle": lambda: 1}])
async def test_a_result_that_cannot_be_stored_leaves_the_effect_uncertain(
    scene: Any, states_of: Any, result: Any
) -> None:
    def publish(text: str) -> Any:
        """Publish a text."""
        scene.effects.append(text)
        return result

    agent = scene.agent([Tool.from_callable(publish)], CALL)
    await uncertain(scene, agent)
    assert states_of(agent.durability.get("run-1")) == ["uncertain"]
    with pytest.raises(UncertainExecutionError):
        await agent.resume("run-1")
    assert scene.effects == ["hello"]


async def test_a_result_over_the_limit_names_size_limit_and_tool(direct: Any) -> None:
    tool = Tool.from_callable(lambda: "x" * 100, name="much", description="Much text.")
    agent = direct.agent([tool], ("much", {}), max_result_bytes=50)
    error = await uncertain(direct, agent)
    for word in ("102", "50", "much"):
        assert word in str(error)


@pytest.mark.parametrize(("result", "code"), [(object(), "result_not_json"), ("x" * 100, "result_too_large")])
async def test_what_only_read_is_a_failure_when_its_result_cannot_be_stored(
    direct: Any, states_of: Any, result: Any, code: str
) -> None:
    tool = Tool.from_callable(lambda: result, name="look", description="Look.", read_only=True)
    agent = direct.agent([tool], ("look", {}), max_result_bytes=50)
    with pytest.raises(TaskExecutionError) as caught:
        await direct.begin(agent)
    assert not isinstance(caught.value, UncertainExecutionError)
    stored = agent.durability.get("run-1")
    assert (stored.status, states_of(stored)) == ("failed", ["failed"])
    assert code in str(stored.data)


async def test_a_tool_that_knows_that_nothing_changed_fails_and_is_not_uncertain(scene: Any, states_of: Any) -> None:
    def publish(text: str) -> str:
        """Publish a text."""
        raise ToolFailedError("the press is off", code="press_off")

    agent = scene.agent([Tool.from_callable(publish)], CALL)
    with pytest.raises(RuntimeError, match="the press is off"):
        await scene.begin(agent)
    stored = agent.durability.get("run-1")
    assert (stored.status, states_of(stored)) == ("failed", ["failed"])
    with pytest.raises(DurableExecutionError, match="cannot be resumed"):
        await agent.resume("run-1")


async def test_an_exception_of_a_live_tool_is_an_ordinary_failure(scene: Any) -> None:
    agent = broken(scene, CALL, durability=None)
    with pytest.raises(RuntimeError) as caught:
        await scene.begin(agent)
    assert not isinstance(caught.value, UncertainExecutionError)


async def test_nothing_starts_beside_an_unknown_effect(native: Any) -> None:
    calls = [CALL, ("note", {"text": "beside"})]

    def note(text: str) -> str:
        """Note a text."""
        native.effects.append(text)
        return text

    tools = [flaky(native, OSError("reset")), Tool.from_callable(note)]
    error = await uncertain(native, native.agent(tools, calls))
    with pytest.raises(UncertainExecutionError):
        await native.agent(tools).resume("run-1")
    assert native.effects == ["hello"]
    agent = native.agent(tools)
    agent.reconcile("run-1", error.action_id, result="found")
    assert await agent.resume("run-1") == "done"
    assert native.effects == ["hello", "beside"]
    assert native.observed() == ["found", "beside"]


async def test_every_unknown_effect_wants_its_own_answer(native: Any) -> None:
    calls = [CALL, ("publish", {"text": "second"})]

    def tools() -> list[Tool]:
        async def publish(text: str) -> str:
            """Publish a text."""
            native.effects.append(text)
            raise OSError("reset")

        return [Tool.from_callable(publish)]

    agent = native.agent(tools(), calls, parallel_tool_calls=True)
    first = await uncertain(native, agent)
    agent.reconcile("run-1", first.action_id, result="one")
    with pytest.raises(UncertainExecutionError) as caught:
        await agent.resume("run-1")
    assert caught.value.action_id != first.action_id
    agent.reconcile("run-1", caught.value.action_id, result="two")
    assert await agent.resume("run-1") == "done"
    assert native.observed() == ["one", "two"]


async def test_a_run_cannot_be_begun_again_to_get_around_an_unknown_effect(inferred: Any) -> None:
    await uncertain(inferred, broken(inferred, CALL))
    with pytest.raises(RuntimeError):
        await broken(inferred).invoke("go", context=RunContext(run_id="run-1"))
    assert inferred.effects == ["hello"]


@pytest.mark.claim("DUR-098")
async def test_a_tools_inner_steps_are_one_operation(scene: Any, states_of: Any) -> None:
    def publish(text: str) -> str:
        """Publish a text, twice."""
        scene.effects.append(text + " 1")
        if not scene.effects[1:]:
            raise OSError("between the steps")
        scene.effects.append(text + " 2")
        return text

    agent = scene.agent([Tool.from_callable(publish)], CALL)
    error = await uncertain(scene, agent)
    agent.reconcile("run-1", error.action_id, result="looked")
    await agent.resume("run-1")
    assert scene.effects == ["hello 1"]
    assert states_of(agent.durability.get("run-1")) == ["succeeded"]


@pytest.mark.claim("DUR-007", "DUR-056", "DUR-085")
async def test_an_unknown_effect_of_a_child_is_reconciled_through_the_root(inferred: Any) -> None:
    def family() -> Any:
        worker = inferred.agent(
            [flaky(inferred, OSError("reset"))], durability=None, llm=inferred.model(CALL, "worker done")
        )
        worker.card.name = "worker"
        hand_over = ("agent_call", {"agent": "worker", "action": "infer", "prompt": "publish hello"})
        return inferred.agent(
            [], hand_over, subagents=[worker], llm=inferred.model(hand_over, "root done", native=False)
        )

    error = await uncertain(inferred, family())
    assert error.run_id != "run-1"
    agent = family()
    with pytest.raises(UncertainExecutionError):
        await agent.resume("run-1")
    agent.reconcile(error.run_id, error.action_id, result={"published": "found"})
    assert await agent.resume("run-1") == "root done"
    assert inferred.effects == ["hello"]
    worker_script = next(s for s in inferred.scripts if any('"found"' in str(m) for seen in s.seen for m in seen))
    assert worker_script.turns == [CALL, "worker done"]
