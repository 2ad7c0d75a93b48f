"""LocalTraceTelemetry: traces without a backend, redacted, in memory and in a file."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

from ..models import DEFAULT_REDACTION_POLICY, Part, RedactionPolicy, Task
from ..models.ids import new_id
from ..models.turn import AGENT_CALL
from ..runtime import RunContext
from .recorder import LocalTraceRecorder
from .telemetry import SCOPE, Telemetry
from .trace import Trace


class LocalTraceTelemetry(Telemetry):
    """Records one trace for each task: a span for the task, for each model call and for each action.

    ``recorder`` or ``path`` say where to. ``redactor``: a policy, or a function from JSON to JSON; the default policy
    unless one is given. ``capture_payloads=False`` leaves out what went in and came out. ValueError for both a recorder
    and a path.
    """

    def __init__(
        self,
        recorder: LocalTraceRecorder | None = None,
        *,
        path: str | os.PathLike[str] | None = None,
        redactor: RedactionPolicy | Callable[[Any], Any] | None = None,
        capture_payloads: bool = True,
        max_traces: int = 1000,
    ) -> None:
        if recorder is not None and path is not None:
            raise ValueError("give either a recorder or a path, not both")
        self.recorder = recorder or LocalTraceRecorder(path, max_traces=max_traces)
        self.capture_payloads = capture_payloads
        masks = DEFAULT_REDACTION_POLICY if redactor is None else redactor
        self._redact = masks.redact if isinstance(masks, RedactionPolicy) else masks
        # Hooks of one run are called in one context, and name no run.
        self._current: ContextVar[Trace | None] = ContextVar("protolink_trace", default=None)

    async def on_task_start(self, task: Task, agent_name: str) -> None:
        """Begin a trace. A task without a trace id gets one in its run context."""
        context = RunContext.from_task(task)
        if context.trace_id is None:
            context.trace_id = new_id("trace")
            context.attach_to_task(task)
        trace = Trace(task, context, agent_name)
        trace.root.input = self._captured({"messages": [message.to_dict() for message in task.messages[-1:]]})
        self._current.set(trace)

    async def on_task_end(self, task: Task, result: Any, agent_name: str) -> None:
        trace = self._current.get()
        if trace is None or trace.task_id != task.id:
            return
        self._current.set(None)
        ended = result if isinstance(result, Task) else task
        error = ended.metadata.get("error") if ended.state.value in ("failed", "canceled") else None
        if isinstance(result, BaseException):
            error = {"type": type(result).__name__, "message": str(result)}
        elif error is None and ended.state.value in ("failed", "canceled"):
            error = ended.state.value
        self.recorder.record(self._redact(trace.finished(ended, self._captured(ended.get_output()), error)))

    async def on_llm_start(self, prompt: Any, model: str | None = None, metadata: dict[str, Any] | None = None) -> None:
        trace, scope = self._current.get(), SCOPE.get()
        if trace is not None:
            about = {"model": model, "agent_name": scope.agent_name, "run_id": scope.run_id, **(metadata or {})}
            span = trace.open("LLM Call", "llm", self._captured(prompt), parent=scope.parent_action_id, **about)
            trace.llm_opened(scope.run_id, span)

    async def on_llm_end(self, response: Part) -> None:
        trace = self._current.get()
        if trace is not None:
            error = response.content if response.type == "error" else None
            trace.llm_ended(SCOPE.get().run_id, None if error else self._captured(response.content), error)

    async def on_tool_start(self, tool_name: str, args: dict[str, Any]) -> None:
        trace, scope = self._current.get(), SCOPE.get()
        if trace is None:
            return
        kind, name = _shown(tool_name)
        about = {"agent_name": scope.agent_name, "run_id": scope.run_id}
        span = trace.open(
            name, kind, self._captured(args), id=scope.action_id, parent=scope.parent_action_id, tool=tool_name, **about
        )
        trace.action_opened(span)

    async def on_tool_end(self, tool_name: str, result: Any, error: Any = None) -> None:
        trace = self._current.get()
        if trace is not None:
            shown = {"type": type(error).__name__, "message": str(error)} if isinstance(error, BaseException) else error
            trace.action_ended(SCOPE.get().action_id, _shown(tool_name)[1], self._captured(result), shown)

    async def on_llm_event(self, event: dict[str, Any]) -> None:
        trace = self._current.get()
        if trace is None:
            return
        kind, payload = event.get("type"), event.get("payload")
        if kind == "llm_call_metrics" and isinstance(payload, dict):
            trace.llm.add(payload)
        trace.llm.retries += kind == "llm_retry"
        shown = event if self.capture_payloads else {**event, "payload": None}
        trace.event(SCOPE.get().run_id, shown)

    def _captured(self, value: Any) -> Any:
        return value if self.capture_payloads else None


def _shown(tool_name: str) -> tuple[str, str]:
    """The kind and the name of an action's span."""
    return ("agent_call", "Agent Call") if tool_name == AGENT_CALL else ("tool", f"Tool: {tool_name}")
