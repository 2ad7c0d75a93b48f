"""One drive of a run as an agent holds it: the driver, its journal and the task that the caller sees."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

from ..drive.driver import Driver
from ..drive.ending import failure, returns_failed
from ..drive.journal import KeepNothing
from ..engine.facts import Record
from ..engine.receipts import export
from ..engine.state import Run
from ..errors import StoreUnavailableError
from ..models import Task
from .heartbeat import HEARTBEAT
from .pointing import PointingJournal

#: Facts that could not be stored before a drive gave up, by store and run. The next drive in this process stores them
#: first.
_unsaved: dict[tuple[int, str], list[Record]] = {}


def unsaved(journal: PointingJournal) -> list[Record]:
    """The facts of this run that are known here and not yet stored."""
    return _unsaved.get((id(journal.store), journal.run_id), [])


def take_unsaved(journal: PointingJournal) -> list[Record]:
    """The same, to be stored by the caller from now on."""
    return _unsaved.pop((id(journal.store), journal.run_id), [])


@dataclass
class Drive:
    """A drive that is about to start, under way, or over."""

    driver: Driver
    journal: PointingJournal | KeepNothing
    task: Task
    done: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def run(self) -> Run:
        return self.driver.run

    async def finish(self) -> None:
        """Drive to the next rest; whatever happens, give up ownership and keep what could not be stored."""
        journal = self.journal
        stop = HEARTBEAT.watch(journal) if isinstance(journal, PointingJournal) else None
        try:
            await self.driver.drive()
        except StoreUnavailableError:
            if isinstance(journal, PointingJournal):
                _unsaved[id(journal.store), journal.run_id] = list(self.driver.buffer)
            raise
        finally:
            if stop is not None:
                stop()
            await journal.release()
            self.done.set()
        export(self.run)

    def failure(self) -> BaseException | None:
        """The exception that a known end means for ``run_task``; None when the task says it all."""
        if self.run.outcome == "failed" and not returns_failed(self.run):
            return failure(self.run, self.task, self.driver.errors)
        return None

    def error_of(self, action_id: Any) -> BaseException | None:
        """The exception that an action of this drive raised, where it did."""
        return self.driver.errors.get(action_id or "")
