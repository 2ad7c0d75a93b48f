"""What changed in an application since a run was stored, and whether that breaks the run.

Nothing here lets a run go on: whatever changed, the application is restored or the run is given up. Whoever has to
decide that is told what breaks and what does not.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..engine.state import Run
from ..errors import CheckpointMismatchError
from .roster import members

if TYPE_CHECKING:
    from .agent import Agent

_REASONS = {
    "tool": "a stored call does not fit the changed tool",
    "worker": "a stored delegation may not reach the worker it was meant for",
    "model": "the conversation was led with another model or other settings",
    "instructions": "the conversation was led under other instructions",
    "slice": "the length of slices is part of the contract",
    "limits": "the limits of the children are part of the contract",
    "version": "the application declares another execution_version",
    "agent": "the agent has another description",
    "subagent": "the roster of children is another",
}
#: ``worker/tool:name``: the place in the tree, the kind of part, and for some kinds its name.
_PART = re.compile(rf"(?:^|/)(?P<kind>{'|'.join(_REASONS)})(?::(?P<name>.*))?$", re.DOTALL)


def changes(agent: Agent, run: Run, current: Mapping[str, str]) -> list[dict[str, Any]]:
    """Every part that differs from the ``current`` configuration, as ``CheckpointMismatchError.changes`` lists it."""
    stored = run.configuration
    changed = sorted(name for name in {*stored, *current} - {""} if stored.get(name) != current.get(name))
    return [_change(agent, run, part, stored.get(part), current.get(part)) for part in changed]


def check(agent: Agent, run: Run, current: Mapping[str, str]) -> None:
    """CheckpointMismatchError naming every part that differs."""
    found = changes(agent, run, current)
    if found:
        raise CheckpointMismatchError(
            f"Run '{run.id}' was stored under another configuration; changed: "
            f"{', '.join(change['part'] for change in found)}. Restore the matching configuration, or start a new run",
            changes=found,
        )


def _change(agent: Agent, run: Run, part: str, old: str | None, new: str | None) -> dict[str, Any]:
    found = _PART.search(part)
    assert found is not None
    breaking, reason = True, _REASONS[found["kind"]]
    if old is None:
        breaking, reason = False, "it is new; nothing that is stored needs it"
    elif new is None:
        reason = "it is gone"
    elif found["kind"] == "tool" and _fits(agent, run, part[: found.start()], found["name"]):
        breaking, reason = False, "no stored call is refused by the changed tool"
    return {"part": part, "old": old, "new": new, "breaking": breaking, "reason": reason}


def _fits(agent: Agent, run: Run, place: str, name: str) -> bool:
    """Whether today's tool takes the stored calls that have not ended."""
    tool = dict(members(agent))[place].roster.tools[name]
    for action in run.actions.values():
        if action.settled or action.call.tool != name or run.frames[action.frame].spec.agent != place:
            continue
        try:
            tool.validate_args(action.call.args)
        except Exception:  # the tool's own check; whatever it raises, it does not take the call
            return False
    return True
