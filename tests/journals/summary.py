"""What a stored journal has to fold to, in every later version."""

from __future__ import annotations

from typing import Any

from protolink.engine.state import Run, status
from protolink.engine.task import interruptions
from protolink.engine.view import uncertain_actions, view


def summary(run: Run) -> dict[str, Any]:
    """The state that applications read: state, outputs, usage, actions, requests, and what each model was told."""
    shown = view(run)
    return {
        "status": status(run),
        "task": shown["task"]["state"],
        "outputs": shown["outputs"],
        "usage": shown["usage"],
        "actions": {key: [entry["state"], entry.get("result")] for key, entry in shown["actions"].items()},
        "children": {scope: frame_states(run, scope) for scope in run.scopes if scope},
        "interruptions": [[found.request_id, found.kind, found.fingerprint] for found in interruptions(run)],
        "responses": run.responses,
        "uncertain": [item["action_id"] for item in uncertain_actions(run)],
        "history": {key: [[m.role, m.content] for m in frame.history] for key, frame in run.frames.items()},
    }


def frame_states(run: Run, scope: str) -> list[Any]:
    """Outcome and action states of one child."""
    frames = [frame for frame in run.frames.values() if frame.scope == scope]
    keys = {frame.id for frame in frames}
    actions = [[key, action.state] for key, action in run.actions.items() if action.frame in keys]
    return [[frame.outcome for frame in frames], actions]
