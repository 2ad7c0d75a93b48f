"""Where the records that ProtoLink writes hold what differs from run to run.

A shape lists such members of a record; everything that is not listed is compared as it is. So arguments, results,
texts, and the metadata of applications are exact without being known here.
"""

from __future__ import annotations

import re
from typing import Any

from ..event_kinds import LLM_TYPES, TASK_TYPES
from .identity import Identities
from .rules import RUNTIME_LIMIT, Rule, Shape, counter, each, identity, message, record, story, time, timing, walk

RUN, TASK_ID, ACTION_ID, REQUEST_ID = (identity(kind) for kind in ("run", "task", "action", "request"))
EVENT_ID, SESSION, TRACE = (identity(kind) for kind in ("event", "session", "trace"))

CONTEXT: Shape = {"run_id": RUN, "session_id": SESSION, "trace_id": TRACE, "parent_run_id": RUN, "created_at": time}
MANIFEST: Shape = {"run_id": RUN, "session_id": SESSION, "created_at": time}
USAGE: Shape = {"runtime_seconds": timing}
METRICS: Shape = {"latency_ms": timing}
HANDOFF: Shape = {"run_id": RUN, "usage": record(USAGE), "completed_action_ids": each(ACTION_ID)}
RELATIONS: Shape = {
    "span_id": ACTION_ID,
    "parent_span_id": ACTION_ID,
    "action_id": ACTION_ID,
    "parent_action_id": ACTION_ID,
    "delegation_id": ACTION_ID,
}

# ---------------------------------------------------------------------------------------- messages and artifacts

_INPUT_RESULT = {"request_id", "status", "answer"}
_INPUT_ID = re.compile(r"input_\d{14}_[0-9a-f]{16}")


def result(ids: Identities, value: Any) -> Any:
    """Results belong to tools and are exact, except for the one that the runtime makes: that of a question."""
    made = type(value) is dict and value.keys() == _INPUT_RESULT and _INPUT_ID.fullmatch(str(value["request_id"]))
    return walk({"request_id": REQUEST_ID}, ids, value) if made else value


_CALL = record({"content": record({"call_id": identity("call"), "result": result})})
_RECEIPT = record({"content": record({"action_id": ACTION_ID, "result": result})})


def part(ids: Identities, value: Any) -> Any:
    return _CALL(ids, value) if type(value) is dict and value.get("type") in ("tool_call", "tool_output") else value


def artifact(ids: Identities, value: Any) -> Any:
    receipt = type(value) is dict and value.get("kind") in ("action_result", "action_rejection")
    return walk(_RECEIPT_ARTIFACT if receipt else _ARTIFACT, ids, value)


_ARTIFACT: Shape = {"id": identity("artifact"), "timestamp": time, "action_id": ACTION_ID, "parts": each(part)}
_RECEIPT_ARTIFACT: Shape = {**_ARTIFACT, "parts": each(_RECEIPT)}
MESSAGE: Shape = {"id": identity("message"), "timestamp": time, "parts": each(part)}

# ------------------------------------------------------------------------------------------ actions and decisions

ACTION: Shape = {
    "action_id": ACTION_ID,
    "created_at": time,
    "artifacts": each(artifact),
    "metadata": record({"edited_from": ACTION_ID}),
}


def decision(ids: Identities, value: Any) -> Any:
    """Of a policy, a person or a budget. What a time limit observed is a timing."""
    timed = type(value) is dict and value.get("limit_name") == RUNTIME_LIMIT
    return walk(_TIMED_DECISION if timed else _DECISION, ids, value)


_DECISION: Shape = {"request_id": REQUEST_ID, "decided_at": time, "timestamp": time, "usage": record(USAGE)}
_TIMED_DECISION: Shape = {**_DECISION, "observed": timing, "message": message}

REQUEST: Shape = {
    "run_id": RUN,
    "task_id": TASK_ID,
    "request_id": REQUEST_ID,
    "action_id": ACTION_ID,
    "created_at": time,
    "expires_at": time,
    "action": record(ACTION),
    "usage": record(USAGE),
    "completed_action_ids": each(ACTION_ID),
}
INTERRUPTION: Shape = {
    "run_id": RUN,
    "request_id": REQUEST_ID,
    "request": record(REQUEST),
    "fingerprint": identity("fingerprint"),
}
APPROVAL: Shape = {
    "event_id": EVENT_ID,
    "run_id": RUN,
    "task_id": TASK_ID,
    "action_id": ACTION_ID,
    "timestamp": time,
    "request": record(REQUEST),
    "decision": decision,
}

# ---------------------------------------------------------------------------------------------------------- events


def event(ids: Identities, value: Any) -> Any:
    """The envelope of an event, and of its payload what the runtime wrote there."""
    found = walk(_EVENT, ids, value)
    payload = found.get("payload") if type(found) is dict else None
    if type(payload) is not dict:
        return found
    found = found.copy() if found is value else found
    metadata, type_ = found.get("metadata"), found.get("type")
    source = metadata.get("source_type") if type(metadata) is dict else None
    if source is not None and payload.get("type") == source:
        kind = payload.get("llm_event_type") if source == "task_llm_stream" else source
        if type(kind) is str and kind in _DETAILS:
            found["payload"] = _streamed(ids, payload, kind)
            found["summary"] = _summary(type_, found.get("summary"))
        else:
            found["payload"] = walk(_RAW, ids, payload)
    elif type(type_) is str and type_.startswith(_NATIVE):
        found["payload"] = walk(_ACTIVITY, ids, payload)
        found["summary"] = message(ids, found.get("summary"))
    elif payload.get("action_id") == value.get("action_id"):
        found["payload"] = walk({"action_id": ACTION_ID}, ids, payload)
    return found


def _streamed(ids: Identities, payload: dict[str, Any], kind: str) -> dict[str, Any]:
    """The raw event of a stream with its promoted members; details stand in it or in its metadata."""
    found: dict[str, Any] = walk(_STREAMED[kind], ids, payload)
    if "metadata" in payload:
        found = {**found, "metadata": walk(_DETAILS[kind], ids, payload["metadata"])}
    return found


def _summary(type_: Any, summary: Any) -> Any:
    """What a summary shows of ids and timings is in the payload, normalized."""
    if type_ == "task.artifact":
        return "Artifact produced"
    if type_ == "llm.call.completed" and type(summary) is str:
        return summary.rpartition(" in ")[0] or summary
    return message(Identities(), summary)


_EVENT: Shape = {
    "event_id": EVENT_ID,
    "run_id": RUN,
    "task_id": TASK_ID,
    **RELATIONS,
    "sequence": counter,
    "timestamp": time,
    "metadata": record({"parent_run_id": RUN, "source_sequence": counter}),
}
_RAW: Shape = {"event_id": EVENT_ID, "task_id": TASK_ID, "timestamp": time}

# ---------------------------------------------------------------------------------------------------------- tasks

BLOCKER: Shape = {
    "run_id": RUN,
    "action_id": ACTION_ID,
    "request_id": REQUEST_ID,
    "decision": decision,
    "message": message,
}
_LATE: Shape = {"action_id": ACTION_ID, "call_id": identity("call"), "decision": decision}
_TASK_METADATA: Shape = {
    "run_context": record(CONTEXT),
    "run_id": RUN,
    "session_id": SESSION,
    "trace_id": TRACE,
    "parent_run_id": RUN,
    "state_history": each(record({"timestamp": time})),
    "run_events": story(event),
    "error": message,
    "blockers": each(record(BLOCKER)),
    "interruption": record(INTERRUPTION),
    "interruptions": each(record(INTERRUPTION)),
    "subagent_runs": each(record({"run_id": RUN, "task_id": TASK_ID, "action_id": ACTION_ID})),
    "completed_after_cancellation": each(record(_LATE)),
    "completed_action_budget_overruns": each(record(_LATE)),
}
TASK: Shape = {
    "id": TASK_ID,
    "created_at": time,
    "messages": story(record(MESSAGE)),
    "artifacts": story(artifact),
    "metadata": record(_TASK_METADATA),
}

# ------------------------------------------------------------------------------- the details of an event, by type

_NATIVE = ("action.", "approval.", "budget.", "user_input.", "task.", "tool.correction.", "validation.")
_ACTIVITY: Shape = {
    **RELATIONS,
    "run_id": RUN,
    "request_id": REQUEST_ID,
    "action": record(ACTION),
    "request": record(REQUEST),
    "decision": decision,
    "result": result,
    "error": record(BLOCKER),
    "message": message,
    "error_message": message,
}
_MANIFEST: Shape = {**RELATIONS, "manifest": record(MANIFEST)}
_COMPLETED: Shape = {**RELATIONS, **METRICS, "metrics": record(METRICS), "budget": record(USAGE)}
_STATUS: Shape = {
    **RELATIONS,
    "interruption": record(INTERRUPTION),
    "interruptions": each(record(INTERRUPTION)),
    "uncertain": each(ACTION_ID),
    "task": record(TASK),
}
_DETAILS: dict[str, Shape] = {
    **dict.fromkeys(LLM_TYPES, _ACTIVITY),
    **dict.fromkeys(TASK_TYPES, _ACTIVITY),
    **dict.fromkeys(("llm_step", "llm_chunk", "llm_action", "llm_final"), RELATIONS),
    **dict.fromkeys(("context_prepared", "llm_context", "llm_call_started"), _MANIFEST),
    "llm_call_metrics": {**RELATIONS, **METRICS},
    "llm_call_completed": _COMPLETED,
    "llm_response": {**_COMPLETED, "metadata": record({"metrics": record(METRICS)})},
    "run_yielded": {**RELATIONS, "handoff": record(HANDOFF)},
    "task_status_update": _STATUS,
    "task_artifact_update": {**RELATIONS, "artifact": artifact},
}

_STREAMED = {kind: {**_RAW, **shape} for kind, shape in _DETAILS.items()}

SEQUENCES: dict[str, Rule] = {
    "context_manifests": record(MANIFEST),
    "events": event,
    "actions": record(ACTION),
    "approvals": record(APPROVAL),
    "artifacts": artifact,
    "metrics": record(METRICS),
}
RECORDS: dict[str, Rule] = {"context": record(CONTEXT), "final_task": record(TASK)}
