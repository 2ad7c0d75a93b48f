"""Children that handle their tasks themselves: their own ``handle_task`` is authoritative, no frame is opened."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from ..drive.execution import ToolExecution
from ..drive.ports import InvalidArguments
from ..models import Task
from ..runtime import RunAction, RunContext

if TYPE_CHECKING:
    from .agent import Agent


class OwnHandlers:
    """Carries out delegations to such children; a ``drive.ports.ToolPort``. Their runs are their own, live ones."""

    name = "agent_call"
    read_only = False
    idempotent = False
    probe = None
    asks_user: ClassVar[Literal[False]] = False

    def __init__(self, children: Mapping[str, Agent]) -> None:
        self._children = children

    def prepare(self, arguments: Mapping[str, Any], context: RunContext) -> RunAction:
        """Only for names that are no children's: those are prepared as delegations."""
        raise InvalidArguments(f"There is no agent '{arguments.get('agent')}'", "unknown_agent")

    def invoke(self, execution: ToolExecution) -> Any:
        payload = execution.authorization.action.payload
        return self._run(self._children[payload["agent"]], payload, execution.context)

    async def _run(self, child: Agent, payload: Mapping[str, Any], context: RunContext) -> Any:
        own = context.child(agent_name=child.name)
        if payload["action"] == "infer":
            task = Task.create_infer(prompt=payload["prompt"], context=own)
        else:
            task = Task.create_tool_call(tool_name=payload["tool"], args=payload["args"], context=own)
        done = await child.run_task(task)
        return done.raise_for_status().get_output()
