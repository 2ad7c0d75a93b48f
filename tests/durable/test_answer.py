"""Answering a stored question, in this process or the next."""

from __future__ import annotations

from typing import Any

import pytest

from protolink import CapabilityPolicy, RunInterrupted, TaskState
from protolink.tools import ask_user_tool

QUESTION = ("ask_user", {"question": "Which format?", "options": ["CSV", "XML"]})


def fresh(scene: Any, *calls: Any, **how: Any) -> Any:
    return scene.agent([ask_user_tool(), scene.publish()], *(calls or scene.calls), **how)


@pytest.mark.claim("DUR-004", "DUR-021")
def test_the_blocking_resume_goes_on_with_the_same_file(direct: Any) -> None:
    with pytest.raises(RunInterrupted) as caught:
        fresh(direct, QUESTION).sync.call_tool(*QUESTION[:1], **QUESTION[1])
    pause = caught.value
    answer = fresh(direct).sync.resume(pause.run_id, request_id=pause.interruption.request_id, answer="CSV")
    assert answer["answer"] == "CSV"


@pytest.mark.claim("DUR-021", "DUR-022")
def test_blocking_invoke_and_resume_task_do_the_same(inferred: Any) -> None:
    agent = fresh(inferred, QUESTION)
    with pytest.raises(RunInterrupted) as caught:
        agent.sync.invoke("go")
    pause = caught.value
    waiting = agent.sync.resume_task(pause.run_id)
    assert waiting.state is TaskState.INPUT_REQUIRED
    done = agent.sync.resume_task(pause.run_id, request_id=pause.interruption.request_id, answer="CSV")
    assert (done.state, done.get_output()) == (TaskState.COMPLETED, "done")


@pytest.mark.claim("DUR-014", "DUR-015", "DUR-017")
async def test_a_direct_calls_answer_is_its_result(direct: Any) -> None:
    pause = await direct.pause(fresh(direct, QUESTION))
    again = fresh(direct)
    pending = again.durability.get(pause.run_id).data["interruption"]
    answer = await again.resume(pause.run_id, request_id=pending["request_id"], answer="CSV")
    assert answer == {"request_id": pause.interruption.request_id, "status": "answered", "answer": "CSV"}


@pytest.mark.claim("DUR-016", "DUR-051", "DUR-060")
async def test_the_model_observes_the_answer_in_the_saved_conversation(inferred: Any) -> None:
    pause = await inferred.pause(fresh(inferred, QUESTION))
    [before] = inferred.scripts[0].seen
    request = pause.interruption.request_id
    assert await fresh(inferred).resume(pause.run_id, request_id=request, answer="CSV") == "done"
    [after] = inferred.scripts[1].seen  # one request: the question was not chosen anew
    assert after[: len(before)] == before
    assert inferred.observed() == [{"request_id": request, "status": "answered", "answer": "CSV"}]


@pytest.mark.claim("DUR-018")
async def test_none_declines_and_picks_no_default(scene: Any) -> None:
    pause = await scene.pause(fresh(scene, QUESTION))
    request = pause.interruption.request_id
    found = await fresh(scene).resume(pause.run_id, request_id=request, answer=None)
    declined = {"request_id": request, "status": "declined", "answer": None}
    assert (found if scene.mode == "direct" else scene.observed()[0]) == declined


@pytest.mark.claim("DUR-019")
@pytest.mark.parametrize("answer", ["", "  \n\t", 5, True, ["CSV"]])
async def test_an_answer_must_be_nonblank_text(direct: Any, answer: Any) -> None:
    pause = await direct.pause(fresh(direct, QUESTION))
    request = pause.interruption.request_id
    with pytest.raises(ValueError, match="answer"):
        await fresh(direct).resume(pause.run_id, request_id=request, answer=answer)
    assert fresh(direct).durability.get(pause.run_id).data["interruption"]["request_id"] == request
    assert (await fresh(direct).resume(pause.run_id, request_id=request, answer="CSV"))["answer"] == "CSV"


async def test_an_answer_that_is_too_long_is_refused_with_its_limit(direct: Any) -> None:
    agent = direct.agent([ask_user_tool(max_answer_chars=4)], QUESTION)
    pause = await direct.pause(agent)
    with pytest.raises(ValueError, match="at most 4"):
        await agent.resume(pause.run_id, request_id=pause.interruption.request_id, answer="12345")
    assert (await agent.resume(pause.run_id, request_id=pause.interruption.request_id, answer="1234"))[
        "answer"
    ] == "1234"


@pytest.mark.claim("DUR-020", "DUR-026")
async def test_the_next_pause_interrupts_anew(inferred: Any) -> None:
    policy = CapabilityPolicy({"content.publish": "require_approval"})
    calls = QUESTION, ("publish", {"text": "hello"})
    first = await inferred.pause(fresh(inferred, *calls, policy=policy))
    with pytest.raises(RunInterrupted) as caught:
        await fresh(inferred, policy=policy).resume(
            first.run_id, request_id=first.interruption.request_id, answer="CSV"
        )
    second = caught.value
    assert (second.run_id, second.interruption.kind) == (first.run_id, "approval")
    assert second.interruption.request_id != first.interruption.request_id
    approve = {"request_id": second.interruption.request_id, "approved": True}
    assert await fresh(inferred, policy=policy).resume(first.run_id, **approve) == "done"
    assert inferred.effects == ["hello"]


@pytest.mark.claim("DUR-022")
async def test_resume_task_returns_the_next_pause_as_a_task(inferred: Any) -> None:
    calls = QUESTION, ("ask_user", {"question": "Which file?"})
    first = await inferred.pause(fresh(inferred, *calls))
    task = await fresh(inferred).resume_task(first.run_id, request_id=first.interruption.request_id, answer="CSV")
    assert task.state is TaskState.INPUT_REQUIRED
    assert task.metadata["interruption"]["request"]["question"] == "Which file?"


@pytest.mark.claim("DUR-027", "DUR-073")
async def test_a_plain_resume_of_a_completed_run_reads_its_output(scene: Any) -> None:
    pause = await scene.pause(fresh(scene, QUESTION))
    found = await fresh(scene).resume(pause.run_id, request_id=pause.interruption.request_id, answer="CSV")
    requests = len(scene.scripts) and sum(len(script.seen) for script in scene.scripts)
    assert await fresh(scene).resume(pause.run_id) == found
    assert (len(scene.scripts) and sum(len(script.seen) for script in scene.scripts)) == requests


@pytest.mark.claim("DUR-069")
async def test_a_plain_resume_of_a_waiting_run_returns_the_same_request_and_writes_nothing(scene: Any) -> None:
    pause = await scene.pause(fresh(scene, QUESTION))
    stored = fresh(scene).durability.get(pause.run_id)
    with pytest.raises(RunInterrupted) as caught:
        await fresh(scene).resume(pause.run_id)
    assert caught.value.interruption == pause.interruption
    assert fresh(scene).durability.get(pause.run_id) == stored


@pytest.mark.claim("DUR-005", "DUR-004", "DUR-014")
def test_question_and_continuation_are_processes_of_their_own(processes: Any) -> None:
    asked = processes.run("start", call=QUESTION)
    assert asked["paused"] == "input"
    found = processes.run("resume", request_id=asked["request_id"], answer="CSV")
    assert found["output"] in ("done", {"request_id": asked["request_id"], "status": "answered", "answer": "CSV"})
    assert processes.checkpoint().status == "completed"


async def test_several_questions_of_a_turn_are_answered_in_any_order(native: Any) -> None:
    both = [("ask_user", {"question": "First?"}), ("ask_user", {"question": "Second?"})]
    pause = await native.pause(fresh(native, both))
    first, second = pause.interruptions
    assert pause.interruption == first
    with pytest.raises(RunInterrupted) as caught:
        await fresh(native).resume(pause.run_id, request_id=second.request_id, answer="two")
    assert caught.value.interruptions == (first,)
    assert await fresh(native).resume(pause.run_id, request_id=first.request_id, answer="one") == "done"
    assert [item["answer"] for item in native.observed()] == ["one", "two"]
