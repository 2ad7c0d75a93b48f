"""What a performer brings back: a fact, or facts with the exception that they describe."""

from __future__ import annotations

from asyncio import CancelledError
from collections.abc import Coroutine
from typing import Any

from ..engine import facts as f
from ..engine.commands import Ask, Authorize, CallModel, Command, Compose, Invoke, Prepare
from ..engine.facts import Fact
from ..engine.state import Run
from ..models.value import value


@value
class Outcome:
    """``error`` is the original exception, kept for callers in this process; ``interrupt`` ends the drive."""

    facts: tuple[Fact, ...] = ()
    error: BaseException | None = None
    interrupt: BaseException | None = None


#: Usually there is one fact, and no exception behind it.
Brought = Fact | Outcome

#: A performer that can answer at once does; otherwise it returns a coroutine that the driver runs as a task.
Performed = Brought | Coroutine[Any, Any, Brought]


def because(error: BaseException, fact: Fact) -> Outcome:
    return Outcome((fact,), error)


def subject(fact: Fact) -> str:
    """What a fact of a performer is about: an action, a frame or a request."""
    found = (getattr(fact, name, None) for name in ("action", "frame", "request"))
    return next((key for key in found if isinstance(key, str)), "")


def never_began(command: Command) -> Outcome:
    """What a performer answers that was canceled before its first step."""
    match command:
        case Invoke():
            return Outcome((f.ToolFailed(command.action, "canceled", "canceled before it began"),))
        case CallModel():
            return Outcome((f.ModelFailed(command.frame, "canceled", "canceled before it began"),))
        case _:
            return Outcome()


def broken(run: Run, command: Command, error: BaseException, message: str) -> Outcome:
    """What became of a command whose performer raised, or was canceled by nobody who may.

    It must not stay without an answer: it would be wanted again for ever. A signal also ends the drive.
    """
    facts: tuple[Fact, ...] = ()
    code = type(error).__name__
    match command:
        case Invoke(action=key) if run.durable and not run.actions[key].read_only:
            facts = (f.EffectUnknown(key, code, message),)
        case Invoke(action=key):
            facts = (f.ToolFailed(key, code, message),)
        case CallModel() | Compose():
            facts = (f.ModelFailed(command.frame, code, message),)
        case Prepare() | Authorize():
            facts = (f.PreparationFailed(command.action, code, message),)
        case Ask() if (request := run.requests.get(command.request)) is not None and request.action is not None:
            facts = (f.PreparationFailed(request.action, code, message),)
    interrupt = None if isinstance(error, (Exception, CancelledError)) else error
    return Outcome(facts, error, interrupt)


def given_up(run: Run, command: Command) -> Outcome:
    """The performer did not react to its cancellation; nobody waits for it any more."""
    match command:
        case Invoke(action=key) if run.durable and not run.actions[key].read_only:
            return Outcome((f.EffectUnknown(key, "canceled", "the tool was abandoned while it ran"),))
        case Invoke(action=key):
            return Outcome((f.ToolFailed(key, "canceled", "the tool was abandoned while it ran"),))
        case CallModel():
            return Outcome((f.ModelFailed(command.frame, "canceled", "the call was abandoned"),))
        case _:
            return Outcome()
