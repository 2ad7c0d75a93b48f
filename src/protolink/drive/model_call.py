"""Performers of ``Compose`` and ``CallModel``."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from ..engine import facts as f
from ..engine.commands import CallModel, Compose
from ..engine.facts import Proposal
from ..engine.state import TRANSIENT_ATTEMPTS, Frame
from ..models.ids import new_id
from .outcome import Brought, Performed, because
from .ports import Misspoken, ModelPort, Reply

if TYPE_CHECKING:
    from .driver import Driver

#: Seconds before the second and the third attempt of a model call that failed for a passing reason.
BACKOFF = (0.5, 2.0)

#: The longest wait that a provider may ask for by an error's ``retry_after`` (seconds); then it is asked all the same.
LONGEST_WAIT = 60.0

#: Errors of the network: the same call may work a moment later.
TRANSIENT = (ConnectionError, TimeoutError)


def compose(driver: Driver, command: Compose) -> Brought:
    """Estimate the tokens of the next request."""
    frame = driver.run.frames[command.frame]
    model = _model(driver, frame)
    tokens = model.sections(frame.history, frame.spec.prompt)
    return f.Composed(frame.id, command.turn, command.attempt, tokens, model.context_window)


def call_model(driver: Driver, command: CallModel) -> Performed:
    """One attempt at the provider. A model that need not be waited for answers at once."""
    frame = driver.run.frames[command.frame]
    spoken: list[str] = []
    try:
        reply = _model(driver, frame).reply(frame.history, _emitter(driver, frame, spoken))
    except (Exception, asyncio.CancelledError) as error:  # see _unanswered
        return _unanswered(driver, frame, error, spoken)
    if isinstance(reply, Reply):
        return _replied(frame, reply, driver.streaming)
    return _reply_later(driver, frame, reply, spoken)


async def _reply_later(driver: Driver, frame: Frame, reply: Awaitable[Reply], spoken: list[str]) -> Brought:
    """The attempt is bounded by what is left of the runtime budget."""
    deadline = driver.run.ledger.deadline(driver.clock.now())
    try:
        with driver.limit(deadline) as limit:
            found = await reply
    except (Exception, asyncio.CancelledError) as error:  # see _unanswered
        if isinstance(error, TimeoutError) and limit.expired:
            text = "the runtime budget is used up"
            return because(error, f.ModelFailed(frame.id, "budget", text, transient=True, partial="".join(spoken)))
        return _unanswered(driver, frame, error, spoken)
    return _replied(frame, found, driver.streaming)


def _unanswered(driver: Driver, frame: Frame, error: BaseException, spoken: list[str]) -> Brought:
    """The provider's error becomes a fact, and a fault of the run if it stays."""
    if isinstance(error, Misspoken):
        return because(error, _misspoke(frame, error))
    if isinstance(error, asyncio.CancelledError):
        return f.ModelFailed(frame.id, "canceled", "the call was canceled", partial="".join(spoken))
    return because(error, _failed(driver, frame, error))


def _model(driver: Driver, frame: Frame) -> ModelPort:
    model = driver.agent(frame).model
    assert model is not None, "a frame without a model is closed before it composes"
    return model


def _emitter(driver: Driver, frame: Frame, spoken: list[str]) -> Callable[[str], None] | None:
    if not driver.streaming:
        return None

    def emit(text: str) -> None:
        spoken.append(text)
        driver.delta(frame, text)

    return emit


def _replied(frame: Frame, reply: Reply, streaming: bool) -> f.ModelReplied:
    return f.ModelReplied(
        frame.id,
        reply.text,
        tuple([Proposal(new_id("action"), call) for call in reply.calls]),
        reply.raw,
        reply.input_tokens,
        reply.output_tokens,
        round(reply.latency_ms, 3),
        reply.native,
        _metrics(reply, streaming),
    )


def _misspoke(frame: Frame, error: Misspoken) -> f.ModelMisspoke:
    reply = error.reply
    return f.ModelMisspoke(
        frame=frame.id,
        error=error.error,
        raw=reply.raw or reply.text,
        input_tokens=reply.input_tokens,
        output_tokens=reply.output_tokens,
        latency_ms=round(reply.latency_ms, 3),
        native=reply.native,
        metrics=_metrics(reply, False),
    )


def _metrics(reply: Reply, streaming: bool) -> dict[str, object]:
    found: dict[str, object] = dict(reply.metrics)
    if not reply.estimated:
        found["estimated"] = False
    if streaming:
        found["streaming"] = True
    return found


def _failed(driver: Driver, frame: Frame, error: BaseException) -> f.ModelFailed:
    transient = isinstance(error, TRANSIENT)
    again = frame.failures + 1
    retry_at = None
    if transient and again < TRANSIENT_ATTEMPTS:
        retry_at = driver.clock.now() + _wait(error, again)
    message = driver.told(error)
    return f.ModelFailed(frame.id, type(error).__name__, message, transient, retry_at)


def _wait(error: BaseException, attempts: int) -> float:
    """Seconds until the next attempt: what the provider asked for, else what this many attempts are followed by."""
    told = getattr(error, "retry_after", None)
    if isinstance(told, (int, float)) and told >= 0:
        return min(float(told), LONGEST_WAIT)
    return BACKOFF[attempts - 1]
