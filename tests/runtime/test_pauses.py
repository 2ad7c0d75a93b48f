"""What a parked run shows: interruption, handoff, and questions to people."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protolink.errors import RunInterrupted
from protolink.models import Task
from protolink.models.json import digest, dumps, loads
from protolink.runtime import BudgetUsage, RunHandoff, RunInterruption, UserInputRequest, UserInputResult

words = st.text(min_size=1, max_size=8).filter(str.strip)
members = st.dictionaries(st.text(max_size=4), st.integers(0, 9) | st.lists(words, max_size=2), max_size=3)
kinds = st.sampled_from(["approval", "input", "yield", "retry"])
interruptions = st.builds(RunInterruption, words, words, kinds, members)
usages = st.builds(BudgetUsage, st.integers(0, 9), st.integers(0, 9), metadata=members)
handoffs = st.builds(RunHandoff, words, words, st.integers(0, 99), usages, st.lists(words, max_size=3).map(tuple))
questions = st.builds(UserInputRequest, words, words, st.lists(words, max_size=3).map(tuple), words, words, words)


def paused(*pending: RunInterruption) -> Task:
    task = Task.create("x")
    task.metadata["interruptions"] = [item.to_dict() for item in pending]
    task.metadata["interruption"] = pending[0].to_dict()
    return task


def yielded(run_id: str = "run_1", steps: int = 3) -> RunInterruption:
    handoff = RunHandoff(run_id, steps=steps, usage=BudgetUsage(llm_calls=3), completed_action_ids=("action_1",))
    return RunInterruption(run_id, f"yield:{run_id}:0:{steps}", "yield", handoff.to_dict())


@given(interruptions)
def test_a_serialized_interruption_reads_back_equal(interruption: RunInterruption) -> None:
    assert RunInterruption.from_dict(loads(dumps(interruption.to_dict()))) == interruption


def test_an_interruption_is_frozen_and_detached_from_its_request() -> None:
    request = {"options": ["a"]}
    interruption = RunInterruption("run_1", "input_1", "input", request)
    request["options"].append("b")
    assert interruption.request == {"options": ["a"]}
    assert interruption.fingerprint == digest({"options": ["a"]})
    interruption.to_dict()["request"]["options"].append("c")
    assert interruption.request == {"options": ["a"]}
    with pytest.raises(dataclasses.FrozenInstanceError):
        interruption.kind = "yield"  # type: ignore[misc]


def test_a_given_fingerprint_is_kept() -> None:
    assert RunInterruption("r", "i", "input", {}, "displayed").fingerprint == "displayed"
    stored = RunInterruption("r", "i", "input", {}).to_dict() | {"fingerprint": "stored"}
    assert RunInterruption.from_dict(stored).fingerprint == "stored"


@pytest.mark.parametrize(
    "hostile",
    [
        None,
        [],
        {},
        {"run_id": "r", "request_id": "i", "kind": "other", "request": {}},
        {"run_id": "r", "request_id": "i", "kind": ["input"], "request": {}},
        {"run_id": "r", "request_id": "i", "kind": "input", "request": []},
        {"run_id": 1, "request_id": "i", "kind": "input", "request": {}},
        {"run_id": "r", "kind": "input", "request": {}},
    ],
)
def test_malformed_interruptions_are_refused(hostile: Any) -> None:
    with pytest.raises((ValueError, TypeError)):
        RunInterruption.from_dict(hostile)


def test_the_interrupted_error_carries_all_requests_oldest_first() -> None:
    first, second = RunInterruption("r", "input_1", "input", {}), yielded()
    error = RunInterrupted(Task.create("x"), "root", [first, second])
    assert (error.run_id, error.interruption, error.interruptions) == ("root", first, (first, second))


@given(handoffs)
def test_a_serialized_handoff_reads_back_equal(handoff: RunHandoff) -> None:
    assert RunHandoff.from_dict(loads(dumps(handoff.to_dict()))) == handoff


def test_a_handoff_is_read_from_a_yielded_task() -> None:
    handoff = RunHandoff.from_task(paused(yielded()))
    assert handoff is not None
    assert (handoff.run_id, handoff.reason, handoff.steps) == ("run_1", "step_slice", 3)
    assert (handoff.usage.llm_calls, handoff.completed_action_ids) == (3, ("action_1",))


def test_a_handoff_behind_an_older_request_is_found() -> None:
    question = RunInterruption("r", "input_1", "input", {"question": "?"})
    handoff = RunHandoff.from_task(paused(question, yielded("child"), yielded("other")))
    assert handoff is not None
    assert handoff.run_id == "child"


def test_without_a_yield_there_is_no_handoff() -> None:
    assert RunHandoff.from_task(Task.create("x")) is None
    assert RunHandoff.from_task(paused(RunInterruption("r", "input_1", "input", {}))) is None
    assert RunHandoff.from_task(paused(RunInterruption("r", "retry:r:0:1", "retry", {}))) is None


@pytest.mark.parametrize(
    "hostile",
    [
        None,
        [],
        {},
        {"run_id": 1},
        {"run_id": "r", "steps": "many"},
        {"run_id": "r", "completed_action_ids": "x"},
        {"run_id": "r", "usage": []},
        {"run_id": "r", "reason": 3},
    ],
)
def test_malformed_handoffs_are_refused(hostile: Any) -> None:
    with pytest.raises((ValueError, TypeError)):
        RunHandoff.from_dict(hostile)
    task = Task.create("x")
    task.metadata["interruption"] = {"kind": "yield", "request": hostile}
    with pytest.raises((ValueError, TypeError)):
        RunHandoff.from_task(task)


@given(questions)
def test_a_serialized_question_reads_back_equal(question: UserInputRequest) -> None:
    stored = loads(dumps(question.to_dict() | {"max_answer_chars": 5}))
    assert UserInputRequest.from_dict(stored) == question


@pytest.mark.parametrize(("status", "answer"), [("answered", "CSV"), ("declined", None), ("timed_out", None)])
def test_an_outcome_has_an_answer_exactly_when_answered(status: Any, answer: Any) -> None:
    result = UserInputResult("input_1", status, answer)
    assert result.to_dict() == {"request_id": "input_1", "status": status, "answer": answer}
    assert UserInputResult.from_dict(result.to_dict()) == result
    with pytest.raises(ValueError, match="answer"):
        UserInputResult("input_1", status, None if answer else "text")


@pytest.mark.parametrize("record", [UserInputRequest, UserInputResult])
@pytest.mark.parametrize(
    "hostile",
    [
        None,
        [],
        {},
        {"request_id": 1, "status": "answered", "answer": "x", "question": "?"},
        {"request_id": "i", "status": "ignored", "question": 5},
        {"request_id": "i", "status": "answered", "question": "?", "options": "abc", "run_id": "r", "action_id": "a"},
    ],
)
def test_malformed_questions_and_outcomes_are_refused(record: Any, hostile: Any) -> None:
    with pytest.raises((ValueError, TypeError)):
        record.from_dict(hostile)
