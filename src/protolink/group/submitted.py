"""The runs of a group: those under way, and the latest of those that have ended."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from ..agents import RunHandle
from ..models import Task
from ..models.json import digest
from ..runtime import RunContext

#: What differs between two tasks that ask for the same.
_IDENTITY = frozenset({"id", "timestamp", "created_at", "state"})
_RUN_IDENTITY = frozenset({"run_id", "trace_id", "created_at", "agent_chain"})


def input_digest(agent_name: str, task: Task) -> str:
    """Equal for two submissions that ask the same agent for the same under the same controls."""
    found = {key: value for key, value in task.to_dict().items() if key not in _IDENTITY}
    for kind in ("messages", "artifacts"):
        found[kind] = [_anonymous(item) for item in found[kind]]
    context = RunContext.from_task(task).to_dict()
    controls = {key: value for key, value in context.items() if key not in _RUN_IDENTITY}
    # The context is mirrored in the task's own metadata; it is compared once, in its typed form.
    own = {key: value for key, value in found["metadata"].items() if key != "run_context" and key not in context}
    return digest({"agent": agent_name, "task": {**found, "metadata": own}, "controls": controls})


def _anonymous(item: dict[str, Any]) -> dict[str, Any]:
    """A message or an artifact without the ids that each new one gets, those of its calls included."""
    found = {key: value for key, value in item.items() if key not in _IDENTITY}
    found["parts"] = [
        {**part, "content": {key: value for key, value in part["content"].items() if key != "call_id"}}
        if part["type"] == "tool_call"
        else part
        for part in found["parts"]
    ]
    return found


@dataclass
class _Submitted:
    handle: RunHandle
    request_id: str | None
    input: str


@dataclass
class SubmittedRuns:
    """By run id and by request id. ``most``: how many ended runs are kept; one that is under way is never dropped."""

    most: int
    _active: dict[str, _Submitted] = field(default_factory=dict)
    _ended: dict[str, _Submitted] = field(default_factory=dict)
    _requests: dict[str, _Submitted] = field(default_factory=dict)

    @property
    def active(self) -> Iterable[RunHandle]:
        return [run.handle for run in self._active.values()]

    @property
    def retained(self) -> int:
        return len(self._ended)

    def get(self, run_id: str) -> RunHandle | None:
        found = self._active.get(run_id) or self._ended.get(run_id)
        return None if found is None else found.handle

    def is_active(self, run_id: str) -> bool:
        return run_id in self._active

    def requested(self, request_id: str, input: str) -> RunHandle | None:
        """The run of that request. ValueError when it was for something else."""
        found = self._requests.get(request_id)
        if found is None:
            return None
        if found.input != input:
            raise ValueError(f"Request '{request_id}' was for another agent or input; give a new request its own id")
        return found.handle

    def add(self, handle: RunHandle, request_id: str | None, input: str) -> None:
        run = _Submitted(handle, request_id, input)
        earlier = self._ended.pop(handle.context.run_id, None)
        if earlier is not None:
            self._forget(earlier)
        self._active[handle.context.run_id] = run
        if request_id is not None:
            self._requests[request_id] = run

    def ended(self, run_id: str) -> None:
        """Keep it with the latest, and drop the oldest. Harmless for a run that never began."""
        run = self._active.pop(run_id, None)
        if run is None:
            return
        self._ended[run_id] = run
        while len(self._ended) > self.most:
            self._forget(self._ended.pop(next(iter(self._ended))))

    def _forget(self, run: _Submitted) -> None:
        if run.request_id is not None and self._requests.get(run.request_id) is run:
            del self._requests[run.request_id]


def frozen(task: Any) -> Task:
    """The task as it is now, out of the caller's reach. TypeError for what is neither a Task nor text."""
    if isinstance(task, str):
        return Task.create_infer(prompt=task)
    if not isinstance(task, Task):
        raise TypeError(f"a group runs a Task or a prompt, not {type(task).__name__}")
    return Task.from_dict(task.to_dict())
