"""Cancellation: token, request and errors."""

from __future__ import annotations

import asyncio
import dataclasses
import threading
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from protolink.errors import (
    TaskAlreadyRunningError,
    TaskCancellationError,
    TaskNotCancelableError,
    TaskNotFoundError,
)
from protolink.models import Task
from protolink.models.json import plain
from protolink.runtime import CancellationToken, RunContext, TaskCancellationRequest


@pytest.mark.claim("CAN-046", "CAN-048")
def test_a_request_is_frozen_with_an_optional_reason() -> None:
    request = TaskCancellationRequest("task_1")
    assert (request.id, request.reason, request.metadata) == ("task_1", None, {})
    assert TaskCancellationRequest("t", "why").reason == "why"
    with pytest.raises(dataclasses.FrozenInstanceError):
        request.id = "other"  # type: ignore[misc]


@pytest.mark.claim("CAN-047")
@pytest.mark.parametrize("blank", ["", " ", "\n\t", None, 5])
def test_a_blank_id_is_refused(blank: Any) -> None:
    with pytest.raises(ValueError, match="id"):
        TaskCancellationRequest(blank)


@pytest.mark.claim("CAN-049")
def test_metadata_is_copied_and_gets_the_reason_only_when_absent() -> None:
    metadata = {"by": "op"}
    request = TaskCancellationRequest("t", "why", metadata)
    assert request.metadata == {"by": "op", "reason": "why"}
    assert metadata == {"by": "op"}
    assert TaskCancellationRequest("t", "why", {"reason": "kept"}).metadata == {"reason": "kept"}
    assert TaskCancellationRequest("t", None, {}).metadata == {}


@pytest.mark.claim("CAN-050")
def test_on_the_wire_the_reason_is_in_metadata() -> None:
    assert TaskCancellationRequest("t", "why").to_dict() == {"id": "t", "metadata": {"reason": "why"}}
    assert TaskCancellationRequest("t").to_dict() == {"id": "t", "metadata": {}}


@pytest.mark.claim("CAN-051")
@pytest.mark.parametrize("key", ["id", "task_id"])
def test_the_id_is_read_under_both_names(key: str) -> None:
    assert TaskCancellationRequest.from_dict({key: "t"}).id == "t"


@pytest.mark.claim("CAN-052")
def test_a_top_level_reason_wins() -> None:
    both = TaskCancellationRequest.from_dict({"id": "t", "reason": "top", "metadata": {"reason": "inner"}})
    assert both.reason == "top"
    assert TaskCancellationRequest.from_dict(both.to_dict()) == both
    assert TaskCancellationRequest.from_dict({"id": "t", "metadata": {"reason": "inner"}}).reason == "inner"


@pytest.mark.claim("CAN-053")
@pytest.mark.parametrize("source", [{}, {"id": ""}, {"id": "  "}, {"id": None, "task_id": None}, {"id": 7}, {"id": []}])
def test_a_request_without_a_usable_id_is_refused(source: Any) -> None:
    with pytest.raises(ValueError, match="id"):
        TaskCancellationRequest.from_dict(source)


@pytest.mark.parametrize("hostile", [None, [], "t", {"id": "t", "metadata": []}, {"id": "t", "reason": 5}])
def test_malformed_requests_are_refused(hostile: Any) -> None:
    with pytest.raises((ValueError, TypeError)):
        TaskCancellationRequest.from_dict(hostile)


@pytest.mark.claim("CAN-054", "CAN-055", "CAN-056", "CAN-057")
def test_a_new_token_has_not_been_asked() -> None:
    token = CancellationToken()
    assert (token.is_cancelled, token.reason, token.canceled_at) == (False, None, None)
    with pytest.raises(TypeError):
        CancellationToken("x")  # type: ignore[call-arg]


@pytest.mark.claim("CAN-055", "CAN-056", "CAN-057", "CAN-058", "CAN-059")
def test_only_the_first_request_counts() -> None:
    token = CancellationToken()
    assert token.cancel("first") is True
    at = token.canceled_at
    assert at is not None
    moment = datetime.fromisoformat(at)
    assert moment.utcoffset() == timedelta(0)
    assert abs(datetime.now(UTC) - moment) < timedelta(minutes=5)
    assert token.cancel("second") is False
    assert (token.is_cancelled, token.reason, token.canceled_at) == (True, "first", at)


@pytest.mark.claim("CAN-059")
def test_a_first_request_without_reason_keeps_none() -> None:
    token = CancellationToken()
    token.cancel()
    token.cancel("late")
    assert token.reason is None


@pytest.mark.claim("CAN-060")
def test_of_many_threads_exactly_one_cancels() -> None:
    token, barrier = CancellationToken(), threading.Barrier(8)
    won: list[str] = []

    def ask(name: str) -> None:
        barrier.wait()
        if token.cancel(name):
            won.append(name)

    threads = [threading.Thread(target=ask, args=(str(number),)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert won == [token.reason]


@pytest.mark.claim("CAN-061")
def test_an_active_token_raises_nothing() -> None:
    token = CancellationToken()
    assert token.raise_if_cancelled() is None
    assert not token.is_cancelled


@pytest.mark.claim("CAN-062", "CAN-063")
@pytest.mark.parametrize(("reason", "text"), [("stop now", "stop now"), (None, "Task was canceled")])
def test_a_signaled_token_raises_past_exception_handlers(reason: str | None, text: str) -> None:
    token = CancellationToken()
    token.cancel(reason)

    def guarded() -> None:
        try:
            token.raise_if_cancelled()
        except Exception:
            pytest.fail("except Exception must not catch a cancellation")

    with pytest.raises(asyncio.CancelledError) as caught:
        guarded()
    assert str(caught.value) == text


@pytest.mark.claim("CAN-064")
def test_a_cancellation_error_is_a_runtime_error_with_text_only() -> None:
    error = TaskCancellationError("text")
    assert isinstance(error, RuntimeError)
    assert str(error) == "text"
    assert vars(error) == {}


@pytest.mark.claim("CAN-065")
@pytest.mark.parametrize("kind", [TaskNotFoundError, TaskNotCancelableError, TaskAlreadyRunningError])
def test_each_control_error_is_a_cancellation_error(kind: type[Exception]) -> None:
    assert issubclass(kind, TaskCancellationError)


def test_a_canceled_context_puts_only_data_into_the_task() -> None:
    task = Task.create("x")
    RunContext().cancel("why").attach_to_task(task)
    assert plain(task.metadata) == task.metadata
