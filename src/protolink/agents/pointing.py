"""A root's journal that tells the store of each child before the child's first fact is stored."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from typing import TYPE_CHECKING, Any

from .._lazy import Later
from ..engine import facts as f
from ..engine.facts import Record
from ..journal.contract import DurableStore, OpenJournal

if TYPE_CHECKING:
    from ..journal import adapter
else:
    adapter = Later("..journal.adapter", __package__)


class PointingJournal:
    """An ``OpenJournal`` with pointers: a child's run id leads to the journal that its facts are in."""

    durable = True

    def __init__(self, journal: OpenJournal, store: DurableStore) -> None:
        self.store = store
        self.run_id = journal.run_id
        self.epoch = journal.epoch
        self.records = journal.records
        self._journal = journal

    @property
    def lease_seconds(self) -> float:
        return float(getattr(self.store, "lease_seconds", 300.0))

    def append(self, records: Sequence[Record], status: str) -> Awaitable[None] | None:
        children = _children(records)
        return self._append_after(children, records, status) if children else self._journal.append(records, status)

    async def _append_after(self, children: list[f.Spec], records: Sequence[Record], status: str) -> None:
        await asyncio.to_thread(self._point, children)
        stored = self._journal.append(records, status)
        if stored is not None:
            await stored

    def _point(self, children: list[f.Spec]) -> None:
        for spec in children:
            parent: Any = (spec.context or {}).get("parent_run_id") or self.run_id
            name = spec.agent.rsplit("/", 1)[-1]
            adapter.point_to_root(self.store, spec.run_id, name, root_run_id=self.run_id, parent_run_id=parent)

    def append_now(self, records: Sequence[Record], status: str) -> None:
        """``append``, blocking. What a drive kept when its store was away may begin a child, too."""
        self._point(_children(records))
        self._journal.append_now(records, status)

    def renew(self) -> None:
        self._journal.renew()

    async def release(self) -> None:
        await self._journal.release()

    def release_now(self) -> None:
        self._journal.release_now()


def _children(records: Sequence[Record]) -> list[f.Spec]:
    return [
        record.fact.spec
        for record in records
        if isinstance(record.fact, f.FrameOpened) and record.fact.spec is not None
    ]
