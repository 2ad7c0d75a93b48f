"""What an agent has at hand: its tools, its children, and the worker tools that stand for them."""

from __future__ import annotations

import copy
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from ..drive.ports import InvalidArguments, QuestionTool, ToolPort
from ..models.turn import RESERVED_NAMES
from ..models.value import dataclass
from ..tools import Tool, as_tool

if TYPE_CHECKING:
    from .agent import Agent

_ALIAS = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")
_TASK_SCHEMA = {
    "type": "object",
    "properties": {"task": {"type": "string", "minLength": 1, "pattern": r"\S"}},
    "required": ["task"],
    "additionalProperties": False,
}


@dataclass(frozen=True, slots=True)
class WorkerTool:
    """A tool-shaped declaration of one child. It is metadata: calling it does nothing but say how it is meant."""

    name: str
    description: str
    input_schema: dict[str, Any]
    output_schema: dict[str, Any]
    worker_name: str
    tool_name: str | None
    worker: Any
    tags: tuple[str, ...] = ("worker",)
    capabilities: tuple[str, ...] = ("agent.delegate",)

    @property
    def binding(self) -> dict[str, Any]:
        action = "infer" if self.tool_name is None else "tool_call"
        return {"agent": self.worker_name, "action": action, "tool": self.tool_name}

    async def __call__(self, **arguments: Any) -> Any:
        raise ValueError(f"'{self.name}' declares a worker; call it through its agent, as a tool of a task")


class Roster:
    """Names are unique among tools and workers; children have names of their own, unique ignoring case."""

    def __init__(self, owner: Agent, tools: Iterable[Any], children: Iterable[Agent], sync_execution: str) -> None:
        self.tools: dict[str, Any] = {}
        self.children: dict[str, Agent] = {}
        self._owner = owner
        self._sync_execution = sync_execution
        for child in children:
            self._adopt(child)
        for tool in tools:
            self.add(tool)

    def add(self, tool: Any) -> None:
        """A tool of the same name is replaced. TypeError for what is no tool, ValueError for a bad name."""
        if isinstance(tool, WorkerTool):
            raise ValueError(f"'{tool.name}' belongs to the agent that declared it; use add_worker_tool() there")
        ready = as_tool(tool)
        if isinstance(ready, Tool) and (ready.sync_execution or self._sync_execution) == "thread":
            ready = copy.copy(ready)  # the caller's own may be another agent's too, with other threads
            ready.sync_execution, ready.executor = "thread", self._owner.sync_executor
        self.tools[ready.name] = ready

    def add_worker(self, worker: str, name: str | None, tool: str | None, description: str | None) -> WorkerTool:
        """Declare a child as a tool. Every misuse is a ValueError; nothing is executed."""
        child = self.children.get(worker)
        if child is None:
            known = ", ".join(sorted(self.children)) or "none"
            raise ValueError(f"There is no subagent '{worker}'. Subagents: {known}")
        alias = name if name is not None else (worker if tool is None else f"{worker}_{tool}")
        if not isinstance(alias, str) or not _ALIAS.fullmatch(alias):
            raise ValueError(
                f"'{alias}' cannot name a tool for models; pass name= (letters, digits, _ and -, at most 64)"
            )
        if alias in self.tools or alias in RESERVED_NAMES:
            raise ValueError(f"The tool name '{alias}' is taken; pass another name=")
        facade = self._bound(child, alias, tool, description) if tool else self._inferring(child, alias, description)
        self.tools[alias] = facade
        return facade

    def worker(self, name: str) -> tuple[str, str | None] | None:
        """The child behind a worker tool. InvalidArguments when that child was replaced since it was declared."""
        found = self.tools.get(name)
        if not isinstance(found, WorkerTool):
            return None
        if self.children.get(found.worker_name) is not found.worker:
            text = f"The worker '{found.worker_name}' behind '{name}' was replaced; declare it with add_worker_tool()"
            raise InvalidArguments(text, "unknown_agent")
        return found.worker_name, found.tool_name

    def callable_tool(self, name: str) -> ToolPort | QuestionTool | None:
        found = self.tools.get(name)
        return None if isinstance(found, WorkerTool) else found

    def _adopt(self, child: Agent) -> None:

        if not isinstance(getattr(child, "roster", None), Roster):
            raise TypeError(f"subagents must be Agents, not {type(child).__name__}")
        if "/" in child.name:
            raise ValueError(f"The subagent name '{child.name}' holds a '/', which separates names in the tree")
        taken = {self._owner.name.casefold(), *(name.casefold() for name in self.children)}
        if child.name.casefold() in taken:
            raise ValueError(f"The subagent name '{child.name}' is taken (names are compared ignoring case)")
        self.children[child.name] = child

    def _inferring(self, child: Agent, alias: str, description: str | None) -> WorkerTool:
        if not child.can_infer:
            raise ValueError(f"Subagent '{child.name}' has no model; bind one of its tools with tool=")
        text = (
            description
            if description is not None
            else f"Delegate a task to the worker {child.name}: {child.description}"
        )
        output = {"type": "string", "title": f"{alias}Output"}
        return WorkerTool(alias, text, copy.deepcopy(_TASK_SCHEMA), output, child.name, None, child)

    def _bound(self, child: Agent, alias: str, tool: str, description: str | None) -> WorkerTool:
        found = child.tools.get(tool)
        if found is None:
            known = ", ".join(sorted(child.tools)) or "none"
            raise ValueError(f"Subagent '{child.name}' has no tool '{tool}'. Its tools: {known}")
        text = (
            description if description is not None else f"{found.description} (tool {tool} of the worker {child.name})"
        )
        schemas: Mapping[str, Any] = {"i": found.input_schema, "o": found.output_schema}
        copies = copy.deepcopy(dict(schemas))
        return WorkerTool(alias, text, copies["i"], copies["o"], child.name, tool, child)


def members(agent: Agent, path: str = "") -> Iterator[tuple[str, Agent]]:
    """An agent and everybody below it, with their places in the tree: "" the root, "writer/checker" below it."""
    yield path, agent
    for name, child in agent.roster.children.items():
        yield from members(child, f"{path}/{name}".lstrip("/"))
