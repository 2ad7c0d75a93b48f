"""What an agent does with stored runs without driving them: reading, reconciling, canceling."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..drive.ending import uncertain_error
from ..engine import facts as f
from ..engine.commands import Stage
from ..engine.decide import decide
from ..engine.evolve import evolve, start
from ..engine.facts import Record
from ..engine.fold import fold
from ..engine.project import opening, project
from ..engine.state import Run, status
from ..errors import DurableExecutionError
from ..journal.adapter import open_journal, stored_records
from ..models.json import plain
from ..runtime import RunContext, RunEvent
from .drive import give_up_left, store_kept
from .factories import make_models_now
from .fingerprint import check, configuration
from .pointing import PointingJournal

if TYPE_CHECKING:
    from .agent import Agent


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
        journal = PointingJournal(open_journal(self.store, run_id, self._agent.name, create=create), self.store)
        try:
            store_kept(journal)
        except BaseException:
            journal.release_now()
            raise
        return journal

    def read(self, journal: PointingJournal) -> Run:
        """The run as it is stored. DurableExecutionError when its id was taken and nothing followed."""
        if not journal.records:
            raise DurableExecutionError(f"Run '{journal.run_id}' was never started")
        return fold(journal.records)

    def records(self, run_id: str) -> list[Record]:
        """The stored facts of a run, without owning it. DurableExecutionError when there is none."""
        checkpoint = self.store.get(self.root_of(run_id))
        if checkpoint is None:
            raise DurableExecutionError(f"There is no run '{run_id}' in this store")
        return stored_records(checkpoint)

    def stored(self, run_id: str) -> Run:
        """A stored run, folded, without owning it."""
        records = self.records(run_id)
        if not records:
            raise DurableExecutionError(f"Run '{run_id}' was never started")
        return fold(records)

    def root_of(self, run_id: str) -> str:
        """The id whose journal holds the run: its own, or its root's."""
        check_id(run_id)
        checkpoint = self.store.get(run_id)
        if checkpoint is None:
            raise DurableExecutionError(f"There is no run '{run_id}' in this store")
        root = checkpoint.data.get("root_run_id")
        return root if isinstance(root, str) else run_id

    def events(self, run_id: str, after: int) -> list[RunEvent]:
        """The events of a stored run with a number above ``after``, in order."""
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
                    found.append(RunEvent.from_task_event(event, context=context, sequence=number))
        return found

    def reconcile(self, run_id: str, action_id: str, result: Any) -> Run:
        """Store a verified outcome as the receipt of an uncertain action."""
        receipt = plain(result)
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
            ledger.stage(f.Reconciled(action_id, receipt))
            ledger.store()
            return run
        finally:
            journal.release_now()

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
            journal.release_now()

    def _check(self, run: Run) -> None:
        check(run.id, run.configuration, configuration(self._agent, make_models_now(self._agent)))


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


def check_id(run_id: Any) -> None:
    """DurableExecutionError for what cannot be a run's id."""
    if not isinstance(run_id, str) or not run_id.strip():
        raise DurableExecutionError("a run id must be nonblank text")
