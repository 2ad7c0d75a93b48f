"""The values that everything else is made of. Nothing here knows how a task is run."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._lazy import by_name, loader

_HOMES = {
    "artifact": ("Artifact",),
    "card": (
        "AGENT_ROLES",
        "AgentCapabilities",
        "AgentCard",
        "AgentInterface",
        "AgentSkill",
    ),
    "history": (
        "ConversationHistory",
        "HistoryMessage",
    ),
    "ids": (
        "new_id",
        "utc_now",
    ),
    "message": ("Message",),
    "part": (
        "Part",
        "RouteDecision",
        "ToolCall",
        "ToolOutput",
    ),
    "profile": ("LLMModelProfile",),
    "redaction": (
        "DEFAULT_REDACTION_POLICY",
        "DEFAULT_SENSITIVE_KEYS",
        "RedactionPolicy",
    ),
    "task": ("Task",),
    "task_events": (
        "TaskArtifactUpdateEvent",
        "TaskErrorEvent",
        "TaskEvent",
        "TaskLLMStreamEvent",
        "TaskProgressEvent",
        "TaskStatusUpdateEvent",
        "task_event_from_dict",
    ),
    "task_state": ("TaskState",),
    "tokens": ("estimate_tokens",),
}

__all__ = [
    "AGENT_ROLES",
    "DEFAULT_REDACTION_POLICY",
    "DEFAULT_SENSITIVE_KEYS",
    "AgentCapabilities",
    "AgentCard",
    "AgentInterface",
    "AgentSkill",
    "Artifact",
    "ConversationHistory",
    "HistoryMessage",
    "LLMModelProfile",
    "Message",
    "Part",
    "RedactionPolicy",
    "RouteDecision",
    "Task",
    "TaskArtifactUpdateEvent",
    "TaskErrorEvent",
    "TaskEvent",
    "TaskLLMStreamEvent",
    "TaskProgressEvent",
    "TaskState",
    "TaskStatusUpdateEvent",
    "ToolCall",
    "ToolOutput",
    "estimate_tokens",
    "new_id",
    "task_event_from_dict",
    "utc_now",
]

if TYPE_CHECKING:
    from .artifact import Artifact
    from .card import AGENT_ROLES, AgentCapabilities, AgentCard, AgentInterface, AgentSkill
    from .history import ConversationHistory, HistoryMessage
    from .ids import new_id, utc_now
    from .message import Message
    from .part import Part, RouteDecision, ToolCall, ToolOutput
    from .profile import LLMModelProfile
    from .redaction import DEFAULT_REDACTION_POLICY, DEFAULT_SENSITIVE_KEYS, RedactionPolicy
    from .task import Task
    from .task_events import (
        TaskArtifactUpdateEvent,
        TaskErrorEvent,
        TaskEvent,
        TaskLLMStreamEvent,
        TaskProgressEvent,
        TaskStatusUpdateEvent,
        task_event_from_dict,
    )
    from .task_state import TaskState
    from .tokens import estimate_tokens

__getattr__, __dir__ = loader(__name__, by_name(_HOMES), globals())
