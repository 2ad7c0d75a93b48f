"""What a report shows of its events, section by section. Nothing is copied: sections hold the events' own values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from .events import RunEvent
from .fields import members

Records = tuple[dict[str, Any], ...]

METRICS_EVENT = "llm_call_metrics"
_CALL_MEMBERS = ("step", "provider", "model", "latency_ms", "usage", "cost", "streaming", "native")


def member(event: RunEvent, key: str) -> Any:
    """A member of the payload, also of the raw event's metadata where the payload has not got it."""
    found = event.payload.get(key)
    return members(event.payload.get("metadata")).get(key) if found is None else found


def context_manifests(events: Iterable[RunEvent]) -> Records:
    """The manifest of every model call that was prepared."""
    found = (member(event, "manifest") for event in events if event.type == "context.prepared")
    return tuple(manifest for manifest in found if isinstance(manifest, dict))


def artifacts(events: Iterable[RunEvent]) -> Records:
    """Every artifact that was announced."""
    found = (member(event, "artifact") for event in events if event.type == "task.artifact")
    return tuple(artifact for artifact in found if isinstance(artifact, dict))


def validations(events: Iterable[RunEvent]) -> Records:
    """The results of completion checks."""
    found = (member(event, "validation") for event in events if event.type == "validation.completed")
    return tuple(validation for validation in found if isinstance(validation, dict))


def actions(events: Iterable[RunEvent]) -> Records:
    """Actions in the order of their first mention, each id once.

    Later events only name an action that was described before. The mere name stands in until the description comes.
    """
    found: dict[Any, dict[str, Any]] = {}
    named: set[str] = set()
    for event in events:
        action = _action(event)
        if action is None:
            continue
        own = action.get("action_id")
        key = own or event.action_id
        if not key:
            found[len(found), event.event_id] = action  # nothing to recognise it by
        elif not own and key not in found:
            found[key] = {**action, "action_id": key}
            named.add(key)
        elif own and (key not in found or key in named):
            found[key] = action
            named.discard(key)
    return tuple(found.values())


def _action(event: RunEvent) -> dict[str, Any] | None:
    found = member(event, "action")
    if not isinstance(found, dict):
        found = members(member(event, "request")).get("action")
    return found if isinstance(found, dict) else None


def approvals(events: Iterable[RunEvent]) -> Records:
    """Checkpoints and their answers: the event's identity with its ``request`` or ``decision``."""
    return tuple(_approval(event) for event in events if event.type in ("approval.required", "approval.decided"))


def _approval(event: RunEvent) -> dict[str, Any]:
    found: dict[str, Any] = {
        "type": event.type,
        "event_id": event.event_id,
        "run_id": event.run_id,
        "task_id": event.task_id,
        "agent_name": event.agent_name,
        "action_id": event.action_id,
        "timestamp": event.timestamp,
    }
    for key in ("request", "decision"):
        value = member(event, key)
        if isinstance(value, Mapping):
            found[key] = value
    return found


def metrics(events: Iterable[RunEvent]) -> Records:
    """The metrics of every model call, once.

    A stream tells them in an event of their own and again when the call is completed; either may come alone.
    """
    found: list[dict[str, Any]] = []
    told: dict[str | None, dict[str, Any]] = {}
    for event in events:
        if event.type == "llm.call.completed":
            measured = _completed(event)
            if measured and told.pop(event.task_id, None) != measured:
                found.append(measured)
        elif METRICS_EVENT in (event.payload.get("llm_event_type"), event.payload.get("type")):
            told[event.task_id] = measured = _told(event)
            found.append(measured)
    return tuple(found)


def _completed(event: RunEvent) -> dict[str, Any]:
    measured = member(event, "metrics")
    if not isinstance(measured, dict):
        return _call_members(event)
    latency = member(event, "latency_ms")
    return measured if latency is None or "latency_ms" in measured else {**measured, "latency_ms": latency}


def _told(event: RunEvent) -> dict[str, Any]:
    measured = event.payload.get("metadata")
    return measured if isinstance(measured, dict) and measured else _call_members(event)


def _call_members(event: RunEvent) -> dict[str, Any]:
    found = {key: member(event, key) for key in _CALL_MEMBERS}
    return {key: value for key, value in found.items() if value is not None}


def final_task(events: Iterable[RunEvent]) -> dict[str, Any] | None:
    """The task that the newest final event carries."""
    for event in reversed(list(events)):
        if event.final:
            for holder in (members(event.payload.get("metadata")), event.metadata, event.payload):
                if isinstance(holder.get("task"), dict):
                    return dict(holder["task"])
    return None
