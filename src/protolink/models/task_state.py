"""TaskState: where a task stands, and which moves are allowed."""

from __future__ import annotations

from enum import Enum


class TaskState(Enum):
    """The seven states of a task. Completed, canceled and failed are final."""

    SUBMITTED = "submitted"
    WORKING = "working"
    INPUT_REQUIRED = "input-required"
    COMPLETED = "completed"
    CANCELED = "canceled"
    FAILED = "failed"
    UNKNOWN = "unknown"

    @property
    def is_terminal(self) -> bool:
        """True when nothing can follow."""
        return not _MOVES[self]

    def can_become(self, new: TaskState) -> bool:
        """True when the move is allowed. Staying where one is always is."""
        return new is self or new in _MOVES[self]


_MOVES: dict[TaskState, frozenset[TaskState]] = {
    TaskState.SUBMITTED: frozenset({TaskState.WORKING, TaskState.CANCELED, TaskState.FAILED}),
    TaskState.WORKING: frozenset({TaskState.INPUT_REQUIRED, TaskState.COMPLETED, TaskState.CANCELED, TaskState.FAILED}),
    TaskState.INPUT_REQUIRED: frozenset({TaskState.WORKING, TaskState.CANCELED, TaskState.FAILED}),
    TaskState.COMPLETED: frozenset(),
    TaskState.CANCELED: frozenset(),
    TaskState.FAILED: frozenset(),
    # Says nothing about where the task is, so a report from elsewhere may name any state.
    TaskState.UNKNOWN: frozenset(TaskState),
}
