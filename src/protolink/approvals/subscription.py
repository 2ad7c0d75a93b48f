"""One reader of a broker's records."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Iterable
from types import TracebackType

from .record import ApprovalRecord, ApprovalScope


class ApprovalSubscription:
    """An async iterator of records; ends when it is closed. It listens from the moment it was made.

    For one reader. What is not read yet is kept, so close what nobody reads; one that is dropped closes itself.
    """

    def __init__(self, scope: ApprovalScope, first: Iterable[ApprovalRecord]) -> None:
        self.scope = scope
        self._records = deque(first)
        self._waiting: asyncio.Future[None] | None = None
        self._closed = False

    def tell(self, record: ApprovalRecord) -> None:
        """Hand in a change. Ignored after the end, and for runs outside the scope."""
        if not self._closed and record.request.run_id in self.scope.run_ids:
            self._records.append(record)
            self._wake()

    def __aiter__(self) -> ApprovalSubscription:
        return self

    async def __anext__(self) -> ApprovalRecord:
        while not self._closed:
            if self._records:
                return self._records.popleft()
            if self._waiting is not None and not self._waiting.done():
                raise RuntimeError("a subscription has one reader; make another one with events()")
            self._waiting = asyncio.get_running_loop().create_future()
            await self._waiting
        raise StopAsyncIteration

    async def aclose(self) -> None:
        """Stop listening; a reader that waits is let go. Harmless a second time."""
        self._closed = True
        self._records.clear()
        self._wake()

    async def __aenter__(self) -> ApprovalSubscription:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    def _wake(self) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)
