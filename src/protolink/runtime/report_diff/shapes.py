"""Where the records that ProtoLink writes hold what differs from run to run.

A shape lists such members of a record with a rule for each; everything that is not listed is compared as it is. So
arguments, results, texts, and the metadata of applications are exact without being known here. Members are taken in the
order of the shape, never of the data: identities are numbered alike however a record was sorted.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..events import LLM_TYPES, TASK_TYPES
from .identity import Identities, Sequence

Record = dict[str, Any]
Rule = Callable[[Identities, Any, Any], None]
Shape = dict[str, Rule]

TIME = "<time>"
_LOOP_TYPES = frozenset(LLM_TYPES) | {
    "llm_action",
    "llm_call_metrics",
    "llm_chunk",
    "llm_context",
    "llm_final",
    "llm_response",
    "llm_step",
    "run_yielded",
    "tool_canceled",
}
_NATIVE = ("action.", "approval.", "budget.", "user_input.", "task.", "tool.correction.", "validation.")
_RUNTIME_LIMIT = "max_runtime_seconds"
_OUT_OF_TIME = f"Run budget exceeded: {_RUNTIME_LIMIT}"


def walk(shape: Shape, ids: Identities, record: Any) -> None:
    """Normalize one record in place. What is no mapping is left alone."""
    if type(record) is dict:
        for key, rule in shape.items():
            if key in record:
                rule(ids, record, key)


# ---------------------------------------------------------------------------------------------------------- rules


def identity(kind: str) -> Rule:
    def rule(ids: Identities, record: Any, key: Any) -> None:
        ids.put(kind, record, key)

    return rule


def identities(kind: str) -> Rule:
    def rule(ids: Identities, record: Any, key: Any) -> None:
        if type(record[key]) is list:
            for index in range(len(record[key])):
                ids.put(kind, record[key], index)

    return rule


def time(ids: Identities, record: Any, key: Any) -> None:
    if record[key] is not None:
        record[key] = TIME


def counter(ids: Identities, record: Any, key: Any) -> None:
    """A number that a sink gave, or has not given yet."""
    record[key] = None


def timing(ids: Identities, record: Any, key: Any) -> None:
    if type(record[key]) in (int, float):
        record[key] = 0


def message(ids: Identities, record: Any, key: Any) -> None:
    """A text that may tell of a time limit, and then shows how long the run took."""
    if type(record[key]) is str and record[key].startswith(_OUT_OF_TIME):
        record[key] = _OUT_OF_TIME


def inside(shape: Shape) -> Rule:
    def rule(ids: Identities, record: Any, key: Any) -> None:
        walk(shape, ids, record[key])

    return rule


def each(read: Callable[[Identities, Any], None]) -> Rule:
    """Records in a list of fixed order."""

    def rule(ids: Identities, record: Any, key: Any) -> None:
        if type(record[key]) is list:
            for item in record[key]:
                read(ids, item)

    return rule


def story(read: Callable[[Identities, Any], None]) -> Rule:
    """Records in a list that is aligned by content."""
    inner = each(read)

    def rule(ids: Identities, record: Any, key: Any) -> None:
        inner(ids, record, key)
        if type(record[key]) is list:
            record[key] = Sequence(record[key])

    return rule


def of(shape: Shape) -> Callable[[Identities, Any], None]:
    def read(ids: Identities, record: Any) -> None:
        walk(shape, ids, record)

    return read


# --------------------------------------------------------------------------------------------------------- shapes

RUN, TASK_ID, ACTION_ID, REQUEST_ID = (identity(kind) for kind in ("run", "task", "action", "request"))

CONTEXT: Shape = {
    "run_id": RUN,
    "session_id": identity("session"),
    "trace_id": identity("trace"),
    "parent_run_id": RUN,
    "created_at": time,
}
MANIFEST: Shape = {"run_id": RUN, "session_id": identity("session"), "created_at": time}
USAGE: Shape = {"runtime_seconds": timing}
METRICS: Shape = {"latency_ms": timing}
HANDOFF: Shape = {"run_id": RUN, "usage": inside(USAGE), "completed_action_ids": identities("action")}
CALL_ID: Shape = {"call_id": identity("call")}


def artifact(ids: Identities, record: Any) -> None:
    walk(_ARTIFACT, ids, record)
    if type(record) is dict and record.get("kind") in ("action_result", "action_rejection"):
        for part in _parts(record):
            walk({"content": inside({"action_id": ACTION_ID})}, ids, part)


def part(ids: Identities, record: Any) -> None:
    if type(record) is dict and record.get("type") in ("tool_call", "tool_output"):
        walk({"content": inside(CALL_ID)}, ids, record)


def _parts(record: Record) -> list[Any]:
    found = record.get("parts")
    return found if type(found) is list else []


def decision(ids: Identities, record: Any, key: Any) -> None:
    """Of a policy, a person or a budget. What a time limit observed, and says of it, is a timing."""
    found = record[key]
    walk(_DECISION, ids, found)
    if _is_timing(found):
        walk({"observed": timing, "message": time}, ids, found)
        walk({"message": time}, ids, record)


def _is_timing(found: Any) -> bool:
    return type(found) is dict and found.get("limit_name") == _RUNTIME_LIMIT


_ARTIFACT: Shape = {"id": identity("artifact"), "timestamp": time, "action_id": ACTION_ID, "parts": each(part)}
_DECISION: Shape = {
    "request_id": REQUEST_ID,
    "decided_at": time,
    "timestamp": time,
    "usage": inside(USAGE),
}
ACTION: Shape = {
    "action_id": ACTION_ID,
    "created_at": time,
    "artifacts": each(artifact),
    "metadata": inside({"edited_from": ACTION_ID}),
}
REQUEST: Shape = {
    "run_id": RUN,
    "task_id": TASK_ID,
    "request_id": REQUEST_ID,
    "action_id": ACTION_ID,
    "created_at": time,
    "expires_at": time,
    "action": inside(ACTION),
    "usage": inside(USAGE),
    "completed_action_ids": identities("action"),
}
INTERRUPTION: Shape = {
    "run_id": RUN,
    "request_id": REQUEST_ID,
    "request": inside(REQUEST),
    "fingerprint": identity("fingerprint"),
}
APPROVAL: Shape = {
    "event_id": identity("event"),
    "run_id": RUN,
    "task_id": TASK_ID,
    "action_id": ACTION_ID,
    "timestamp": time,
    "request": inside(REQUEST),
    "decision": decision,
}
BLOCKER: Shape = {"run_id": RUN, "action_id": ACTION_ID, "request_id": REQUEST_ID, "decision": decision}
MESSAGE: Shape = {"id": identity("message"), "timestamp": time, "parts": each(part)}
RELATIONS: Shape = {
    "span_id": ACTION_ID,
    "parent_span_id": ACTION_ID,
    "action_id": ACTION_ID,
    "parent_action_id": ACTION_ID,
    "delegation_id": ACTION_ID,
}


def event(ids: Identities, record: Any) -> None:
    """The envelope of an event, and of its payload what the runtime wrote there."""
    if type(record) is not dict:
        return
    payload, metadata = record.get("payload"), record.get("metadata")
    if type(payload) is dict:
        source = metadata.get("source_type") if type(metadata) is dict else None
        if source is not None and payload.get("type") == source:
            _streamed(ids, record, payload, source)
        elif str(record.get("type")).startswith(_NATIVE):
            _derived(record, payload)
            walk(DETAILS, ids, payload)
        elif payload.get("action_id") == record.get("action_id"):
            walk({"action_id": ACTION_ID}, ids, payload)
    walk(_EVENT, ids, record)


def _streamed(ids: Identities, record: Record, payload: Record, source: str) -> None:
    """A normalized task event: the payload is the raw event with its promoted members."""
    kind = payload.get("llm_event_type") if source == "task_llm_stream" else source
    if kind in _LOOP_TYPES or kind in TASK_TYPES:
        _derived(record, payload)
        walk(DETAILS, ids, payload)
        details = payload.get("metadata")
        walk(DETAILS, ids, details)
        if kind == "llm_call_metrics":
            walk(METRICS, ids, details)
    walk(_RAW, ids, payload)


def _derived(record: Record, payload: Record) -> None:
    """Take out of a summary what is shown there of ids and timings."""
    match record.get("type"):
        case "task.artifact":
            record["summary"] = "Artifact produced"
        case "llm.call.completed" if type(record.get("summary")) is str:
            record["summary"] = record["summary"].rpartition(" in ")[0] or record["summary"]
        case "task.error":
            walk({"summary": message}, Identities(), record)
        case "budget.warning" | "budget.exceeded":
            if _is_timing(payload.get("decision")):
                record["summary"] = TIME


_EVENT: Shape = {
    "event_id": identity("event"),
    "run_id": RUN,
    "task_id": TASK_ID,
    **RELATIONS,
    "sequence": counter,
    "timestamp": time,
    "metadata": inside({"parent_run_id": RUN, "source_sequence": counter}),
}
_TASK_METADATA: Shape = {
    "run_context": inside(CONTEXT),
    "run_id": RUN,
    "session_id": identity("session"),
    "trace_id": identity("trace"),
    "parent_run_id": RUN,
    "state_history": each(of({"timestamp": time})),
    "run_events": story(event),
    "blockers": each(of(BLOCKER)),
    "interruption": inside(INTERRUPTION),
    "interruptions": each(of(INTERRUPTION)),
    "error": message,
    "subagent_runs": each(of({"run_id": RUN, "task_id": TASK_ID, "action_id": ACTION_ID})),
    "completed_after_cancellation": each(of({"action_id": ACTION_ID, **CALL_ID})),
    "completed_action_budget_overruns": each(of({"action_id": ACTION_ID, **CALL_ID, "decision": decision})),
}
TASK: Shape = {
    "id": TASK_ID,
    "created_at": time,
    "messages": story(of(MESSAGE)),
    "artifacts": story(artifact),
    "metadata": inside(_TASK_METADATA),
}
DETAILS: Shape = {
    **RELATIONS,
    "run_id": RUN,
    "request_id": REQUEST_ID,
    "manifest": inside(MANIFEST),
    "action": inside(ACTION),
    "request": inside(REQUEST),
    "decision": decision,
    "error_message": message,
    "latency_ms": timing,
    "metrics": inside(METRICS),
    "budget": inside(USAGE),
    "handoff": inside(HANDOFF),
    "interruption": inside(INTERRUPTION),
    "interruptions": each(of(INTERRUPTION)),
    "uncertain": identities("action"),
    "task": inside(TASK),
    "artifact": lambda ids, record, key: artifact(ids, record[key]),
    "metadata": inside({"metrics": inside(METRICS)}),
}
_RAW: Shape = {"event_id": identity("event"), "task_id": TASK_ID, "timestamp": time}

SEQUENCES: dict[str, Callable[[Identities, Any], None]] = {
    "context_manifests": of(MANIFEST),
    "events": event,
    "actions": of(ACTION),
    "approvals": of(APPROVAL),
    "artifacts": artifact,
    "metrics": of(METRICS),
}
RECORDS: dict[str, Shape] = {"context": CONTEXT, "final_task": TASK}
