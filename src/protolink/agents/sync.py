"""``agent.sync``: the async methods for callers without an event loop."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..drive.loop_thread import LOOP
from ..models import AgentCard, Task
from ..runtime import RunContext

if TYPE_CHECKING:
    from .agent import Agent


class SyncAgent:
    """Blocking twins of an agent's methods, with the same arguments and errors."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent

    def invoke(self, message: Any, *args: Any, **kwargs: Any) -> Any:
        return LOOP.run("invoke", lambda: self._agent.invoke(message, *args, **kwargs))

    def call_tool(self, tool_name: str, /, **kwargs: Any) -> Any:
        return LOOP.run("call_tool", lambda: self._agent.call_tool(tool_name, **kwargs))

    def call_tool_in_context(self, tool_name: str, context: RunContext, /, **kwargs: Any) -> Any:
        return LOOP.run("call_tool_in_context", lambda: self._agent.call_tool_in_context(tool_name, context, **kwargs))

    def run_task(self, task: Task) -> Task:
        return LOOP.run("run_task", lambda: self._agent.run_task(task))

    def call_agent(self, agent_url: str, task: Task, **options: Any) -> Task:
        return LOOP.run("call_agent", lambda: self._agent.call_agent(agent_url, task, **options))

    def discover_agents(self, *args: Any, **kwargs: Any) -> list[AgentCard]:
        return LOOP.run("discover_agents", lambda: self._agent.discover_agents(*args, **kwargs))

    def cancel_task(self, task_id: Any, reason: str | None = None) -> Task:
        return LOOP.run("cancel_task", lambda: self._agent.cancel_task(task_id, reason))

    def resume(self, run_id: str, **response: Any) -> Any:
        return LOOP.run("resume", lambda: self._agent.resume(run_id, **response))

    def resume_task(self, run_id: str, **response: Any) -> Task:
        return LOOP.run("resume_task", lambda: self._agent.resume_task(run_id, **response))
