"""What an agent does with stored runs without driving them: reading, reconciling, canceling."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from .._lazy import Later
from ..drive.ending import uncertain_error
from ..drive.log import complete
from ..engine import facts as f
from ..engine.commands import Stage
from ..engine.decide import decide
from ..engine.evolve import evolve, start
from ..engine.facts import Record
from ..engine.fold import fold
from ..engine.project import opening, project
from ..engine.state import Run, status
from ..errors import CheckpointMismatchError, DurableExecutionError
from ..journal.contract import RunCheckpoint
from ..models.json import plain
from ..models.printable import printable
from ..models.unset import UNSET
from ..runtime import RunContext, RunEvent
from .changes import changes, check
from .drive import give_up_left, give_up_now, left_something, store_kept
from .factories import make_models_now
from .fingerprint import configuration
from .pointing import PointingJournal

if TYPE_CHECKING:
    from ..journal import adapter
    from .agent import Agent
else:
    adapter = Later("..journal.adapter", __package__)


class StoredRuns:
    """The stored runs of one agent. Everything blocks, and nothing is executed."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent

    @property
    def store(self) -> Any:
        """The agent's store; DurableExecutionError when it has none."""
        if self._agent.durability is None:
            raise DurableExecutionError(f"Agent '{self._agent.name}' has no durability; pass durability= to store runs")
        return self._agent.durability

    def open(self, run_id: str, *, create: bool = False) -> PointingJournal:
        """Own a run. The caller releases it."""
        check_id(run_id)
        give_up_left(self.store, run_id)
        journal = PointingJournal(adapter.open_journal(self.store, run_id, self._agent.name, create=create), self.store)
        try:
            store_kept(journal)
        except BaseException:
            give_up_now(journal)
            raise
        return journal

    async def create(self, run_id: str) -> PointingJournal | None:
        """Own a run that is not stored yet, without blocking; None when only ``open`` can tell.

        A caller that is canceled meanwhile gives it back, or nobody could go on with it for a lease.
        """
        check_id(run_id)
        if left_something(self.store, run_id):
            return None
        claim = adapter.create_journal(self.store, run_id, self._agent.name)
        if claim is None:
            return None
        try:
            made = await claim
        except asyncio.CancelledError:
            # It is known by now how the claim went.
            made = None if claim.exception() else claim.result()
            if made is not None:
                give_up_now(PointingJournal(made, self.store))
            raise
        return None if made is None else PointingJournal(made, self.store)

    def read(self, journal: PointingJournal) -> Run:
        """The run as it is stored. DurableExecutionError when its id was taken and nothing followed."""
        if not journal.records:
            raise DurableExecutionError(f"Run '{journal.run_id}' was never started")
        return fold(journal.records)

    def records(self, run_id: str) -> list[Record]:
        """The stored facts of a run, without owning it.

        DurableExecutionError when there is none, or its id was taken and nothing followed; CheckpointMismatchError when
        it is another agent's.
        """
        found = self._checkpoint(self.root_of(run_id))
        if found.agent_name != self._agent.name:
            raise CheckpointMismatchError(
                f"Run '{run_id}' belongs to agent '{found.agent_name}', not to '{self._agent.name}'"
            )
        records = adapter.stored_records(found)
        if not records:
            raise DurableExecutionError(f"Run '{run_id}' was never started")
        return records

    def stored(self, run_id: str) -> Run:
        """A stored run, folded, without owning it."""
        return fold(self.records(run_id))

    def root_of(self, run_id: str) -> str:
        """The id whose journal holds the run: its own, or its root's."""
        check_id(run_id)
        root = self._checkpoint(run_id).data.get("root_run_id")
        return root if isinstance(root, str) else run_id

    def _checkpoint(self, run_id: str) -> RunCheckpoint:
        found = adapter.checkpoint_of(self.store, run_id)
        if found is None:
            raise DurableExecutionError(f"There is no run '{run_id}' in this store")
        return found

    def events(self, run_id: str, after: int) -> list[RunEvent]:
        """The events of a stored run with a number above ``after``, in order; of a child, those of it and below it.

        Numbers are those of the root's stream, and so is everything in them, the task in a final status included.
        TypeError for an ``after`` that is no whole number.
        """
        if isinstance(after, bool) or not isinstance(after, int):
            raise TypeError(f"after is the number of an event, not {type(after).__name__}")
        records = self.records(run_id)
        run = start(records[0])
        context = RunContext.from_dict(run.root.context)
        found: list[RunEvent] = []
        for record in records:
            raw = project(run, record) if record.n else opening(run, record)
            if record.n:
                evolve(run, record)
            for number, event in enumerate(raw, record.seq):
                if number > after:
                    complete(run, event)
                    found.append(RunEvent.from_task_event(event, context=context, sequence=number))
        return found if run_id == run.id else [event for event in found if _within(run, event.run_id, run_id)]

    def reconcile(self, run_id: str, action_id: str, result: Any = UNSET, unchanged: str | None = None) -> Run:
        """Store a verified outcome as the receipt of an uncertain action: its result, or why all is unchanged."""
        receipt = _receipt(action_id, result, unchanged)
        journal = self.open(self.root_of(run_id))
        try:
            run = self.read(journal)
            self._check(run)
            ledger = Repair(self._agent, run, journal)
            ledger.stage(f.Resumed(journal.epoch))
            action = run.actions.get(action_id)
            if action is None or action_id not in run.uncertain:
                state = "unknown" if action is None else action.state
                raise DurableExecutionError(
                    f"Run '{run_id}' has no unresolved action '{action_id}' (it is {state}); nothing was changed"
                )
            ledger.stage(receipt)
            ledger.store()
            return run
        finally:
            give_up_now(journal)

    def cancel(self, run_id: str) -> Run:
        """Cancel a stopped run and everything below it. A run that has ended stays as it is."""
        journal = self.open(run_id)
        try:
            run = self.read(journal)
            if run.outcome is not None:
                return run
            self._check(run)
            ledger = Repair(self._agent, run, journal)
            ledger.stage(f.Resumed(journal.epoch))
            if run.uncertain:
                ledger.store()
                raise uncertain_error(run, {})
            ledger.stage(f.CancelRequested("canceled by the operator"))
            ledger.store()
            return run
        finally:
            give_up_now(journal)

    def changes(self, run: Run) -> list[dict[str, Any]]:
        """What is not as it was when the run was stored: the ``changes`` of a CheckpointMismatchError, or nothing."""
        return changes(self._agent, run, configuration(self._agent, make_models_now(self._agent)))

    def _check(self, run: Run) -> None:
        check(self._agent, run, configuration(self._agent, make_models_now(self._agent)))


class Repair:
    """Facts recorded in a run that is not driven."""

    def __init__(self, agent: Agent, run: Run, journal: PointingJournal) -> None:
        self._agent = agent
        self._run = run
        self._journal = journal
        self._records: list[Record] = []

    def stage(self, fact: f.Fact) -> None:
        run = self._run
        record = Record(run.n, run.seq, self._agent.clock.now(), fact)
        run.seq += len(project(run, record))
        evolve(run, record)
        self._records.append(record)

    def store(self) -> None:
        """Record what follows of itself in a canceled run, park, and store it all at once."""
        while self._run.cancel is not None and self._run.outcome is None:
            wanted = decide(self._run, self._agent.clock.now())
            staged = [command.fact for command in wanted if isinstance(command, Stage)]
            if not staged:
                break
            for fact in staged:
                self.stage(fact)
        if self._run.outcome is None:
            self.stage(f.Parked())
        self._journal.append_now(self._records, status(self._run))


def _within(run: Run, run_id: str | None, above: str) -> bool:
    """True for a child and everybody below it."""
    while run_id is not None and run_id != above:
        scope = run.scopes.get(run_id)
        run_id = None if scope is None else scope.parent_run
    return run_id is not None


def _receipt(action_id: Any, result: Any, unchanged: str | None) -> f.Reconciled:
    if not isinstance(action_id, str):
        raise TypeError(f"an action id is text, not {type(action_id).__name__}")
    if (result is UNSET) == (unchanged is None):
        raise ValueError("reconcile with result=, what the action returned, or with unchanged=, why it did nothing")
    if unchanged is None:
        return f.Reconciled(action_id, plain(result))
    if not isinstance(unchanged, str) or not unchanged.strip():
        raise ValueError("unchanged must be nonblank text: why the action did nothing")
    return f.Reconciled(action_id, unchanged=printable(unchanged))


def check_id(run_id: Any) -> None:
    """DurableExecutionError for what cannot be a run's id."""
    if not isinstance(run_id, str) or not run_id.strip():
        raise DurableExecutionError("a run id must be nonblank text")
