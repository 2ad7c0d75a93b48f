"""``decide``: the only place that says what comes next.

It reads the state and wants things; it is never replayed, so it may change from release to release, and a run that has
waited for days goes on under today's rules. The order of its questions is the safety of the whole:

1. Is the run finished? Then nothing.
2. Is any effect unknown? Then nothing new anywhere in the tree, not even closing what was canceled.
3. Has a question expired? Is a frame ending? Close it once nothing of it runs, children first.
4. Unsettled actions: prepare all of a turn, judge all, ask all, and only then run the free ones.
5. Otherwise the model's next turn.

Last, ``admit`` prices everything that is wanted against the one ledger of the tree.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..models.json import digest
from ..runtime import ApprovalRequest
from . import facts as f
from .admit import admit, judge_reply
from .commands import Ask, Authorize, CallModel, Command, Compose, Invoke, Prepare, Stage
from .handoff import handoff
from .state import TRANSIENT_ATTEMPTS, Action, Frame, Run


def decide(run: Run, now: float) -> Sequence[Command]:
    """What the run wants done now. The same state and time want the same."""
    if run.outcome is not None or run.uncertain:
        return ()
    if run.requests and (late := [r for r in run.requests.values() if r.expires is not None and r.expires <= now]):
        return [Stage(f.Expired(request.id, "the time to answer has passed")) for request in late]
    if not run.open:
        return admit(run, [_next_part(run)], now)
    if len(run.open) == 1:
        [frame] = run.open.values()
        steps = _step(run, frame, now)
        return admit(run, steps, now) if steps else steps
    wanted: list[Command] = []
    for frame in reversed(run.open.values()):
        steps = _step(run, frame, now)
        if steps and type(steps[0]) is Stage and type(steps[0].fact) is f.FrameClosed:
            return steps  # alone: an end may void a question that was about to be asked
        wanted[:0] = steps  # children are closed first, but ask and start in the order of the calls
    return admit(run, wanted, now) if wanted else wanted


def wake_at(run: Run, now: float) -> float | None:
    """When to look again although nothing happened: the end of a backoff or of a question's time."""
    times = [frame.retry_at for frame in run.open.values() if frame.retry_at is not None]
    if run.requests:
        times += [request.expires for request in run.requests.values() if request.expires is not None]
    return min((time for time in times if time > now), default=None) if times else None


def backs_off(run: Run, now: float) -> bool:
    """True while a frame waits to try its model again: the only wait that keeps a driver with nothing running."""
    return any(frame.retry_at is not None and frame.retry_at > now for frame in run.open.values())


def _next_part(run: Run) -> Command:
    if run.cancel is not None:
        return Stage(f.RunFinished("canceled", {"code": "canceled", "message": run.cancel.reason}))
    if run.fault is not None:
        return Stage(f.RunFinished("failed", run.fault))
    if run.next_part < len(run.parts):
        return Stage(f.FrameOpened(part=run.next_part))
    return Stage(f.RunFinished("completed"))


def _step(run: Run, frame: Frame, now: float) -> list[Command]:
    if (frame.fault or run.cancel or frame.parent) and (end := _ending(run, frame)) is not None:
        return _close(run, frame, *end)
    if frame.waiting is not None:
        return []
    if frame.unjudged and (verdict := judge_reply(run, frame, now)) is not None:
        return [Stage(verdict)]
    if frame.down is not None and _given_up(frame):
        return _provider_down(run, frame)
    if frame.unsettled:
        return _actions(run, frame)
    if frame.spec.call is not None or frame.answer is not None:
        return _close(run, frame, "completed", None)
    return _model(run, frame, now)


# ---------------------------------------------------------------------------------------------------- endings


def _ending(run: Run, frame: Frame) -> tuple[str, dict[str, Any]] | None:
    """Why the frame has to end before it is done: outcome and error."""
    if frame.fault is not None:
        return "failed", frame.fault
    if (run.cancel is None and frame.parent is None) or _returned(run, frame):
        return None
    if run.cancel is not None:
        return "canceled", {"code": "canceled", "message": run.cancel.reason}
    if frame.parent is not None and _ending(run, run.frames[run.actions[frame.parent].frame]) is not None:
        return "canceled", {"code": "canceled", "message": "the parent has ended"}
    return None


def _returned(run: Run, frame: Frame) -> bool:
    """A direct call that has its result completes, whatever came after it: its effect is not to be hidden."""
    return frame.spec.call is not None and any(run.actions[key].state == "succeeded" for key in frame.actions)


def _close(run: Run, frame: Frame, outcome: str, error: dict[str, Any] | None) -> list[Command]:
    if frame.model == "calling" or any(run.actions[key].state == "executing" for key in frame.actions):
        return []
    if any(run.frames[child].open for child in frame.children):
        return []
    return [Stage(f.FrameClosed(frame.id, outcome, error))]


def _given_up(frame: Frame) -> bool:
    assert frame.down is not None
    return not frame.down["transient"] or frame.failures >= TRANSIENT_ATTEMPTS


def _provider_down(run: Run, frame: Frame) -> list[Command]:
    """A live run fails; a durable one keeps what it has and waits for somebody to say: again."""
    assert frame.down is not None
    error = {"code": frame.down["code"], "message": frame.down["message"], "step": frame.turn + 1}
    if "action_id" in frame.down:
        error["action_id"] = frame.down["action_id"]
    if not run.durable:
        return _close(run, frame, "failed", error)
    if any(run.actions[key].state == "executing" for key in frame.actions):
        return []
    request = f"retry:{run.scope(frame).run_id}:{frame.id}:{frame.retries}"
    body = {**error, "attempts": frame.failures, "provider": frame.spec.provider, "model": frame.spec.model}
    return [_asked(request, "retry", frame, None, body)]


# ---------------------------------------------------------------------------------------------------- actions


def _actions(run: Run, frame: Frame) -> list[Command]:
    """All of a turn are prepared and judged before the first of them runs. One alone may be judged at once."""
    if len(frame.actions) == 1:
        action = run.actions[frame.actions[0]]
        if action.state == "proposed":
            return [Prepare(action.id, run.epoch), Authorize(action.id, run.epoch)]
        step = _NEXT.get(action.state)
        return [step(run, frame, action)] if step is not None else []
    actions = [run.actions[key] for key in frame.actions]
    states = {action.state for action in actions}
    for state in _TOGETHER:
        if state in states:
            return [_NEXT[state](run, frame, action) for action in actions if action.state == state]
    asks = [_ask(run, frame, action) for action in actions if action.state == "asked"]
    return asks + [_start(run, frame, action) for action in _free(run, frame, actions)]


def _free(run: Run, frame: Frame, actions: list[Action]) -> list[Action]:
    """Those that may start now. In order, one runs at a time; what waits for a person does not hold up the others."""
    authorized = [action for action in actions if action.state == "authorized"]
    if frame.spec.parallel or not authorized:
        return authorized
    if any(
        action.state == "executing" or (action.state == "delegated" and _goes_on(run, action)) for action in actions
    ):
        return []
    return authorized[:1]


def _goes_on(run: Run, action: Action) -> bool:
    """True while the child of a delegated action can do something by itself."""
    return action.child is not None and not run.waits(run.frames[action.child])


def _start(run: Run, frame: Frame, action: Action) -> Command:
    if action.route == "child":
        return Stage(f.FrameOpened(spec=action.opens, parent=action.id))
    if action.route == "input":
        assert action.question is not None
        body = action.question
        return _asked(body["request_id"], "input", frame, action.id, body, action.expires)
    return Invoke(action.id)


def _ask_approval(run: Run, frame: Frame, action: Action) -> Command:
    assert action.prepared is not None
    assert action.decision is not None
    assert action.request is not None
    request = ApprovalRequest(
        action=action.prepared,
        policy_decision=action.decision,
        run_id=run.scope(frame).run_id,
        request_id=action.request,
        created_at=action.request_at or "",
    )
    return _asked(action.request, "approval", frame, action.id, request.to_dict(), action.expires)


def _ask(run: Run, frame: Frame, action: Action) -> Command:
    assert action.request is not None
    return Ask(action.request)


#: The states that all actions of a turn leave before one of them goes further.
_TOGETHER = ("proposed", "prepared", "asking")

#: What comes next for an action in this state. In others it waits: for its result, its child or its end.
_NEXT: dict[str, Callable[[Run, Frame, Action], Command]] = {
    "proposed": lambda run, frame, action: Prepare(action.id, run.epoch),
    "prepared": lambda run, frame, action: Authorize(action.id, run.epoch),
    "asking": _ask_approval,
    "asked": _ask,
    "authorized": _start,
}


def _asked(
    request: str, kind: str, frame: Frame, action: str | None, body: dict[str, Any], expires: float | None = None
) -> Stage:
    return Stage(f.Asked(request, kind, frame.id, action, body, digest(body), expires))


# ---------------------------------------------------------------------------------------------------- the model


def _model(run: Run, frame: Frame, now: float) -> list[Command]:
    if frame.model == "calling" or (frame.retry_at is not None and frame.retry_at > now):
        return []
    if frame.model == "composed":
        return [CallModel(frame.id, frame.turn, frame.attempt, sum(frame.tokens))]
    compose = Compose(frame.id, frame.turn, frame.attempt)
    if not run.parking and (frame.spec.slice is None or frame.slice_turns < frame.spec.slice):
        return [compose]
    return [_yield(run, frame, now, compose)]


def _yield(run: Run, frame: Frame, now: float, compose: Compose) -> Command:
    """The slice is used up, or the run is to park. Continuation is offered only if another turn would be permitted."""
    for step in (compose, CallModel(frame.id, frame.turn, 0, 0)):
        [refusal] = admit(run, [step], now)
        if isinstance(refusal, Stage) and isinstance(refusal.fact, f.BudgetDenied):
            return refusal
    body = handoff(run, frame, now).to_dict()
    scope = run.scope(frame)
    return _asked(f"yield:{scope.run_id}:{frame.id}:{frame.turn}", "yield", frame, None, body)
