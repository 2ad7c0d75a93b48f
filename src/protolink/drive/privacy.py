"""What the code of one agent may see of the application's private request context while the driver calls it."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext

from ..engine.commands import Ask, CallModel, Command, Compose, Stage
from ..engine.state import Run
from ..runtime.request_context import below, current_scope


def visible(run: Run, command: Command) -> AbstractContextManager[None]:
    """The root's code sees all of it. A child's sees what is inherited, for as long as its work runs."""
    if isinstance(command, (CallModel, Compose)):
        frame = command.frame
    elif isinstance(command, Ask):
        frame = run.requests[command.request].frame
    elif isinstance(command, Stage):
        return nullcontext()
    else:
        frame = run.actions[command.action].frame
    return below(current_scope()) if run.frames[frame].spec.agent else nullcontext()
