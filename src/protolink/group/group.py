"""AgentGroup: the agents of an application, started, bounded and stopped together.

It owns lifecycles and admission and nothing else: no roles, no routing, no registry of its own.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any

from ..agents import Agent, RunHandle
from ..agents.responses import Response
from ..agents.resumed import ResumedRun
from ..drive.clock import SystemClock
from ..drive.ports import Clock
from ..errors import AdmissionError, RunBusyError
from ..models import Task
from ..runtime import RunContext
from .admission import AdmissionQueue
from .lifecycle import Resources
from .limits import GroupLimits
from .submitted import SubmittedRuns, frozen, input_digest


class AgentGroup:
    """``agents`` are owned: started and stopped with the group. ``external_agents`` can be run and are left alone.

    ``registry`` and ``client`` are the application's; ``own_registry`` gives the registry into the group's care. It is
    started first and stopped last. ``startup_timeout``: seconds for the whole start. ``event_buffer_size``: see
    RunHandle. ``max_retained_runs``: how many ended runs ``get_run`` still finds.

    ValueError for two agents of one name, and for limits that are none; nothing is started.
    """

    def __init__(
        self,
        agents: Iterable[Agent],
        *,
        external_agents: Iterable[Agent] = (),
        registry: Any = None,
        own_registry: bool = False,
        client: Any = None,
        startup_timeout: float = 10,
        limits: GroupLimits | None = None,
        event_buffer_size: int | None = None,
        max_retained_runs: int = 100,
        clock: Clock | None = None,
    ) -> None:
        self.agents = tuple(agents)
        self.external_agents = tuple(external_agents)
        self.registry = registry
        self.own_registry = own_registry
        self.client = client
        self.startup_timeout = _checked_seconds("startup_timeout", startup_timeout)
        if limits is not None and not isinstance(limits, GroupLimits):
            raise TypeError(f"limits takes GroupLimits, not {type(limits).__name__}")
        self.limits = limits or GroupLimits()
        self.event_buffer_size = _checked_count("event_buffer_size", event_buffer_size, 1)
        self.max_retained_runs = _checked_count("max_retained_runs", max_retained_runs, 0) or 0
        if own_registry and registry is None:
            raise ValueError("own_registry=True needs a registry")
        self._members = _by_name([*self.agents, *self.external_agents])
        self._resources = Resources([registry, *self.agents] if own_registry else self.agents)
        self._queue = AdmissionQueue(self.limits, clock or SystemClock())
        self._runs = SubmittedRuns(self.max_retained_runs)
        self._state = "created"
        self._moving = asyncio.Lock()
        self._closer: asyncio.Task[Any] | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._beginning: set[asyncio.Future[None]] = set()

    async def __aenter__(self) -> AgentGroup:
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    # ------------------------------------------------------------------------------------------------ lifecycle

    async def start(self) -> None:
        """Start everything that is owned; return when all is ready. A group starts once: else RuntimeError.

        When a part fails, what has started is stopped again and its error is raised; TimeoutError after
        ``startup_timeout``.
        """
        if self._state != "created":
            raise RuntimeError(f"the group is {self._state}; a group starts once, so make a new one")
        self._state = "starting"
        self._loop = asyncio.get_running_loop()
        async with self._moving:
            try:
                await self._resources.start(self.startup_timeout)
            except BaseException:
                self._state = "closed"
                raise
            self._state = "running"

    async def close(self, drain: float | None = None, *, park: bool = False) -> None:
        """Cancel the runs of this group and stop what it owns, in reverse order. Harmless again.

        ``drain``: seconds that active runs have to end or pause by themselves first; waiting ones never begin.
        ``park``: durable runs do not go on to their end then, but pause before their next model turn, so that a later
        process can resume them. It needs ``drain``.
        ExceptionGroup when parts failed to stop; all others are stopped. A start under way comes to its end first.
        Canceling a close cuts the drain short.
        """
        seconds = None if drain is None else _checked_seconds("drain", drain, least=0)
        if park and drain is None:
            raise ValueError(
                "park=True needs drain=, the seconds that runs have to come to a place where they can pause"
            )
        if self._closer is not None and self._closer is asyncio.current_task():
            return  # a part that closes the group while it is stopped
        async with self._moving:
            if self._state == "closed":
                return
            self._state = "closing"
            self._closer = asyncio.current_task()
            try:
                errors = await self._end(seconds, park)
            finally:
                self._closer = None
        if errors:
            raise ExceptionGroup("parts of the group failed to stop", errors)

    # ------------------------------------------------------------------------------------------------ runs

    def run(self, agent: Agent | str, task: Task | str, request_id: str | None = None, **options: Any) -> RunHandle:
        """Submit a task, as it is now, to an agent of the group and return its handle. ``options`` are RunHandle's.

        A group with a ``client`` takes addresses too. The same ``request_id`` with the same input returns the same
        handle, as long as it is retained. RuntimeError unless the group runs in this event loop; ValueError for an
        agent that is not in it, a run that is under way already, and for a ``request_id`` of something else.
        """
        self._check_running()
        member = self._member(agent)
        accepted = frozen(task)
        wanted = input_digest(member if isinstance(member, str) else member.name, accepted)
        known = None if request_id is None else self._runs.requested(_checked_id(request_id), wanted)
        if known is not None:
            return known
        return self._submit(member, accepted, request_id, wanted, options)

    async def resume(
        self, agent: Agent | str, run_id: str, *, event_buffer_size: int | None = None, **response: Any
    ) -> RunHandle:
        """Go on with a stored run of an agent of the group, in a place of the queue like any other run.

        ``response`` is that of ``agent.resume``. Returns when it is stored and the run is at work. What ``resume``
        refuses is raised, and AdmissionError when there is no place; then nothing has changed. RuntimeError unless the
        group runs.
        """
        self._check_running()
        member = self._member(agent)
        if isinstance(member, str):
            raise ValueError("a run at another address is resumed there")
        if self._runs.is_active(run_id):
            raise RunBusyError(f"Run '{run_id}' is under way in this group; get_run() has its handle")
        place = self._queue.take(lambda: self._runs.ended(run_id))
        try:
            refused = await place.decided
            if refused is not None:
                raise AdmissionError(refused[1], code=refused[0])
            self._check_running()
            with self._begins(), place.held():
                going_on = await ResumedRun.begin(member, run_id, *_response(**response))
                size = self.event_buffer_size if event_buffer_size is None else event_buffer_size
                handle = RunHandle(member, going_on.task, resumed=going_on, admission=place, event_buffer_size=size)
                self._runs.add(handle, None, "")
        except BaseException:
            place.leave()
            raise
        return handle

    def get_run(self, run_id: str) -> RunHandle:
        """The handle of a run that is under way or retained. LookupError for any other; nothing is submitted."""
        found = self._runs.get(run_id)
        if found is None:
            raise LookupError(f"The group has no run '{run_id}': it was not submitted here, or is retained no longer")
        return found

    def snapshot(self) -> dict[str, Any]:
        """State, agents and counts of root runs, as JSON. Nobody is contacted: an external agent counts as ready."""
        return {
            "state": self._state,
            "agents": [
                *({"name": a.name, "owned": True, "ready": self._resources.ready(a)} for a in self.agents),
                *({"name": a.name, "owned": False, "ready": True} for a in self.external_agents),
            ],
            "runs": {
                "active": self._queue.active,
                "queued": self._queue.queued,
                "retained": self._runs.retained,
                "max_concurrent_runs": self.limits.max_concurrent_runs,
                "max_queued_runs": self.limits.max_queued_runs,
            },
        }

    # ------------------------------------------------------------------------------------------------ inside

    def _check_running(self) -> None:
        if self._state != "running":
            raise RuntimeError(f"the group is {self._state}; submit runs inside 'async with AgentGroup(...)'")
        if asyncio.get_running_loop() is not self._loop:
            raise RuntimeError("the group lives in the event loop that started it: have its methods called there")

    @contextmanager
    def _begins(self) -> Iterator[None]:
        """A stored run is being opened. A close waits until it is among the runs, which all end with the group."""
        begun: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._beginning.add(begun)
        try:
            yield
        finally:
            self._beginning.discard(begun)
            begun.set_result(None)

    def _submit(
        self, member: Agent | str, task: Task, request_id: str | None, wanted: str, options: dict[str, Any]
    ) -> RunHandle:
        run_id = RunContext.from_task(task).run_id
        if self._runs.is_active(run_id):
            raise ValueError(f"Run '{run_id}' is under way in this group; get_run() has its handle")
        options.setdefault("event_buffer_size", self.event_buffer_size)
        options.setdefault("client", self.client)
        place = self._queue.take(lambda: self._runs.ended(run_id))
        try:
            handle = RunHandle(member, task, admission=place, **options)
        except BaseException:
            self._queue.leave(place)
            raise
        self._runs.add(handle, request_id, wanted)
        return handle

    def _member(self, agent: Agent | str) -> Agent | str:
        if isinstance(agent, str) and "://" in agent and self.client is not None:
            return agent
        name = agent if isinstance(agent, str) else getattr(agent, "name", None)
        found = self._members.get(name) if isinstance(name, str) else None
        if found is None or not (isinstance(agent, str) or agent is found):
            known = ", ".join(sorted(self._members)) or "none"
            raise ValueError(f"The group has no agent '{name}'. Its agents: {known}")
        return found

    async def _end(self, drain: float | None, park: bool) -> list[Exception]:
        try:
            await self._end_runs(drain, park)
        finally:  # when this is canceled too, the group is still closing: the next close() goes on with it
            errors = await self._resources.stop()
            self._state = "closed"
        return errors

    async def _end_runs(self, drain: float | None, park: bool) -> None:
        try:
            if self._beginning:
                await asyncio.wait(tuple(self._beginning))
            if drain is not None:
                await self._drain(drain, park)
        finally:  # of whoever cuts the drain short, too
            await _cancel_all(self._runs.active)

    async def _drain(self, seconds: float, park: bool) -> None:
        await _cancel_all(handle for handle in self._runs.active if handle.queued)
        if park:
            for handle in self._runs.active:
                handle.park()
        ends = [asyncio.ensure_future(handle.ended()) for handle in self._runs.active]
        if ends:
            _, late = await asyncio.wait(ends, timeout=seconds)
            for waiter in late:
                waiter.cancel()


async def _cancel_all(handles: Iterable[RunHandle]) -> None:
    """The last first: canceling the ones that run would admit those that wait."""
    ends = [handle.cancel("The group is closing") for handle in reversed(list(handles))]
    for found in await asyncio.gather(*ends, return_exceptions=True):
        if isinstance(found, BaseException):
            raise found


def _response(*, rerun: str | None = None, **given: Any) -> tuple[Response, str | None]:
    return Response(**given), rerun


def _by_name(agents: list[Agent]) -> dict[str, Agent]:
    found: dict[str, Agent] = {}
    for agent in agents:
        if not isinstance(agent, Agent):
            raise TypeError(f"a group holds Agents, not {type(agent).__name__}")
        if agent.name in found:
            raise ValueError(f"The group has two agents named '{agent.name}'; names must differ")
        found[agent.name] = agent
    return found


def _checked_id(value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValueError("request_id must be nonblank text, or None")
    return value


def _checked_count(name: str, value: Any, least: int) -> int | None:
    if value is not None and (isinstance(value, bool) or not isinstance(value, int) or value < least):
        raise ValueError(f"{name} must be a whole number of at least {least}")
    return value


def _checked_seconds(name: str, value: Any, *, least: float | None = None) -> float:
    number = isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
    if not number or value < 0 or (least is None and value == 0):
        raise ValueError(f"{name} must be a finite number of seconds above 0")
    return float(value)
