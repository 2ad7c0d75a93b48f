"""The envelope that travels with a run: who runs what for whom, under which limits and permissions.

A task carries it as plain data under ``metadata["run_context"]``. Applications that still write ``session_id`` and
the like directly into the metadata of a task are understood: such values fill what the envelope leaves open.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field, fields
from typing import Any

from protolink.models.ids import new_id, utc_now
from protolink.models.shape import mapping, optional_text, table, texts
from protolink.models.task import Task, bind_context_factory

from ..models.value import dataclass
from .budget import RunBudget
from .fields import detached, flag, text_or

CONTEXT_KEY = "run_context"
MIRRORED = ("run_id", "session_id", "trace_id", "parent_run_id", "workspace_uri", "canceled", "cancel_reason")
_OLD_NAMES = {
    "workspace": "workspace_uri",
    "budgets": "budget",
    "cancelled": "canceled",
    "cancellation_reason": "cancel_reason",
}
_TEXTS = ("run_id", "session_id", "trace_id", "workspace_uri", "parent_run_id", "cancel_reason")


@dataclass(slots=True, weakref_slot=True)
class RunContext:
    """Execution metadata of one run. Mutable; ``budget`` is always a RunBudget (a mapping or None is converted).

    ``permissions`` are capability rules that narrow, never widen, what the agent's policy allows. ``canceled`` is
    data: it signals no running work (see ``CancellationToken``).
    """

    run_id: str = field(default_factory=lambda: new_id("run"))
    session_id: str | None = None
    trace_id: str | None = None
    workspace_uri: str | None = None
    parent_run_id: str | None = None
    agent_chain: list[str] = field(default_factory=list)
    permissions: dict[str, Any] = field(default_factory=dict)
    budget: RunBudget = field(default_factory=RunBudget)
    canceled: bool = False
    cancel_reason: str | None = None
    metadata: dict[str, Any] = field(default_factory=dict)
    created_at: str = field(default_factory=utc_now)

    def __post_init__(self) -> None:
        given: Any = self.budget
        if not isinstance(given, RunBudget):
            self.budget = RunBudget.from_dict(given)

    def to_dict(self) -> dict[str, Any]:
        """All fields, the budget nested. Top-level containers are copies; nested values are the caller's own."""
        found = {name: getattr(self, name) for name in _NAMES}
        return found | {
            "agent_chain": list(self.agent_chain),
            "permissions": dict(self.permissions),
            "budget": self.budget.to_dict(),
            "metadata": dict(self.metadata),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any] | None) -> RunContext:
        """Read a mapping or None, older spellings included. Missing identity and time are generated.

        TypeError or ValueError for members of the wrong shape.
        """
        source = _modern(mapping(data, "RunContext")) if data is not None else {}
        return cls(
            run_id=text_or(source, "run_id", "RunContext", lambda: new_id("run")),
            session_id=optional_text(source, "session_id", "RunContext"),
            trace_id=optional_text(source, "trace_id", "RunContext"),
            workspace_uri=optional_text(source, "workspace_uri", "RunContext"),
            parent_run_id=optional_text(source, "parent_run_id", "RunContext"),
            agent_chain=texts(source, "agent_chain", "RunContext"),
            permissions=table(source, "permissions", "RunContext"),
            budget=RunBudget.from_dict(_plain_budget(source.get("budget"))),
            canceled=flag(source, "canceled", "RunContext"),
            cancel_reason=optional_text(source, "cancel_reason", "RunContext"),
            metadata=table(source, "metadata", "RunContext"),
            created_at=text_or(source, "created_at", "RunContext", utc_now),
        )

    @classmethod
    def from_task(cls, task: Task, *, default_session_id: str | None = None) -> RunContext:
        """The context of a task, detached from it; the task stays as it is.

        The typed context wins; then the task's top-level metadata, then the task id as ``run_id`` and
        ``default_session_id``. A cancellation written in either place counts. Top-level values of another shape belong
        to the application and are left alone. ValueError or TypeError for a context that cannot be read.
        """
        stored = task.metadata.get(CONTEXT_KEY)
        if isinstance(stored, RunContext):
            stored = stored.to_dict()
        typed = _modern(mapping(stored, 'task.metadata["run_context"]')) if stored is not None else {}
        loose = _loose(task.metadata)
        found = loose | {key: value for key, value in typed.items() if value is not None}
        found["run_id"] = found.get("run_id") or task.id
        found["session_id"] = found.get("session_id") or default_session_id
        if loose.get("canceled"):
            found["canceled"] = True
        return cls.from_dict(detached(found))

    @classmethod
    def ensure_task_context(
        cls, task: Task, *, default_session_id: str | None = None, agent_name: str | None = None
    ) -> RunContext:
        """``from_task``, with ``agent_name`` appended to the chain, written back to the task."""
        context = cls.from_task(task, default_session_id=default_session_id)
        if agent_name:
            context = context.with_agent(agent_name)
        context.attach_to_task(task)
        return context

    def attach_to_task(self, task: Task) -> None:
        """Store a detached copy in the task and mirror its filled correlation and cancellation keys at the top.

        A mirrored key stays when its field has since become None; a mirrored ``canceled`` follows the field.
        """
        task.metadata[CONTEXT_KEY] = detached(self.to_dict())
        for key in MIRRORED:
            value = getattr(self, key)
            if value or (key == "canceled" and key in task.metadata):
                task.metadata[key] = value

    def with_agent(self, agent_name: str) -> RunContext:
        """A copy whose chain ends with ``agent_name``."""
        if self.agent_chain and self.agent_chain[-1] == agent_name:
            return self.copy()
        return self.copy(agent_chain=[*self.agent_chain, agent_name])

    def child(self, *, run_id: str | None = None, agent_name: str | None = None) -> RunContext:
        """A new run below this one. The child of a canceled run is canceled too."""
        context = self.copy(run_id=run_id or new_id("run"), parent_run_id=self.run_id, created_at=utc_now())
        return context.with_agent(agent_name) if agent_name else context

    def cancel(self, reason: str | None = None) -> RunContext:
        """A canceled copy. Nothing that runs is signaled."""
        return self.copy(canceled=True, cancel_reason=reason)

    def copy(self, **overrides: Any) -> RunContext:
        """A copy with some fields replaced. TypeError for a name that is no field."""
        unknown = overrides.keys() - _NAMES.keys()
        if unknown:
            raise TypeError(f"RunContext has no field {sorted(unknown)[0]!r}")
        data = self.to_dict() | overrides
        return RunContext(**data)


#: In order; asked of the class once, since every run copies its context.
_NAMES = dict.fromkeys(item.name for item in fields(RunContext))


def _plain_budget(value: Any) -> Any:
    """A budget object in the metadata of a task stays the task's own: it is read as if it were serialized."""
    return value.to_dict() if isinstance(value, RunBudget) else value


def _modern(data: Mapping[str, Any]) -> dict[str, Any]:
    """Older spellings renamed. A value under the present name wins over one under its older name."""
    found = dict(data)
    for old, new in _OLD_NAMES.items():
        value = found.pop(old, None)
        if value is not None and found.get(new) is None:
            found[new] = value
    return found


def _loose(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Context values that an application wrote straight into the metadata of a task, as far as their shape fits."""
    source = _modern({key: metadata.get(key) for key in (*_TEXTS, "budget", "canceled", *_OLD_NAMES)})
    found: dict[str, Any] = {key: source[key] for key in _TEXTS if source.get(key) and isinstance(source[key], str)}
    if isinstance(source.get("budget"), (Mapping, RunBudget)):
        found["budget"] = source["budget"]
    if isinstance(source.get("canceled"), bool):
        found["canceled"] = source["canceled"]
    if isinstance(metadata.get("parent_agent"), str):
        found["agent_chain"] = [metadata["parent_agent"]]
    return found


bind_context_factory(RunContext)
