"""Looking up what became of an uncertain action, where its tool can. A finding is a proposal and never a receipt."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

from ..drive.ending import uncertain_error
from ..engine.state import Run
from ..errors import UncertainExecutionError
from ..models import DEFAULT_REDACTION_POLICY
from ..models.json import plain
from ..models.printable import printable
from ..models.redaction.provider_keys import without_keys
from ..runtime import ProbeFinding
from ..runtime.request_context import below, current_scope

if TYPE_CHECKING:
    from .agent import Agent


async def uncertain(agent: Agent, run: Run, errors: Mapping[str, BaseException]) -> UncertainExecutionError:
    """The error of a run with an unknown effect, with what the tool's probe found."""
    key = next(key for key in run.actions if key in run.uncertain)
    proposal, told = await _finding(agent, run, key)
    return uncertain_error(run, errors, proposal, told or None)


async def _finding(agent: Agent, run: Run, key: str) -> tuple[Mapping[str, Any] | None, str]:
    """As arguments of ``reconcile``, and in words."""
    action = run.actions[key]
    place: Agent | None = agent
    for name in filter(None, run.frames[action.frame].spec.agent.split("/")):
        place = place.roster.children.get(name) if place is not None else None
    probe = getattr(place.tools.get(action.call.tool), "probe", None) if place is not None else None
    if probe is None or action.prepared is None:
        return None, ""
    try:
        with nullcontext() if place is agent else below(current_scope()):
            answer = probe(action.prepared)
            found = _checked(await answer if inspect.isawaitable(answer) else answer)
        return plain(found.proposal()), str(DEFAULT_REDACTION_POLICY.redact(without_keys(printable(found.told()))))
    except Exception:  # the application's probe failed: the outcome stays as unknown as it was
        return None, ""


def _checked(found: Any) -> ProbeFinding:
    """What is no ProbeFinding is the result itself; None says nothing."""
    if isinstance(found, ProbeFinding):
        return found
    return ProbeFinding.unknown() if found is None else ProbeFinding.done(found)
