"""What an observer sees of a run, in one shape.

Streams carry task events (``models.task_events``) for compatibility with transports. ``RunEvent.from_task_event`` turns
each of them into the one envelope that applications read; ``event_kinds`` has the mapping. The full raw event is the
payload, and some of its metadata is lifted to the top beside it.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Any

from protolink.models.ids import new_uuid, utc_now
from protolink.models.shape import mapping, optional_text, required_text, table
from protolink.models.task_events import TASK_EVENTS

from ..models.value import dataclass
from .context import RunContext
from .event_kinds import KINDS, OTHER
from .event_reading import PROMOTED, RELATED, details_of, last_agent, relate, stored_scope, tidy
from .fields import flag, members, number, text_or, whole

if TYPE_CHECKING:
    from protolink.models import RedactionPolicy

EVENT_VERSION = "1.0"


@dataclass(slots=True)
class RunEvent:
    """One thing that happened in a run. Mutable, so that sinks can number it; nothing is validated or frozen.

    ``sequence`` counts within one sink. ``final`` marks a boundary of the source; a run ends with the final
    ``task.status``. ``metadata["source_type"]`` is the raw type of a normalized event.
    """

    type: str
    run_id: str | None = None
    task_id: str | None = None
    agent_name: str | None = None
    sequence: int | None = None
    step: int | None = None
    span_id: str | None = None
    parent_span_id: str | None = None
    action_id: str | None = None
    parent_action_id: str | None = None
    delegation_id: str | None = None
    severity: str = "info"
    summary: str | None = None
    payload: dict[str, Any] = field(default_factory=dict)
    final: bool = False
    metadata: dict[str, Any] = field(default_factory=dict)
    event_id: str = field(default_factory=new_uuid)
    version: str = EVENT_VERSION
    timestamp: str = field(default_factory=utc_now)

    def to_dict(self, *, redaction_policy: RedactionPolicy | None = None) -> dict[str, Any]:
        """All fields; masked when a redaction policy is given. Payload and metadata are top-level copies."""
        found = {name: getattr(self, name) for name in self.__slots__}
        found |= {"payload": dict(self.payload), "metadata": dict(self.metadata)}
        return found if redaction_policy is None else dict(redaction_policy.redact(found))

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> RunEvent:
        """Read ``to_dict()`` back. Missing event id, version and time get defaults.

        ValueError without a type; ValueError or TypeError for members of the wrong shape.
        """
        source = mapping(data, "RunEvent")
        return cls(
            type=required_text(source, "type", "RunEvent"),
            run_id=optional_text(source, "run_id", "RunEvent"),
            task_id=optional_text(source, "task_id", "RunEvent"),
            agent_name=optional_text(source, "agent_name", "RunEvent"),
            sequence=number(source, "sequence", "RunEvent", int),
            step=number(source, "step", "RunEvent", int),
            span_id=optional_text(source, "span_id", "RunEvent"),
            parent_span_id=optional_text(source, "parent_span_id", "RunEvent"),
            action_id=optional_text(source, "action_id", "RunEvent"),
            parent_action_id=optional_text(source, "parent_action_id", "RunEvent"),
            delegation_id=optional_text(source, "delegation_id", "RunEvent"),
            severity=text_or(source, "severity", "RunEvent", lambda: "info"),
            summary=optional_text(source, "summary", "RunEvent"),
            payload=table(source, "payload", "RunEvent"),
            final=flag(source, "final", "RunEvent"),
            metadata=table(source, "metadata", "RunEvent"),
            event_id=text_or(source, "event_id", "RunEvent", new_uuid),
            version=text_or(source, "version", "RunEvent", lambda: EVENT_VERSION),
            timestamp=text_or(source, "timestamp", "RunEvent", utc_now),
        )

    @classmethod
    def from_task_event(
        cls, event: Any, *, context: RunContext | None = None, sequence: int | None = None, own: bool = False
    ) -> RunEvent:
        """The envelope of a task event, given as object or mapping.

        Native events, which are RunEvents already, are copied and get what they leave open. The run is the one that
        the event names, else the context's, else that of a task serialized inside the event. ``own``: a task event is
        the engine's, made for this envelope alone; it is well formed and JSON already, and not copied. TypeError for
        anything that is neither mapping nor has ``to_dict()``.
        """
        # Every event of a run comes through here: what costs a call or a copy for each stands in line, or is left to
        # events that need it.
        ours = own and type(event) in TASK_EVENTS
        if ours:
            source_type, raw = event.type, event.members()
            told = raw
        else:
            native = _native(event)
            if native is not None:
                return _completed(native, context, sequence)
            raw = _raw(event)
            source_type, told = str(raw.get("type") or "unknown"), tidy(raw)
        kind = told.get("llm_event_type") or source_type
        type_, severity, line, acts, inside = KINDS.get(kind, OTHER)
        added = members(raw.get("metadata"))
        details = added if ours and inside else tidy(details_of(raw, added))
        for key in added:
            if key in PROMOTED and details.get(key) is not None:
                raw[key] = details[key]
        run_id, task_id = details.get("run_id"), told.get("task_id")
        agent_name, step = told.get("agent_name"), told.get("step")
        if agent_name is None:
            agent_name = details.get("agent_name")
        if context is not None:
            run_id, agent_name = run_id or context.run_id, agent_name or last_agent(context.agent_chain)
        if context is None or not (run_id and task_id):
            stored_run, stored_task, stored_agent = stored_scope(details)
            run_id, task_id = run_id or stored_run, task_id or stored_task
            if context is None:
                agent_name = agent_name or stored_agent
        found = cls(  # by place: names would cost as much as the rest of the call
            type_,
            run_id,
            task_id,
            agent_name,
            sequence,
            whole(details.get("step") if step is None else step),
            None,
            None,
            None,
            None,
            None,
            severity,
            line(kind, details),
            raw,
            raw.get("final") is True,
            {"source_type": source_type},
            told.get("event_id") or new_uuid(),
            EVENT_VERSION,
            told.get("timestamp") or utc_now(),
        )
        if not RELATED.isdisjoint(details):  # most events belong to no action
            relate(found, details, kind, acts)
        return found


def _native(event: Any) -> RunEvent | None:
    """A RunEvent, or its serialized form, which no task event looks like."""
    if isinstance(event, RunEvent):
        return copy.copy(event)
    if isinstance(event, Mapping) and {"version", "severity", "payload"} <= event.keys():
        return RunEvent.from_dict(event)
    return None


def _completed(event: RunEvent, context: RunContext | None, sequence: int | None) -> RunEvent:
    if event.run_id is None and context is not None:
        event.run_id = context.run_id
    if sequence is not None:
        event.sequence = sequence
    return event


def _raw(event: Any) -> dict[str, Any]:
    if isinstance(event, Mapping):
        return dict(event)
    serialize = getattr(event, "to_dict", None)
    if not callable(serialize):
        raise TypeError(f"a task event must be a mapping or have to_dict(), not {type(event).__name__}")
    return dict(mapping(serialize(), "task event"))
