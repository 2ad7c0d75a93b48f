"""The raw events of a task's stream, as agents yield them and transports carry them.

They are made some fifteen times in every model turn, so nothing is checked at construction; ``from_dict`` checks.
Whoever makes many passes ``event_id`` and ``timestamp``. ``metadata`` holds the event's payload.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import MISSING, field, fields
from types import NoneType
from typing import Any, ClassVar

from .artifact import Artifact
from .ids import new_uuid, utc_now
from .json import plain
from .shape import mapping
from .value import dataclass


@dataclass(slots=True)
class TaskStatusUpdateEvent:
    """The task changed its state. States are the texts of TaskState; ``final`` ends the stream."""

    type: ClassVar[str] = "task_status_update"

    task_id: str
    previous_state: str | None
    new_state: str
    final: bool = False
    metadata: dict[str, Any] = field(default_factory=dict)
    event_id: str = field(default_factory=new_uuid)
    timestamp: str = field(default_factory=utc_now)

    def to_dict(self) -> dict[str, Any]:
        """The event as JSON, with its ``type``."""
        return _write(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> TaskStatusUpdateEvent:
        """Read ``to_dict()`` back. ValueError names what is missing or malformed."""
        return cls(**_read(cls, data))

    def members(self) -> dict[str, Any]:
        """What ``to_dict`` writes, with the event's own containers in place of copies. They have to be JSON already."""
        return {
            "type": self.type,
            "event_id": self.event_id,
            "task_id": self.task_id,
            "timestamp": self.timestamp,
            "previous_state": self.previous_state,
            "new_state": self.new_state,
            "final": self.final,
            "metadata": self.metadata,
        }


@dataclass(slots=True)
class TaskArtifactUpdateEvent:
    """An artifact was attached to the task."""

    type: ClassVar[str] = "task_artifact_update"

    task_id: str
    artifact: Artifact
    metadata: dict[str, Any] = field(default_factory=dict)
    event_id: str = field(default_factory=new_uuid)
    timestamp: str = field(default_factory=utc_now)

    def to_dict(self) -> dict[str, Any]:
        """The event as JSON, with its ``type``."""
        return _write(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> TaskArtifactUpdateEvent:
        """Read ``to_dict()`` back. ValueError names what is missing or malformed."""
        return cls(**_read(cls, data))

    def members(self) -> dict[str, Any]:
        """What ``to_dict`` writes, with the event's own containers in place of copies. They have to be JSON already."""
        return {
            "type": self.type,
            "event_id": self.event_id,
            "task_id": self.task_id,
            "timestamp": self.timestamp,
            "artifact": self.artifact.to_dict() if type(self.artifact) is Artifact else self.artifact,
            "metadata": self.metadata,
        }


@dataclass(slots=True)
class TaskProgressEvent:
    """Work goes on. ``progress`` is a percentage."""

    type: ClassVar[str] = "task_progress"

    task_id: str
    progress: int = 0
    message: str | None = None
    metadata: dict[str, Any] = field(default_factory=dict)
    event_id: str = field(default_factory=new_uuid)
    timestamp: str = field(default_factory=utc_now)

    def to_dict(self) -> dict[str, Any]:
        """The event as JSON, with its ``type``."""
        return _write(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> TaskProgressEvent:
        """Read ``to_dict()`` back. ValueError names what is missing or malformed."""
        return cls(**_read(cls, data))

    def members(self) -> dict[str, Any]:
        """What ``to_dict`` writes, with the event's own containers in place of copies. They have to be JSON already."""
        return {
            "type": self.type,
            "event_id": self.event_id,
            "task_id": self.task_id,
            "timestamp": self.timestamp,
            "progress": self.progress,
            "message": self.message,
            "metadata": self.metadata,
        }


@dataclass(slots=True)
class TaskErrorEvent:
    """The task met an error. ``recoverable`` tells whether it goes on."""

    type: ClassVar[str] = "task_error"

    task_id: str
    error_code: str
    error_message: str
    recoverable: bool = False
    metadata: dict[str, Any] = field(default_factory=dict)
    event_id: str = field(default_factory=new_uuid)
    timestamp: str = field(default_factory=utc_now)

    def to_dict(self) -> dict[str, Any]:
        """The event as JSON, with its ``type``."""
        return _write(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> TaskErrorEvent:
        """Read ``to_dict()`` back. ValueError names what is missing or malformed."""
        return cls(**_read(cls, data))

    def members(self) -> dict[str, Any]:
        """What ``to_dict`` writes, with the event's own containers in place of copies. They have to be JSON already."""
        return {
            "type": self.type,
            "event_id": self.event_id,
            "task_id": self.task_id,
            "timestamp": self.timestamp,
            "error_code": self.error_code,
            "error_message": self.error_message,
            "recoverable": self.recoverable,
            "metadata": self.metadata,
        }


@dataclass(slots=True)
class TaskLLMStreamEvent:
    """Something in a model's loop. ``content`` is a text fragment or the final answer, None for other types."""

    type: ClassVar[str] = "task_llm_stream"

    task_id: str
    agent_name: str | None = None
    llm_event_type: str = ""
    step: int | None = None
    content: Any = None
    final: bool = False
    metadata: dict[str, Any] = field(default_factory=dict)
    event_id: str = field(default_factory=new_uuid)
    timestamp: str = field(default_factory=utc_now)

    def to_dict(self) -> dict[str, Any]:
        """The event as JSON, with its ``type``."""
        return _write(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> TaskLLMStreamEvent:
        """Read ``to_dict()`` back. ValueError names what is missing or malformed."""
        return cls(**_read(cls, data))

    def members(self) -> dict[str, Any]:
        """What ``to_dict`` writes, with the event's own containers in place of copies. They have to be JSON already."""
        return {
            "type": self.type,
            "event_id": self.event_id,
            "task_id": self.task_id,
            "timestamp": self.timestamp,
            "agent_name": self.agent_name,
            "llm_event_type": self.llm_event_type,
            "step": self.step,
            "content": self.content,
            "final": self.final,
            "metadata": self.metadata,
        }


TaskEvent = TaskStatusUpdateEvent | TaskArtifactUpdateEvent | TaskProgressEvent | TaskErrorEvent | TaskLLMStreamEvent

_CLASSES: tuple[type[TaskEvent], ...] = (
    TaskStatusUpdateEvent,
    TaskArtifactUpdateEvent,
    TaskProgressEvent,
    TaskErrorEvent,
    TaskLLMStreamEvent,
)
_BY_TYPE: dict[str, type[TaskEvent]] = {cls.type: cls for cls in _CLASSES}
TASK_EVENTS = frozenset(_CLASSES)

_SCALARS = frozenset((str, int, bool, NoneType))

_SHAPES: dict[str, tuple[type, ...]] = {
    "task_id": (str,),
    "event_id": (str,),
    "timestamp": (str,),
    "metadata": (dict,),
    "previous_state": (str, type(None)),
    "new_state": (str,),
    "final": (bool,),
    "progress": (int,),
    "message": (str, type(None)),
    "error_code": (str,),
    "error_message": (str,),
    "recoverable": (bool,),
    "agent_name": (str, type(None)),
    "llm_event_type": (str,),
    "step": (int, type(None)),
}


def task_event_from_dict(data: Mapping[str, Any]) -> TaskEvent:
    """The event that ``data["type"]`` names. ValueError for a type that is none, or a malformed event."""
    found = mapping(data, "task event")
    kind = found.get("type")
    if not isinstance(kind, str) or kind not in _BY_TYPE:
        raise ValueError(f"task event member 'type' must be one of {', '.join(_BY_TYPE)}")
    return _BY_TYPE[kind].from_dict(found)


def _write(event: TaskEvent) -> dict[str, Any]:
    return {name: value if type(value) in _SCALARS else plain(value) for name, value in event.members().items()}


def _read(cls: type[TaskEvent], data: Mapping[str, Any]) -> dict[str, Any]:
    """The constructor's arguments. Members that this version does not know are left out."""
    found = mapping(data, cls.__name__)
    if found.get("type", cls.type) != cls.type:
        raise ValueError(f"{cls.__name__} member 'type' must be '{cls.type}'")
    arguments: dict[str, Any] = {}
    for item in fields(cls):
        if item.name in found:
            arguments[item.name] = _member(cls, item.name, found[item.name])
        elif item.default is MISSING and item.default_factory is MISSING:
            raise ValueError(f"{cls.__name__} needs the member '{item.name}'")
    return arguments


def _member(cls: type[TaskEvent], name: str, value: Any) -> Any:
    if name == "artifact":
        return Artifact.from_dict(value)
    shape = _SHAPES.get(name)
    wrong_bool = isinstance(value, bool) and shape is not None and bool not in shape
    if shape is not None and (wrong_bool or not isinstance(value, shape)):
        raise ValueError(f"{cls.__name__} member '{name}' must not be {type(value).__name__}")
    return dict(value) if name == "metadata" else value
