"""MultiTelemetry: several backends as one."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

from ..models import Part, Task
from .telemetry import Telemetry

_log = logging.getLogger("protolink.telemetry")


class MultiTelemetry(Telemetry):
    """Tells each of ``backends`` in turn. One that fails is logged and does not keep the others from hearing."""

    def __init__(self, backends: Iterable[Telemetry]) -> None:
        self.backends = tuple(backends)

    async def on_task_start(self, task: Task, agent_name: str) -> None:
        await self._each(lambda backend: backend.on_task_start(task, agent_name))

    async def on_task_end(self, task: Task, result: Any, agent_name: str) -> None:
        await self._each(lambda backend: backend.on_task_end(task, result, agent_name))

    async def on_llm_start(self, prompt: Any, model: str | None = None, metadata: dict[str, Any] | None = None) -> None:
        await self._each(lambda backend: backend.on_llm_start(prompt, model, metadata))

    async def on_llm_end(self, response: Part) -> None:
        await self._each(lambda backend: backend.on_llm_end(response))

    async def on_tool_start(self, tool_name: str, args: dict[str, Any]) -> None:
        await self._each(lambda backend: backend.on_tool_start(tool_name, args))

    async def on_tool_end(self, tool_name: str, result: Any, error: Any = None) -> None:
        await self._each(lambda backend: backend.on_tool_end(tool_name, result, error))

    async def on_llm_event(self, event: dict[str, Any]) -> None:
        await self._each(lambda backend: backend.on_llm_event(event))

    async def _each(self, tell: Callable[[Telemetry], Awaitable[None]]) -> None:
        for backend in self.backends:
            try:
                await tell(backend)
            except Exception as error:  # a backend's; the run and the other backends go on
                _log.warning("%s failed: %s: %s", type(backend).__name__, type(error).__name__, error)
