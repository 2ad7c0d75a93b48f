"""Reading the record of a raw event, which anybody may have written: what it says of its run and of an action."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from .context import CONTEXT_KEY
from .fields import members, text_in

if TYPE_CHECKING:
    from .events import RunEvent

RELATIONS = ("action_id", "parent_action_id", "span_id", "parent_span_id", "delegation_id")
#: What is lifted from an event's metadata to the top of its payload.
PROMOTED = frozenset(("manifest", "action", "request", "decision", *RELATIONS))
#: An event that has none of these belongs to no action.
RELATED = frozenset(("action", "request", "decision", "artifact", *RELATIONS))
DELEGATION = "agent.call"

_SELDOM_TOLD = ("parent_action_id", "parent_span_id", "delegation_id")
_TEXTS = ("llm_event_type", "run_id", "task_id", "agent_name", "event_id", "timestamp")


def tidy(record: dict[str, Any]) -> dict[str, Any]:
    """Without the members that an envelope takes over as text and that are none."""
    wrong = [key for key in _TEXTS if key in record and not isinstance(record[key], str)]
    return {key: told for key, told in record.items() if key not in wrong} if wrong else record


def details_of(raw: dict[str, Any], added: Mapping[str, Any]) -> dict[str, Any]:
    """The facts of an event on one level: its own members win over what its metadata adds, unless they are null."""
    details = {**raw, **added}
    if len(details) < len(raw) + len(added):  # seldom: both tell the same
        for key in raw.keys() & added.keys():
            if raw[key] is not None:
                details[key] = raw[key]
    return details


def stored_scope(details: Mapping[str, Any]) -> tuple[str | None, str | None, str | None]:
    """Run, task and agent, as a task says that is serialized inside the event."""
    task = members(details.get("task"))
    metadata = members(task.get("metadata"))
    context = members(metadata.get(CONTEXT_KEY))
    task_id = text_in(task, "id")
    run_id = text_in(context, "run_id") or text_in(metadata, "run_id") or task_id
    return run_id, task_id, last_agent(context.get("agent_chain"))


def last_agent(chain: Any) -> str | None:
    return chain[-1] if isinstance(chain, list) and chain and isinstance(chain[-1], str) else None


def relate(event: RunEvent, details: Mapping[str, Any], kind: str, acts: bool) -> None:
    """Fill in the ids of RELATIONS, in the payload as well; which action the event belongs to is found out.

    An event of an action is its span, and a delegation's id is that of its action.
    """
    raw = event.payload
    action = members(details.get("action")) or members(members(details.get("request")).get("action"))
    action_id = text_in(raw, "action_id") or text_in(action, "action_id") or _action_elsewhere(kind, details)
    if action_id is not None:
        raw["action_id"] = action_id
        if acts:
            if not isinstance(raw.get("span_id"), str):
                raw["span_id"] = action_id
            delegates = DELEGATION in (action.get("kind"), details.get("action_kind"))
            if (delegates or kind.startswith("agent_call_")) and not isinstance(raw.get("delegation_id"), str):
                raw["delegation_id"] = action_id
    event.action_id = _id(raw.get("action_id"))
    event.span_id = _id(raw.get("span_id"))
    for key in _SELDOM_TOLD:
        if key in raw:
            setattr(event, key, _id(raw[key]))


def _id(told: Any) -> str | None:
    return told if isinstance(told, str) else None


def _action_elsewhere(kind: str, details: Mapping[str, Any]) -> str | None:
    """The action that a decision or an artifact names."""
    decided = text_in(members(members(details.get("decision")).get("metadata")), "action_id")
    if decided is not None or kind != "task_artifact_update":
        return decided
    return text_in(members(details.get("artifact")), "action_id")
