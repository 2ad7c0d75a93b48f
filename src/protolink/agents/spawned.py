"""Children that an application starts beside a live run, on the run's own budget.

Each is a live run of its own whose ledger, clock, limits and policies are those of the parent. It hears of the parent's
cancellation at once, and the parent's end waits for it. The parent's telemetry is told of it as of a task of its own,
with the parent's trace id; the parent's run store has it in the parent's report.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import aclosing
from itertools import count
from typing import TYPE_CHECKING, Any

from ..drive.driver import Driver
from ..errors import DurableExecutionError, SubagentLimitError, TaskNotCancelableError, TaskNotFoundError
from ..models import Task
from ..models.ids import new_id
from ..runtime import RunContext, RunEvent
from ..runtime.request_context import below, current_scope
from ..telemetry import TelemetryFeed
from .checks import text

if TYPE_CHECKING:
    from .agent import Agent

Tell = Callable[[RunEvent], None]

ENDED = "the run has ended; nothing can be spawned any more"


class SubagentHandle:
    """One child at work. ``id`` is that of its task. It ends with its parent at the latest."""

    def __init__(
        self, agent: Agent, task: Task, run_id: str, work: Coroutine[Any, Any, None], driver: Driver | None
    ) -> None:
        self.id = task.id
        self.run_id = run_id
        self.task = task
        self._agent = agent
        self._driver = driver
        self._running = asyncio.get_running_loop().create_task(work)

    @property
    def done(self) -> bool:
        """Whether it has ended."""
        return self._running.done()

    async def result(self) -> Task:
        """Wait for the child's end; its task tells how it ended. Canceling the waiter leaves the child alone."""
        await asyncio.shield(self._running)
        return self.task

    async def cancel(self, reason: str = "Parent cancelled child") -> None:
        """Cancel the child and wait until it has ended. Harmless after its end. ValueError: the reason is no text."""
        text("reason", reason)
        if self.done:
            return
        if self._driver is not None:
            self._driver.cancel(reason)
        else:
            try:
                await self._agent.cancel_task(self.id, reason)
            except (TaskNotFoundError, TaskNotCancelableError):
                pass  # it has ended meanwhile
        await asyncio.wait([self._running])


class Spawned:
    """The spawned children of one run."""

    def __init__(self, parent: Agent, context: RunContext, tell: Tell) -> None:
        self._parent = parent
        self._context = context
        self._tell = tell
        self._children: list[SubagentHandle] = []
        self._starting = 0
        self._closed = False
        self._request = current_scope()  # the run's own: whoever spawns may belong to another request

    async def start(self, name: str, prompt: str, driver: Driver) -> SubagentHandle:
        """ValueError for an unknown child or a blank prompt, SubagentLimitError beyond the parent's limits."""
        child = self._parent.subagents.get(name)
        if child is None:
            known = ", ".join(sorted(self._parent.subagents)) or "none"
            raise ValueError(f"There is no subagent '{name}'. Subagents: {known}")
        if not isinstance(prompt, str) or not prompt.strip():
            raise ValueError("the prompt for a subagent must be nonblank text")
        if child.durability is not None:
            raise DurableExecutionError(f"Subagent '{name}' is durable and cannot run beside a live parent")
        if self._closed:
            raise RuntimeError(ENDED)
        self._check_limits(driver)
        driver.run.ledger.children += 1  # before anything is awaited: others may be spawned meanwhile
        self._starting += 1
        try:
            with below(self._request):
                return await self._begun(child, prompt, driver)
        except BaseException as error:
            # One that handles itself is at work before its start can be canceled, and counts.
            if isinstance(error, Exception) or not child.handles_itself:
                driver.run.ledger.children -= 1
            raise
        finally:
            self._starting -= 1

    async def close(self) -> None:
        """Cancel the children that are left, and wait for them. Nothing can be spawned any more."""
        self._closed = True
        await asyncio.gather(*(child.cancel("The parent has ended") for child in self._children))

    # ------------------------------------------------------------------------------------------------ inside

    async def _begun(self, child: Agent, prompt: str, driver: Driver) -> SubagentHandle:
        context = self._context.child(agent_name=child.name)
        context.session_id = new_id("session")
        context.trace_id = context.trace_id or RunContext.from_task(driver.run.task).trace_id
        task = Task.create_infer(prompt=prompt, context=context)
        context = RunContext.from_task(task)  # from now on the child's own: neither side can change the other's
        tell = self._teller(context)
        feed = self._feed(child, task, context)
        if child.handles_itself:
            return await self._handling(child, task, context, tell, feed, driver)
        drive = await child.execution.begin_live(
            task,
            context,
            driver.run.ledger,
            people=True,
            above=(self._parent.policy,),
            root=self._parent,
            sinks=[tell] if feed is None else [tell, feed],
            streaming=True,
        )
        if self._closed:
            driver.run.ledger.stop_clock(driver.clock.now())
            raise RuntimeError(ENDED)
        if driver.token.is_cancelled:
            drive.driver.cancel(driver.token.reason)
        driver.beside.append(drive.driver)
        work = _watched(drive.finish(), feed)
        return self._added(SubagentHandle(child, task, context.run_id, work, drive.driver), driver)

    async def _handling(
        self,
        child: Agent,
        task: Task,
        context: RunContext,
        tell: Callable[[Any], None],
        feed: TelemetryFeed | None,
        driver: Driver,
    ) -> SubagentHandle:
        """A child that handles its tasks itself: its handler is authoritative, and its run its own."""
        begun = asyncio.Event()

        async def handle() -> None:
            try:
                async with aclosing(child.handle_task_streaming(task)) as events:
                    async for event in events:
                        begun.set()
                        tell(event)
                        if feed is not None:
                            feed(event)
            finally:
                begun.set()

        work = _watched(handle(), feed)
        found = self._added(SubagentHandle(child, task, context.run_id, work, None), driver)
        await begun.wait()  # from now on its task can be canceled
        return found

    def _added(self, found: SubagentHandle, driver: Driver) -> SubagentHandle:
        self._children.append(found)
        listed = driver.run.task.metadata.setdefault("subagent_runs", [])
        listed.append({"task_id": found.id, "run_id": found.run_id, "agent": found._agent.name, "action_id": None})
        return found

    def _check_limits(self, driver: Driver) -> None:
        limits = self._parent.subagent_limits
        number = driver.run.children + 1
        if number > limits.max_children:
            raise SubagentLimitError(f"Subagent count exceeded: {number} > {limits.max_children}")
        delegated = sum(frame.parent is not None for frame in driver.run.open.values())
        active = sum(not child.done for child in self._children) + self._starting + delegated + 1
        if active > limits.max_concurrency:
            raise SubagentLimitError(f"Too many subagents at once: {active} > {limits.max_concurrency}")

    def _feed(self, child: Agent, task: Task, context: RunContext) -> TelemetryFeed | None:
        """What tells the parent's telemetry. A child that handles itself tells its own; none may hear it twice."""
        telemetry = self._parent.telemetry
        if telemetry is None or (child.handles_itself and child.telemetry is telemetry):
            return None
        return TelemetryFeed(telemetry, task, context, child.name)

    def _teller(self, context: RunContext) -> Callable[[Any], None]:
        """A child's event in the parent's stream keeps its identity and never ends the parent."""
        numbers = count(1)

        def tell(event: Any) -> None:
            found = RunEvent.from_task_event(event, context=context)
            link = {
                "source_sequence": next(numbers),
                "source_final": found.final,
                "parent_run_id": self._context.run_id,
            }
            found.metadata = {**link, **found.metadata}  # that of a delegation further down stays
            found.final = False
            self._tell(found)

        return tell


async def _watched(work: Coroutine[Any, Any, None], feed: TelemetryFeed | None) -> None:
    try:
        await work
    finally:
        if feed is not None:
            await feed.close()
