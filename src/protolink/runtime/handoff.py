"""What a run hands back at the end of a work slice."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Any

from protolink.models.shape import items, mapping, required_text, texts

from ..models.value import dataclass
from .budget import BudgetUsage
from .fields import number, text_or

if TYPE_CHECKING:
    from protolink.models import Task

STEP_SLICE = "step_slice"
DRAIN = "drain"


@dataclass(frozen=True, slots=True)
class RunHandoff:
    """Progress of unfinished work: numbers and ids, no conversation and no results.

    ``steps`` counts the model turns of the loop that yielded, over all slices; ``usage`` is that of the whole run tree.
    ``run_id`` may be a child's; the root's id is what resumes. ``reason``: ``step_slice``, or ``drain`` when a process
    was about to end.
    """

    run_id: str
    reason: str = STEP_SLICE
    steps: int = 0
    usage: BudgetUsage = field(default_factory=BudgetUsage)
    completed_action_ids: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        object.__setattr__(self, "completed_action_ids", tuple(self.completed_action_ids))

    def to_dict(self) -> dict[str, Any]:
        """All fields, ``completed_action_ids`` as a list."""
        return {
            "run_id": self.run_id,
            "reason": self.reason,
            "steps": self.steps,
            "usage": self.usage.to_dict(),
            "completed_action_ids": list(self.completed_action_ids),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> RunHandoff:
        """Read ``to_dict()`` back."""
        source = mapping(data, "RunHandoff")
        return cls(
            run_id=required_text(source, "run_id", "RunHandoff"),
            reason=text_or(source, "reason", "RunHandoff", lambda: STEP_SLICE),
            steps=number(source, "steps", "RunHandoff", int) or 0,
            usage=BudgetUsage.from_dict(source.get("usage")),
            completed_action_ids=tuple(texts(source, "completed_action_ids", "RunHandoff")),
        )

    @classmethod
    def from_task(cls, task: Task) -> RunHandoff | None:
        """The oldest handoff that the task waits with; None when it waits for something else or for nothing."""
        pending = [task.metadata.get("interruption"), *items(task.metadata, "interruptions", "task.metadata")]
        for item in pending:
            if isinstance(item, Mapping) and item.get("kind") == "yield":
                return cls.from_dict(mapping(item.get("request"), "a yield's request"))
        return None
