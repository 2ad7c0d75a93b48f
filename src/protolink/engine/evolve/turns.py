"""What facts about the model do to its frame."""

from __future__ import annotations

from .. import facts as f
from ..observe import speak
from ..state import Frame, Run
from .settle import propose


def composed(run: Run, fact: f.Composed, at: float) -> None:
    frame = run.open.get(fact.frame)
    if frame is not None and frame.model == "idle" and (fact.turn, fact.attempt) == (frame.turn, frame.attempt):
        frame.model = "composed"
        frame.unjudged = False
        frame.tokens, frame.window = fact.tokens, fact.window


def model_started(run: Run, fact: f.ModelStarted, at: float) -> None:
    frame = run.frames[fact.frame]
    frame.model = "calling"
    ledger = run.ledger
    ledger.steps += fact.attempt == 0
    ledger.llm_calls += 1
    ledger.input_tokens += fact.tokens


def model_replied(run: Run, fact: f.ModelReplied, at: float) -> None:
    frame = spoke(run, fact)
    if frame is None:
        return
    frame.misspeaks = 0
    speak(frame, fact)
    if fact.calls:
        propose(run, frame, fact.calls)
    else:
        frame.answer = fact.text
        frame.actions = []


def model_misspoke(run: Run, fact: f.ModelMisspoke, at: float) -> None:
    frame = spoke(run, fact)
    if frame is None:
        return
    frame.misspeaks += 1
    frame.history.add_assistant(fact.raw)
    frame.history.add_user(f"That was no valid action: {fact.error}. Reply with exactly one valid action.")
    if frame.misspeaks >= frame.spec.misspeaks:
        message = f"No valid action in {frame.misspeaks} replies: {fact.error}"
        detail = {"attempts": frame.misspeaks, "step": frame.turn, "raw_response": fact.raw, "last_error": fact.error}
        frame.fault = frame.fault or {"code": "parse_failures", "message": message, **detail}


def spoke(run: Run, fact: f.ModelReplied | f.ModelMisspoke) -> Frame | None:
    run.ledger.output_tokens += fact.output_tokens
    frame = run.open.get(fact.frame)
    if frame is None:
        return None
    frame.model = "idle"
    frame.last_output = fact.output_tokens
    frame.unjudged = True
    frame.turn += 1
    frame.slice_turns += 1
    frame.attempt = frame.failures = 0
    frame.down = frame.retry_at = None
    return frame


def model_failed(run: Run, fact: f.ModelFailed, at: float) -> None:
    frame = run.open.get(fact.frame)
    if frame is None:
        return
    frame.model = "idle"
    frame.attempt += 1
    frame.failures += 1
    frame.down = {"code": fact.code, "message": fact.message, "transient": fact.transient}
    frame.retry_at = fact.retry_at
