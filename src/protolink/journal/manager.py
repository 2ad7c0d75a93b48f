"""RunManager: the operator's view of stored runs. What the command line and the dashboard use."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Iterator
from heapq import merge
from itertools import islice
from operator import itemgetter
from typing import Any, Protocol

from ..engine.state import Run, status
from ..engine.task import interruptions
from ..engine.view import uncertain_actions
from ..errors import DurableExecutionError
from ..models import DEFAULT_REDACTION_POLICY, RedactionPolicy, Task
from ..models.ids import iso_from_seconds
from ..models.json import plain
from ..models.redaction.provider_keys import without_keys
from ..models.unset import UNSET
from ..runtime import RunEvent
from .adapter import checkpoint_of, inventory_of, owned_until
from .contract import DurableStore, RunCheckpoint, checked_filter, checked_limit

#: ``list`` is a method's name here.
Projections = list[dict[str, Any]]


class StoredRuns(Protocol):
    """An agent's stored runs: reading and repairing them."""

    def stored(self, run_id: str) -> Run: ...
    def changes(self, run: Run) -> list[dict[str, Any]]: ...
    def cancel(self, run_id: str) -> Run: ...
    def reconcile(self, run_id: str, action_id: str, result: Any = ..., unchanged: str | None = None) -> Run: ...


class DurableAgent(Protocol):
    """What the manager needs of an agent."""

    @property
    def name(self) -> str: ...
    @property
    def durability(self) -> DurableStore | None: ...
    @property
    def runs(self) -> StoredRuns: ...

    @property
    def resume_task(self) -> Callable[..., Coroutine[Any, Any, Task]]: ...
    def run_events(self, run_id: str, after: int = 0) -> list[RunEvent]: ...


class RunManager:
    """Lists, inspects, resumes, cancels and reconciles the stored runs of a fixed roster of durable agents.

    Takes one agent or several with different names; ValueError for none, for an agent without durability, for a name
    twice. A run id selects a record and grants nothing. Everything returned is redacted.
    """

    def __init__(
        self, agents: DurableAgent | Iterable[DurableAgent], *, redaction_policy: RedactionPolicy | None = None
    ) -> None:
        found = list(agents) if isinstance(agents, Iterable) else [agents]
        if not found:
            raise ValueError("RunManager needs at least one durable agent")
        self._agents: dict[str, DurableAgent] = {}
        for agent in found:
            if getattr(agent, "durability", None) is None:
                raise ValueError(
                    f"RunManager needs durable agents; '{getattr(agent, 'name', agent)}' has no durability"
                )
            if agent.name in self._agents:
                raise ValueError(f"Two agents are named '{agent.name}'")
            self._agents[agent.name] = agent
        self._redaction = redaction_policy or DEFAULT_REDACTION_POLICY

    def list(self, *, status: str | None = None, limit: int = 20) -> Projections:
        """The newest stored runs of these agents, at most ``limit`` (1 to 1000). Children are part of their root.

        A run that cannot be read is listed with its ``error``.
        """
        checked_limit(limit)
        checked_filter("status", status)
        inventories = [
            _dated(inventory_of(agent.durability, status=status, agent_name=agent.name, limit=limit))
            for agent in self._agents.values()
            if agent.durability is not None
        ]
        newest = islice(merge(*inventories, key=itemgetter(0), reverse=True), limit)
        return [listed(checkpoint, self._redaction) for _, checkpoint in newest]

    def inspect(self, run_id: str) -> dict[str, Any]:
        """``{run_id, agent_name, status, interruption, interruptions, usage, uncertain_actions}`` of a run."""
        agent = self._agent(run_id)
        return self._projection(agent.runs.stored(run_id), agent.name)

    def obstacles(self, run_id: str) -> dict[str, Any]:
        """What keeps a run that has not ended from being continued now: ``{owned_until, changes, problem}``.

        ``owned_until``: when the lease of an owner ends who may be alive (ISO 8601), or None. ``changes``: parts of the
        configuration that are not what they were, as in CheckpointMismatchError. ``problem``: why these cannot be told
        here, or None.
        """
        agent = self._agent(run_id)
        run = agent.runs.stored(run_id)
        if run.outcome is not None and not run.uncertain:
            return {"owned_until": None, "changes": [], "problem": None}
        assert agent.durability is not None
        until = owned_until(agent.durability, run.id)
        changes, problem = self._changes(agent, run)
        return {
            "owned_until": None if until is None else iso_from_seconds(until),
            "changes": changes,
            "problem": problem,
        }

    def terms(self, run_id: str) -> dict[str, Any]:
        """What decisions about a stopped run are open: ``{deadlines, rerunnable}``.

        ``deadlines``: by request id, until when a pending request takes a response (ISO 8601); those without an end are
        absent. ``rerunnable``: ids of uncertain actions that ``resume(run_id, rerun=...)`` may run again.
        """
        run = self._agent(run_id).runs.stored(run_id)
        ends = {request.id: request.expires for request in run.requests.values()}
        return {
            "deadlines": {key: iso_from_seconds(end) for key, end in ends.items() if end is not None},
            "rerunnable": [key for key in sorted(run.uncertain) if run.actions[key].idempotent and run.cancel is None],
        }

    def _changes(self, agent: DurableAgent, run: Run) -> tuple[Projections, str | None]:
        try:
            return agent.runs.changes(run), None
        except Exception as error:  # the application's model factories run here; a look at a run outlives them
            return [], str(self._redaction.redact(without_keys(f"{type(error).__name__}: {error}")))

    async def resume(self, run_id: str, **response: Any) -> dict[str, Any]:
        """``agent.resume_task``; the projection, with the redacted ``task``."""
        agent = self._agent(run_id)
        task = await agent.resume_task(run_id, **response)
        shown = self._projection(agent.runs.stored(run_id), agent.name)
        return {**shown, "task": self._redaction.redact(task.to_dict())}

    def cancel(self, run_id: str) -> dict[str, Any]:
        """Cancel a stopped run and its children. Runs that have ended stay as they are.

        RunBusyError while somebody runs it, UncertainExecutionError while an effect is unknown.
        """
        agent = self._agent(run_id)
        return self._projection(agent.runs.cancel(run_id), agent.name)

    def reconcile(
        self, run_id: str, action_id: str, *, result: Any = UNSET, unchanged: str | None = None
    ) -> dict[str, Any]:
        """Record a verified outcome: its ``result``, or why all is ``unchanged``; see ``Agent.reconcile``.

        ``run_id`` may be a child's; the projection is the root's.
        """
        agent = self._agent(run_id)
        return self._projection(agent.runs.reconcile(run_id, action_id, result, unchanged), agent.name)

    def events(self, run_id: str, after: int = 0) -> Projections:
        """The stored events of a run with a number above ``after``, redacted."""
        agent = self._agent(run_id)
        return [event.to_dict(redaction_policy=self._redaction) for event in agent.run_events(run_id, after)]

    def _agent(self, run_id: str) -> DurableAgent:
        if not isinstance(run_id, str) or not run_id.strip():
            raise DurableExecutionError("a run id must be nonblank text")
        for agent in self._agents.values():
            assert agent.durability is not None
            checkpoint = checkpoint_of(agent.durability, run_id)
            root = checkpoint and checkpoint.data.get("root_run_id")
            owner = checkpoint_of(agent.durability, root) if isinstance(root, str) else checkpoint
            if owner is not None and owner.agent_name == agent.name:
                return agent
        raise DurableExecutionError(f"No configured agent has a stored run '{run_id}'")

    def _projection(self, run: Run, agent_name: str) -> dict[str, Any]:
        waiting = [found.to_dict() for found in interruptions(run)]
        shown = {
            "run_id": run.id,
            "agent_name": agent_name,
            "status": status(run),
            "interruption": waiting[0] if waiting else None,
            "interruptions": waiting,
            "usage": run.ledger.usage(run.ledger.since or 0.0).to_dict(),
            "uncertain_actions": uncertain_actions(run),
        }
        return dict(self._redaction.redact(plain(shown)))


def _dated(checkpoints: Iterable[RunCheckpoint]) -> Iterator[tuple[str, RunCheckpoint]]:
    """Root runs with the time of their task. One that cannot be read stands beside the run that is listed before it."""
    at = "9999"
    for checkpoint in checkpoints:
        if "root_run_id" not in checkpoint.data:
            task = checkpoint.data.get("task")
            at = str(task.get("created_at") or at) if isinstance(task, dict) else at
            yield at, checkpoint


def listed(checkpoint: RunCheckpoint, policy: RedactionPolicy = DEFAULT_REDACTION_POLICY) -> dict[str, Any]:
    """The projection of a checkpoint, redacted. It needs no agent, only what the store holds.

    Of a run that cannot be read there is also ``error``, which says why.
    """
    data = checkpoint.data
    shown = {
        "run_id": checkpoint.run_id,
        "agent_name": checkpoint.agent_name,
        "status": checkpoint.status,
        "interruption": data.get("interruption"),
        "interruptions": data.get("interruptions") or [],
        "usage": data.get("usage"),
        "uncertain_actions": data.get("uncertain_actions") or [],
    }
    if "facts" not in data and "error" in data:
        shown["error"] = data["error"]
    return dict(policy.redact(plain(shown)))
