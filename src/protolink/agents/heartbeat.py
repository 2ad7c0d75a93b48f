"""Leases of long drives are renewed by a thread, so that a blocked event loop does not lose its run."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable

from ..errors import DurableExecutionError
from .pointing import PointingJournal


class Heartbeat:
    """One daemon thread for the process, started with the first long drive."""

    def __init__(self) -> None:
        self._begin()

    def _begin(self) -> None:
        self._pid = os.getpid()
        self._lock = threading.Condition()
        self._watched: dict[int, tuple[PointingJournal, float, float]] = {}
        self._thread: threading.Thread | None = None

    def watch(self, journal: PointingJournal) -> Callable[[], None]:
        """Renew the journal's lease every third of it, until the returned function is called."""
        if self._pid != os.getpid():
            self._begin()  # a forked child must not keep the leases of its parent, nor wait for its lock
        every = journal.lease_seconds / 3
        key = id(journal)
        with self._lock:
            self._watched[key] = (journal, every, time.monotonic() + every)
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._run, name="protolink-heartbeat", daemon=True)
                self._thread.start()
            self._lock.notify()
        return lambda: self._forget(key)

    def _forget(self, key: int) -> None:
        with self._lock:
            self._watched.pop(key, None)

    def _run(self) -> None:
        while True:
            with self._lock:
                now = time.monotonic()
                due = [key for key, (_, _, when) in self._watched.items() if when <= now]
                if not due:
                    times = [when for _, _, when in self._watched.values()]
                    self._lock.wait(min(times) - now if times else None)
                    continue
                journals = []
                for key in due:
                    journal, every, _ = self._watched[key]
                    self._watched[key] = (journal, every, now + every)
                    journals.append(journal)
            for journal in journals:
                self._renew(journal)

    def _renew(self, journal: PointingJournal) -> None:
        try:
            journal.renew()
        except DurableExecutionError:
            # Lost or unreachable: the next flush finds that out where it can be told to the caller.
            self._forget(id(journal))


HEARTBEAT = Heartbeat()
