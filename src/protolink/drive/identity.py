"""Which action is which: repeats of earlier ones, and the id under which the run knows an action."""

from __future__ import annotations

from typing import Any

from pydantic_core import to_json

from ..engine import facts as f
from ..engine.state import Action, Frame
from ..models import Artifact
from ..models.turn import Call
from ..runtime import RunAction


def repeat_key(call: Call) -> str:
    """What two calls have in common when they are the same: name and canonical arguments."""
    try:
        return f"{call.tool} {to_json(_ordered(call.args)).decode()}"
    except (TypeError, ValueError, RecursionError):
        return f"{call.tool} {call.args!r}"


def _ordered(value: Any) -> Any:
    if type(value) is dict:
        return {key: _ordered(item) if type(item := value[key]) in _NESTED else item for key in sorted(value)}
    return [_ordered(item) for item in value] if type(value) is list else value


_NESTED = frozenset((dict, list))


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
    if made.action_id == action.id and action.edited_from is None:
        return made
    artifacts = made.artifacts and tuple(
        artifact if artifact.action_id not in (None, made.action_id) else _owned(artifact, action.id)
        for artifact in made.artifacts
    )
    metadata = made.metadata if action.edited_from is None else {**made.metadata, "edited_from": action.edited_from}
    return made.known_as(action.id, artifacts, metadata)


def _owned(artifact: Artifact, action_id: str) -> Artifact:
    return Artifact.from_dict(artifact.to_dict()).for_action(action_id)
