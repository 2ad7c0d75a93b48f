"""InMemoryStorage: values that end with the process."""

from __future__ import annotations

import copy
import threading
import time
from collections.abc import Callable, MutableMapping
from typing import Any

from ..models.json import dumps, loads
from .part_names import name_in, namespace_of
from .storage import Storage

#: Several storages may share one store, so they share the lock too; it is held for single steps.
_LOCK = threading.Lock()


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

    def load(self) -> Any:
        with _LOCK:
            found = self._store.get(self.namespace)
            if found is None or self._expired(found):
                return None
        return loads(found[0])

    def save(self, data: Any) -> None:
        text = dumps(data)
        with _LOCK:
            self._store.pop(self.namespace, None)  # what was written last stands last
            self._store[self.namespace] = text, None if self.ttl is None else self._clock() + self.ttl

    def delete(self) -> None:
        with _LOCK:
            self._store.pop(self.namespace, None)

    def part(self, name: str) -> InMemoryStorage:
        """A storage of its own, under a namespace of its own; it expires by itself."""
        found = copy.copy(self)
        found.namespace = namespace_of(self.namespace, name)
        return found

    def parts(self) -> list[str]:
        with _LOCK:
            alive = [key for key, value in self._store.items() if not self._expired(value)]
        return [name for key in alive if (name := name_in(self.namespace, key)) is not None]

    def cleanup_expired(self) -> int:
        """Forget what has expired in all namespaces of the store; returns how many values that were."""
        with _LOCK:
            expired = [name for name, value in self._store.items() if self._expired(value)]
            for name in expired:
                del self._store[name]
        return len(expired)

    def _expired(self, value: tuple[str, float | None]) -> bool:
        return value[1] is not None and value[1] <= self._clock()
