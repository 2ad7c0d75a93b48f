"""Part: the smallest piece of content, and the three typed contents that programs act on."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any

from .ids import new_id
from .json import plain
from .shape import mapping, optional_text, required_text, table
from .task_state import TaskState
from .value import dataclass


@dataclass(slots=True)
class ToolCall:
    """A request to run a tool. ``call_id`` joins it to its output."""

    tool_name: str
    args: dict[str, Any] = field(default_factory=dict)
    call_id: str = field(default_factory=lambda: new_id("tool_call"))

    def to_dict(self) -> dict[str, Any]:
        """``{"tool_name", "args", "call_id"}``."""
        return {"tool_name": self.tool_name, "args": plain(self.args), "call_id": self.call_id}

    @classmethod
    def from_dict(cls, data: Any) -> ToolCall:
        """Read ``to_dict()`` back; a missing call id is made new. ValueError names what is malformed."""
        found = mapping(data, "tool_call content")
        return cls(
            tool_name=required_text(found, "tool_name", "tool_call content"),
            args=table(found, "args", "tool_call content"),
            call_id=optional_text(found, "call_id", "tool_call content") or new_id("tool_call"),
        )


@dataclass(slots=True)
class ToolOutput:
    """What a tool returned, or why it did not: ``error`` is None exactly when the call succeeded."""

    call_id: str | None = None
    result: Any = None
    error: Any = None

    def to_dict(self) -> dict[str, Any]:
        """``{"call_id", "result", "error"}``, in this order."""
        return {"call_id": self.call_id, "result": plain(self.result), "error": plain(self.error)}

    @classmethod
    def from_dict(cls, data: Any) -> ToolOutput:
        """Read ``to_dict()`` back. ValueError names what is malformed."""
        found = mapping(data, "tool_output content")
        call_id = optional_text(found, "call_id", "tool_output content")
        return cls(call_id=call_id, result=found.get("result"), error=found.get("error"))


@dataclass(slots=True)
class RouteDecision:
    """Which way a router chose. ``confidence`` is the chooser's own number, usually from 0 to 1."""

    route_key: str
    reason: str | None = None
    confidence: float | None = None
    metadata: dict[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """``{"route_key", "reason", "confidence", "metadata"}``."""
        return {
            "route_key": self.route_key,
            "reason": self.reason,
            "confidence": self.confidence,
            "metadata": plain(self.metadata),
        }

    @classmethod
    def from_dict(cls, data: Any) -> RouteDecision:
        """Read ``to_dict()`` back. ValueError names what is malformed."""
        what = "route content"
        found = mapping(data, what)
        confidence = found.get("confidence")
        if confidence is not None and (isinstance(confidence, bool) or not isinstance(confidence, (int, float))):
            raise ValueError(f"{what} member 'confidence' must be a number or null")
        return cls(
            route_key=required_text(found, "route_key", what),
            reason=optional_text(found, "reason", what),
            confidence=confidence,
            metadata=table(found, "metadata", what),
        )


@dataclass(slots=True)
class Part:
    """Typed content: ``type`` says how to read ``content``. Types are open; only those with a reader are checked.

    ``content`` is JSON, or one of ToolCall (``tool_call``), ToolOutput (``tool_output``), RouteDecision (``route``,
    ``decision``). Nothing is checked at construction; ``to_dict`` and ``from_dict`` both refuse a content that the
    other could not have produced, so that whatever was stored can be read.
    """

    type: str
    content: Any = None

    @classmethod
    def text(cls, text: str) -> Part:
        """Plain text."""
        return cls("text", text)

    @classmethod
    def json(cls, value: Any) -> Part:
        """Any JSON value."""
        return cls("json", value)

    @classmethod
    def status(cls, state: TaskState | str, message: str | None = None) -> Part:
        """``{"state", "message"}``."""
        return cls("status", {"state": state.value if isinstance(state, TaskState) else state, "message": message})

    @classmethod
    def error(cls, code: str, message: str, *, retryable: bool = False) -> Part:
        """``{"code", "message", "retryable"}``."""
        return cls("error", {"code": code, "message": message, "retryable": retryable})

    @classmethod
    def infer(
        cls,
        *,
        prompt: str | None = None,
        user: str | None = None,
        output_schema: Mapping[str, Any] | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> Part:
        """A request to a model; the content has only the members that are given."""
        given = {"prompt": prompt, "user": user, "output_schema": output_schema, "metadata": metadata}
        return cls("infer", {key: value for key, value in given.items() if value is not None})

    @classmethod
    def infer_output(cls, *, content: Any) -> Part:
        """A model's answer: the text or object itself."""
        return cls("infer_output", content)

    @classmethod
    def tool_call(cls, *, tool_name: str, args: Mapping[str, Any] | None = None, call_id: str | None = None) -> Part:
        """A request to a tool; the call id is made new when none is given."""
        return cls("tool_call", ToolCall(tool_name, dict(args or {}), call_id or new_id("tool_call")))

    @classmethod
    def tool_output(cls, *, call_id: str | None = None, result: Any = None, error: Any = None) -> Part:
        """A tool's result or error. Without the id of a call it gets an id of its own."""
        return cls("tool_output", ToolOutput(call_id or new_id("tool_output"), result, error))

    @classmethod
    def route(
        cls,
        key: str,
        *,
        reason: str | None = None,
        confidence: float | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> Part:
        """A router's choice."""
        return cls("route", RouteDecision(key, reason, confidence, dict(metadata or {})))

    @classmethod
    def decision(
        cls,
        key: str,
        *,
        reason: str | None = None,
        confidence: float | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> Part:
        """A choice that is recorded, with the content of ``route``."""
        return cls("decision", RouteDecision(key, reason, confidence, dict(metadata or {})))

    def as_tool_call(self) -> ToolCall:
        """The content of a ``tool_call`` part; ValueError for any other."""
        self._expect("tool_call")
        content: ToolCall = self.typed_content()
        return content

    def as_tool_output(self) -> ToolOutput:
        """The content of a ``tool_output`` part; ValueError for any other."""
        self._expect("tool_output")
        content: ToolOutput = self.typed_content()
        return content

    def as_route_decision(self) -> RouteDecision:
        """The content of a ``route`` or ``decision`` part; ValueError for any other."""
        self._expect("route", "decision")
        content: RouteDecision = self.typed_content()
        return content

    def typed_content(self) -> Any:
        """The content, as its object where the type has one. ValueError when it is malformed.

        A mapping is replaced in place, so that a call id made up for it stays the same.
        """
        reader = _READERS.get(self.type)
        if reader is not None:
            self.content = reader(self.content)
        return self.content

    def to_dict(self) -> dict[str, Any]:
        """``{"type", "content"}``, detached. ValueError when the content does not fit the type."""
        return {"type": self.type, "content": plain(self.typed_content())}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Part:
        """Read ``to_dict()`` back, with its content object. ValueError names what is missing or malformed."""
        found = mapping(data, "Part")
        part = cls(required_text(found, "type", "Part"), found.get("content"))
        part.typed_content()
        return part

    def _expect(self, *types: str) -> None:
        if self.type not in types:
            raise ValueError(f"Expected part type {' or '.join(types)}, got {self.type}")


def _read_text(content: Any) -> str:
    if not isinstance(content, str):
        raise ValueError(f"text content must be text, not {type(content).__name__}")
    return content


def _read_infer(content: Any) -> Mapping[str, Any]:
    found = mapping(content, "infer content")
    for key in ("prompt", "user"):
        optional_text(found, key, "infer content")
    for key in ("output_schema", "metadata"):
        table(found, key, "infer content")
    return found


def _read_tool_call(content: Any) -> ToolCall:
    return content if isinstance(content, ToolCall) else ToolCall.from_dict(content)


def _read_tool_output(content: Any) -> ToolOutput:
    return content if isinstance(content, ToolOutput) else ToolOutput.from_dict(content)


def _read_route(content: Any) -> RouteDecision:
    return content if isinstance(content, RouteDecision) else RouteDecision.from_dict(content)


_READERS: dict[str, Callable[[Any], Any]] = {
    "text": _read_text,
    "infer": _read_infer,
    "tool_call": _read_tool_call,
    "tool_output": _read_tool_output,
    "route": _read_route,
    "decision": _read_route,
}
