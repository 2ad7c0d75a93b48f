"""RunReport: what a run did, as one value that can be stored, read, replayed and compared.

Everything in it comes out of normalized events; ``report_sections`` says how. Reports are made after the fact and
change nothing, so secrets are in them as they were in the events: pass a redaction policy before one leaves the house.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Any

from protolink.models import DEFAULT_REDACTION_POLICY
from protolink.models.ids import utc_now
from protolink.models.shape import items, mapping, table

from ..models.value import dataclass
from . import report_sections as sections
from .context import RunContext
from .events import RunEvent
from .evidence import ToolEvidence, collect_tool_evidence
from .fields import text_or

if TYPE_CHECKING:
    from protolink.models import RedactionPolicy, Task

_RECORDS = ("context_manifests", "actions", "approvals", "artifacts", "metrics")
_LISTS = ("events", *_RECORDS)


@dataclass(frozen=True, slots=True)
class RunReport:
    """Sections of one run, in the order of their events. What they hold stays mutable and is shared with the events.

    ``metrics`` has one entry for a model call. ``final_task`` is the serialized task of the newest final event.
    ``metadata`` belongs to the application.
    """

    context: RunContext | None = None
    context_manifests: tuple[dict[str, Any], ...] = ()
    events: tuple[RunEvent, ...] = ()
    actions: tuple[dict[str, Any], ...] = ()
    approvals: tuple[dict[str, Any], ...] = ()
    artifacts: tuple[dict[str, Any], ...] = ()
    metrics: tuple[dict[str, Any], ...] = ()
    final_task: dict[str, Any] | None = None
    metadata: dict[str, Any] = field(default_factory=dict)
    created_at: str = field(default_factory=utc_now)

    def __post_init__(self) -> None:
        _expect("metadata", self.metadata, Mapping)
        if self.context is not None:
            _expect("context", self.context, RunContext)
        if self.final_task is not None:
            _expect("final_task", self.final_task, Mapping)
        for name in _LISTS:
            object.__setattr__(self, name, _several(name, getattr(self, name)))

    @property
    def validations(self) -> tuple[dict[str, Any], ...]:
        """Results of completion checks, from the ``validation.completed`` events."""
        return sections.validations(self.events)

    @property
    def tool_evidence(self) -> tuple[ToolEvidence, ...]:
        """How every tool call of the run ended."""
        return collect_tool_evidence(self.events)

    @classmethod
    def from_events(
        cls,
        events: Iterable[RunEvent | Mapping[str, Any]],
        *,
        context: RunContext | None = None,
        final_task: dict[str, Any] | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> RunReport:
        """Read all sections out of events, given as objects or as mappings.

        A nonempty ``final_task`` wins over the one in the events. TypeError for an event that is neither, ValueError
        for a malformed one.
        """
        found = tuple(map(event_of, _several("events", events)))
        return cls(
            context=context,
            context_manifests=sections.context_manifests(found),
            events=found,
            actions=sections.actions(found),
            approvals=sections.approvals(found),
            artifacts=sections.artifacts(found),
            metrics=sections.metrics(found),
            final_task=final_task or sections.final_task(found),
            metadata={} if metadata is None else dict(mapping(metadata, "RunReport metadata")),
        )

    @classmethod
    def from_task(cls, task: Task) -> RunReport:
        """The report of a task that nobody watched, from the events it keeps under ``metadata["run_events"]``."""
        events = items(task.metadata, "run_events", "task.metadata")
        return cls.from_events(events, context=RunContext.from_task(task), final_task=task.to_dict())

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> RunReport:
        """Read ``to_dict()`` back. Entries of a section that are no mappings are left out; a missing time is generated.

        ValueError for anything else of the wrong shape. Members that are not known are passed over.
        """
        source = mapping(data, "RunReport")
        context, task = source.get("context"), source.get("final_task")
        return cls(
            context=None if context is None else RunContext.from_dict(mapping(context, "RunReport context")),
            events=tuple(map(RunEvent.from_dict, _mappings(source, "events"))),
            final_task=None if task is None else dict(mapping(task, "RunReport final_task")),
            metadata=table(source, "metadata", "RunReport"),
            created_at=text_or(source, "created_at", "RunReport", utc_now),
            **{name: tuple(map(dict, _mappings(source, name))) for name in _RECORDS},
        )

    def to_dict(self, *, redaction_policy: RedactionPolicy | None = None) -> dict[str, Any]:
        """All sections as mappings and lists; masked when a redaction policy is given."""
        found: dict[str, Any] = {
            "context": None if self.context is None else self.context.to_dict(),
            "context_manifests": list(self.context_manifests),
            "events": [event.to_dict() for event in self.events],
            "actions": list(self.actions),
            "approvals": list(self.approvals),
            "artifacts": list(self.artifacts),
            "metrics": list(self.metrics),
            "final_task": self.final_task,
            "metadata": dict(self.metadata),
            "created_at": self.created_at,
        }
        return found if redaction_policy is None else dict(redaction_policy.redact(found))

    def redacted(self, policy: RedactionPolicy | None = None) -> RunReport:
        """A masked copy; the default policy unless one is given. A masked field that cannot hold a mask is emptied."""
        original = self.to_dict()
        masked = (policy or DEFAULT_REDACTION_POLICY).redact(original)
        _fit(masked, original)
        _fit(masked["context"] or {}, original["context"] or {})
        for copy, event in zip(masked["events"], original["events"], strict=False):  # all of them, or none is left
            _fit(copy, event)
        return RunReport.from_dict(masked)


def event_of(item: RunEvent | Mapping[str, Any]) -> RunEvent:
    """A normalized event, or its serialized form. TypeError for anything else, ValueError for a malformed one."""
    if isinstance(item, RunEvent):
        return item
    if isinstance(item, Mapping):
        return RunEvent.from_dict(item)
    raise TypeError(f"a report is made of RunEvents or their mappings, not of {type(item).__name__}")


def _expect(name: str, value: Any, kind: type) -> None:
    if not isinstance(value, kind):
        raise TypeError(f"RunReport {name} must be a {kind.__name__}, not {type(value).__name__}")


def _several(name: str, value: Any) -> tuple[Any, ...]:
    if isinstance(value, (str, bytes, Mapping)) or not isinstance(value, Iterable):
        raise TypeError(f"RunReport {name} must be several records, not one {type(value).__name__}")
    return tuple(value)


def _mappings(source: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    return [item for item in items(source, name, "RunReport") if isinstance(item, Mapping)]


def _fit(masked: dict[str, Any], original: Mapping[str, Any]) -> None:
    """Empty what a policy masked although it is no text: the reconstructed object needs a value of its own shape."""
    for key in masked.keys() & original.keys():
        value = original[key]
        if isinstance(value, (dict, list)) and not isinstance(masked[key], (dict, list)):
            masked[key] = type(value)()
        elif key == "budget" and isinstance(value, dict):
            _fit(masked[key], value)
        elif value is not None and not isinstance(value, (str, dict, list)) and isinstance(masked[key], str):
            masked[key] = None
