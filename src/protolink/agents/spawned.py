"""Children that an application starts beside a live run, on the run's own budget."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING

from ..drive.driver import Driver
from ..engine.project import Event
from ..errors import DurableExecutionError, SubagentLimitError
from ..models import Task
from ..runtime import CancellationToken, RunContext, RunEvent

if TYPE_CHECKING:
    from .agent import Agent
    from .drive import Drive

Tell = Callable[[RunEvent], None]


class SubagentHandle:
    """One child at work. ``id`` is that of its task. It ends with its parent at the latest."""

    def __init__(self, task: Task, run_id: str, token: CancellationToken, drive: Drive) -> None:
        self.id = task.id
        self.run_id = run_id
        self.task = task
        self._token = token
        self._drive = drive
        self._running = asyncio.get_running_loop().create_task(self._run())

    @property
    def done(self) -> bool:
        """Whether it has ended."""
        return self._running.done()

    async def result(self) -> Task:
        """Wait for the child's end; its task tells how it ended. Canceling the waiter leaves the child alone."""
        return await asyncio.shield(self._running)

    async def cancel(self, reason: str = "Parent cancelled child") -> None:
        """Cancel the child and wait until it has ended. Harmless after its end."""
        if not self.done:
            self._drive.driver.cancel(reason)
            await asyncio.wait([self._running])

    async def _run(self) -> Task:
        await self._drive.finish()
        return self._drive.task


class Spawned:
    """The spawned children of one run."""

    def __init__(self, parent: Agent, context: RunContext, tell: Tell) -> None:
        self._parent = parent
        self._context = context
        self._tell = tell
        self._children: list[SubagentHandle] = []
        self._closed = False

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
        self._check_limits(driver)
        task = Task.create_infer(prompt=prompt, context=self._context.child(agent_name=child.name))
        found = await self._begun(child, task, driver)
        self._children.append(found)
        return found

    async def close(self) -> None:
        """Cancel the children that are left, and wait for them."""
        self._closed = True
        await asyncio.gather(*(child.cancel("The parent has ended") for child in self._children))

    async def _begun(self, child: Agent, task: Task, driver: Driver) -> SubagentHandle:
        context = RunContext.from_task(task)
        token = CancellationToken()
        ledger = driver.run.ledger
        drive = await child.execution.begin_live(
            task,
            context,
            ledger,
            people=True,
            above=(self._parent.policy,),
            token=token,
            sinks=[lambda event: self._forward(event, context)],
            streaming=True,
        )
        if self._closed:
            raise RuntimeError("the run has ended; nothing can be spawned any more")
        found = SubagentHandle(task, context.run_id, token, drive)
        # The end of the child stops the clock that both share; the parent is still at work.
        found._running.add_done_callback(lambda _: None if self._closed else ledger.start_clock(driver.clock.now()))
        return found

    def _check_limits(self, driver: Driver) -> None:
        limits = self._parent.subagent_limits
        count = driver.run.children + len(self._children) + 1
        if count > limits.max_children:
            raise SubagentLimitError(f"Subagent count exceeded: {count} > {limits.max_children}")
        active = sum(not child.done for child in self._children) + 1
        if active > limits.max_concurrency:
            raise SubagentLimitError(f"Too many subagents at once: {active} > {limits.max_concurrency}")

    def _forward(self, event: Event, context: RunContext) -> None:
        """A child's event in the parent's stream keeps its identity and never ends the parent."""
        found = RunEvent.from_task_event(event, context=context)
        found.metadata |= {"source_final": found.final, "parent_run_id": found.metadata.get("parent_run_id")}
        found.metadata["parent_run_id"] = found.metadata["parent_run_id"] or self._context.run_id
        found.final = False
        self._tell(found)
