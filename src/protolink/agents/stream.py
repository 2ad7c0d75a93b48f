"""A task's events as an async iterator. The run has a coroutine of its own; the reader may cancel it at any event."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, Any

from ..drive.log import told
from ..engine.project import Event
from ..engine.state import Run
from ..models import Task, TaskErrorEvent, TaskStatusUpdateEvent
from ..models.redaction.foreign import foreign_text
from ..runtime import RunContext
from .active import Active, ActiveTasks, ends_canceled, is_stored
from .attempt import handled, stored
from .execution import Execution

if TYPE_CHECKING:
    from .agent import Agent

#: The last thing in a queue of events.
END = object()


def stream(agent: Agent, tasks: ActiveTasks, execution: Execution, task: Task) -> AsyncGenerator[Event, None]:
    """Begin, and yield until the final status. Leaving early cancels the run and waits until it has settled."""
    queue: asyncio.Queue[Any] = asyncio.Queue()
    worker = asyncio.ensure_future(_work(agent, tasks, execution, task, queue))
    return told_by(worker, queue)


async def told_by(worker: asyncio.Future[None], queue: asyncio.Queue[Any]) -> AsyncGenerator[Event, None]:
    """What a worker puts into the queue, until END. Leaving early cancels the worker; its own error is raised last."""
    try:
        while (event := await queue.get()) is not END:
            yield event
    finally:
        if not worker.done():
            worker.cancel()
        await asyncio.wait([worker])
    if not worker.cancelled() and (error := worker.exception()) is not None:
        raise error


async def _work(
    agent: Agent,
    tasks: ActiveTasks,
    execution: Execution,
    task: Task,
    queue: asyncio.Queue[Any],
) -> None:
    try:
        with tasks.register(task) as active:
            if agent.handles_itself:
                await _custom(agent, task, queue)
            else:
                await _default(agent, execution, task, active, queue)
    finally:
        queue.put_nowait(END)


async def _default(agent: Agent, execution: Execution, task: Task, active: Active, queue: asyncio.Queue[Any]) -> None:
    context = RunContext.ensure_task_context(task, agent_name=agent.name)
    try:
        begun = await execution.begin(
            task, context, token=active.token, sinks=[queue.put_nowait], streaming=True, number=active.number
        )
    except asyncio.CancelledError:
        if not is_stored(task) and ends_canceled(task, active.token):
            queue.put_nowait(_final(task))
            return
        raise
    if isinstance(begun, Run):
        await stored(agent, begun, task)
        queue.put_nowait(_final(task))
        return
    active.driver = begun.driver
    await begun.finish()


async def _custom(agent: Agent, task: Task, queue: asyncio.Queue[Any]) -> None:
    before = task.state.value
    queue.put_nowait(TaskStatusUpdateEvent(task.id, before, "working"))
    try:
        found = await handled(agent, task, agent._active.get(task.id).token)  # type: ignore[union-attr]
    except Exception as error:  # the application's handler; the stream tells it and ends
        text = foreign_text(str(error)) or type(error).__name__
        if not task.is_terminal:
            task.fail(text)
        queue.put_nowait(TaskErrorEvent(task.id, type(error).__name__, text))
        found = task
    if found is not task:  # the handler's own object; the caller's tells the same
        task.state, task.messages, task.artifacts = found.state, found.messages, found.artifacts
        task.metadata, task.flow_state = {**task.metadata, **found.metadata}, found.flow_state
    queue.put_nowait(_final(task))


def _final(task: Task) -> TaskStatusUpdateEvent:
    return TaskStatusUpdateEvent(task.id, None, task.state.value, True, {"task": told(task)})
