"""Reading what clients submit. Whatever is not a task that can be worked on is refused before anything happens."""

from __future__ import annotations

from typing import Any

from ..models import Task
from ..models.shape import mapping, required_text
from ..runtime import RunContext, TaskCancellationRequest
from ..transport.faults import bad_request

#: What a runtime writes down of its own work. Taken from a client it would pass for evidence of what happened here.
RECORDS = frozenset(
    (
        "blockers",
        "completed_action_budget_overruns",
        "completed_after_cancellation",
        "interruption",
        "interruptions",
        "run_events",
        "state_history",
        "subagent_runs",
        "validation_results",
    )
)


def read_task(body: Any) -> Task:
    """A task that asks for something and has not ended, without the records of earlier work elsewhere.

    Fault ``bad_request`` says what is wrong.
    """
    try:
        required_text(mapping(body, "Task"), "id", "Task")
        task = Task.from_dict(body)
        RunContext.from_task(task)
    except (ValueError, TypeError) as error:
        raise bad_request(str(error)) from None
    if not any(message.parts for message in task.messages) and not task.artifacts:
        raise bad_request("The task is empty: it needs a message with a part, or an artifact")
    if task.is_terminal:
        raise bad_request(f"The task has ended already ({task.state.value}); submit a new one")
    task.metadata = {key: value for key, value in task.metadata.items() if key not in RECORDS}
    return task


def read_cancellation(body: Any) -> TaskCancellationRequest:
    """``{"id", "metadata"}``. Fault ``bad_request`` says what is wrong."""
    try:
        return TaskCancellationRequest.from_dict(body)
    except (ValueError, TypeError) as error:
        raise bad_request(str(error)) from None
