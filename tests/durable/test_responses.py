"""A response fits exactly one pending request, or nothing happens."""

from __future__ import annotations

import math
from typing import Any

import pytest

from protolink import ActionDeniedError, CapabilityPolicy, DurableExecutionError, RunInterrupted
from protolink.tools import ask_user_tool

ASK = CapabilityPolicy({"content.publish": "require_approval"})
QUESTION = ("ask_user", {"question": "Which format?"})
CALL = ("publish", {"text": "hello"})


def fresh(scene: Any, *calls: Any, **how: Any) -> Any:
    return scene.agent([ask_user_tool(), scene.publish()], *(calls or scene.calls), policy=ASK, **how)


async def refused(scene: Any, pause: Any, error: type[Exception], text: str, **response: Any) -> Any:
    """The response is refused, and the run waits as before."""
    before = fresh(scene).durability.get(pause.run_id)
    with pytest.raises(error, match=text) as caught:
        await fresh(scene).resume(pause.run_id, **response)
    assert fresh(scene).durability.get(pause.run_id) == before
    assert scene.effects == []
    return caught.value


@pytest.mark.claim("DUR-029", "DUR-030")
@pytest.mark.parametrize("request_id", [None, "", "  ", 7])
async def test_a_response_without_its_request_id_is_refused(direct: Any, request_id: Any) -> None:
    pause = await direct.pause(fresh(direct, CALL))
    await refused(direct, pause, ValueError, "request_id", request_id=request_id, approved=True)


@pytest.mark.parametrize("approved", [True, False])
@pytest.mark.parametrize("reason", [7, float("nan"), ["why"], object()])
async def test_a_reason_that_is_no_text_is_refused(direct: Any, reason: Any, approved: bool) -> None:
    pause = await direct.pause(fresh(direct, CALL))
    request = pause.interruption.request_id
    await refused(direct, pause, ValueError, "reason", request_id=request, approved=approved, reason=reason)


@pytest.mark.claim("DUR-029", "DUR-030", "DUR-041", "DUR-057")
@pytest.mark.parametrize("call", [QUESTION, CALL])
async def test_another_requests_id_is_refused(scene: Any, call: Any) -> None:
    pause = await scene.pause(fresh(scene, call))
    response = {"answer": "CSV"} if call is QUESTION else {"approved": True}
    found = await refused(
        scene, pause, DurableExecutionError, "no pending request", request_id="approval_x", **response
    )
    assert pause.interruption.request_id in str(found)


@pytest.mark.claim("DUR-031", "DUR-029")
async def test_both_answer_and_approved_are_refused(direct: Any) -> None:
    pause = await direct.pause(fresh(direct, CALL))
    request = pause.interruption.request_id
    await refused(direct, pause, ValueError, "either", request_id=request, approved=True, answer="CSV")
    await refused(direct, pause, ValueError, "either", request_id=request, approved=False, answer=None)


@pytest.mark.claim("DUR-029")
async def test_a_request_id_without_a_response_is_refused(direct: Any) -> None:
    pause = await direct.pause(fresh(direct, CALL))
    request = pause.interruption.request_id
    await refused(direct, pause, ValueError, "answer or approved", request_id=request)
    await refused(direct, pause, ValueError, "answer or approved", fingerprint=pause.interruption.fingerprint)


@pytest.mark.parametrize("approved", [1, "yes", 0])
async def test_an_approval_is_true_or_false(direct: Any, approved: Any) -> None:
    pause = await direct.pause(fresh(direct, CALL))
    await refused(direct, pause, ValueError, "approved", request_id=pause.interruption.request_id, approved=approved)


@pytest.mark.claim("DUR-032", "DUR-041", "DUR-057")
@pytest.mark.parametrize("fingerprint", ["", "0" * 64])
async def test_another_fingerprint_is_refused(scene: Any, fingerprint: str) -> None:
    pause = await scene.pause(fresh(scene, CALL))
    response = {"request_id": pause.interruption.request_id, "approved": True, "fingerprint": fingerprint}
    await refused(scene, pause, DurableExecutionError, "fingerprint", **response)
    await fresh(scene).resume(pause.run_id, **response | {"fingerprint": pause.interruption.fingerprint})
    assert scene.effects == ["hello"]


@pytest.mark.claim("DUR-057")
async def test_the_wrong_kind_of_response_is_refused(direct: Any) -> None:
    approval = await direct.pause(fresh(direct, CALL))
    await refused(direct, approval, ValueError, "approval", request_id=approval.interruption.request_id, answer="yes")
    question = await direct.pause(fresh(direct, QUESTION), run_id="run-2")
    await refused(direct, question, ValueError, "question", request_id=question.interruption.request_id, approved=True)


@pytest.mark.claim("DUR-057")
async def test_the_same_response_again_goes_on_without_repeating_anything(inferred: Any) -> None:
    pause = await inferred.pause(fresh(inferred, CALL, QUESTION))
    response = {"request_id": pause.interruption.request_id, "approved": True}
    with pytest.raises(RunInterrupted) as first:
        await fresh(inferred).resume(pause.run_id, **response)
    with pytest.raises(RunInterrupted) as again:
        await fresh(inferred).resume(pause.run_id, **response)
    assert again.value.interruption == first.value.interruption
    assert inferred.effects == ["hello"]


@pytest.mark.claim("DUR-057")
async def test_another_value_for_an_answered_request_tells_what_is_on_record(inferred: Any) -> None:
    pause = await inferred.pause(fresh(inferred, QUESTION, CALL))
    request = pause.interruption.request_id
    with pytest.raises(RunInterrupted):
        await fresh(inferred).resume(pause.run_id, request_id=request, answer="CSV")
    with pytest.raises(DurableExecutionError) as caught:
        await fresh(inferred).resume(pause.run_id, request_id=request, answer="XML")
    assert caught.value.recorded["response"] == "CSV"
    assert caught.value.recorded["outcome"] is None
    assert inferred.effects == []


@pytest.mark.claim("DUR-057")
async def test_a_response_to_a_completed_run_tells_response_and_outcome(scene: Any) -> None:
    pause = await scene.pause(fresh(scene, CALL))
    response = {"request_id": pause.interruption.request_id, "approved": True}
    await fresh(scene).resume(pause.run_id, **response)
    with pytest.raises(DurableExecutionError) as caught:
        await fresh(scene).resume(pause.run_id, **response)
    assert (caught.value.recorded["response"], caught.value.recorded["outcome"]) == (True, "completed")
    assert scene.effects == ["hello"]


@pytest.mark.claim("DUR-074")
async def test_a_response_to_a_failed_run_tells_response_and_outcome(scene: Any) -> None:
    pause = await scene.pause(fresh(scene, CALL))
    response = {"request_id": pause.interruption.request_id, "approved": False}
    with pytest.raises(ActionDeniedError):
        await fresh(scene).resume(pause.run_id, **response)
    with pytest.raises(DurableExecutionError, match="cannot be resumed") as caught:
        await fresh(scene).resume(pause.run_id, **response | {"approved": True})
    assert (caught.value.recorded["response"], caught.value.recorded["outcome"]) == (False, "failed")
    assert scene.effects == []


@pytest.mark.parametrize("run_id", ["", "   ", None, 5])
async def test_a_blank_run_id_is_refused(direct: Any, run_id: Any) -> None:
    agent = fresh(direct, CALL)
    with pytest.raises(DurableExecutionError, match="nonblank"):
        await agent.resume(run_id)
    with pytest.raises(DurableExecutionError, match="nonblank"):
        agent.reconcile(run_id, "action_x", result=1)
    with pytest.raises(DurableExecutionError, match="nonblank"):
        agent.run_events(run_id)


async def test_an_unknown_run_is_named_and_not_created(direct: Any) -> None:
    agent = fresh(direct, CALL)
    for attempt in (
        agent.resume("run-9"),
        agent.resume_task("run-9"),
        agent.resume("run-9", request_id="r", answer="x"),
    ):
        with pytest.raises(DurableExecutionError, match="'run-9'"):
            await attempt
    with pytest.raises(DurableExecutionError, match="'run-9'"):
        agent.reconcile("run-9", "action_x", result=1)
    with pytest.raises(DurableExecutionError, match="'run-9'"):
        agent.run_events("run-9")
    assert agent.durability.get("run-9") is None


async def test_a_yield_takes_no_response(inferred: Any) -> None:
    agent = inferred.agent([inferred.publish()], CALL, yield_after_steps=1)
    pause = await inferred.pause(agent)
    assert pause.interruption.kind == "yield"
    for response in ({"answer": "go on"}, {"approved": True}):
        with pytest.raises(ValueError, match="no response"):
            await agent.resume(pause.run_id, request_id=pause.interruption.request_id, **response)
    assert await agent.resume(pause.run_id) == "done"


@pytest.mark.claim("DUR-027")
async def test_a_plain_resume_grants_the_next_slice(inferred: Any) -> None:
    calls = CALL, ("publish", {"text": "two"}), ("publish", {"text": "three"})
    agent = inferred.agent([inferred.publish()], *calls, yield_after_steps=2)
    pause = await inferred.pause(agent)
    assert (pause.interruption.kind, inferred.effects) == ("yield", ["hello", "two"])
    again = inferred.agent([inferred.publish()], yield_after_steps=2)
    assert await again.resume(pause.run_id) == "done"
    assert inferred.effects == ["hello", "two", "three"]


@pytest.mark.parametrize(
    "response",
    [
        {"answer": "caf\udce9"},
        {"approved": True, "reason": "caf\udce9"},
        {"approved": True, "arguments": {"text": "caf\udce9"}},
        {"approved": True, "arguments": {"risk": math.nan}},
        {"approved": True, "arguments": {"text": object()}},
    ],
)
async def test_a_response_that_cannot_be_stored_is_the_callers_fault(direct: Any, response: dict[str, Any]) -> None:
    call = QUESTION if "answer" in response else CALL
    pause = await direct.pause(fresh(direct, call))
    request = pause.interruption.request_id
    await refused(direct, pause, ValueError, r"not valid Unicode|arguments are no JSON", request_id=request, **response)
