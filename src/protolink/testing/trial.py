"""One run from its start to its end, through any number of process deaths.

What comes next is read from the store alone, as a new process would: submit, resume, answer, reconcile.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from ..agents import Agent
from ..agents.drive import Drive
from ..agents.responses import Response
from ..engine.facts import Record
from ..engine.fold import fold
from ..engine.project import Event
from ..engine.state import Run
from ..engine.task import interruptions
from ..errors import RunBusyError, StoreUnavailableError
from ..models import Task
from ..runtime import ProbeFinding, RunContext, RunEvent, RunInterruption
from .audit import Audit, differences, portrait
from .effects import Effect, EffectLog
from .faulty import Fault, FaultyStore, SimulatedCrash

#: Steps after which a run counts as stuck.
PATIENCE = 60


@dataclass(frozen=True, slots=True)
class UncertainAction:
    """An action whose effect is unknown. ``arguments`` are the prepared ones."""

    run_id: str
    action_id: str
    name: str
    arguments: dict[str, Any]


Respond = Callable[[RunInterruption], Any]
Reconcile = Callable[[UncertainAction], Any]


@dataclass(frozen=True)
class Subject:
    """What is tried; the arguments of ``crash_everywhere``."""

    make_agent: Callable[[FaultyStore], Agent]
    make_task: Callable[[], Task]
    respond: Respond
    reconcile: Reconcile
    effects: EffectLog
    streaming: bool = False


@dataclass
class Watcher:
    """A subscriber that remembers every numbered event it was shown."""

    shown: dict[str, tuple[Any, ...]] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    def __call__(self, event: Event) -> None:
        content = _content(event)
        before = self.shown.setdefault(event.event_id, content)
        if before != content:
            self.problems.append(f"the number of {before} was given to {content}")

    def compare(self, derived: Sequence[Event]) -> list[str]:
        """The shown events that the journal does not derive."""
        known = {event.event_id: _content(event) for event in derived}
        found = list(self.problems)
        for event_id, content in self.shown.items():
            if "llm_chunk" not in content and known.get(event_id) != content:
                found.append(f"{content} was shown, and the journal tells of {known.get(event_id)}")
        return found


def _content(event: Event) -> tuple[Any, ...]:
    """What tells one event from another, without the task that only a shown final status carries."""
    names = ("type", "llm_event_type", "new_state", "error_code", "task_id", "run_id", "action_id", "step", "final")
    told = event.payload.get("llm_event_type") if isinstance(event, RunEvent) else None
    return (type(event).__name__, told, *(found for name in names if (found := getattr(event, name, None)) is not None))


class Trial:
    """``faults`` are the plans of the processes in their order; later ones have none.

    When it is over: ``problems``, ``stored`` (the run), ``effects`` (what was done) and ``processes`` (their stores).
    """

    def __init__(self, subject: Subject, faults: Sequence[Sequence[Fault]] = ()) -> None:
        self.subject = subject
        self.problems: list[str] = []
        self.processes: list[FaultyStore] = []
        self.watcher = Watcher()
        self.effects: list[Effect] = []
        self._fold: tuple[int, Run | None] = (0, None)
        self.stored: Run | None = None
        self._plans = list(faults)
        self.store = FaultyStore(self._plan())
        self.processes.append(self.store)
        subject.effects.begin(self.store.disk)
        self._task = subject.make_task()
        self.run_id = RunContext.ensure_task_context(self._task).run_id
        self._submitted = self._task.to_dict()

    def _plan(self) -> Sequence[Fault]:
        return self._plans.pop(0) if self._plans else ()

    async def run(self) -> Trial:
        """Go on until the run has ended, then judge it. Never raises for what the run does wrong."""
        try:
            if not await self.to_its_end():
                self.problems.append(f"the run is stuck: it has not ended after {PATIENCE} steps")
        except Exception as error:  # whatever the runtime or the application raised ends the trial and is reported
            self.problems.append(f"it raised {type(error).__name__}: {error}")
        self.judge()
        return self

    async def to_its_end(self, steps: int = PATIENCE) -> bool:
        """Take step after step, with a new process after each death. False when the run has not ended by then."""
        agent = self.subject.make_agent(self.store)
        for _ in range(steps):
            try:
                if await self.step(agent):
                    return True
            except SimulatedCrash:
                self.store = self.store.restart(self._plan())
                self.processes.append(self.store)
                agent = self.subject.make_agent(self.store)
            except (StoreUnavailableError, RunBusyError):
                self.store.clock.advance(self.store.lease_seconds)
        return False

    async def step(self, agent: Agent) -> bool:
        """Do what a worker would do next with what is stored. True when the run has ended."""
        run = self.folded()
        if run is None:
            await self._submit(agent)
            return False
        if run.outcome is not None and not run.uncertain:
            return True
        if run.uncertain and run.phase != "active":
            self._reconcile(agent, run)
        else:
            await self._resume(agent, run)
        return False

    def choose(self, pending: Sequence[RunInterruption]) -> RunInterruption:
        """Which of several requests is answered first: the oldest."""
        return pending[0]

    def records(self) -> list[Record]:
        """The stored facts."""
        return self.store.disk.records(self.run_id)

    def folded(self) -> Run | None:
        """The stored run, to be read only; None before its first fact."""
        commits = len(self.store.disk.commits)
        if self._fold[0] != commits:
            records = self.records()
            self._fold = commits, fold(records) if records else None
        return self._fold[1]

    async def _submit(self, agent: Agent) -> None:
        task = Task.from_dict(self._submitted)
        context = RunContext.ensure_task_context(task, agent_name=agent.name)
        begun = await agent.execution.begin(task, context, sinks=[self.watcher], streaming=self.subject.streaming)
        await self._finish(begun)

    async def _resume(self, agent: Agent, run: Run) -> None:
        pending = [found for found in interruptions(run) if found.kind in ("approval", "input")]
        response = Response()
        if run.phase != "active" and pending:
            asked = self.choose(pending)
            answer = self.subject.respond(asked)
            if callable(answer):
                done = answer(agent, self.run_id)
                await done if inspect.isawaitable(done) else done
                return
            response = _response(asked, answer)
        begun = await agent.execution.resume(
            self.run_id, response, sinks=[self.watcher], streaming=self.subject.streaming
        )
        await self._finish(begun)

    async def _finish(self, begun: Drive | Run) -> None:
        if isinstance(begun, Run):
            return
        await begun.finish()
        stored = self.folded()
        if stored is not None and stored.n == begun.run.n:
            found = differences(portrait(stored), portrait(begun.run))
            self.problems += [f"the stored run is not the one that was driven: {item}" for item in found]

    def _reconcile(self, agent: Agent, run: Run) -> None:
        for key in sorted(run.uncertain):
            action = run.actions[key]
            payload = action.prepared.payload if action.prepared else {}
            name = action.prepared.name if action.prepared else action.call.tool
            where = run.scope(run.frames[action.frame]).run_id
            with self.subject.effects.by_hand():
                found = UncertainAction(where, key, name, dict(payload.get("arguments") or action.call.args))
                result = self.subject.reconcile(found)
            outcome = result.proposal() if isinstance(result, ProbeFinding) else {"result": result}
            agent.reconcile(where, key, **(outcome or {}))

    def judge(self) -> None:
        """Check what holds of any run, whatever happened to it."""
        self.effects = self.subject.effects.done
        records = self.records()
        if not records:
            self.problems.append("nothing was stored")
            return
        found = Audit(records)
        self.stored = found.run
        self.problems += found.problems + self.watcher.compare(found.events)
        for effect in self.subject.effects.done:
            if not effect.intended:
                self.problems.append(f"the effect '{effect.name}' began before its intent was stored")
        for name, count in _keys(self.subject.effects).items():
            if count > 1:
                self.problems.append(f"the effect '{name}' was done {count} times")
        if self.store.disk.stale_commits:
            self.problems.append("a stale owner stored facts")


def _keys(effects: EffectLog) -> Mapping[str, int]:
    """Effects that share a key are the same one; those that share only a name were meant to be done again."""
    found: dict[str, int] = {}
    for effect in effects.done:
        found[effect.key] = found.get(effect.key, 0) + 1
    return found


def _response(asked: RunInterruption, answer: Any) -> Response:
    if isinstance(answer, Mapping):
        return Response(asked.request_id, **answer)
    if asked.kind == "approval":
        return Response(asked.request_id, approved=bool(answer))
    return Response(asked.request_id, answer=answer)


def yes(asked: RunInterruption) -> Any:
    """Approve everything; answer a question with its first option, else "yes"."""
    if asked.kind == "approval":
        return True
    options = asked.request.get("options") or ["yes"]
    return options[0]


def unexpected(action: UncertainAction) -> Any:
    """The default ``reconcile``: the caller has to say how the outside system is looked at."""
    raise LookupError(f"'{action.name}' was cut off; pass reconcile= to look up what became of it")


class Inline(ThreadPoolExecutor):
    """Runs at once what is meant for a thread, so that the order of everything is the same each time."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except BaseException as error:  # handed to whoever waits, as a thread would; SimulatedCrash included
            future.set_exception(error)
        return future


class Loop:
    """An event loop without threads for a series of trials: ``with Loop() as loop: loop.run(coroutine)``."""

    def __init__(self) -> None:
        self._runner = asyncio.Runner(debug=False)

    def __enter__(self) -> Loop:
        self._runner.get_loop().set_default_executor(Inline(1))
        return self

    def __exit__(self, *raised: object) -> None:
        self._runner.close()

    def run(self, work: Any) -> Any:
        return self._runner.run(work)
