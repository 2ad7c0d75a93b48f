"""The clock of real runs."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable


class SystemClock:
    """Wall time for what is stored, the event loop's timers for waiting."""

    now = staticmethod(time.time)

    async def sleep_until(self, when: float) -> None:
        await asyncio.sleep(max(0.0, when - self.now()))

    def call_at(self, when: float, callback: Callable[[], None]) -> Callable[[], None]:
        return asyncio.get_running_loop().call_later(max(0.0, when - self.now()), callback).cancel
