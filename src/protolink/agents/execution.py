"""Starting and resuming runs: the way from an agent's methods to the driver and back.

A live run and a durable one differ in their journal. Nothing is executed here.
"""

from __future__ import annotations

import asyncio
import inspect
import secrets
import uuid
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ..drive.driver import Driver, Sink
from ..drive.ending import failure, returns_failed, uncertain_error
from ..drive.journal import KeepNothing
from ..drive.ports import AgentPort, Clock, Journal
from ..engine import facts as f
from ..engine.commands import Ask, Stage
from ..engine.decide import decide
from ..engine.evolve import evolve, start
from ..engine.facts import Record
from ..engine.fold import fold
from ..engine.project import opening, project
from ..engine.receipts import export
from ..engine.state import Run, status
from ..errors import CheckpointMismatchError, DurableExecutionError, StoreUnavailableError
from ..journal.adapter import open_journal, point_to_root, stored_records
from ..journal.contract import OpenJournal
from ..llms import LLM, create_llm
from ..models import Task
from ..models.json import plain
from ..runtime import CancellationToken, RunContext, RunEvent
from .fingerprint import check, configuration
from .heartbeat import HEARTBEAT
from .node import Node, tree
from .parts import specs
from .responses import Response, answer_to

if TYPE_CHECKING:
    from .agent import Agent

#: Facts that could not be stored before this process gave up, by store and run; the next drive here stores them first.
_unsaved: dict[tuple[int, str], list[Record]] = {}


@dataclass
class Drive:
    """One drive of a run, over or under way. ``task`` is what the caller is shown."""

    driver: Driver
    journal: Any
    task: Task
    nodes: dict[str, AgentPort]
    done: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def run(self) -> Run:
        return self.driver.run

    async def finish(self) -> None:
        """Drive to the next rest, whatever happens give up ownership, and keep what could not be stored."""
        stop = HEARTBEAT.watch(self.journal) if self.run.durable else None
        try:
            await self.driver.drive()
        except StoreUnavailableError:
            _unsaved[_key(self.journal)] = list(self.driver.buffer)
            raise
        finally:
            if stop is not None:
                stop()
            await self.journal.release()
            self.done.set()
            export(self.run)


def _key(journal: PointingJournal) -> tuple[int, str]:
    return id(journal.store), journal.run_id


class PointingJournal:
    """A root's journal that tells the store of each child before the child's first fact is stored."""

    def __init__(self, journal: OpenJournal, store: Any) -> None:
        self._journal = journal
        self.store = store
        self.durable = True
        self.run_id = journal.run_id
        self.token = journal.token
        self.epoch = journal.epoch
        self.records = journal.records

    def append(self, records: Sequence[Record], status: str) -> Any:
        children = _children(records)
        return self._append_after(children, records, status) if children else self._journal.append(records, status)

    async def _append_after(self, children: list[f.Spec], records: Sequence[Record], status: str) -> None:
        await asyncio.to_thread(self._point, children)
        stored = self._journal.append(records, status)
        if stored is not None:
            await stored

    def _point(self, children: list[f.Spec]) -> None:
        for spec in children:
            parent = (spec.context or {}).get("parent_run_id") or self.run_id
            name = spec.agent.rsplit("/", 1)[-1]
            point_to_root(self.store, spec.run_id, name, root_run_id=self.run_id, parent_run_id=parent)

    def append_now(self, records: Sequence[Record], status: str) -> None:
        self._point(_children(records))
        self._journal.append_now(records, status)

    def renew(self) -> None:
        self._journal.renew()

    async def release(self) -> None:
        await self._journal.release()

    def release_now(self) -> None:
        self._journal.release_now()


def _children(records: Sequence[Record]) -> list[f.Spec]:
    return [
        record.fact.spec
        for record in records
        if isinstance(record.fact, f.FrameOpened) and record.fact.spec is not None
    ]


class Execution:
    """Runs of one agent."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent

    @property
    def _clock(self) -> Clock:
        return self._agent.clock

    async def begin(
        self,
        task: Task,
        context: RunContext,
        *,
        token: CancellationToken | None = None,
        sinks: Iterable[Sink] = (),
        streaming: bool = False,
        durable: bool | None = None,
        ledger: Any = None,
    ) -> Drive | Run:
        """A drive that is about to start; or, for a task that is stored already, the run as it is stored."""
        durable = self._agent.durability is not None if durable is None else durable
        llm = await self._llm()
        nodes = tree(Node(self._agent, llm))
        self._check_supported(llm, durable)
        if not durable:
            first = self._start(task, context, nodes, llm, False)
            how = {"token": token, "sinks": sinks, "streaming": streaming, "ledger": ledger}
            return self._drive(first, KeepNothing(), nodes, task, context, **how)
        journal = await self._open(context.run_id, create=True)
        if journal.records:
            try:
                return self._same_task(fold(journal.records), task)
            finally:
                await journal.release()
        first = self._start(task, context, nodes, llm, True)
        return self._drive(first, journal, nodes, task, context, token=token, sinks=sinks, streaming=streaming)

    def _start(
        self, task: Task, context: RunContext, nodes: dict[str, AgentPort], llm: LLM | None, durable: bool
    ) -> Record:
        fact = f.RunStarted(
            run_id=context.run_id,
            agent=self._agent.name,
            task=task.to_dict() if durable else {},
            parts=specs(task, nodes[""]),
            context=context.to_dict(),
            configuration=configuration(self._agent, llm) if durable else {},
            durable=durable,
            salt=str(uuid.UUID(bytes=secrets.token_bytes(16), version=4))[:23],
            children=self._agent.subagent_limits.to_dict(),
        )
        return Record(0, 1, self._clock.now(), fact)

    def _drive(
        self,
        first: Record,
        journal: Any,
        nodes: dict[str, AgentPort],
        task: Task,
        context: RunContext,
        *,
        token: CancellationToken | None,
        sinks: Iterable[Sink],
        streaming: bool,
        ledger: Any = None,
    ) -> Drive:
        run = start(first, None if journal.durable else task)
        if ledger is not None:
            run.ledger = ledger
        driver = self._driver(run, journal, nodes, context, task, token=token, sinks=sinks, streaming=streaming)
        driver.begin(first, opening(run, first))
        return Drive(driver, journal, task, nodes)

    def _driver(
        self, run: Run, journal: Journal, nodes: dict[str, AgentPort], context: RunContext, task: Task, **how: Any
    ) -> Driver:
        run.policy = self._agent.budget_policy
        return Driver(
            run,
            journal,
            nodes,
            context=context,
            clock=self._clock,
            shown=task,
            max_result_bytes=self._agent.max_result_bytes,
            store_patience=self._agent.store_patience,
            **how,
        )

    # ------------------------------------------------------------------------------------------------ stored runs

    async def resume(
        self,
        run_id: str,
        response: Response,
        *,
        rerun: str | None = None,
        sinks: Iterable[Sink] = (),
        streaming: bool = False,
    ) -> Drive | Run:
        """A drive that goes on with a stored run; or the run as it is stored, when there is nothing to go on with."""
        journal = await self._open(run_id, create=False)
        try:
            llm = await self._llm()
            nodes = tree(Node(self._agent, llm))
            self._check_supported(llm, True)
            run = self._read(journal)
            check(run_id, run.configuration, configuration(self._agent, llm))
            facts = self._next_facts(run, response, rerun)
            if facts is None:
                await journal.release()
                return run
            task = Task.from_dict(run.task.to_dict())
            context = RunContext.from_dict(run.root.context)
            driver = self._driver(run, journal, nodes, context, task, sinks=sinks, streaming=streaming)
            driver.buffer.extend(_unsaved.pop(_key(journal), []))
            for fact in (f.Resumed(journal.epoch), *facts):
                driver.stage(fact)
            return Drive(driver, journal, task, nodes)
        except BaseException:
            await journal.release()
            raise

    def _read(self, journal: Any) -> Run:
        if not journal.records:
            raise DurableExecutionError(f"Run '{journal.run_id}' was never started")
        run = fold([*journal.records, *_unsaved.get(_key(journal), [])])
        return run

    def _next_facts(self, run: Run, response: Response, rerun: str | None) -> Sequence[f.Fact] | None:
        """What a resume adds after ``Resumed``; None when there is nothing to do. Raises what cannot be done."""
        if run.outcome is not None:
            return self._finished(run, response)
        if rerun is not None:
            return [self._rerun(run, rerun)]
        if response.given:
            answered = answer_to(run, response, self._clock.now())
            if answered is not None:
                return [answered]
        grants = [f.Answered(r.id) for r in run.requests.values() if r.kind in ("yield", "retry")]
        if run.phase == "active" or grants:
            return grants
        if run.uncertain:
            return None
        wanted = decide(run, self._clock.now())
        return [] if any(not isinstance(command, Ask) for command in wanted) else None

    def _finished(self, run: Run, response: Response) -> None:
        if run.outcome != "completed":
            reason = (run.error or {}).get("message") or run.outcome
            raise DurableExecutionError(f"Run '{run.id}' ended {run.outcome} and cannot be resumed: {reason}")
        if response.given:
            recorded = run.responses.get(response.request_id or "")
            raise DurableExecutionError(
                f"Run '{run.id}' is completed and takes no response",
                recorded=None if recorded is None else {**recorded, "outcome": run.outcome},
            )

    def _rerun(self, run: Run, key: str) -> f.Fact:
        action = run.actions.get(key)
        crashed = action is not None and run.phase == "active" and action.state == "executing"
        if action is None or not (key in run.uncertain or crashed):
            raise DurableExecutionError(f"Run '{run.id}' has no uncertain action '{key}' to run again")
        if not action.idempotent:
            name = action.call.tool
            raise DurableExecutionError(
                f"'{name}' is not declared idempotent; look at its system and reconcile '{key}'"
            )
        return f.RerunAllowed(key)

    def reconcile(self, run_id: str, action_id: str, result: Any) -> Run:
        """Store a verified outcome as the receipt. Blocking; dispatches nothing."""
        receipt = plain(result)
        journal = self._open_now(self.root_of(run_id))
        try:
            run = self._read(journal)
            check(run.id, run.configuration, configuration(self._agent, self._llm_now(run)))
            offline = Offline(self, run, journal)
            if run.phase == "active":
                offline.stage(f.Resumed(journal.epoch))
            action = run.actions.get(action_id)
            if action is None or action_id not in run.uncertain:
                state = "unknown" if action is None else action.state
                raise DurableExecutionError(
                    f"Run '{run_id}' has no unresolved action '{action_id}' (it is {state}); nothing was changed"
                )
            if run.phase == "parked":
                offline.stage(f.Resumed(journal.epoch))
            offline.stage(f.Reconciled(action_id, receipt))
            offline.settle()
            return run
        finally:
            journal.release_now()

    def cancel(self, run_id: str) -> Run:
        """Cancel a stopped run and everything below it. Blocking."""
        journal = self._open_now(run_id)
        try:
            run = self._read(journal)
            if run.outcome is not None:
                return run
            check(run.id, run.configuration, configuration(self._agent, self._llm_now(run)))
            offline = Offline(self, run, journal)
            offline.stage(f.Resumed(journal.epoch))
            if run.uncertain:
                offline.settle()
                raise uncertain_error(run, {})
            offline.stage(f.CancelRequested("canceled by the operator"))
            offline.settle()
            return run
        finally:
            journal.release_now()

    def events(self, run_id: str, after: int) -> list[RunEvent]:
        """The events of a stored run that come after a number, in order."""
        records = self.records(run_id)
        context = None
        found: list[RunEvent] = []
        run: Run | None = None
        for record in records:
            if run is None:
                run = start(record)
                context = RunContext.from_dict(run.root.context)
                raw = opening(run, record)
            else:
                raw = project(run, record)
                evolve(run, record)
            numbered = (
                RunEvent.from_task_event(event, context=context, sequence=record.seq + index)
                for index, event in enumerate(raw)
            )
            found.extend(event for event in numbered if (event.sequence or 0) > after)
        return found

    def records(self, run_id: str) -> list[Record]:
        """The stored facts of a run, without owning it. DurableExecutionError when there is none."""
        checkpoint = self._store.get(self.root_of(run_id))
        if checkpoint is None:
            raise DurableExecutionError(f"There is no run '{run_id}' in this store")
        return stored_records(checkpoint)

    def stored(self, run_id: str) -> Run:
        """A stored run, folded, without owning it."""
        return fold(self.records(run_id))

    def root_of(self, run_id: str) -> str:
        """The id whose journal holds the run: its own, or a child's root."""
        _check_id(run_id)
        checkpoint = self._store.get(run_id)
        if checkpoint is None:
            raise DurableExecutionError(f"There is no run '{run_id}' in this store")
        root = checkpoint.data.get("root_run_id")
        return root if isinstance(root, str) else run_id

    # ------------------------------------------------------------------------------------------------ what is needed

    @property
    def _store(self) -> Any:
        store = self._agent.durability
        if store is None:
            raise DurableExecutionError(f"Agent '{self._agent.name}' has no durability; pass durability= to store runs")
        return store

    async def _open(self, run_id: str, *, create: bool) -> PointingJournal:
        _check_id(run_id)
        journal = await asyncio.to_thread(open_journal, self._store, run_id, self._agent.name, create=create)
        return PointingJournal(journal, self._store)

    def _open_now(self, run_id: str) -> PointingJournal:
        return PointingJournal(open_journal(self._store, run_id, self._agent.name, create=False), self._store)

    async def _llm(self) -> LLM | None:
        factory = self._agent.llm_factory
        if factory is None:
            return self._agent.llm
        made = factory()
        return _model(await made if inspect.isawaitable(made) else made)

    def _llm_now(self, run: Run) -> LLM | None:
        factory = self._agent.llm_factory
        if factory is None:
            return self._agent.llm
        made = factory()
        if inspect.isawaitable(made):
            raise DurableExecutionError("an async llm_factory cannot be asked here; reconcile with a plain one")
        return _model(made)

    def _check_supported(self, llm: LLM | None, durable: bool) -> None:
        agent = self._agent
        if durable:
            agent.check_durable(llm)
        for child in agent.roster.children.values():
            if child.durability is not None and not durable:
                raise DurableExecutionError(
                    f"Subagent '{child.name}' is durable but its parent '{agent.name}' is not; give the parent durability"
                )
        if not durable and agent.yield_after_steps is not None:
            raise ValueError("yield_after_steps needs durability on this agent or on the parent that owns it")

    def _same_task(self, run: Run, task: Task) -> Run:
        if run.task.id != task.id:
            raise CheckpointMismatchError(f"Run '{run.id}' is stored for task '{run.task.id}', not for '{task.id}'")
        return run


class Offline:
    """Staging facts of a stored run without driving it: nothing is executed, only recorded."""

    def __init__(self, execution: Execution, run: Run, journal: PointingJournal) -> None:
        self._execution = execution
        self._run = run
        self._journal = journal
        self._records: list[Record] = list(_unsaved.pop(_key(journal), []))

    def stage(self, fact: f.Fact) -> None:
        run = self._run
        record = Record(run.n, run.seq, self._execution._clock.now(), fact)
        run.seq += len(project(run, record))
        evolve(run, record)
        self._records.append(record)

    def settle(self) -> None:
        """Record what follows by itself of a canceled run, park, and store everything at once."""
        while self._run.cancel is not None and self._run.outcome is None:
            wanted = decide(self._run, self._execution._clock.now())
            staged = [command.fact for command in wanted if isinstance(command, Stage)]
            if not staged:
                break
            for fact in staged:
                self.stage(fact)
        if self._run.outcome is None:
            self.stage(f.Parked())
        self._journal.append_now(self._records, status(self._run))


def _check_id(run_id: Any) -> None:
    if not isinstance(run_id, str) or not run_id.strip():
        raise DurableExecutionError("a run id must be nonblank text")


def _model(made: Any) -> LLM:
    found = create_llm(made) if isinstance(made, str) else made
    if not isinstance(found, LLM):
        raise TypeError(f"llm_factory must return an LLM or its name, not {type(found).__name__}")
    return found


def interpret(drive: Drive) -> BaseException | None:
    """The exception that the end of a drive means for ``run_task``; None when its task says it all."""
    run = drive.run
    if run.uncertain:
        return uncertain_error(run, drive.driver.errors)
    if run.outcome == "failed" and not returns_failed(run):
        return failure(run, drive.task, drive.driver.errors)
    return None
