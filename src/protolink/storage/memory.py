"""InMemoryStorage: values that end with the process."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, MutableMapping
from typing import Any

from ..models.json import dumps, loads
from .storage import Storage


class InMemoryStorage(Storage):
    """A value in memory, kept as JSON text, so that it behaves as in a file.

    ``store`` is shared by whoever is given it; without one the value is private. ``ttl``: seconds until a saved value
    is forgotten. ValueError for a ``ttl`` that is not above 0.
    """

    def __init__(
        self,
        namespace: str = "default",
        ttl: float | None = None,
        store: MutableMapping[str, tuple[str, float | None]] | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        if ttl is not None and ttl <= 0:
            raise ValueError("InMemoryStorage ttl must be above 0 seconds, or None to keep values")
        self.namespace = namespace
        self.ttl = ttl
        self._store = store if store is not None else {}
        self._clock = clock
        self._lock = threading.Lock()

    def load(self) -> Any:
        with self._lock:
            found = self._store.get(self.namespace)
            if found is None or self._expired(found):
                return None
        return loads(found[0])

    def save(self, data: Any) -> None:
        text = dumps(data)
        with self._lock:
            self._store[self.namespace] = text, None if self.ttl is None else self._clock() + self.ttl

    def delete(self) -> None:
        with self._lock:
            self._store.pop(self.namespace, None)

    def cleanup_expired(self) -> int:
        """Forget what has expired in all namespaces of the store; returns how many values that were."""
        with self._lock:
            expired = [name for name, value in self._store.items() if self._expired(value)]
            for name in expired:
                del self._store[name]
        return len(expired)

    def _expired(self, value: tuple[str, float | None]) -> bool:
        return value[1] is not None and value[1] <= self._clock()
