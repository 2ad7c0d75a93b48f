"""AgentPeer: an agent at another address, given work like one of our own."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from ..drive.loop_thread import LOOP
from ..models import AgentCard, Task

if TYPE_CHECKING:
    from ..runtime import RunBudget, RunContext
    from .agent_client import AgentClient


class Finder(Protocol):
    """A Registry or a RegistryClient."""

    async def discover(self, *, name: str | None = None) -> list[AgentCard]: ...


class AgentPeer:
    """Made by ``client.peer()`` and ``agent.peer()``. ``target``: an address, a card, or a name in the ``registry``.

    Each call sends one task, once. Its errors are those of AgentClient; a task that failed raises TaskExecutionError,
    one that waits for a person RuntimeError.
    ``sync`` has the same methods for callers without an event loop.
    """

    def __init__(
        self, client_at: Callable[[str], AgentClient], target: str | AgentCard, registry: Finder | None = None
    ) -> None:
        if not isinstance(target, (str, AgentCard)) or (isinstance(target, str) and not target.strip()):
            raise TypeError("a peer is an address, an AgentCard, or the name of a registered agent")
        if isinstance(target, str) and "://" not in target and registry is None:
            raise ValueError(f"'{target}' is a name: give its address, or a registry that knows it")
        self._client_at = client_at
        self._target = target
        self._registry = registry
        self.sync = SyncAgentPeer(self)

    async def url(self) -> str:
        """Its address; a name is looked up each time. ValueError unless exactly one agent has the name."""
        if isinstance(self._target, AgentCard):
            return self._target.url
        if "://" in self._target:
            return self._target
        assert self._registry is not None, "checked when it was made"
        found = await self._registry.discover(name=self._target)
        if len(found) != 1:
            count = f"{len(found)} agents" if found else "no agent"
            raise ValueError(f"the registry knows {count} named '{self._target}'; give the address instead")
        return found[0].url

    async def run_task(self, task: Task) -> Task:
        """Have a task done; returns it as the agent ended it."""
        url = await self.url()
        return await self._client_at(url).send_task(url, task)

    async def invoke(
        self,
        message: str,
        *,
        session_id: str | None = None,
        budget: RunBudget | None = None,
        context: RunContext | None = None,
    ) -> Any:
        """Ask its model and return the answer."""
        task = Task.create_infer(prompt=message, session_id=session_id, budget=budget, context=context)
        return _result(await self.run_task(task))

    async def call_tool(self, tool_name: str, /, **arguments: Any) -> Any:
        """Have one of its tools run and return the result, as JSON."""
        task = Task.create_tool_call(tool_name=tool_name, args=arguments)
        return _result(await self.run_task(task))

    async def cancel_task(self, task_id: str, reason: str | None = None) -> Task:
        """Cancel a task that it is running."""
        url = await self.url()
        return await self._client_at(url).cancel_task(url, task_id, reason=reason)

    async def card(self) -> AgentCard:
        """How it introduces itself now."""
        url = await self.url()
        return await self._client_at(url).get_agent_card(url)


def _result(task: Task) -> Any:
    if task.state.value == "input-required":
        raise RuntimeError(f"Task '{task.id}' waits for a person, whom only the agent's own side can ask")
    return task.raise_for_status().get_output()


class SyncAgentPeer:
    """Blocking twins of a peer's methods, with the same arguments and errors. RuntimeError inside a running loop."""

    def __init__(self, peer: AgentPeer) -> None:
        self._peer = peer

    def run_task(self, task: Task) -> Task:
        return LOOP.run("run_task", lambda: self._peer.run_task(task), owner="peer")

    def invoke(self, message: str, **options: Any) -> Any:
        return LOOP.run("invoke", lambda: self._peer.invoke(message, **options), owner="peer")

    def call_tool(self, tool_name: str, /, **arguments: Any) -> Any:
        return LOOP.run("call_tool", lambda: self._peer.call_tool(tool_name, **arguments), owner="peer")

    def cancel_task(self, task_id: str, reason: str | None = None) -> Task:
        return LOOP.run("cancel_task", lambda: self._peer.cancel_task(task_id, reason), owner="peer")

    def card(self) -> AgentCard:
        return LOOP.run("card", self._peer.card, owner="peer")
