"""What watches an agent's runs besides the caller: the run store and telemetry. Neither can change how a run ends."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from ..models import Task, TaskStatusUpdateEvent
from ..models.ids import new_id
from ..runtime import RunContext, RunReport
from ..telemetry import TelemetryFeed

if TYPE_CHECKING:
    from .agent import Agent

_log = logging.getLogger("protolink.run_store")


class Observation:
    """The watching of one drive. A run store that fails is logged: its records are no part of recovery.

    Saving blocks the loop, as a run store is synchronous; one that is slow belongs behind a queue of its own.
    """

    def __init__(self, agent: Agent, task: Task, context: RunContext) -> None:
        self._agent = agent
        self._task = task
        telemetry = agent.telemetry
        self._feed = None if telemetry is None else TelemetryFeed(telemetry, task, context, agent.name)

    @property
    def sinks(self) -> list[Any]:
        """Where the driver delivers events; none when nobody watches, so that none are made."""
        found: list[Any] = [] if self._agent.run_store is None else [self._save_status]
        return found if self._feed is None else [*found, self._feed]

    def save(self, task: Task | None = None) -> None:
        """Store a snapshot of the task as it is now."""
        store = self._agent.run_store
        if store is None:
            return
        try:
            store.save_task(task or self._task, agent_name=self._agent.name)
        except Exception as error:  # the store's; the run goes on without this record
            _log.warning("Task '%s' was not recorded: %s: %s", self._task.id, type(error).__name__, error)

    def begin(self) -> None:
        """Of work that no driver does: its beginning. It has no events, so telemetry hears of both ends alone."""
        self.save()
        if self._feed is not None:
            self._feed(TaskStatusUpdateEvent(self._task.id, None, "working"))

    async def close(self) -> None:
        """Wait until telemetry was told everything."""
        if self._feed is not None:
            await self._feed.close()

    def _save_status(self, event: Any) -> None:
        """A final status carries the task with all that its journal knows."""
        if isinstance(event, TaskStatusUpdateEvent) and event.task_id == self._task.id:
            told = event.metadata.get("task") if event.final else None
            self.save(Task.from_dict(told) if isinstance(told, dict) else None)


def traced(agent: Agent, task: Task, context: RunContext) -> None:
    """Give the run a trace id before its first event, so that events and traces agree in it."""
    if agent.telemetry is not None and context.trace_id is None:
        context.trace_id = new_id("trace")
        context.attach_to_task(task)


def save_report(agent: Any, report: RunReport, store: Any) -> None:
    """Store the report of a finished attempt, where there is a run store that takes reports."""
    save = getattr(store, "save_report", None)
    if save is None:
        return
    try:
        save(report, agent_name=agent.name)
    except Exception as error:  # the store's; the result stands without this record
        run_id = report.context.run_id if report.context is not None else None
        _log.warning("The report of run '%s' was not recorded: %s: %s", run_id, type(error).__name__, error)
