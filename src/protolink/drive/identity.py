"""Which action is which: repeats of earlier ones, and the id under which the run knows an action."""

from __future__ import annotations

import json

from ..engine import facts as f
from ..engine.state import Action, Frame
from ..models import Artifact
from ..models.turn import Call
from ..runtime import RunAction


def repeat_key(call: Call) -> str:
    """What two calls have in common when they are the same: name and canonical arguments."""
    try:
        return f"{call.tool} {json.dumps(call.args, sort_keys=True)}"
    except (TypeError, ValueError):
        return f"{call.tool} {call.args!r}"


def is_repeat(frame: Frame, action: Action, key: str) -> bool:
    """The same as one of the loop's last started actions. What is prepared again is not its own repeat."""
    return bool(key) and frame.spec.call is None and action.prepared is None and key in frame.recent


def duplicate(action: Action) -> f.Refused:
    return f.Refused(
        action.id,
        "duplicate_action",
        f"'{action.call.tool}' was just called with the same arguments; use its result or do something else",
        counts=False,
    )


def identified(made: RunAction, action: Action) -> RunAction:
    """The action under the id that the run knows it by, its artifacts with it."""
    if made.action_id == action.id:
        return made
    artifacts = tuple(
        artifact if artifact.action_id not in (None, made.action_id) else _owned(artifact, action.id)
        for artifact in made.artifacts
    )
    metadata = made.metadata if action.edited_from is None else {**made.metadata, "edited_from": action.edited_from}
    return made.known_as(action.id, artifacts, metadata)


def _owned(artifact: Artifact, action_id: str) -> Artifact:
    return Artifact.from_dict(artifact.to_dict()).for_action(action_id)
