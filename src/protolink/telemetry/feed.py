"""TelemetryFeed: turns the events of one drive into the calls of hooks."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable
from typing import Any

from ..models import Part, Task
from ..models.turn import AGENT_CALL
from ..runtime import RunContext, RunEvent
from .telemetry import SCOPE, Scope, Telemetry

_log = logging.getLogger("protolink.telemetry")
#: Seconds that the end of a run waits for hooks.
PATIENCE = 10.0
_ENDED = {"action.completed": None, "action.failed": "failed", "action.rejected": "rejected",
          "action.canceled": "canceled", "action.uncertain": "uncertain"}  # fmt: skip


class TelemetryFeed:
    """A sink for the events of one drive. Calls the hooks one after the other, in an asyncio task of its own.

    ``task`` is brought up to date by whoever drives the run. What hooks raise is logged; ``close`` waits for them.
    """

    def __init__(self, telemetry: Telemetry, task: Task, context: RunContext, agent_name: str) -> None:
        self._telemetry = telemetry
        self._task = task
        self._context = context
        self._agent_name = agent_name
        self._queue: asyncio.Queue[RunEvent | None] = asyncio.Queue()
        self._worker: asyncio.Task[None] | None = None
        self._started: set[str] = set()
        self._replies: dict[str | None, list[Any]] = {}

    def __call__(self, event: Any) -> None:
        """Take an event of the run, in the loop that drives it."""
        if self._worker is None:
            self._worker = asyncio.get_running_loop().create_task(self._work())
        self._queue.put_nowait(RunEvent.from_task_event(event, context=self._context))

    async def close(self) -> None:
        """Tell the end of the task and wait until all hooks have returned, for ``PATIENCE`` seconds at most."""
        worker, self._worker = self._worker, None
        if worker is None:
            return
        self._queue.put_nowait(None)
        await asyncio.wait([worker], timeout=PATIENCE)
        if not worker.done():
            worker.cancel()
            _log.warning("%s did not return in %s s", type(self._telemetry).__name__, PATIENCE)

    async def _work(self) -> None:
        hooks = self._telemetry
        await self._safely(hooks.on_task_start(self._task, self._agent_name))
        while (event := await self._queue.get()) is not None:
            scope = Scope(event.run_id, event.agent_name, event.action_id, event.parent_action_id)
            SCOPE.set(scope)
            await self._tell(event, _details(event))
        for run_id in list(self._replies):
            await self._replied(run_id)
        SCOPE.set(Scope(self._context.run_id, self._agent_name))
        await self._safely(hooks.on_task_end(self._task, self._task, self._agent_name))

    async def _tell(self, event: RunEvent, details: dict[str, Any]) -> None:
        kind = details.get("llm_event_type")
        if kind not in ("llm_response", "llm_action", "llm_parse_error", None) or event.type.startswith("task."):
            await self._replied(event.run_id)
        if event.type == "llm.call.started":
            await self._llm_started(details)
        if kind is not None:
            await self._safely(self._telemetry.on_llm_event(_llm_event(event, kind, details)))
        if event.type == "llm.call.completed":
            self._replies[event.run_id] = []
        elif kind == "llm_action" and event.run_id in self._replies:
            self._replies[event.run_id].append(details.get("payload"))
        elif kind == "llm_error" or (kind == "llm_retry" and details.get("reason") == "transient_error"):
            await self._safely(self._telemetry.on_llm_end(Part("error", {"message": details.get("message")})))
        elif event.type == "action.started":
            await self._action_started(event, details)
        elif event.type in _ENDED:
            await self._action_ended(event, details)

    async def _llm_started(self, details: dict[str, Any]) -> None:
        about = {key: details.get(key) for key in ("provider", "step", "attempt", "input_tokens", "streaming")}
        await self._safely(self._telemetry.on_llm_start(self._prompt(), details.get("model"), about))

    def _prompt(self) -> Any:
        """The request that the task makes of a model."""
        parts = [part for message in self._task.messages for part in message.parts if part.type == "infer"]
        content = parts[-1].content if parts else None
        return content.get("prompt") if isinstance(content, dict) else content

    async def _replied(self, run_id: str | None) -> None:
        """All that a reply holds is known when something else comes."""
        actions = self._replies.pop(run_id, None)
        if actions is not None:
            scope = SCOPE.get()
            SCOPE.set(Scope(run_id))
            await self._safely(self._telemetry.on_llm_end(Part.infer_output(content=actions)))
            SCOPE.set(scope)

    async def _action_started(self, event: RunEvent, details: dict[str, Any]) -> None:
        self._started.add(event.action_id or "")
        payload = details.get("payload")
        arguments = details.get("args") or (payload if isinstance(payload, dict) else {})
        await self._safely(self._telemetry.on_tool_start(_name(details), arguments))

    async def _action_ended(self, event: RunEvent, details: dict[str, Any]) -> None:
        """Of an action that began; others were refused before, which is no work of a tool."""
        if (event.action_id or "") not in self._started:
            return
        error = _ENDED[event.type] and (details.get("error") or details.get("rejection") or _ENDED[event.type])
        await self._safely(self._telemetry.on_tool_end(_name(details), details.get("result"), error))

    async def _safely(self, hook: Awaitable[None]) -> None:
        try:
            await hook
        except Exception as error:  # the backend's; a run does not fail because it is watched
            _log.warning("%s failed: %s: %s", type(self._telemetry).__name__, type(error).__name__, error)


def _details(event: RunEvent) -> dict[str, Any]:
    """The members of an event on one level: its metadata, and over it its own."""
    inside = event.payload.get("metadata")
    own = {key: value for key, value in event.payload.items() if value is not None and key != "metadata"}
    return {**(inside if isinstance(inside, dict) else {}), **own}


def _llm_event(event: RunEvent, kind: str, details: dict[str, Any]) -> dict[str, Any]:
    payload = event.payload.get("metadata")
    found = dict(payload) if isinstance(payload, dict) else {}
    if details.get("content") is not None:
        found["content"] = details["content"]
    about = {"step": event.step, "agent_name": event.agent_name}
    return {"type": kind, "timestamp": event.timestamp, **about, "payload": found}


def _name(details: dict[str, Any]) -> str:
    delegation = details.get("action_kind") == "agent.call" or "agent" in details
    return AGENT_CALL if delegation else str(details.get("tool") or "unknown")
