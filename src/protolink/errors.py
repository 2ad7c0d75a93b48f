"""Every error protolink raises on purpose, by whose fault it is.

    ProtolinkError(RuntimeError)
    ├── TaskExecutionError            a task ended failed or canceled, and the caller asked for its output
    ├── BudgetExceededError           the run's own limits refuse further work
    ├── ActionPolicyError             policy or a person refuses an action
    │   ├── ActionDeniedError
    │   └── ApprovalRequiredError     somebody has to approve, and nobody can be asked
    ├── ToolRejectedError             a tool refuses the request; nothing changed; a model may correct it
    ├── ToolFailedError               a tool failed; nothing changed; asking again differently does not help
    ├── ToolCorrectionLimitError      the model used up its corrections
    ├── InferParseError               the model does not speak the action language
    ├── SubagentLimitError            too many or too deeply nested children
    ├── AdmissionError                a group has no place for another run
    ├── StreamGapError                the events that a reader wants next are kept no longer
    ├── AgentNotFoundError            no agent is registered under this address
    ├── TransportError                a request to another agent could not be carried out as asked
    │   ├── TransportConnectionError  nobody answers there, or the line broke (a ConnectionError too)
    │   ├── TransportTimeoutError     no answer in time (a TimeoutError too)
    │   ├── TransportRemoteError      the other side answered with an error
    │   ├── TransportProtocolError    the answer is not in the language of this protocol
    │   └── TransportLimitError       too large for one side's limits (a ValueError too)
    ├── TaskCancellationError         the control call is wrong, not the task
    │   ├── TaskNotFoundError
    │   ├── TaskNotCancelableError
    │   └── TaskAlreadyRunningError
    └── DurableExecutionError         a stored run cannot do what was asked
        ├── RunInterrupted            not a fault: the run waits for a person or for its next slice
        ├── RunBusyError              somebody else owns the run
        ├── CheckpointMismatchError   the application is not the one that stored the run
        ├── UncertainExecutionError   an effect was started and its outcome is not known
        ├── StoreUnavailableError     the world's fault: locked, full, unreachable; nothing is lost
        └── StoreCorruptError         the file does not hold what was written

Bad arguments (blank names, wrong types, out of range) raise ``ValueError`` or ``TypeError`` before anything happens.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .models import Task
    from .runtime import (
        ApprovalDecision,
        ApprovalRequest,
        BudgetDecision,
        PolicyDecision,
        RunAction,
        RunInterruption,
    )


class ProtolinkError(RuntimeError):
    """Base of all errors that protolink raises on purpose."""


class TaskExecutionError(ProtolinkError):
    """A task ended failed or canceled. ``task`` is the whole task, with what it had finished."""

    def __init__(self, task: Task) -> None:
        self.task = task
        failed = task.state.value != "canceled"
        reason = task.metadata.get("error" if failed else "cancel_reason")
        super().__init__(f"Task '{task.id}' {'failed' if failed else 'canceled'}" + (f": {reason}" if reason else ""))


class BudgetExceededError(ProtolinkError):
    """A limit of the run's budget refuses the next piece of work. ``decision``: limit, observed value and usage."""

    def __init__(self, decision: BudgetDecision) -> None:
        self.decision = decision
        super().__init__(decision.message or "Run budget exceeded")


class ActionPolicyError(ProtolinkError):
    """An action was not authorized. It did not run."""

    def __init__(self, message: str, *, action: RunAction, decision: PolicyDecision) -> None:
        super().__init__(message)
        self.action = action
        self.decision = decision


class ApprovalRequiredError(ActionPolicyError):
    """Policy wants a person's approval and there is nobody to ask. ``request`` can be stored or shown."""

    def __init__(self, request: ApprovalRequest, message: str | None = None) -> None:
        self.request = request
        text = message or f"Action '{request.action.name}' requires approval and no approval handler is configured"
        super().__init__(text, action=request.action, decision=request.policy_decision)


class ActionDeniedError(ActionPolicyError):
    """Policy or the approver said no. The text is the approver's reason, else the policy's."""

    def __init__(
        self,
        *,
        action: RunAction,
        decision: PolicyDecision,
        approval_request: ApprovalRequest | None = None,
        approval_decision: ApprovalDecision | None = None,
    ) -> None:
        self.approval_request = approval_request
        self.approval_decision = approval_decision
        reason = approval_decision.reason if approval_decision is not None else None
        super().__init__(reason or decision.reason, action=action, decision=decision)


class ToolRejectedError(ProtolinkError):
    """Raised by a tool that refuses a request and has changed nothing. A model may try a corrected request.

    ``details`` must be JSON. ``code`` and the message must not be blank.
    """

    def __init__(
        self,
        message: str,
        *,
        code: str = "tool_rejected",
        details: Any = None,
        suggestion: str | None = None,
    ) -> None:
        for name, text in (("message", message), ("code", code)):
            if not isinstance(text, str) or not text.strip():
                raise ValueError(f"ToolRejectedError {name} must be nonblank text")
        if suggestion is not None and not isinstance(suggestion, str):
            raise TypeError("ToolRejectedError suggestion must be text or None")
        super().__init__(message)
        self.message = message
        self.code = code
        self.details = _json_or_type_error(details)
        self.suggestion = suggestion

    def to_dict(self) -> dict[str, Any]:
        """The record that receipts and observations carry."""
        return {
            "status": "rejected",
            "changes_made": False,
            "code": self.code,
            "message": self.message,
            "details": self.details,
            "suggestion": self.suggestion,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> ToolRejectedError:
        """Read ``to_dict()`` back. ValueError unless it says that nothing changed."""
        if data.get("status") != "rejected" or data.get("changes_made") is not False:
            raise ValueError("a rejection record needs status 'rejected' and changes_made false")
        return cls(
            data.get("message", ""),
            code=data.get("code", ""),
            details=data.get("details"),
            suggestion=data.get("suggestion"),
        )


class ToolFailedError(ProtolinkError):
    """Raised by a tool that failed and knows that nothing changed. It is not offered to the model for correction."""

    def __init__(self, message: str, *, code: str | None = None, details: Any = None) -> None:
        if not isinstance(message, str) or not message.strip():
            raise ValueError("ToolFailedError message must be nonblank text")
        super().__init__(message)
        self.message = message
        self.code = code or "tool_failed"
        self.details = _json_or_type_error(details)


class ToolCorrectionLimitError(ProtolinkError):
    """The model's proposals were refused more often than ``max_tool_corrections`` allows."""

    def __init__(self, *, tool_name: str, attempts: int, limit: int, last_error: str) -> None:
        self.tool_name = tool_name
        self.attempts = attempts
        self.limit = limit
        self.last_error = last_error
        super().__init__(f"'{tool_name}' was refused {attempts} times (max_tool_corrections={limit}): {last_error}")


class InferParseError(ProtolinkError):
    """Too many replies in a row that are no action. ``raw_response`` is the last one."""

    def __init__(self, *, attempts: int, step: int, raw_response: str, last_error: str) -> None:
        self.attempts = attempts
        self.step = step
        self.raw_response = raw_response
        self.last_error = last_error
        super().__init__(f"No valid action in {attempts} replies, the last one at step {step}: {last_error}")


class SubagentLimitError(ProtolinkError):
    """A child was refused: too many children, too many at once, or nested too deeply."""


class AdmissionError(ProtolinkError):
    """A group has no place for another run; nothing was begun. ``code``: queue_full or queue_timeout."""

    def __init__(self, message: str, *, code: str) -> None:
        super().__init__(message)
        self.code = code


class StreamGapError(ProtolinkError):
    """A reader wants an event that has left the replay window of its run. Nothing is wrong with the run.

    ``requested`` is the number of that event, ``first_available`` that of the oldest one that can be read. Next: show
    the run from its handle's ``report``, then read on ``after=first_available - 1``.
    """

    def __init__(self, requested: int, first_available: int) -> None:
        self.requested = requested
        self.first_available = first_available
        super().__init__(
            f"Event {requested} is kept no longer; the first available is {first_available}: show the run from "
            f"handle.report and read on with after={first_available - 1}"
        )


class AgentNotFoundError(ProtolinkError):
    """No agent is registered under this address: it never was, was taken off, or has not been heard of for too long."""


class TransportError(ProtolinkError):
    """A request to another agent could not be carried out as asked.

    ``outcome_unknown``: the request may have been carried out all the same; look before asking again. ``retryable``:
    the same request may well be accepted later. ``status_code`` has the meaning it has in HTTP, None without an answer.
    """

    def __init__(
        self,
        message: str,
        *,
        url: str | None = None,
        request_id: str | None = None,
        retryable: bool = False,
        status_code: int | None = None,
        outcome_unknown: bool = False,
    ) -> None:
        super().__init__(message)
        self.url = url
        self.request_id = request_id
        self.retryable = retryable
        self.status_code = status_code
        self.outcome_unknown = outcome_unknown


class TransportConnectionError(TransportError, ConnectionError):
    """Nobody answers at this address, or the line broke; ``outcome_unknown`` tells whether a request was under way."""


class TransportTimeoutError(TransportError, TimeoutError):
    """No answer in time. Work that the request has started goes on."""


class TransportRemoteError(TransportError):
    """The other side answered with an error that has no class of its own here. ``code`` is its name on the wire."""

    def __init__(self, message: str, *, code: str = "internal", **facts: Any) -> None:
        super().__init__(message, **facts)
        self.code = code


class TransportProtocolError(TransportError):
    """An answer came that cannot be read: the other side speaks another protocol or version."""


class TransportLimitError(TransportError, ValueError):
    """A request, an answer or an event is larger than one side allows."""


class TaskCancellationError(ProtolinkError):
    """A cancellation control call could not be carried out."""


class TaskNotFoundError(TaskCancellationError):
    """No active task has this id: it was never started here, or has ended."""


class TaskNotCancelableError(TaskCancellationError):
    """The task is still registered but has already ended."""


class TaskAlreadyRunningError(TaskCancellationError):
    """Another coroutine is running this task id."""


class DurableExecutionError(ProtolinkError):
    """A stored run cannot do what was asked.

    ``recorded`` holds the response and outcome already stored when an answer came too late or a second time.
    """

    def __init__(self, message: str, *, recorded: Any = None) -> None:
        super().__init__(message)
        self.recorded = recorded


class RunInterrupted(DurableExecutionError):
    """The run is stored and waits. ``run_id`` is the root run to resume; ``interruption.run_id`` may be a child's.

    ``interruptions`` has every pending request, the oldest first; ``interruption`` is the first of them.
    """

    def __init__(self, task: Task, run_id: str, interruptions: Sequence[RunInterruption]) -> None:
        if not interruptions:
            raise ValueError("RunInterrupted needs at least one interruption")
        self.task = task
        self.run_id = run_id
        self.interruptions = tuple(interruptions)
        self.interruption = self.interruptions[0]
        super().__init__(f"Run '{run_id}' waits: {self.interruption.kind} {self.interruption.request_id}")


class RunBusyError(DurableExecutionError):
    """Another worker owns the run, or this one has lost its ownership. ``until`` is the lease's end (Unix seconds)."""

    def __init__(self, message: str, *, until: float | None = None) -> None:
        super().__init__(message)
        self.until = until


class CheckpointMismatchError(DurableExecutionError):
    """The stored run belongs to another task, agent, configuration or prepared action.

    ``changes``: a list of ``{"part", "old", "new", "breaking", "reason"}``; digests, or values where they are not
    private.
    """

    def __init__(self, message: str, *, changes: Sequence[Mapping[str, Any]] = ()) -> None:
        super().__init__(message)
        self.changes = [dict(change) for change in changes]


class UncertainExecutionError(DurableExecutionError):
    """An effect was started and its outcome is not known. It is never repeated by itself.

    Tools raise it with a message alone. The runtime fills ``run_id``, ``action_id`` and, where a tool's probe found
    something, ``finding``: that in words, and ``proposal``: arguments for ``reconcile``, or None. Next: look at the
    outside system, then ``agent.reconcile(run_id, action_id, result=...)``, or ``unchanged="why"`` if it did nothing.
    """

    def __init__(
        self,
        message: str,
        *,
        run_id: str | None = None,
        action_id: str | None = None,
        proposal: Mapping[str, Any] | None = None,
        finding: str | None = None,
    ) -> None:
        super().__init__(message)
        self.run_id = run_id
        self.action_id = action_id
        self.proposal = dict(proposal) if proposal is not None else None
        self.finding = finding


class StoreUnavailableError(DurableExecutionError):
    """The store cannot be read or written now. Nothing stored is lost; the run can be resumed when it is back."""

    def __init__(self, message: str, *, store: str) -> None:
        super().__init__(message)
        self.store = store


class StoreCorruptError(DurableExecutionError):
    """What the store holds is not what was written. ``place`` tells where; other runs stay readable."""

    def __init__(self, message: str, *, run_id: str | None = None, place: str | None = None) -> None:
        super().__init__(message)
        self.run_id = run_id
        self.place = place


def _json_or_type_error(value: Any) -> Any:
    try:
        return json.loads(json.dumps(value, allow_nan=False))
    except (TypeError, ValueError, RecursionError) as error:
        raise TypeError(f"details must be JSON: {error}") from None
