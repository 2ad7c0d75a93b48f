"""How a drive's end reaches the caller: as a task, a typed error, or an interruption."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from ..engine.state import Action, Run
from ..engine.task import interruptions
from ..errors import (
    ActionDeniedError,
    ApprovalRequiredError,
    BudgetExceededError,
    CheckpointMismatchError,
    DurableExecutionError,
    InferParseError,
    RunInterrupted,
    SubagentLimitError,
    TaskExecutionError,
    ToolCorrectionLimitError,
    ToolFailedError,
    ToolRejectedError,
    UncertainExecutionError,
)
from ..models import Task
from ..runtime import ApprovalDecision, ApprovalRequest, BudgetDecision, PolicyDecision

Errors = Mapping[str, BaseException]


def interrupted(run: Run, task: Task, errors: Errors | None = None) -> RunInterrupted:
    """What a paused run raises where a result was asked for; for a retry, with what went wrong last as its cause."""
    found = RunInterrupted(task, run.id, interruptions(run))
    if found.interruption.kind == "retry":
        found.__cause__ = next(reversed(list((errors or {}).values())), None)
    return found


def uncertain_error(
    run: Run, errors: Errors, proposal: Mapping[str, Any] | None = None, finding: str | None = None
) -> UncertainExecutionError:
    """The oldest action whose effect is unknown, and the next step. ``finding``: what its probe tells."""
    key = next(key for key in run.actions if key in run.uncertain)
    action = run.actions[key]
    where = run.scope(run.frames[action.frame]).run_id
    name = action.prepared.name if action.prepared else action.call.tool
    why = (action.error or {}).get("message", "")
    probed = f" Its probe found: {finding.rstrip('.')}." if finding else ""
    found = UncertainExecutionError(
        f"The outcome of '{name}' (action {key}) is not known: {why}. It is not repeated.{probed} Look at the system "
        f"it acts on, then agent.reconcile('{where}', '{key}', result=...), or unchanged='why' if it did nothing, and "
        f"agent.resume('{run.id}')",
        run_id=where,
        action_id=key,
        proposal=proposal,
        finding=finding,
    )
    found.__cause__ = _cause(errors, key)
    return found


def _cause(errors: Errors, key: str | None) -> BaseException | None:
    found = errors.get(key) if key else None
    return None if isinstance(found, asyncio.CancelledError) else found


def failure(run: Run, task: Task, errors: Errors) -> BaseException:
    """The exception that a failed run means to its caller."""
    error = run.error or {"code": "failed", "message": "the run failed"}
    found = _typed(run, task, error, errors)
    if found.__cause__ is None:
        cause = _cause(errors, error.get("action_id")) or next(iter(errors.values()), None)
        found.__cause__ = None if cause is found or isinstance(cause, asyncio.CancelledError) else cause
    return found


def _typed(run: Run, task: Task, error: dict[str, Any], errors: Errors) -> BaseException:
    match error["code"]:
        case "budget_exceeded":
            return _budget(error)
        case "action_denied" | "approval_required":
            return _denied(run, error)
        case "tool_correction_limit":
            return ToolCorrectionLimitError(
                tool_name=error["tool"],
                attempts=error["attempts"],
                limit=error["max_tool_corrections"],
                last_error=error["rejection"]["message"],
            )
        case "parse_failures":
            return InferParseError(
                attempts=error["attempts"],
                step=error["step"],
                raw_response=error["raw_response"],
                last_error=error["last_error"],
            )
        case "prepared_action_changed":
            changes = [{"part": path, "breaking": True, "reason": "prepared differently"} for path in error["paths"]]
            return CheckpointMismatchError(error["message"], changes=changes)
        case "tool_rejected":
            return _rejected(run, error, errors)
        case "remote_delegation":
            return DurableExecutionError(error["message"])
        case "no_input_handler":
            return RuntimeError(error["message"])
    original = errors.get(error.get("action_id", ""))
    if isinstance(original, (UncertainExecutionError, ToolFailedError)):
        return original
    return TaskExecutionError(task)


def _budget(error: dict[str, Any]) -> BaseException:
    decision = BudgetDecision.from_dict(error["decision"])
    if decision.metadata.get("subagents"):
        return SubagentLimitError(error["message"])
    return BudgetExceededError(decision)


def _denied(run: Run, error: dict[str, Any]) -> BaseException:
    action = run.actions[error["action_id"]]
    assert action.prepared is not None
    decision = PolicyDecision.from_dict(error["decision"] or {})
    request = _request(run, action)
    if error["code"] == "approval_required" and request is not None:
        return ApprovalRequiredError(request)
    response = run.responses.get(action.request or "", {})
    answer = None
    if request is not None:
        answer = ApprovalDecision(
            approved=False,
            request_id=request.request_id,
            reason=response.get("reason"),
            decided_by=response.get("by"),
        )
    return ActionDeniedError(
        action=action.prepared, decision=decision, approval_request=request, approval_decision=answer
    )


def _request(run: Run, action: Action) -> ApprovalRequest | None:
    if action.request is None or action.prepared is None or action.decision is None:
        return None
    return ApprovalRequest(
        action=action.prepared,
        policy_decision=action.decision,
        run_id=run.scope(run.frames[action.frame]).run_id,
        request_id=action.request,
        created_at=action.request_at or "",
    )


def _rejected(run: Run, error: dict[str, Any], errors: Errors) -> BaseException:
    rejection = error["rejection"]
    if rejection["code"] in ("unknown_tool", "invalid_arguments", "unknown_agent", "unknown_delegated_tool"):
        return ValueError(rejection["message"])
    return ToolRejectedError.from_dict(rejection)


def is_direct(run: Run) -> bool:
    """True when the part that failed is a direct tool call, whose failure is a task's and not an exception."""
    failed = [frame for frame in run.frames.values() if frame.part is not None and frame.outcome == "failed"]
    return bool(failed) and failed[-1].spec.call is not None


def returns_failed(run: Run) -> bool:
    """Failures of the work itself come back as a failed task; refusals and broken rules are raised."""
    code = (run.error or {}).get("code")
    if code == "no_llm":
        return True
    raised = ("budget_exceeded", "action_denied", "approval_required", "prepared_action_changed", "no_input_handler")
    return is_direct(run) and code not in raised
