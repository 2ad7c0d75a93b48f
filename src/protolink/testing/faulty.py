"""A store that fails on a plan: processes that die at a commit, outages, stolen leases.

A ``Disk`` outlives the processes that write to it. A ``FaultyStore`` is the store as one process has it; when that
process has died, the store refuses everything, so nothing that still unwinds in the test can write. ``restart()`` is
the store of the next process on the same disk.

A commit is a transaction that changed something: taking a run over and giving it back count like the storing of facts.
"""

from __future__ import annotations

import sqlite3
import weakref
from collections.abc import Iterable
from typing import TypeVar

from ..engine.facts import Record
from ..errors import StoreUnavailableError
from ..journal import codec
from ..journal.memory import Memory
from ..journal.rows import place
from ..journal.store import RunStore
from ..journal.writer import Work
from ..models import json
from ..models.value import dataclass
from .clock import FakeClock

T = TypeVar("T")

_RECEIPTS = frozenset({"ToolReturned", "ToolRejected", "ToolFailed", "Reconciled"})


class SimulatedCrash(BaseException):
    """The process is dead. No code of an application catches this, as none runs after a real death."""


@dataclass(frozen=True, slots=True)
class Crash:
    """The process dies at its commit number ``commit`` (from 1): just before it is stored, or just after."""

    commit: int
    after: bool = False


@dataclass(frozen=True, slots=True)
class Outage:
    """The store cannot be written when commit number ``commit`` is due, ``times`` times in a row."""

    commit: int
    times: int = 1


@dataclass(frozen=True, slots=True)
class Theft:
    """Another worker takes every owned run over just before commit number ``commit``."""

    commit: int


Fault = Crash | Outage | Theft


class Disk:
    """What is stored, and its history.

    ``commits``: the names of the facts of each, none when only the ownership changed. ``open_intents``: actions whose
    intent is stored and whose receipt is not. ``stale_commits``: how often facts were stored for a run that a thief
    owned; anything but 0 is a fault of the store.
    """

    def __init__(self) -> None:
        self.memory = Memory()
        self.commits: list[tuple[str, ...]] = []
        self._lines: dict[str, list[bytes]] = {}
        self.open_intents: set[str] = set()
        self.stale_commits = 0
        weakref.finalize(self, self.memory.close)

    def committed(self, news: dict[str, list[bytes]]) -> None:
        """Take note of a transaction: the new facts of each run, encoded."""
        names = []
        for run_id, lines in news.items():
            self._lines.setdefault(run_id, []).extend(lines)
            for line in lines:
                _, _, _, name, fields = json.loads(line)
                names.append(name)
                if name == "ToolStarted":
                    self.open_intents.add(fields["action"])
                elif name in _RECEIPTS:
                    self.open_intents.discard(fields["action"])
        self.commits.append(tuple(names))

    def records(self, run_id: str) -> list[Record]:
        """The facts of a root run as a new process would read them; empty when there are none."""
        return [codec.decode(line) for line in self._lines.get(run_id, ())]

    def steal(self, until: float) -> None:
        """Give every owned run to somebody who will never be heard of again."""
        self.memory.write(
            lambda db: db.execute(
                "UPDATE protolink_runs SET owner = 'thief', owner_identity = NULL, epoch = epoch + 1,"
                " heartbeat = heartbeat + 1, lease_expires = ? WHERE owner IS NOT NULL",
                (until,),
            )
        )


class Process:
    """One process's access to the disk. Implements ``journal.store.Database``."""

    def __init__(self, disk: Disk, faults: Iterable[Fault], clock: FakeClock, lease_seconds: float) -> None:
        self.commits = 0
        self.dead = False
        self._disk = disk
        self._clock = clock
        self._lease_seconds = lease_seconds
        self._faults: dict[int, list[Fault]] = {}
        self._failed: dict[int, int] = {}
        for fault in faults:
            self._faults.setdefault(fault.commit, []).append(fault)

    def write(self, work: Work[T]) -> T:
        self._check_alive()
        faults = self._faults.get(self.commits + 1, [])
        for fault in faults:
            self._fail(fault)
        stored: list[dict[str, list[bytes]]] = []

        def counted(db: sqlite3.Connection) -> T:
            changes, before = db.total_changes, _ends(db)
            result = work(db)
            if db.total_changes != changes:
                stored.append(_news(db, before))
                if _stolen(db, stored[0]):
                    self._disk.stale_commits += 1
                self._die(Crash(self.commits + 1) in faults)
            return result

        found = self._disk.memory.write(counted)
        if stored:
            self.commits += 1
            self._disk.committed(stored[0])
            self._die(Crash(self.commits, after=True) in faults)
        return found

    def submit(self, work: Work[T]) -> None:
        self.write(work)

    def read(self, work: Work[T]) -> T:
        self._check_alive()
        return self._disk.memory.read(work)

    def close(self) -> None:
        """The disk stays."""

    def _fail(self, fault: Fault) -> None:
        failed = self._failed.get(fault.commit, 0)
        if isinstance(fault, Theft) and not failed:
            self._failed[fault.commit] = 1
            self._disk.steal(self._clock.now() + self._lease_seconds)
        if isinstance(fault, Outage) and failed < fault.times:
            self._failed[fault.commit] = failed + 1
            raise StoreUnavailableError("The store is out of reach, as planned", store="FaultyStore")

    def _die(self, now: bool) -> None:
        if now:
            self.dead = True
            self._check_alive()

    def _check_alive(self) -> None:
        if self.dead:
            raise SimulatedCrash


class FaultyStore(RunStore):
    """A complete durable store in memory, as one process has it, with faults at planned commits.

    ``clock`` is also the leases' clock; give the same one to the agents. ``disk``: what earlier processes stored.
    """

    def __init__(
        self,
        faults: Iterable[Fault] = (),
        *,
        clock: FakeClock | None = None,
        lease_seconds: float = 30.0,
        disk: Disk | None = None,
    ) -> None:
        self.clock = clock or FakeClock()
        self.disk = disk or Disk()
        self.process = Process(self.disk, faults, self.clock, lease_seconds)
        super().__init__(self.process, lease_seconds=lease_seconds, clock=self.clock.now, monotonic=self.clock.now)

    @property
    def dead(self) -> bool:
        """True once the process has died; every call then raises SimulatedCrash."""
        return self.process.dead

    @property
    def commits(self) -> int:
        """Commits of this process so far."""
        return self.process.commits

    def kill(self) -> None:
        """The process dies now."""
        self.process.dead = True

    def beside(self, faults: Iterable[Fault] = ()) -> FaultyStore:
        """The store of another process that runs at the same time."""
        return FaultyStore(faults, clock=self.clock, lease_seconds=self.lease_seconds, disk=self.disk)

    def restart(self, faults: Iterable[Fault] = ()) -> FaultyStore:
        """The store of the next process, after this one is dead and its leases have run out."""
        self.kill()
        self.clock.advance(self.lease_seconds)
        return self.beside(faults)


def _ends(db: sqlite3.Connection) -> dict[int, tuple[str, int]]:
    """Run id and number of the next fact, by the run's number."""
    rows = db.execute("SELECT number, run_id, coalesce(next_n, 0) FROM protolink_runs")
    return {number: (run_id, end) for number, run_id, end in rows}


def _news(db: sqlite3.Connection, before: dict[int, tuple[str, int]]) -> dict[str, list[bytes]]:
    """The facts that were stored since, encoded, by run."""
    found: dict[str, list[bytes]] = {}
    for number, (run_id, end) in _ends(db).items():
        begin = before.get(number, (run_id, 0))[1]
        if end > begin:
            bounds = (place(number, begin), place(number, end) - 1)
            rows = db.execute("SELECT body FROM protolink_facts WHERE place BETWEEN ? AND ? ORDER BY place", bounds)
            found[run_id] = [line for (body,) in rows.fetchall() for line in body.split(b"\n")]
    return found


def _stolen(db: sqlite3.Connection, runs: Iterable[str]) -> bool:
    """Whether the thief owns one of these runs."""
    owned = {run_id for (run_id,) in db.execute("SELECT run_id FROM protolink_runs WHERE owner = 'thief'")}
    return not owned.isdisjoint(runs)
