"""Task: the work that agents exchange, with its messages, results and state."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from datetime import UTC, datetime
from typing import Any, Protocol

from ..errors import TaskExecutionError
from .artifact import Artifact
from .ids import new_id, utc_now
from .json import plain
from .message import Message
from .part import Part
from .shape import items, mapping, optional_text, table
from .task_state import TaskState
from .value import dataclass

_ANSWERING_ROLES = frozenset({"agent", "assistant"})
_NO_ANSWER_KINDS = frozenset({"action_result", "action_rejection", "preview"})


class _RunContext(Protocol):
    """What a task needs of a run context. The class itself lives in a layer above."""

    def copy(self, **overrides: Any) -> _RunContext: ...

    def attach_to_task(self, task: Task) -> None: ...


_context_factory: Callable[..., _RunContext] | None = None


def bind_context_factory(factory: Callable[..., _RunContext]) -> None:
    """Called once by the runtime layer: ``factory(run_id=, session_id=, budget=)`` makes a run context.

    ``session_id`` and ``budget`` may be None. Until then tasks carry the same facts as a plain mapping.
    """
    global _context_factory
    _context_factory = factory


def _task_id() -> str:
    return new_id("task")


@dataclass(slots=True)
class Task:
    """Messages in, artifacts out, and a state that moves only as TaskState allows.

    ``metadata`` holds the runtime's keys beside the application's; ``flow_state`` belongs to flows. Methods that
    change the state take ``at``, the ISO time for ``metadata["state_history"]`` (default: now), and return the task.
    """

    id: str = field(default_factory=_task_id)
    state: TaskState = TaskState.SUBMITTED
    messages: list[Message] = field(default_factory=list)
    artifacts: list[Artifact] = field(default_factory=list)
    metadata: dict[str, Any] = field(default_factory=dict)
    flow_state: dict[str, Any] = field(default_factory=dict)
    created_at: str = field(default_factory=utc_now)

    def __post_init__(self) -> None:
        self.state = TaskState(self.state)

    @classmethod
    def create(
        cls,
        message: Message | str,
        *,
        session_id: str | None = None,
        budget: Any = None,
        context: Any = None,
    ) -> Task:
        """A task of one message; text becomes a user's text message and asks for no model.

        With ``context`` a copy of it travels with the task, and ``session_id`` and ``budget`` override its fields.
        With those alone a context is made whose run id is the task's id. TypeError for anything else.
        """
        if not isinstance(message, (Message, str)):
            raise TypeError(f"a task is created from a Message or text, not {type(message).__name__}")
        task = cls(messages=[Message.user(message) if isinstance(message, str) else message])
        _attach_run(task, session_id, budget, context)
        return task

    @classmethod
    def create_infer(
        cls,
        prompt: str | None = None,
        *,
        user: str | None = None,
        output_schema: Mapping[str, Any] | None = None,
        metadata: Mapping[str, Any] | None = None,
        session_id: str | None = None,
        budget: Any = None,
        context: Any = None,
    ) -> Task:
        """A task that asks a model. ``metadata`` belongs to the part; run controls are those of ``create``."""
        message = Message.infer(prompt=prompt, user=user, output_schema=output_schema, metadata=metadata)
        return cls.create(message, session_id=session_id, budget=budget, context=context)

    @classmethod
    def create_tool_call(
        cls,
        tool_name: str,
        args: Mapping[str, Any] | None = None,
        *,
        call_id: str | None = None,
        session_id: str | None = None,
        budget: Any = None,
        context: Any = None,
    ) -> Task:
        """A task that runs one tool, without a model. Run controls are those of ``create``."""
        message = Message.tool_call(tool_name=tool_name, args=args, call_id=call_id)
        return cls.create(message, session_id=session_id, budget=budget, context=context)

    @staticmethod
    def infer(
        *,
        prompt: str | None = None,
        user: str | None = None,
        output_schema: Mapping[str, Any] | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> Part:
        """The part of a request to a model, as ``Part.infer``."""
        return Part.infer(prompt=prompt, user=user, output_schema=output_schema, metadata=metadata)

    @staticmethod
    def tool_call(*, tool_name: str, args: Mapping[str, Any] | None = None, call_id: str | None = None) -> Part:
        """The part of a request to a tool, as ``Part.tool_call``."""
        return Part.tool_call(tool_name=tool_name, args=args, call_id=call_id)

    def add_message(self, message: Message) -> Task:
        """Append this very message."""
        self.messages.append(message)
        return self

    def add_artifact(self, artifact: Artifact) -> Task:
        """Append this very artifact."""
        self.artifacts.append(artifact)
        return self

    @property
    def is_terminal(self) -> bool:
        """True when the task is completed, canceled or failed."""
        return self.state.is_terminal

    def update_state(self, state: TaskState | str, *, at: str | None = None) -> Task:
        """Move to ``state``. Staying is accepted and not recorded; ValueError for a move that is not allowed."""
        old, new = self.state, TaskState(state)
        if not old.can_become(new):
            raise ValueError(f"Invalid task state transition: {old.value} -> {new.value}")
        if new is not old:
            self.state = new
            move = {"previous_state": old.value, "new_state": new.value, "timestamp": at or utc_now()}
            self.metadata.setdefault("state_history", []).append(move)
        return self

    def begin(self, *, at: str | None = None) -> Task:
        """Start or go on working. ValueError when the task has ended."""
        return self.update_state(TaskState.WORKING, at=at)

    def complete(self, text: str, *, at: str | None = None) -> Task:
        """End well with an agent's text message. Once completed it adds a further message."""
        self._move_through_work(TaskState.COMPLETED, at)
        return self._say(text, at)

    def fail(self, message: str, *, at: str | None = None) -> Task:
        """End as failed; ``metadata["error"]`` holds the last failure's text."""
        self.update_state(TaskState.FAILED, at=at)
        self.metadata["error"] = message
        return self

    def cancel(self, reason: str | None = None, *, at: str | None = None) -> Task:
        """End as canceled. This is the stored state; it does not stop work that is running somewhere."""
        self.update_state(TaskState.CANCELED, at=at)
        if reason is not None:
            self.metadata["cancel_reason"] = reason
        return self

    def require_input(self, message: Message | str | None = None, *, at: str | None = None) -> Task:
        """Wait for somebody. Text becomes an agent's message."""
        self._move_through_work(TaskState.INPUT_REQUIRED, at)
        if isinstance(message, str):
            return self._say(message, at)
        return self if message is None else self.add_message(message)

    def _say(self, text: str, at: str | None) -> Task:
        return self.add_message(Message(role="agent", parts=[Part.text(text)], timestamp=at or utc_now()))

    def _move_through_work(self, state: TaskState, at: str | None) -> None:
        if not self.state.can_become(state) and not self.is_terminal:
            self.begin(at=at)
        self.update_state(state, at=at)

    def get_last_item(self) -> Message | Artifact | None:
        """The newest message or artifact; of two with the same time, the artifact. None when there is neither."""
        message = self.messages[-1] if self.messages else None
        artifact = self.artifacts[-1] if self.artifacts else None
        if message is None or artifact is None:
            return message or artifact
        if self.state is TaskState.COMPLETED and len(self.messages) == 1 and message.role == "user":
            return artifact  # an answer cannot be older than its only request, whatever two machines' clocks say
        return message if _moment(message.timestamp) > _moment(artifact.timestamp) else artifact

    def get_last_part(self) -> Part | None:
        """The last part of the newest item, requests included."""
        item = self.get_last_item()
        return item.parts[-1] if item is not None and item.parts else None

    def get_last_part_content(self) -> Any:
        """The content of ``get_last_part()``: JSON, or a ToolCall, ToolOutput or RouteDecision."""
        part = self.get_last_part()
        return None if part is None else part.typed_content()

    def get_output(self, default: Any = None) -> Any:
        """The answer, when the newest item is one; ``default`` for requests, errors, receipts and previews.

        An answer is a model's output, a tool's result without error, or text or JSON said by an agent or attached as
        a result. Older items are not looked at: what came after an answer has replaced it.
        """
        item, part = self.get_last_item(), self.get_last_part()
        if item is None or part is None or (isinstance(item, Artifact) and item.kind in _NO_ANSWER_KINDS):
            return default
        if part.type == "infer_output":
            return part.content
        if part.type == "tool_output":
            output = part.as_tool_output()
            return output.result if output.error is None else default
        said = item.kind == "result" if isinstance(item, Artifact) else item.role in _ANSWERING_ROLES
        return part.content if said and part.type in ("text", "json") else default

    def raise_for_status(self) -> Task:
        """This task, or TaskExecutionError when it failed or was canceled."""
        if self.state in (TaskState.FAILED, TaskState.CANCELED):
            raise TaskExecutionError(self)
        return self

    def to_dict(self) -> dict[str, Any]:
        """Every field as detached JSON; the state as its text."""
        return {
            "id": self.id,
            "state": self.state.value,
            "messages": [message.to_dict() for message in self.messages],
            "artifacts": [artifact.to_dict() for artifact in self.artifacts],
            "metadata": plain(self.metadata),
            "flow_state": plain(self.flow_state),
            "created_at": self.created_at,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Task:
        """Read ``to_dict()`` back; missing members get their defaults. ValueError names what is malformed."""
        found = mapping(data, "Task")
        return cls(
            id=optional_text(found, "id", "Task") or _task_id(),
            state=TaskState(optional_text(found, "state", "Task") or "submitted"),
            messages=[Message.from_dict(message) for message in items(found, "messages", "Task")],
            artifacts=[Artifact.from_dict(artifact) for artifact in items(found, "artifacts", "Task")],
            metadata=table(found, "metadata", "Task"),
            flow_state=table(found, "flow_state", "Task"),
            created_at=optional_text(found, "created_at", "Task") or utc_now(),
        )


def _attach_run(task: Task, session_id: str | None, budget: Any, context: _RunContext | None) -> None:
    overrides = {name: value for name, value in (("session_id", session_id), ("budget", budget)) if value is not None}
    if context is not None:
        if not callable(getattr(context, "attach_to_task", None)):
            raise TypeError(f"context must be a RunContext, not {type(context).__name__}")
        context.copy(**overrides).attach_to_task(task)
    elif overrides and _context_factory is not None:
        _context_factory(run_id=task.id, session_id=session_id, budget=budget).attach_to_task(task)
    elif overrides:
        task.metadata["run_context"] = {"run_id": task.id, **plain(overrides)}
        task.metadata["run_id"] = task.id
        if session_id is not None:
            task.metadata["session_id"] = session_id


def _moment(timestamp: str) -> datetime:
    """A comparable time. Peers may write other offsets or none; text that is no time counts as the oldest."""
    try:
        found = datetime.fromisoformat(timestamp)
    except ValueError:
        return datetime.min.replace(tzinfo=UTC)
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)
