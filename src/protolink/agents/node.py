"""One agent of a run's tree, as the driver sees it. Made anew for every drive, from the agents as they are then."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..drive.ports import AgentPort, Approver, ModelPort, PeerPort
from ..engine.facts import Proposal, Spec
from ..llms import LLM
from ..llms.port import LLMPort
from ..models import AgentCard
from .factories import Models
from .peers import NOBODY, OwnHandler, PeerCalls, Peers
from .policies import PolicyChain

if TYPE_CHECKING:
    from .agent import Agent


class Node:
    """Implements ``drive.ports.AgentPort``."""

    def __init__(
        self,
        agent: Agent,
        models: Models,
        path: str = "",
        above: Sequence[Any] = (),
        *,
        people: bool = True,
        peers: Peers = NOBODY,
        durable: bool = False,
    ) -> None:
        self.name = agent.name
        self.path = path
        self._agent = agent
        self.tool = agent.roster.callable_tool
        self.worker = agent.roster.worker
        policies = (*above, agent.policy)
        self.policy = PolicyChain(policies)
        own = {name: OwnHandler(child) for name, child in agent.roster.children.items() if child.handles_itself}
        remote = peers.get(path, {})
        self.handles_itself = agent.handles_itself
        self.peers: PeerPort | None = (
            PeerCalls(own, remote, list(agent.roster.children), durable=durable) if own or remote else None
        )
        self.approver: Approver | None = agent.approval_handler if people else None
        llm = models[path]
        offered = [] if durable else [peer.card for peer in remote.values()]
        self.model: ModelPort | None = _port(agent, llm, offered) if llm is not None else None
        self.children: Mapping[str, AgentPort] = {
            name: Node(
                child,
                models,
                f"{path}/{name}".lstrip("/"),
                policies,
                people=people,
                peers=peers,
                durable=durable,
            )
            for name, child in agent.roster.children.items()
        }

    def tool_names(self) -> Sequence[str]:
        return list(self._agent.roster.tools)

    def spec(self, frame: str, *, prompt: Any = None, call: Proposal | None = None, **more: Any) -> Spec:
        model = self.model
        if call is not None or model is None:
            return Spec(
                frame, self.path, prompt, call, no_model=call is None, expose=self._agent.expose_tool_results, **more
            )
        return Spec(
            frame,
            self.path,
            prompt,
            slice=self._agent.yield_after_steps,
            parallel=self._agent.parallel_tool_calls,
            corrections=model.max_tool_corrections,
            misspeaks=model.max_parse_failures,
            provider=model.provider,
            model=model.model,
            expose=self._agent.expose_tool_results,
            **more,
        )


def tree(root: Node) -> dict[str, AgentPort]:
    """Every node by its path."""
    found: dict[str, AgentPort] = {root.path: root}
    for child in root.children.values():
        assert isinstance(child, Node)
        found |= tree(child)
    return found


def _port(agent: Agent, llm: LLM, peers: Sequence[AgentCard]) -> LLMPort:
    return LLMPort(
        llm,
        system_prompt=agent.system_prompt or "",
        override=agent.override_system_prompt,
        agent_name=agent.name,
        tools=list(agent.roster.tools.values()),
        cards=[*(child.card for child in agent.roster.children.values()), *peers],
        description=agent.description,
    )
