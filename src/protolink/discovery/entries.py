"""The agents that a registry knows, by address."""

from __future__ import annotations

import math
import threading
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ..drive.ports import Clock
from ..errors import AgentNotFoundError
from ..models import AgentCard
from ..models.shape import items, mapping
from ..models.value import dataclass
from ..runtime.fields import number
from ..storage import Storage


@dataclass(frozen=True, slots=True)
class RegistryEntry:
    """One registered agent. Times are Unix seconds."""

    card: AgentCard
    registered_at: float
    last_seen: float

    def to_dict(self) -> dict[str, Any]:
        return {"card": self.card.to_dict(), "registered_at": self.registered_at, "last_seen": self.last_seen}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> RegistryEntry:
        """Read ``to_dict()`` back. ValueError or TypeError names what is malformed."""
        found = mapping(data, "RegistryEntry")
        times = {key: number(found, key, "RegistryEntry", float) for key in ("registered_at", "last_seen")}
        if None in times.values():
            raise ValueError("RegistryEntry needs 'registered_at' and 'last_seen'")
        return cls(AgentCard.from_dict(found.get("card")), **times)  # type: ignore[arg-type]


class Entries:
    """Kept in ``storage`` too, when there is one. Safe to use from any thread.

    ``ttl``: seconds after which an agent that was not heard of is forgotten; None keeps them all.
    """

    def __init__(self, ttl: float | None, storage: Storage | None, clock: Clock) -> None:
        if ttl is not None and (isinstance(ttl, bool) or not isinstance(ttl, (int, float))):
            raise TypeError(f"entry_ttl_seconds is a number or None, not {type(ttl).__name__}")
        if ttl is not None and not (ttl > 0 and math.isfinite(ttl)):
            raise ValueError("entry_ttl_seconds must be above 0 and finite, or None to keep entries")
        self._ttl = ttl
        self._storage = storage
        self._clock = clock
        self._lock = threading.Lock()
        self._by_url = _loaded(storage)

    def put(self, card: AgentCard) -> None:
        """Register the card under its url, in place of an earlier one."""
        now = self._clock.now()
        url = spelled(card.url)
        with self._lock:
            known = self._by_url.get(url)
            since = known.registered_at if known is not None else now
            self._change({**self._by_url, url: RegistryEntry(card, since, now)})

    def remove(self, url: str) -> None:
        """Harmless when there is none."""
        with self._lock:
            if spelled(url) in self._by_url:
                self._change({key: entry for key, entry in self._by_url.items() if key != spelled(url)})

    def seen(self, url: str) -> None:
        """The agent lives. AgentNotFoundError when it is not, or no longer, registered."""
        with self._lock:
            entry = self._living().get(spelled(url))
            if entry is None:
                raise AgentNotFoundError(f"No agent is registered under '{url}': register it again")
            self._change({**self._by_url, spelled(url): replace(entry, last_seen=self._clock.now())})

    def living(self) -> list[RegistryEntry]:
        """Those that have not expired, the first registered first."""
        with self._lock:
            return list(self._living().values())

    def get(self, url: str) -> RegistryEntry | None:
        with self._lock:
            return self._living().get(spelled(url))

    def clear(self) -> None:
        with self._lock:
            self._change({})

    def _living(self) -> dict[str, RegistryEntry]:
        if self._ttl is None:
            return self._by_url
        oldest = self._clock.now() - self._ttl
        living = {url: entry for url, entry in self._by_url.items() if entry.last_seen > oldest}
        if len(living) != len(self._by_url):
            self._change(living)
        return living

    def _change(self, entries: dict[str, RegistryEntry]) -> None:
        """Stored first: when that fails, nothing has changed."""
        if self._storage is not None:
            self._storage.save({"version": 1, "entries": [entry.to_dict() for entry in entries.values()]})
        self._by_url = entries


def spelled(url: str) -> str:
    """The spelling under which an address is kept."""
    return url.rstrip("/")


def _loaded(storage: Storage | None) -> dict[str, RegistryEntry]:
    stored = None if storage is None else storage.load()
    if stored is None:
        return {}
    try:
        if mapping(stored, "registry").get("version") != 1:
            raise ValueError("its version is not 1")
        entries = [RegistryEntry.from_dict(entry) for entry in items(stored, "entries", "registry")]
    except (ValueError, TypeError) as error:
        raise ValueError(f"the registry's storage does not hold a registry: {error}") from None
    return {spelled(entry.card.url): entry for entry in entries}
