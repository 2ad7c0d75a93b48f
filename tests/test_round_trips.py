"""Every value whose payload is JSON reads back as it was written: those that have no such test beside their own."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protolink import (
    AgentCapabilities,
    AgentInterface,
    AgentSkill,
    Artifact,
    ConversationLimits,
    HistoryCompactionRequest,
    HistoryCompactionResult,
    LLMModelProfile,
    RouteDecision,
    StateOperationRequest,
    StateOperationResult,
    StoreState,
    TaskArtifactUpdateEvent,
    TaskCancellationRequest,
    TaskErrorEvent,
    TaskLLMStreamEvent,
    TaskProgressEvent,
    TaskStatusUpdateEvent,
    ToolCall,
    ToolOutput,
    ToolRejectedError,
)
from protolink.models.json import dumps, loads

json = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)
table = st.dictionaries(st.text(max_size=4), json, max_size=3)
words = st.text(max_size=6)
names = st.text("abcxyz_1", min_size=1, max_size=6)
perhaps = st.none() | words
flag = st.booleans() | st.none()
counts = st.integers(0, 10**6)
bound = st.none() | st.integers(1, 10**6)
labels = st.lists(names, max_size=2, unique=True).map(tuple)
price = st.none() | st.floats(0, 1e6)
event = {"task_id": names, "metadata": table, "event_id": names, "timestamp": names}

STORE: dict[str, st.SearchStrategy[Any]] = {
    "name": names,
    "enabled": st.booleans(),
    "exists": st.booleans(),
    "item_count": counts,
    "message_count": counts,
    "cleared": st.booleans(),
    "compacted": st.booleans(),
    "data": json,
    "metadata": table,
    "error": st.none() | names,
}

VALUES: dict[type, dict[str, st.SearchStrategy[Any]]] = {
    TaskCancellationRequest: {"id": names, "reason": st.none() | names, "metadata": table},
    TaskStatusUpdateEvent: {**event, "previous_state": perhaps, "new_state": words, "final": st.booleans()},
    TaskArtifactUpdateEvent: {**event, "artifact": st.builds(Artifact, id=names, metadata=table, uri=perhaps)},
    TaskProgressEvent: {**event, "progress": st.integers(), "message": perhaps},
    TaskErrorEvent: {**event, "error_code": words, "error_message": words, "recoverable": st.booleans()},
    TaskLLMStreamEvent: {
        **event,
        "agent_name": perhaps,
        "llm_event_type": words,
        "step": st.none() | st.integers(),
        "content": json,
        "final": st.booleans(),
    },
    ToolCall: {"tool_name": names, "args": table, "call_id": names},
    ToolOutput: {"call_id": st.none() | names, "result": json, "error": json},
    RouteDecision: {
        "route_key": names,
        "reason": perhaps,
        "confidence": st.none() | st.floats(0, 1),
        "metadata": table,
    },
    AgentSkill: {"id": names, "description": words, "input_schema": table, "tags": st.lists(names, max_size=2)},
    AgentInterface: {"url": names, "transport": names, "protocol_version": names},
    AgentCapabilities: {"streaming": st.booleans(), "rag": st.booleans(), "supports_inference": flag},
    LLMModelProfile: {
        "context_window": st.none() | st.integers(1, 10**9),
        "input_cost_per_million": price,
        "output_cost_per_million": price,
        "provider": perhaps,
        "supports_tools": flag,
        "metadata": table,
    },
    ConversationLimits: {"max_messages": bound, "max_tokens": bound, "max_sessions": bound},
    HistoryCompactionRequest: {"keep": counts, "session_id": st.none() | names},
    HistoryCompactionResult: {"session_id": st.none() | names, "messages_before": counts, "messages_after": counts},
    StateOperationRequest: {
        "session_id": st.none() | names,
        "modules": labels,
        "include_data": st.booleans(),
        "keep_turns": st.none() | counts,
        "keep_work": counts,
    },
    StoreState: STORE,
    StateOperationResult: {
        "operation": st.sampled_from(["describe", "reset", "compact"]),
        "session_id": st.none() | names,
        "stores": st.lists(st.builds(StoreState, **STORE), max_size=2).map(tuple),
        "cleared": labels,
        "compacted": labels,
        "missing": labels,
        "errors": st.lists(names, max_size=2).map(tuple),
        "metadata": table,
    },
}


@pytest.mark.parametrize("kind", VALUES, ids=lambda kind: kind.__name__)
@given(data=st.data())
def test_value_reads_back_as_it_was_written(kind: Any, data: st.DataObject) -> None:
    value = data.draw(st.builds(kind, **VALUES[kind]))
    written = value.to_dict()
    assert kind.from_dict(loads(dumps(written))) == value
    assert kind.from_dict(written).to_dict() == written


@given(names, names, json, st.none() | names)
def test_rejection_reads_back_as_it_was_written(message: str, code: str, details: Any, suggestion: str | None) -> None:
    rejection = ToolRejectedError(message, code=code, details=details, suggestion=suggestion)
    again = ToolRejectedError.from_dict(loads(dumps(rejection.to_dict())))
    assert (str(again), again.to_dict()) == (str(rejection), rejection.to_dict())
