"""Direct calls of one tool, and tasks that an overridden ``handle_task`` handles."""

from __future__ import annotations

import asyncio
import weakref
from typing import TYPE_CHECKING, Any

from ..drive.ending import failure, interrupted
from ..engine.ledger import Ledger
from ..engine.state import Run
from ..errors import ApprovalRequiredError
from ..models import Task
from ..runtime import CancellationToken, RunContext
from .active import ends_canceled
from .drive import Drive
from .execution import Execution
from .observing import Observation, traced
from .probe import uncertain
from .roster import WorkerTool

if TYPE_CHECKING:
    from .agent import Agent

#: Failures that have a typed error of their own; for others the tool's own exception is raised.
_TYPED = frozenset({"action_denied", "approval_required", "budget_exceeded", "tool_rejected"})


class DirectCalls:
    """One agent's direct calls. Those with the same live context draw on one budget."""

    def __init__(self, agent: Agent, execution: Execution) -> None:
        self._agent = agent
        self._execution = execution
        self._ledgers: dict[int, Ledger] = {}

    async def call(self, name: str, arguments: dict[str, Any]) -> Any:
        _check_name(name)
        if isinstance(self._agent.tools.get(name), WorkerTool) and self._agent._active.within():
            raise ValueError(f"'{name}' declares a worker; inside a running task delegate by an agent_call")
        task = Task.create_tool_call(tool_name=name, args=arguments)
        with self._agent._active.register(task) as active:
            context = RunContext.ensure_task_context(task, agent_name=self._agent.name)
            begun = await self._execution.begin(task, context, token=active.token)
            assert isinstance(begun, Drive), "a new task is not stored yet"
            active.driver = begun.driver
            return await self._result(begun)

    async def call_in_context(self, name: str, context: RunContext, arguments: dict[str, Any]) -> Any:
        if not isinstance(context, RunContext):
            raise TypeError(f"context must be a RunContext, not {type(context).__name__}")
        _check_name(name)
        if isinstance(self._agent.tools.get(name), WorkerTool):
            raise ValueError(f"'{name}' declares a worker and cannot be called in a context; run it as a task")
        if context.canceled:
            raise asyncio.CancelledError(context.cancel_reason or "the run was canceled")
        task = Task.create_tool_call(tool_name=name, args=arguments)
        people = self._agent.durability is None
        return await self._result(await self._execution.begin_live(task, context, self._ledger(context), people=people))

    async def custom(self, task: Task, token: CancellationToken) -> Task:
        """An overridden handler is authoritative; cancellation, before its start too, still ends in a canceled task."""
        context = RunContext.ensure_task_context(task, agent_name=self._agent.name)
        traced(self._agent, task, context)
        seen = Observation(self._agent, task, context)
        seen.begin()
        found = task
        try:
            if context.canceled and not task.is_terminal:
                task.cancel(context.cancel_reason)
            else:
                found = await self._handled(task, token)
        finally:
            seen.save(found)
            await seen.close()
        return found

    async def _handled(self, task: Task, token: CancellationToken) -> Task:
        try:
            found = await self._agent.handle_task(task)
        except asyncio.CancelledError:
            if ends_canceled(task, token):
                return task
            raise
        if not isinstance(found, Task):
            raise TypeError(f"handle_task must return a Task, not {type(found).__name__}")
        return found

    async def _result(self, drive: Drive) -> Any:
        await drive.finish()
        run = drive.run
        if run.uncertain:
            raise await uncertain(self._agent, run, drive.driver.errors)
        if run.outcome is None:
            raise interrupted(run, drive.task, drive.driver.errors)
        if run.outcome == "completed":
            return run.output
        if run.outcome == "canceled":
            raise asyncio.CancelledError(run.cancel.reason if run.cancel else None)
        raise self._failure(run, drive)

    def _failure(self, run: Run, drive: Drive) -> BaseException:
        """The tool's own exception where it failed by one, else the typed error."""
        error = run.error or {}
        original = drive.error_of(error.get("action_id"))
        if error.get("code") not in _TYPED and isinstance(original, Exception):
            return original
        found = failure(run, drive.task, drive.driver.errors)
        if isinstance(found, ApprovalRequiredError) and self._agent.durability is not None:
            text = f"'{found.action.name}' requires approval; a durable agent asks through call_tool(), which can pause"
            return ApprovalRequiredError(found.request, text)
        return found

    def _ledger(self, context: RunContext) -> Ledger:
        """The counters of a live context; they end with it."""
        key = id(context)
        if key not in self._ledgers:
            self._ledgers[key] = Ledger(context.budget)
            weakref.finalize(context, self._ledgers.pop, key, None)
        return self._ledgers[key]


def _check_name(name: Any) -> None:
    """An unknown name is the call's failure; what is no name at all never becomes a task."""
    if not isinstance(name, str):
        raise TypeError(f"a tool is called by its name, which is text, not {type(name).__name__}")
