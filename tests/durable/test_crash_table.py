"""What a crash leaves behind, boundary by boundary: by killed processes, and by cutting a store after each save."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest

from protolink import (
    CapabilityPolicy,
    RunBudget,
    RunContext,
    RunInterrupted,
    Task,
    ToolRejectedError,
    UncertainExecutionError,
)
from protolink.tools import Tool, ask_user_tool

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="a dead owner is proven on Linux only")
KILLED = {"killed": signal.SIGKILL}
CALL = ("publish", {"text": "hello"})


def done(processes: Any) -> Any:
    """What a completed run prints in each mode."""
    return {"output": {"published": "hello"} if processes.mode == "direct" else "done"}


# ---------------------------------------------------------------------------------------------------- killed processes


@pytest.mark.claim("DUR-068", "DUR-087", "DUR-088")
def test_a_kill_before_dispatch_goes_on_with_the_saved_action(processes: Any) -> None:
    assert processes.run("start", die="prepare") == KILLED
    before = processes.world
    assert processes.run("resume") == done(processes)
    assert processes.published() == 1
    # The saved call was taken up: the model was not asked to choose it again.
    assert [line for line in processes.world[len(before) :] if line == "model 0"] == []


@pytest.mark.claim("DUR-068", "DUR-043")
def test_a_kill_before_dispatch_goes_on_under_todays_policy(processes: Any) -> None:
    assert processes.run("start", die="prepare") == KILLED
    assert processes.run("resume", ask=True)["paused"] == "approval"
    assert processes.published() == 0


@pytest.mark.claim("DUR-067", "DUR-072", "DUR-075", "STR-006")
@pytest.mark.parametrize("place", ["before effect", "after effect"])
def test_a_kill_inside_a_tool_is_uncertain_and_never_repeated(processes: Any, place: str) -> None:
    assert processes.run("start", die=place) == KILLED
    happened = processes.published()
    [entry] = processes.checkpoint().data["actions"].values()
    assert entry["state"] == "executing"  # the intent was stored before the tool was entered
    for _ in range(2):
        assert processes.run("resume")["error"] == "UncertainExecutionError"
    assert processes.published() == happened
    assert processes.checkpoint().status == "uncertain"


@pytest.mark.claim("DUR-080", "DUR-083", "DUR-028")
def test_a_killed_tool_is_reconciled_and_the_loop_goes_on(processes: Any) -> None:
    assert processes.run("start", die="after effect") == KILLED
    assert processes.run("reconcile", result={"published": "hello"}) == {"output": None}
    assert processes.run("resume") == done(processes)
    assert processes.published() == 1
    if processes.mode != "direct":
        assert '"published":"hello"' in processes.world[-1].replace(" ", "")


@pytest.mark.claim("DUR-053", "DUR-070", "DUR-061")
@pytest.mark.parametrize("mode", ["json", "native"])
def test_a_kill_after_the_receipt_reuses_it(application: Any, mode: str) -> None:
    processes = application(mode)
    assert processes.run("start", die="model 1") == KILLED
    assert processes.run("resume") == {"output": "done"}
    assert processes.published() == 1
    assert processes.world.count("model 0") == 1
    assert processes.world.count("model 1") == 2  # the lost call is made once more ...
    assert processes.checkpoint().data["usage"]["llm_calls"] == 3  # ... and the first one stays charged
    assert '"published":"hello"' in processes.world[-1].replace(" ", "")


@pytest.mark.claim("DUR-061", "DUR-062")
@pytest.mark.parametrize("mode", ["json", "native"])
def test_a_kill_inside_the_first_model_call_keeps_its_charge(application: Any, mode: str) -> None:
    processes = application(mode)
    assert processes.run("start", die="model 0") == KILLED
    lost = processes.checkpoint().data["usage"]
    assert (lost["llm_calls"], lost["steps"]) == (1, 1)
    assert processes.run("resume") == {"output": "done"}
    usage = processes.checkpoint().data["usage"]
    # One turn more than without the crash in calls; the step of the repeated turn was charged before.
    assert (usage["llm_calls"], usage["tool_calls"]) == (3, 1)


@pytest.mark.claim("DUR-054", "DUR-071")
@pytest.mark.parametrize("mode", ["json", "native"])
def test_a_kill_after_a_rejection_reuses_the_feedback(application: Any, mode: str) -> None:
    processes = application(mode)
    assert processes.run("start", die="model 1", call=["refuse", {"text": "bad"}]) == KILLED
    stored = processes.checkpoint()
    [entry] = stored.data["actions"].values()
    assert entry["state"] == "rejected"
    assert processes.run("resume", call=["refuse", {"text": "bad"}]) == {"output": "done"}
    assert processes.world.count("refused bad") == 1
    assert "bad_text" in processes.world[-1]
    assert processes.checkpoint().data["usage"]["tool_calls"] == stored.data["usage"]["tool_calls"] == 1


@pytest.mark.claim("DUR-069", "DUR-005")
def test_a_kill_after_an_approval_was_applied_is_like_any_other(processes: Any) -> None:
    asked = processes.run("start", ask=True)
    approve = {"request_id": asked["request_id"], "approved": True}
    assert processes.run("resume", die="prepare", ask=True, **approve) == KILLED
    assert processes.run("resume", ask=True, **approve) == done(processes)
    assert processes.published() == 1


def test_a_terminated_process_leaves_what_a_killed_one_leaves(processes: Any) -> None:
    assert processes.run("start", die="after effect", signal="SIGTERM") == {"killed": signal.SIGTERM}
    assert processes.run("resume")["error"] == "UncertainExecutionError"
    assert processes.published() == 1


# ---------------------------------------------------------------------------------------------------- every save


def crash_everywhere(scene: Any, tape: Any) -> list[Any]:
    """The stores that a crash leaves after each save of a run, with the effects that had happened for certain."""
    return [tape.after(count) for count in range(1, len(tape.saves) + 1)]


def marked(scene: Any, tape: Any) -> Tool:
    """The publishing tool, whose effect notes how many saves there were when it happened."""

    def publish(text: str) -> dict[str, str]:
        """Publish a text."""
        scene.effects.append((text, len(tape.saves)))
        return {"published": text}

    return Tool.from_callable(publish, capabilities=["content.publish"])


@pytest.mark.claim("DUR-067", "DUR-075", "DUR-053", "STR-014", "DUR-087", "DUR-088")
async def test_a_crash_after_any_save_neither_repeats_nor_loses_an_effect(scene: Any, tape: Any) -> None:
    calls = [CALL] if scene.mode == "direct" else [CALL, ("publish", {"text": "second"})]
    agent = scene.agent([marked(scene, tape)], *calls, durability=tape)
    undisturbed = await scene.begin(agent)
    wanted = [text for text, _ in scene.effects]
    history = list(scene.effects)
    seen = set()
    for left in crash_everywhere(scene, tape):
        if not left.saves[-1][3].get("actions") and "task" not in left.saves[-1][3]:
            continue  # nothing but the empty record: the run was never started
        count = len(left.saves)
        scene.effects = [effect for effect in history if effect[1] <= count]
        happened = len(scene.effects)
        survivor = scene.agent([marked(scene, tape)], durability=left)
        try:
            assert await survivor.resume("run-1") == undisturbed
        except UncertainExecutionError as error:
            assert len(scene.effects) == happened
            entry = left.get("run-1").data["actions"][error.action_id]
            survivor.reconcile("run-1", error.action_id, result={"published": entry["source_arguments"]["text"]})
            assert await survivor.resume("run-1") == undisturbed
            seen.add("uncertain")
        else:
            seen.add("resumed")
        assert [text for text, _ in scene.effects] == wanted
    assert seen == {"uncertain", "resumed"}


@pytest.mark.claim("DUR-069", "DUR-057")
async def test_a_crash_while_waiting_returns_the_same_request(scene: Any, tape: Any) -> None:
    policy = CapabilityPolicy({"content.publish": "require_approval"})
    agent = scene.agent([scene.publish()], CALL, durability=tape, policy=policy)
    pause = await scene.pause(agent)
    asked = tape.first(lambda status, data: data["interruption"] is not None)
    left = tape.after(asked)
    with pytest.raises(RunInterrupted) as caught:
        await scene.agent([scene.publish()], durability=left, policy=policy).resume("run-1")
    assert caught.value.interruption == pause.interruption
    response = {"request_id": pause.interruption.request_id, "approved": True}
    found = await scene.agent([scene.publish()], durability=left, policy=policy).resume("run-1", **response)
    assert found == scene.result({"published": "hello"})
    assert scene.effects == ["hello"]


@pytest.mark.claim("DUR-073")
async def test_a_crash_after_the_end_reads_the_stored_output(scene: Any, tape: Any) -> None:
    found = await scene.begin(scene.agent([scene.publish()], CALL, durability=tape))
    left = tape.after(tape.first(lambda status, data: status == "completed"))
    assert await scene.agent([scene.publish()], durability=left).resume("run-1") == found
    assert scene.effects == ["hello"]


@pytest.mark.claim("DUR-054", "DUR-071", "DUR-078")
async def test_no_crash_gives_corrections_back(inferred: Any, tape: Any) -> None:
    def picky(text: str) -> str:
        """Take only what is good."""
        inferred.effects.append(text)
        if text != "good":
            raise ToolRejectedError(f"{text} is bad", code="bad_text")
        return text

    calls = [("picky", {"text": text}) for text in ("one", "two", "good")]
    tools = [Tool.from_callable(picky)]
    await inferred.begin(inferred.agent(tools, *calls, durability=tape))
    assert inferred.effects == ["one", "two", "good"]
    rejected = tape.first(
        lambda status, data: [entry["state"] for entry in data["actions"].values()].count("rejected") == 2
    )
    left = tape.after(rejected)
    agent = inferred.agent(tools, *calls[:2], ("picky", {"text": "three"}), durability=left)
    inferred.effects.clear()
    with pytest.raises(RuntimeError, match="max_tool_corrections=2"):
        await agent.resume("run-1")
    assert inferred.effects == ["three"]  # the rejected ones were not invoked again
    assert left.get("run-1").data["usage"]["tool_calls"] == 3


@pytest.mark.claim("DUR-062", "DUR-055")
async def test_no_crash_gives_budget_back(inferred: Any, tape: Any) -> None:
    calls = CALL, ("publish", {"text": "second"})
    await inferred.begin(
        inferred.agent([inferred.publish()], *calls, durability=tape), budget=RunBudget(max_llm_calls=3)
    )
    whole = tape.get("run-1").data["usage"]
    assert whole["llm_calls"] == 3
    intent = tape.first(lambda status, data: data["usage"]["llm_calls"] == 3)
    left = tape.after(intent)
    agent = inferred.agent([inferred.publish()], durability=left)
    with pytest.raises(RuntimeError, match="llm_calls"):
        await agent.resume("run-1")
    assert left.get("run-1").data["usage"]["llm_calls"] == 3


@pytest.mark.claim("DUR-067", "DUR-062")
async def test_intent_and_charge_are_stored_when_the_tool_begins(scene: Any, tape: Any) -> None:
    found: list[Any] = []

    def publish(text: str) -> str:
        """Publish a text."""
        stored = tape.get("run-1").data
        found.append(([entry["state"] for entry in stored["actions"].values()], stored["usage"]["tool_calls"]))
        return text

    await scene.begin(scene.agent([Tool.from_callable(publish)], CALL, durability=tape))
    assert found == [(["executing"], 1)]


@pytest.mark.claim("DUR-062")
async def test_a_models_charge_is_stored_when_it_is_asked(inferred: Any, tape: Any) -> None:
    agent = inferred.agent([inferred.publish()], CALL, durability=tape)
    script, found = inferred.scripts[-1], []

    def watched(history: Any, prompt: str) -> Any:
        found.append(tape.get("run-1").data["usage"]["llm_calls"])
        return script(history, prompt)

    agent.llm.response_callback = watched
    await inferred.begin(agent)
    assert found == [1, 2]


@pytest.mark.claim("DUR-067", "DUR-070")
async def test_the_receipt_is_stored_before_the_model_sees_the_result(inferred: Any, tape: Any) -> None:
    agent = inferred.agent([inferred.publish()], CALL, durability=tape)
    script, found = inferred.scripts[-1], []

    def watched(history: Any, prompt: str) -> Any:
        found.append([entry["state"] for entry in tape.get("run-1").data["actions"].values()])
        return script(history, prompt)

    agent.llm.response_callback = watched
    await inferred.begin(agent)
    assert found == [[], ["succeeded"]]


@pytest.mark.claim("DUR-050")
async def test_a_crash_in_the_second_part_skips_the_first(direct: Any, tape: Any) -> None:
    task = Task.create_tool_call(tool_name="publish", args={"text": "first"}, context=RunContext(run_id="run-1"))
    more = Task.create_tool_call(tool_name="ask_user", args={"question": "Which?"})
    task.messages[-1].parts.extend(more.messages[-1].parts)
    tools = [direct.publish(), ask_user_tool()]
    await direct.agent(tools, durability=tape).run_task(task)
    left = tape.after(tape.first(lambda status, data: data["interruption"] is not None))
    stored = left.get("run-1").data
    assert stored["outputs"] == {"0": {"published": "first"}}
    response = {"request_id": stored["interruption"]["request_id"], "answer": "this"}
    assert (await direct.agent(tools, durability=left).resume("run-1", **response))["answer"] == "this"
    assert direct.effects == ["first"]


async def test_a_crash_while_a_question_waits_charges_it_once(inferred: Any, tape: Any) -> None:
    agent = inferred.agent([ask_user_tool()], ("ask_user", {"question": "Which?"}), durability=tape)
    pause = await inferred.pause(agent)
    left = tape.after(tape.first(lambda status, data: data["interruption"] is not None))
    survivor = inferred.agent([ask_user_tool()], durability=left)
    await survivor.resume("run-1", request_id=pause.interruption.request_id, answer="this")
    assert left.get("run-1").data["usage"]["tool_calls"] == 1
