"""One drive of a run as an agent holds it: the driver, its journal and the task that the caller sees."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ..drive.driver import Driver
from ..drive.ending import failure, returns_failed
from ..drive.journal import KeepNothing
from ..engine import facts as f
from ..engine.facts import Record
from ..engine.fold import fold
from ..engine.receipts import export
from ..engine.state import Run, status
from ..errors import StoreUnavailableError
from ..models import Task
from .heartbeat import HEARTBEAT
from .observing import Observation
from .pointing import PointingJournal

#: Facts that could not be stored before a drive gave up, by store and run. Whoever opens the run next in this process
#: stores them first. The store is kept with them, so that its id stays its own; and the run's salt, since the run may
#: be deleted and its id used again meanwhile.
_kept: dict[tuple[str | int, str], tuple[Any, str, list[Record]]] = {}


#: Runs that could not be given up, since the store was away then. Nobody drives them; opening one gives it up first.
_left: dict[tuple[str | int, str], PointingJournal] = {}


def _place(store: Any, run_id: str) -> tuple[str | int, str]:
    path = getattr(store, "path", None)
    return (id(store) if path is None else os.path.abspath(path)), run_id


async def give_up(journal: PointingJournal | KeepNothing) -> None:
    """Give up ownership. A store that is away now must not change how a drive ends: then it is done later."""
    try:
        await journal.release()
    except StoreUnavailableError:
        assert isinstance(journal, PointingJournal)
        _left[_place(journal.store, journal.run_id)] = journal


def give_up_now(journal: PointingJournal) -> None:
    """``give_up``, blocking: what was stored is stored, whether the store lets go of the run now or later."""
    try:
        journal.release_now()
    except StoreUnavailableError:
        _left[_place(journal.store, journal.run_id)] = journal


def give_up_left(store: Any, run_id: str) -> None:
    """Give up what an earlier drive of this process could not; blocking. StoreUnavailableError when it still cannot."""
    left = _left.get(_place(store, run_id))
    if left is not None:
        left.release_now()
        _left.pop(_place(store, run_id), None)


def left_something(store: Any, run_id: str) -> bool:
    """Whether an earlier drive of this process left something to be done when the run is opened."""
    return bool(_left or _kept) and (_place(store, run_id) in _left or _place(store, run_id) in _kept)


def _keep(journal: PointingJournal, salt: str, records: Sequence[Record]) -> None:
    """Keep what happened. Intents that were not stored never began; the facts behind them move up."""
    happened = [record for record in records if not isinstance(record.fact, (f.ToolStarted, f.ModelStarted))]
    first = happened[0].n if happened else 0
    numbered = [Record(first + index, record.seq, record.at, record.fact) for index, record in enumerate(happened)]
    _kept[_place(journal.store, journal.run_id)] = journal.store, salt, numbered


def _salt(records: Sequence[Record]) -> str | None:
    return getattr(records[0].fact, "salt", None) if records else None


def store_kept(journal: PointingJournal) -> None:
    """Store what an earlier drive could not; blocking. Nothing when another owner went on with the run meanwhile."""
    place = _place(journal.store, journal.run_id)
    _, salt, kept = _kept.get(place, (None, "", []))
    if kept and _salt(journal.records) == salt and journal.records[-1].n + 1 == kept[0].n:
        journal.append_now(kept, status(fold([*journal.records, *kept])))
        journal.records.extend(kept)
    _kept.pop(place, None)


@dataclass
class Drive:
    """A drive that is about to start, under way, or over."""

    driver: Driver
    journal: PointingJournal | KeepNothing
    task: Task
    observation: Observation | None = None

    @property
    def run(self) -> Run:
        return self.driver.run

    async def finish(self) -> None:
        """Drive to the next rest; whatever happens, give up ownership and keep what could not be stored."""
        journal = self.journal
        stop = HEARTBEAT.watch(journal) if isinstance(journal, PointingJournal) else None
        try:
            await self.driver.drive()
        except (StoreUnavailableError, asyncio.CancelledError):
            # Canceled while the store is away, too: what happened is kept whoever stops waiting for it.
            if isinstance(journal, PointingJournal) and self.driver.log.buffer:
                _keep(journal, self.run.salt, self._known())
            raise
        finally:
            if stop is not None:
                stop()
            await give_up(journal)
            if self.observation is not None:
                await self.observation.close()
        export(self.run)

    def _known(self) -> list[Record]:
        """What is to be kept. The end of a run in a conversation is left to a resume, which stores the turn first."""
        buffer = self.driver.log.buffer
        if self.run.conversation is None:
            return buffer
        return [record for record in buffer if not isinstance(record.fact, f.RunFinished)]

    def failure(self) -> BaseException | None:
        """The exception that a known end means for ``run_task``; None when the task says it all."""
        if self.run.outcome == "failed" and not returns_failed(self.run):
            return failure(self.run, self.task, self.driver.errors)
        return None

    def error_of(self, action_id: Any) -> BaseException | None:
        """The exception that an action of this drive raised, where it did."""
        return self.driver.errors.get(action_id or "")
