"""Looking up what became of an uncertain action, where its tool can. A finding is a proposal and never a receipt."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from ..drive.ending import uncertain_error
from ..engine.state import Run
from ..errors import UncertainExecutionError
from ..models.json import plain

if TYPE_CHECKING:
    from .agent import Agent


async def uncertain(agent: Agent, run: Run, errors: Mapping[str, BaseException]) -> UncertainExecutionError:
    """The error of a run with an unknown effect, with what the tool's probe found."""
    key = next(key for key in run.actions if key in run.uncertain)
    return uncertain_error(run, errors, await _finding(agent, run, key))


async def _finding(agent: Agent, run: Run, key: str) -> Mapping[str, Any] | None:
    action = run.actions[key]
    place: Agent | None = agent
    for name in filter(None, run.frames[action.frame].spec.agent.split("/")):
        place = place.roster.children.get(name) if place is not None else None
    probe = getattr(place.tools.get(action.call.tool), "probe", None) if place is not None else None
    if probe is None or action.prepared is None:
        return None
    try:
        found = probe(action.prepared)
        finding = plain(await found if inspect.isawaitable(found) else found)
    except Exception:  # the application's probe failed: the outcome stays as unknown as it was
        return None
    return finding if isinstance(finding, dict) else {"result": finding}
