"""A run's journal that stores the run's turn of a conversation before the run's end.

In that order a crash between the two loses nothing: the run is not finished, and going on with it stores the turn
again, which changes nothing. Once a run's end is stored its turn is never stored again, whatever was forgotten since.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Sequence
from typing import Any

from ..drive.ports import Clock, Journal
from ..engine import facts as f
from ..engine.facts import Record
from ..engine.state import Run
from ..errors import DurableExecutionError, StoreUnavailableError
from .memory import Memory

_log = logging.getLogger("protolink.state")


class RememberingJournal:
    """Implements ``drive.ports.Journal``. ``patience``: seconds for which a live run waits for its storage.

    A durable run whose turn cannot be stored stays unfinished and can be resumed. A live run has no later: then it
    ends without, which is logged and stands in its task's metadata as ``state_error``.
    """

    def __init__(self, journal: Journal, run: Run, memory: Memory, clock: Clock, patience: float) -> None:
        self.durable = journal.durable
        self._journal = journal
        self._run = run
        self._memory = memory
        self._clock = clock
        self._patience = patience
        self._since: float | None = None

    def append(self, records: Sequence[Record], status: str) -> Awaitable[None] | None:
        if any(isinstance(record.fact, f.RunFinished) and record.fact.outcome == "completed" for record in records):
            return self._remember_first(records, status)
        return self._journal.append(records, status)

    async def _remember_first(self, records: Sequence[Record], status: str) -> None:
        try:
            await self._memory.remember(self._run)
        except DurableExecutionError as error:
            self._give_up(error)
        stored = self._journal.append(records, status)
        if stored is not None:
            await stored

    async def release(self) -> None:
        """Ownership is given up by whoever opened the journal; see ``Drive.finish``."""
        await self._journal.release()

    def _give_up(self, error: DurableExecutionError) -> None:
        """Raise it, so that it is tried again, or let a live run end without.

        A durable run meets every trouble as it meets that of its own store: what it has done must not be lost with it.
        """
        now = self._clock.now()
        self._since = now if self._since is None else self._since
        away = isinstance(error, StoreUnavailableError)
        if away and (self.durable or now - self._since < self._patience):
            raise error
        if self.durable:
            raise StoreUnavailableError(str(error), store="storage") from error
        _log.error("Run '%s' is not remembered: %s", self._run.id, error)
        told: dict[str, Any] = {"code": type(error).__name__, "message": str(error)}
        self._run.task.metadata["state_error"] = told
