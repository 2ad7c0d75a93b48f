"""What facts about the whole run do: drives, cancellation, budget, its end, and repairs by hand.

Recovery is a fact like any other: ``Resumed`` turns what was executing into *uncertain*, lets a model call be repeated,
and takes what was prepared or authorized back to *proposed*, with the prepared action kept for comparison.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .. import facts as f
from ..state import REOPENED, Action, CancelState, Frame, Request, Run
from ..task import record_end, record_state
from .settle import fail, succeed


def resumed(run: Run, fact: f.Resumed, at: float) -> None:
    run.phase = "active"
    run.epoch = fact.epoch
    if run.outcome is None:
        # After a crash the last drive ends with what it stored last: nobody worked since.
        run.ledger.stop_clock(run.at)
        run.ledger.start_clock(at)
        record_state(run, run.root, "working", at)
    for frame in run.open.values():
        reopen(run, frame)


def reopen(run: Run, frame: Frame) -> None:
    if frame.model == "calling":
        frame.attempt += 1
    frame.model = "idle"
    frame.unjudged = False
    frame.retry_at = None
    for key in frame.actions:
        action = run.actions[key]
        action.stale = True
        if action.state == "executing":
            lost(run, frame, action)
        elif action.state in REOPENED:
            action.state = "proposed"


def lost(run: Run, frame: Frame, action: Action) -> None:
    """Nobody knows what became of it, unless it could change nothing."""
    if action.read_only:
        action.state = "proposed"
        return
    action.state = "uncertain"
    action.error = {"code": "lost", "message": "the process ended before the result was stored"}
    run.uncertain.add(action.id)


def parked(run: Run, fact: f.Parked, at: float) -> None:
    run.phase = "parked"
    run.ledger.stop_clock(at)
    record_end(run, at)


def cancel_requested(run: Run, fact: f.CancelRequested, at: float) -> None:
    if run.cancel is None:
        run.cancel = CancelState(fact.reason)


def budget_warned(run: Run, fact: f.BudgetWarned, at: float) -> None:
    run.ledger.warned.add(fact.decision["limit_name"])


def budget_denied(run: Run, fact: f.BudgetDenied, at: float) -> None:
    message = fact.decision.get("message") or "Run budget exceeded"
    fault = {"code": "budget_exceeded", "message": message, "decision": fact.decision}
    frame = run.frames.get(fact.frame)
    if frame is None:
        run.fault = run.fault or fault
    else:
        frame.fault = frame.fault or fault
        if fact.decision.get("limit_name") == "max_output_tokens":
            # What was refused stands in the decision and the metrics, not in the usage.
            run.ledger.output_tokens -= frame.last_output
            frame.last_output = 0


def run_finished(run: Run, fact: f.RunFinished, at: float) -> None:
    run.phase = "finished"
    run.outcome = fact.outcome
    run.error = fact.error
    run.ledger.stop_clock(at)
    void(run, lambda request: True, "the run has ended")
    if fact.outcome == "completed" and run.outputs:
        run.output = run.outputs[max(run.outputs)]
    record_end(run, at)


def void(run: Run, concerns: Callable[[Request], bool], reason: str) -> None:
    for request in [request for request in run.requests.values() if concerns(request)]:
        del run.requests[request.id]
        run.responses[request.id] = {"status": "canceled", "reason": reason}


def adopted(run: Run, fact: f.Adopted, at: float) -> None:
    for key, changes in fact.actions.items():
        adopt_action(run, run.actions[key], changes)
    if fact.usage is not None:
        run.ledger.restore(fact.usage)
    if fact.metadata is not None:
        run.task.metadata = dict(fact.metadata)


def adopt_action(run: Run, action: Action, changes: dict[str, Any]) -> None:
    run.uncertain.discard(action.id)
    if changes["state"] == "succeeded":
        action.error, action.reconciled = None, True
        if action.settled:
            action.result = changes.get("result")
        else:
            succeed(run, action, changes.get("result"))
    elif changes["state"] == "failed" and not action.settled:
        fail(run, action, changes.get("error") or {"code": "failed", "message": "set by hand"})
