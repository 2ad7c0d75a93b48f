"""Performers of ``Prepare`` and ``Invoke``: what a call would do exactly, and doing it.

Nothing that raises before the intent is ever uncertain. What raises after it is uncertain in a durable run, unless the
tool says that nothing changed (ToolRejectedError, ToolFailedError) or declares that it cannot have (read_only,
idempotent).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from ..engine import facts as f
from ..engine.commands import Invoke, Prepare
from ..engine.state import Action, Frame
from ..errors import ToolFailedError, ToolRejectedError, UncertainExecutionError
from ..models import Artifact
from ..models.ids import new_id
from ..models.json import detached
from ..models.printable import printable
from ..models.turn import AGENT_CALL
from ..runtime import ActionAuthorization, ApprovalDecision, ApprovalRequest, RunAction
from .asked_for import asked_for
from .delegate import prepare_delegation
from .execution import ToolExecution
from .identity import duplicate, identified, is_repeat, repeat_key
from .outcome import Brought, Outcome, Performed, because
from .ports import InvalidArguments, NeverBegan, PeerPort, QuestionTool, ToolPort

if TYPE_CHECKING:
    from .driver import Driver


def prepare(driver: Driver, command: Prepare) -> Performed:
    """Resolve, guard against repeats, and let the tool describe the exact operation."""
    action = driver.run.actions[command.action]
    frame = driver.run.frames[action.frame]
    agent = driver.agent(frame)
    call = action.call
    try:
        worker = agent.worker(call.tool)
    except InvalidArguments as error:
        return _unprepared(driver, action, error)
    delegation = worker is not None or call.tool == AGENT_CALL
    if delegation and (agent.peers is None or worker is not None or call.args.get("agent") in agent.children):
        return prepare_delegation(driver, frame, action, agent, worker)
    tool = agent.peers if delegation else agent.tool(call.tool)
    if tool is None:
        known = ", ".join(sorted(agent.tool_names())) or "none"
        return f.Refused(action.id, "unknown_tool", f"There is no tool '{call.tool}'. Known tools: {known}")
    key = "" if tool.read_only else repeat_key(call)
    if is_repeat(frame, action, key):
        return duplicate(action)
    asked = asked_for.set(action.id)
    try:
        made = tool.prepare(call.args, driver.context(frame))
    except Exception as error:  # the application's; see _unprepared
        return _unprepared(driver, action, error)
    finally:
        asked_for.reset(asked)
    if isinstance(made, RunAction):
        return _prepared(driver, frame, action, tool, made, key)
    return _prepare_later(driver, frame, action, tool, made, key)


async def _prepare_later(
    driver: Driver, frame: Frame, action: Action, tool: Any, made: Awaitable[RunAction], key: str
) -> Brought:
    try:
        found = await made
    except asyncio.CancelledError:
        return Outcome()
    except Exception as error:  # the application's; see _unprepared
        return _unprepared(driver, action, error)
    return _prepared(driver, frame, action, tool, found, key)


def _unprepared(driver: Driver, action: Action, error: Exception) -> Brought:
    if isinstance(error, ToolRejectedError):
        code, message, details, suggestion = _rejection(error)
        refused = f.Refused(action.id, code, message, True, "preparation", details, suggestion)
        return because(error, refused)
    if isinstance(error, InvalidArguments):
        return because(error, f.Refused(action.id, error.code, printable(str(error)), ends=error.ends))
    return because(error, f.PreparationFailed(action.id, type(error).__name__, driver.told(error)))


def _rejection(error: ToolRejectedError) -> tuple[str, str, dict[str, Any] | None, str | None]:
    return (
        printable(error.code),
        printable(error.message),
        printable(error.details),
        printable(error.suggestion),
    )


def _prepared(driver: Driver, frame: Frame, action: Action, tool: Any, made: RunAction, key: str) -> Brought:
    named = identified(made, action)
    if driver.run.durable:
        try:
            _check_storable(named)
        except (TypeError, ValueError) as error:
            return because(error, f.PreparationFailed(action.id, "TypeError", f"the action is no JSON: {error}"))
    question = _question(driver, frame, action, tool, named) if tool.asks_user else None
    route = "input" if tool.asks_user else ("peer" if action.call.tool == AGENT_CALL else "tool")
    expires = _expiry(driver, named)
    return f.Prepared(action.id, named, route, None, key, tool.read_only, tool.idempotent, question, expires)


def _check_storable(made: RunAction) -> None:
    """An action that could not be stored, or not be read again, would leave its run without a way on."""
    detached([made.kind, made.name, made.description, sorted(made.capabilities), made.payload, made.metadata])
    for artifact in made.artifacts:
        stored, _ = detached(artifact.to_dict())
        Artifact.from_dict(stored)


def _question(driver: Driver, frame: Frame, action: Action, tool: QuestionTool, made: RunAction) -> dict[str, Any]:
    scope = driver.run.scope(frame)
    request = tool.question(made, new_id("input"), scope.task.id, scope.run_id)
    return tool.body(request)


def _expiry(driver: Driver, made: RunAction) -> float | None:
    """``metadata["expires_in"]`` of an action: seconds that a person has to answer."""
    seconds = made.metadata.get("expires_in")
    return driver.clock.now() + float(seconds) if isinstance(seconds, (int, float)) else None


# ---------------------------------------------------------------------------------------------------- invoke


def invoke(driver: Driver, command: Invoke) -> Performed:
    """Perform the authorized action; its intent is stored."""
    action = driver.run.actions[command.action]
    frame = driver.run.frames[action.frame]
    assert action.prepared is not None
    agent = driver.agent(frame)
    if action.route in ("peer", "handler"):
        return _delegated(driver, frame, action, agent.peers)
    tool = agent.tool(action.call.tool)
    if tool is None or tool.asks_user:
        return f.ToolFailed(action.id, "unknown_tool", f"The tool '{action.call.tool}' is gone")
    try:
        alone: Callable[[RunAction], Any] | None = getattr(tool, "alone", None)
        result = alone(action.prepared) if alone is not None else tool.invoke(_execution(driver, frame, action))
    except BaseException as error:  # the application's, signals included; see _raised
        return _raised(driver, action, tool, error)
    if hasattr(type(result), "__await__"):
        return _invoke_later(driver, action, tool, result)
    return returned(driver, action, result)


def _delegated(driver: Driver, frame: Frame, action: Action, peers: PeerPort | None) -> Performed:
    if peers is None:
        return f.ToolFailed(action.id, "unknown_agent", f"The agent of '{action.call.tool}' is gone")
    told = peers.call(_execution(driver, frame, action), lambda event: driver.relayed(action, event))
    return _invoke_later(driver, action, peers, told)


async def _invoke_later(driver: Driver, action: Action, tool: ToolPort | PeerPort, result: Awaitable[Any]) -> Brought:
    try:
        found = await result
    except BaseException as error:  # the application's, signals included; see _raised
        return _raised(driver, action, tool, error)
    return returned(driver, action, found)


def _execution(driver: Driver, frame: Frame, action: Action) -> ToolExecution:
    run = driver.run
    assert action.prepared is not None
    assert action.decision is not None
    now = driver.clock.now()

    async def emit(type: str, payload: dict[str, Any]) -> Any:
        return driver.emitted(frame, action, type, payload)

    return ToolExecution(
        _authorization(driver, frame, action),
        driver.context(frame),
        run.ledger.usage(now),
        driver.token,
        run.scope(frame).task.id,
        run.ledger.deadline(now),
        driver.clock.now,
        emit,
    )


def _authorization(driver: Driver, frame: Frame, action: Action) -> ActionAuthorization:
    assert action.prepared is not None
    assert action.decision is not None
    if action.approved is None or action.request is None:
        return ActionAuthorization(action.prepared, action.decision)
    request = ApprovalRequest(
        action=action.prepared,
        policy_decision=action.decision,
        run_id=driver.run.scope(frame).run_id,
        request_id=action.request,
        created_at=action.request_at or "",
    )
    decision = ApprovalDecision(
        approved=True,
        request_id=action.request,
        reason=action.approved.get("reason"),
        decided_by=action.approved.get("by"),
    )
    return ActionAuthorization(
        action=action.prepared,
        policy_decision=action.decision,
        approval_request=request,
        approval_decision=decision,
    )


def returned(driver: Driver, action: Action, result: Any) -> Brought:
    """The receipt. A durable one is JSON, the same on the first execution and whenever it is read again."""
    if not driver.run.durable:
        return f.ToolReturned(action.id, result)
    lost = f.ToolFailed if action.read_only else f.EffectUnknown  # what only read has changed nothing
    try:
        stored, size = detached(result)
    except Exception as error:  # the result's own to_dict() may raise anything
        return because(error, lost(action.id, "result_not_json", f"the result cannot be stored: {driver.told(error)}"))
    if size > driver.max_result_bytes:
        text = f"the result of '{action.call.tool}' has {size} bytes; at most {driver.max_result_bytes} are stored"
        return lost(action.id, "result_too_large", text)
    return f.ToolReturned(action.id, stored)


#: What receipts call these exceptions; others go by their own names.
_CODES: dict[type[BaseException], str] = {
    asyncio.CancelledError: "canceled",
    UncertainExecutionError: "execution_uncertain",
}


def _raised(driver: Driver, action: Action, tool: ToolPort | PeerPort, error: BaseException) -> Brought:
    key, message = action.id, driver.told(error)
    if isinstance(error, ToolRejectedError):
        return because(error, f.ToolRejected(key, *_rejection(error)))
    if isinstance(error, ToolFailedError):
        return because(error, f.ToolFailed(key, printable(error.code), message))
    code = _CODES.get(type(error), type(error).__name__)
    harmless = not driver.run.durable or tool.read_only or (tool.idempotent and isinstance(error, Exception))
    harmless = harmless or isinstance(error, NeverBegan)
    fact = f.ToolFailed(key, code, message) if harmless else f.EffectUnknown(key, code, message)
    interrupt = None if isinstance(error, (Exception, asyncio.CancelledError)) else error
    return Outcome((fact,), error, interrupt)
