"""The journal of a live run."""

from __future__ import annotations

from collections.abc import Sequence

from ..engine.facts import Record


class KeepNothing:
    """Facts of a live run are folded and forgotten."""

    durable = False

    def append(self, records: Sequence[Record], status: str) -> None:
        """Nothing to store: done at once."""

    async def release(self) -> None:
        """Nothing is owned."""
