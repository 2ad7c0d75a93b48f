"""One trace under way: its spans and events, as they are recorded in the end."""

from __future__ import annotations

from dataclasses import asdict, field
from datetime import datetime
from typing import Any

from ..models import Task
from ..models.ids import new_id, utc_now
from ..models.value import dataclass
from ..runtime import RunContext


@dataclass(slots=True)
class Span:
    """A piece of work. ``kind``: task, llm, tool or agent_call; ``status``: running, ok or error."""

    id: str
    trace_id: str
    name: str
    kind: str
    parent_id: str | None = None
    started_at: str = field(default_factory=utc_now)
    ended_at: str | None = None
    status: str = "running"
    input: Any = None
    output: Any = None
    error: Any = None
    metadata: dict[str, Any] = field(default_factory=dict)
    events: list[dict[str, Any]] = field(default_factory=list)

    def end(self, output: Any = None, error: Any = None) -> None:
        if self.ended_at is None:
            self.ended_at = utc_now()
            self.output, self.error = output, error
            self.status = "ok" if error is None else "error"

    def to_dict(self) -> dict[str, Any]:
        """All fields, and ``duration_ms``, None while it runs."""
        found = asdict(self)
        if self.ended_at is not None:
            took = datetime.fromisoformat(self.ended_at) - datetime.fromisoformat(self.started_at)
            return found | {"duration_ms": took.total_seconds() * 1000}
        return found | {"duration_ms": None}


class Trace:
    """The trace of one task. Its ids are those of the task's run context."""

    def __init__(self, task: Task, context: RunContext, agent_name: str) -> None:
        assert context.trace_id is not None
        self.context = context
        self.task_id = task.id
        self.agent_name = agent_name
        self.started_at = utc_now()
        self.spans: list[Span] = []
        self.events: list[dict[str, Any]] = []
        self.llm = LLMTotals()
        self.root = self.open(f"Task: {agent_name}", "task", None)
        self._open_llm: dict[str | None, Span] = {}
        self._open_actions: list[Span] = []

    def open(
        self, name: str, kind: str, input: Any, *, id: str | None = None, parent: str | None = None, **metadata: Any
    ) -> Span:
        """A new span below ``parent``, or below the task's."""
        above = parent if any(span.id == parent for span in self.spans) else None
        above = above or (self.root.id if self.spans else None)
        assert self.context.trace_id is not None
        span = Span(id or new_id("span"), self.context.trace_id, name, kind, above, input=input, metadata=metadata)
        self.spans.append(span)
        return span

    def llm_opened(self, run_id: str | None, span: Span) -> None:
        self.llm_ended(run_id, None, "another call began")
        self._open_llm[run_id] = span

    def llm_ended(self, run_id: str | None, output: Any, error: Any) -> None:
        span = self._open_llm.pop(run_id, None)
        if span is not None:
            span.end(output, error)

    def action_opened(self, span: Span) -> None:
        self._open_actions.append(span)

    def action_ended(self, action_id: str | None, name: str, output: Any, error: Any) -> None:
        """By its id; the oldest open one of that name, where the id is not known."""
        for span in self._open_actions:
            if span.id == action_id or (action_id is None and span.name == name):
                self._open_actions.remove(span)
                span.end(output, error)
                return

    def event(self, run_id: str | None, event: dict[str, Any]) -> None:
        span = self._open_llm.get(run_id) or self.root
        record = {
            "type": event.get("type"),
            "timestamp": event.get("timestamp") or utc_now(),
            "span_id": span.id,
            "payload": event.get("payload"),
        }
        self.events.append(record)
        span.events.append({"type": record["type"], "timestamp": record["timestamp"]})

    def finished(self, task: Task, output: Any, error: Any) -> dict[str, Any]:
        """The trace as it is recorded. What still runs ends with it."""
        for span in self.spans:
            if span is not self.root:
                span.end(None, None if span.ended_at else "ended with its task")
        self.root.end(output, error)
        return {
            "trace_id": self.context.trace_id,
            "run_id": self.context.run_id,
            "session_id": self.context.session_id,
            "task_id": self.task_id,
            "agent_name": self.agent_name,
            "started_at": self.started_at,
            "ended_at": self.root.ended_at,
            "status": self.root.status,
            "metadata": {
                "agent_name": self.agent_name,
                "task_state": task.state.value,
                "final_state": task.state.value,
                "retry_count": self.llm.retries,
                "llm_metrics": self.llm.to_dict(),
            },
            "spans": [span.to_dict() for span in self.spans],
            "events": self.events,
        }


@dataclass(slots=True)
class LLMTotals:
    """What the model calls of a trace add up to."""

    call_count: int = 0
    total_latency_ms: float = 0.0
    total_input_tokens: int = 0
    total_output_tokens: int = 0
    total_tokens: int = 0
    estimated_token_calls: int = 0
    total_cost: float | None = None
    currency: str | None = None
    max_context_used_percent: float | None = None
    max_context_used_tokens: int | None = None
    context_window_tokens: int | None = None
    retries: int = 0

    def add(self, metrics: dict[str, Any]) -> None:
        """Count one call, from its ``llm_call_metrics``."""
        usage, context = metrics.get("usage") or {}, metrics.get("context") or {}
        self.call_count += 1
        self.total_latency_ms += metrics.get("latency_ms") or 0.0
        self.total_input_tokens += usage.get("input_tokens") or 0
        self.total_output_tokens += usage.get("output_tokens") or 0
        self.total_tokens += usage.get("total_tokens") or 0
        self.estimated_token_calls += bool(usage.get("estimated"))
        cost = metrics.get("cost") or {}
        if cost.get("total_cost") is not None:
            self.total_cost = (self.total_cost or 0.0) + cost["total_cost"]
            self.currency = cost.get("currency")
        self.max_context_used_percent = _larger(self.max_context_used_percent, context.get("used_percent"))
        self.max_context_used_tokens = _larger(self.max_context_used_tokens, context.get("used_tokens"))
        self.context_window_tokens = _larger(self.context_window_tokens, context.get("window_tokens"))

    def to_dict(self) -> dict[str, Any]:
        found = asdict(self)
        del found["retries"]
        return found


def _larger(one: Any, other: Any) -> Any:
    return max((value for value in (one, other) if value is not None), default=None)
