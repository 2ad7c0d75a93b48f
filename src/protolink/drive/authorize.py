"""Performers of ``Authorize`` and ``Ask``: policy, and the people who are connected."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable
from typing import TYPE_CHECKING, Any

from ..engine import facts as f
from ..engine.commands import Ask, Authorize
from ..engine.evolve import NO_HANDLER
from ..engine.state import Action, Frame, Request
from ..models.ids import new_id
from ..models.json import detached
from ..runtime import ApprovalDecision, ApprovalRequest, BudgetDecision, PolicyDecision, PolicyEffect, UserInputRequest
from .outcome import Brought, Outcome, Performed, because
from .ports import AnswerTimedOut, QuestionTool

if TYPE_CHECKING:
    from .driver import Driver


def authorize(driver: Driver, command: Authorize) -> Performed:
    """Today's policy on the exact prepared action."""
    action = driver.run.actions[command.action]
    frame = driver.run.frames[action.frame]
    assert action.prepared is not None
    try:
        found = driver.agent(frame).policy.judge(action.prepared, driver.context(frame))
    except Exception as error:  # the application's policy failed: nothing was authorized
        return _unjudged(driver, action, error)
    if isinstance(found, PolicyDecision):
        return _decided(driver, action, found)
    return _decide_later(driver, action, found)


async def _decide_later(driver: Driver, action: Action, found: Awaitable[PolicyDecision]) -> Brought:
    try:
        decision = await found
    except asyncio.CancelledError:
        return Outcome()
    except Exception as error:  # the application's policy failed: nothing was authorized
        return _unjudged(driver, action, error)
    return _decided(driver, action, decision)


def _decided(driver: Driver, action: Action, decision: Any) -> Brought:
    if not isinstance(decision, PolicyDecision):
        error = TypeError(f"a policy must return a PolicyDecision, not {type(decision).__name__}")
        return _unjudged(driver, action, error)
    if driver.run.durable:
        try:
            detached(decision.to_dict())
        except TypeError as error:
            return _unjudged(driver, action, TypeError(f"the policy's decision is no JSON: {error}"))
    if decision.effect is not PolicyEffect.REQUIRE_APPROVAL:
        return f.Decided(action.id, decision)
    request = action.request or new_id("approval")
    return f.Decided(action.id, decision, request, action.request_at or driver.time(), action.expires)


def _unjudged(driver: Driver, action: Action, error: Exception) -> Brought:
    message = driver.told(error)
    return because(error, f.PreparationFailed(action.id, type(error).__name__, message))


# ---------------------------------------------------------------------------------------------------- people


def ask(driver: Driver, command: Ask) -> Performed:
    """Ask whoever is connected; without anybody it is a refusal. Never called in a durable run: that one parks."""
    request = driver.run.requests[command.request]
    frame = driver.run.frames[request.frame]
    if request.kind == "approval":
        approver = driver.agent(frame).approver
        return _nobody(request) if approver is None else _approve(driver, frame, request, approver)
    assert request.action is not None
    tool = driver.agent(frame).tool(driver.run.actions[request.action].call.tool)
    if tool is None or not tool.asks_user:
        return _nobody(request)
    return _put(driver, request, tool)


def _nobody(request: Request) -> Brought:
    return f.Expired(request.id, NO_HANDLER)


async def _approve(driver: Driver, frame: Frame, request: Request, approver: Any) -> Brought:
    shown = ApprovalRequest.from_dict(request.body)
    try:
        with driver.limit(driver.run.ledger.deadline(driver.clock.now())) as limit:
            found = approver(shown, driver.context(frame))
            decision = await found if inspect.isawaitable(found) else found
        return _answer(request, decision)
    except asyncio.CancelledError:
        return Outcome()
    except Exception as error:  # the application's handler failed: nobody approved
        if isinstance(error, TimeoutError) and limit.expired:
            return because(error, _out_of_time(driver, frame))
        assert request.action is not None
        return _unjudged(driver, driver.run.actions[request.action], error)


def _out_of_time(driver: Driver, frame: Frame) -> f.BudgetDenied:
    """Nobody refused anything: the time for it ended while a person was asked."""
    ledger = driver.run.ledger
    usage = ledger.usage(driver.clock.now())
    decision = BudgetDecision(
        effect="deny",
        limit_name="max_runtime_seconds",
        observed=usage.runtime_seconds,
        limit=ledger.budget.max_runtime_seconds,
        message="Run budget exceeded: max_runtime_seconds was used up while a person was asked",
        usage=usage,
    )
    return f.BudgetDenied(frame.id, decision.to_dict())


def _answer(request: Request, decision: Any) -> f.Answered:
    if isinstance(decision, bool):
        return f.Answered(request.id, decision)
    if not isinstance(decision, ApprovalDecision):
        raise TypeError(f"an approval handler must return a bool or an ApprovalDecision, not {type(decision).__name__}")
    if decision.request_id != request.id:
        raise ValueError(f"the decision is for request '{decision.request_id}', not for '{request.id}'")
    return f.Answered(request.id, decision.approved, decision.reason, decision.decided_by)


def _put(driver: Driver, request: Request, tool: QuestionTool) -> Performed:
    waiting = tool.ask(UserInputRequest.from_dict(request.body))
    return _nobody(request) if waiting is None else _await_answer(driver, request, waiting)


async def _await_answer(driver: Driver, request: Request, waiting: Awaitable[str | None]) -> Brought:
    try:
        with driver.limit(driver.run.ledger.deadline(driver.clock.now())) as limit:
            return f.Answered(request.id, await waiting)
    except asyncio.CancelledError:
        return Outcome()
    except AnswerTimedOut as error:
        return because(error, f.Expired(request.id, str(error)))
    except Exception as error:  # the application's handler failed: there is no answer
        if isinstance(error, TimeoutError) and limit.expired:
            return because(error, f.Expired(request.id, "the runtime budget is used up"))
        assert request.action is not None
        return _unjudged(driver, driver.run.actions[request.action], error)
