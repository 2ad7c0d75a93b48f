"""What a slice hands over: progress, without any content."""

from __future__ import annotations

from ..runtime import RunHandoff
from ..runtime.handoff import DRAIN, STEP_SLICE
from .state import Frame, Run


def handoff(run: Run, frame: Frame, now: float) -> RunHandoff:
    """Progress of the frame that yields: turns of its loop, usage of the whole tree, finished operations of its run."""
    mine = {other.id for other in run.frames.values() if other.scope == frame.scope}
    done = tuple(a.id for a in run.actions.values() if a.frame in mine and a.state == "succeeded")
    return RunHandoff(
        run_id=run.scope(frame).run_id,
        reason=DRAIN if run.parking else STEP_SLICE,
        steps=frame.turn,
        usage=run.ledger.usage(now),
        completed_action_ids=done,
    )
