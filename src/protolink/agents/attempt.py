"""One attempt at a task: begun or gone on with, driven to its rest, and what its end means to the caller."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from ..drive.ending import interrupted
from ..engine.receipts import export
from ..engine.state import Run
from ..errors import DurableExecutionError, RunInterrupted, TaskExecutionError
from ..models import Task
from ..runtime import CancellationToken, RunContext, RunInterruption
from .active import Active, ends_canceled, is_stored
from .drive import Drive
from .probe import uncertain
from .responses import Response
from .support import check_supported

if TYPE_CHECKING:
    from .agent import Agent


async def handled(agent: Agent, task: Task, token: CancellationToken) -> Task:
    """Do a registered task, by the agent's own handler where it has one."""
    if not agent.handles_itself:
        return await executed(agent, task, token)
    check_supported(agent, {})
    return await agent._direct.custom(task, token)


async def executed(agent: Agent, task: Task, token: CancellationToken) -> Task:
    """Do a registered task in the default way. Raises what its end means, and what kept it from beginning."""
    context = RunContext.ensure_task_context(task, agent_name=agent.name)
    try:
        begun = await agent.execution.begin(task, context, token=token)
    except asyncio.CancelledError:
        if not is_stored(task) and ends_canceled(task, token):
            return task
        raise
    if isinstance(begun, Run):
        return await stored(agent, begun, task)
    return await finished(agent, begun)


async def resumed(agent: Agent, run_id: str, response: Response, rerun: str | None) -> Task:
    """Go on with a stored run. A pause is a task; see ``resumed_output``."""
    return (await _resumed(agent, run_id, response, rerun))[0]


async def resumed_output(agent: Agent, run_id: str, response: Response, rerun: str | None) -> Any:
    """Go on with a stored run and return its result; RunInterrupted when it pauses again."""
    task, run, errors = await _resumed(agent, run_id, response, rerun)
    if task.state.value == "input-required":
        raise interrupted(run, task, errors)
    return output(task)


async def _resumed(
    agent: Agent, run_id: str, response: Response, rerun: str | None
) -> tuple[Task, Run, dict[str, BaseException]]:
    begun = await agent.execution.resume(run_id, response, rerun=rerun)
    if isinstance(begun, Run):
        return await stored(agent, begun), begun, {}
    with agent._active.register(begun.task):
        return await finished(agent, begun), begun.run, begun.driver.errors


async def finished(agent: Agent, drive: Drive) -> Task:
    """Drive to the next rest. Raises what the end means to callers of ``run_task``."""
    active = agent._active.get(drive.task.id)
    if active is not None:
        active.driver = drive.driver
    await drive.finish()
    if drive.run.uncertain:
        raise await uncertain(agent, drive.run, drive.driver.errors)
    error = drive.failure()
    if error is not None:
        raise error
    return drive.task


async def stored(agent: Agent, run: Run, task: Task | None = None) -> Task:
    """A stored run that is not driven now, as a task; the caller's own object when there is one."""
    if run.uncertain:
        raise await uncertain(agent, run, {})
    if run.phase == "active":
        raise DurableExecutionError(f"Run '{run.id}' was cut off while it ran; go on with resume('{run.id}')")
    found = export(run)
    if task is None:
        return found
    task.state, task.artifacts, task.metadata = found.state, found.artifacts, found.metadata
    return task


def output(task: Task, active: Active | None = None) -> Any:
    """The result. RunInterrupted for a pause, with its causes where ``active`` has the drive; TaskExecutionError."""
    if task.state.value == "input-required":
        driver = None if active is None else active.driver
        raise _paused(task) if driver is None else interrupted(driver.run, task, driver.errors)
    if task.state.value != "completed":
        raise TaskExecutionError(task)
    return task.get_output()


def _paused(task: Task) -> RunInterrupted:
    waiting = [RunInterruption.from_dict(item) for item in task.metadata["interruptions"]]
    return RunInterrupted(task, RunContext.from_task(task).run_id, waiting)
