"""Delegations to agents that are no frames of the run: peers at other addresses, and children with handlers of their
own, which stay authoritative. Their runs are theirs; what they tell and prove enters the caller's stream and task.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol

from ..drive.delegate import DELEGATE, delegation
from ..drive.execution import ToolExecution
from ..drive.ports import InvalidArguments
from ..errors import ToolFailedError, TransportError, UncertainExecutionError
from ..models import AgentCard, Task, TaskArtifactUpdateEvent
from ..models.ids import new_id
from ..models.turn import AGENT_CALL
from ..runtime import RunAction, RunContext, RunEvent
from ..runtime.request_context import below, current_scope
from .remote import ended
from .roster import members

if TYPE_CHECKING:
    from .agent import Agent

Tell = Callable[[RunEvent], None]


class Peer(Protocol):
    """Somebody who does a task on its own account."""

    @property
    def name(self) -> str: ...

    async def run(self, task: Task, relay: Relay) -> Task:
        """Have it done. ``relay`` takes events as they come, and at the end what only the task knows."""


class OwnHandler:
    """A child whose ``handle_task`` or ``execute_task`` is its own."""

    def __init__(self, child: Agent) -> None:
        self.name = child.name
        self._child = child

    async def run(self, task: Task, relay: Relay) -> Task:
        try:
            with below(current_scope()):
                task = await self._child.run_task(task)
        finally:
            relay.rest(task)
        return task


class RemotePeer:
    """An agent at another address, called by the caller's own ``call_agent``, which may be an application's."""

    def __init__(self, card: AgentCard, caller: Agent) -> None:
        self.name = card.name
        self.card = card
        self._caller = caller
        self._tells = _takes_sink(caller.call_agent)

    async def run(self, task: Task, relay: Relay) -> Task:
        """An older ``call_agent`` that takes no sink returns what it has in the task."""
        how = {"event_sink": _Sink(relay)} if self._tells else {}
        context = RunContext.from_task(task)
        try:
            done = ended(await self._caller.call_agent(self.card.url, task, **how), context, self.name)
        except asyncio.CancelledError:
            self._caller.network.cancel_later(self.card.url, task, "Parent cancelled child")
            raise
        except TransportError as error:
            if error.outcome_unknown:
                raise UncertainExecutionError(f"It is not known what '{self.name}' did: {error}") from error
            raise
        relay.rest(done)
        return done


def _takes_sink(call_agent: Callable[..., Any]) -> bool:
    parameters = inspect.signature(call_agent).parameters
    return "event_sink" in parameters or any(found.kind is found.VAR_KEYWORD for found in parameters.values())


class _Sink:
    """Hands events on to a relay."""

    def __init__(self, relay: Relay) -> None:
        self._relay = relay

    async def emit(self, event: RunEvent) -> None:
        self._relay.event(event)


class PeerCalls:
    """Carries out the delegations of one agent to its peers; a ``drive.ports.PeerPort``.

    ``remote``: by name, those at other addresses. A ``durable`` run refuses them: a task that was sent and whose answer
    was lost could be sent twice.
    """

    name = AGENT_CALL
    read_only = False
    idempotent = False
    probe = None
    asks_user: ClassVar[Literal[False]] = False

    def __init__(
        self, own: Mapping[str, OwnHandler], remote: Mapping[str, RemotePeer], known: Sequence[str], *, durable: bool
    ) -> None:
        self._own = own
        self._remote = remote
        self._known = known
        self._durable = durable

    def prepare(self, arguments: Mapping[str, Any], context: RunContext) -> RunAction:
        """The delegation to a remote peer. Those to children are prepared with the children."""
        name = arguments.get("agent")
        peer = self._remote.get(name) if isinstance(name, str) else None
        if peer is None:
            known = ", ".join(sorted({*self._known, *self._remote})) or "none"
            raise InvalidArguments(f"There is no agent '{name}'. Known agents: {known}", "unknown_agent")
        if self._durable:
            text = f"A durable run does not delegate to the remote agent '{name}'; use a subagent, or a live run"
            raise InvalidArguments(text, "remote_delegation", ends=True)
        if peer.name in context.agent_chain:
            chain = " > ".join(context.agent_chain)
            raise InvalidArguments(
                f"Agent '{peer.name}' waits for this very work ({chain}), so it cannot be given any of it",
                "circular_delegation",
            )
        return RunAction(
            kind="agent.call",
            name=peer.name,
            payload=delegation(peer.name, arguments, [skill.id for skill in peer.card.skills]),
            capabilities=DELEGATE,
            metadata={"url": peer.card.url},
        )

    async def call(self, execution: ToolExecution, tell: Tell) -> Any:
        payload = execution.authorization.action.payload
        name = payload["agent"]
        peer: Peer = self._remote[name] if name in self._remote else self._own[name]
        context = execution.context.child(run_id=new_id("run"), agent_name=name)
        context.session_id = new_id("session")
        task = _task(payload, context)
        return _answer(await peer.run(task, Relay(tell)), name)


class Relay:
    """Hands on what a peer tells, each thing once, whether it came in the stream or with the finished task."""

    def __init__(self, tell: Tell) -> None:
        self._tell = tell
        self._told: set[str] = set()

    def event(self, event: RunEvent) -> None:
        key = event.payload["artifact"]["id"] if event.type == "task.artifact" else event.event_id
        if key not in self._told:
            self._told.add(key)
            self._tell(event)

    def rest(self, task: Task) -> None:
        """The receipts and artifacts of a task that were not told yet."""
        context = RunContext.from_task(task)
        for told in task.metadata.get("run_events", []):
            self.event(RunEvent.from_dict(told))
        for artifact in task.artifacts:
            self.event(RunEvent.from_task_event(TaskArtifactUpdateEvent(task.id, artifact), context=context))


def _answer(task: Task, name: str) -> Any:
    """The peer's result. TaskExecutionError when it failed, ToolFailedError when it waits for an answer."""
    if task.state.value == "input-required":
        text = f"Agent '{name}' waits for a person, whom only its own side can ask"
        raise ToolFailedError(text, code="peer_input_required")
    return task.raise_for_status().get_output()


def _task(payload: Mapping[str, Any], context: RunContext) -> Task:
    if payload["action"] == "infer":
        return Task.create_infer(prompt=payload["prompt"], context=context)
    return Task.create_tool_call(tool_name=payload["tool"], args=payload["args"], context=context)


#: The remote peers of the agents of a tree, by path and name.
Peers = Mapping[str, Mapping[str, RemotePeer]]

NOBODY: Peers = {}


async def find_peers(agent: Agent) -> Peers:
    """Whom the agents of a tree know through their registries now. Names of children come first."""
    asking = [(path, member) for path, member in members(agent) if member.network.discovers]
    if not asking:
        return NOBODY
    # At the same time: one registry that does not answer must not cost the whole tree one wait after the other.
    found = await asyncio.gather(*(member.network.peers(taken=member.subagents) for _, member in asking))
    return {path: known for (path, _), known in zip(asking, found, strict=True)}
