"""Starting and stopping what a group owns."""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import Sequence
from typing import Any

_log = logging.getLogger("protolink.group")


class Resources:
    """Owned resources in the order of their start. Each may offer ``start()`` and ``stop()``, awaitable or not."""

    def __init__(self, owned: Sequence[Any]) -> None:
        self._owned = owned
        self._begun: list[Any] = []

    def ready(self, resource: Any) -> bool:
        return any(resource is begun for begun in self._begun)

    async def start(self, seconds: float) -> None:
        """Start all, or none: when one fails or time runs out, those that have begun are stopped again, that one too.

        TimeoutError, or what the resource raises.
        """
        try:
            async with asyncio.timeout(seconds):
                for resource in self._owned:
                    self._begun.append(resource)
                    await _call(resource, "start")
        except BaseException:
            for error in await self.stop():
                _log.warning("Taking back a failed start: %s: %s", type(error).__name__, error)
            raise

    async def stop(self) -> list[Exception]:
        """Stop what has begun, the last one first. One that fails does not keep the others running."""
        errors: list[Exception] = []
        while self._begun:
            resource = self._begun[-1]
            try:
                await _call(resource, "stop")
            except Exception as error:  # the resource's; its owner hears of it when the others are stopped
                errors.append(error)
            self._begun.pop()  # not when it was canceled: then it is stopped again the next time
        return errors


async def _call(resource: Any, name: str) -> None:
    method = getattr(resource, name, None)
    if callable(method):
        found = method()
        if inspect.isawaitable(found):
            await found
