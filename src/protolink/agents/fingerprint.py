"""The execution contract: what must not change while a run is stored, part by part.

Python code, arbitrary objects and policies are not in it: a new ``execution_version`` says that they changed, and
policies are meant to be today's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from ..errors import CheckpointMismatchError
from ..llms import LLM
from ..models.json import digest
from .factories import Models
from .roster import WorkerTool

if TYPE_CHECKING:
    from .agent import Agent

_REASONS = {
    "tool": "a stored call may not fit the changed tool",
    "worker": "a stored delegation may not reach the worker it was meant for",
    "model": "the conversation was led with another model or other settings",
    "instructions": "the conversation was led under other instructions",
    "slice": "the length of slices is part of the contract",
    "limits": "the limits of the children are part of the contract",
    "version": "the application declares another execution_version",
    "agent": "the agent has another description",
    "subagent": "the roster of children is another",
}


def configuration(agent: Agent, models: Models) -> dict[str, str]:
    """Digest of each part by its name, and of all of them under ""."""
    parts = dict(_parts(agent, models, ""))
    return {"": digest(parts), **parts}


def _parts(agent: Agent, models: Models, place: str) -> Iterator[tuple[str, str]]:
    yield f"{place}agent", digest([agent.name, agent.description])
    yield f"{place}instructions", digest([agent.system_prompt, agent.override_system_prompt])
    yield f"{place}model", digest(_model(models[place.rstrip("/")]))
    yield f"{place}slice", digest(agent.yield_after_steps)
    yield f"{place}limits", digest(agent.subagent_limits.to_dict())
    yield f"{place}version", digest(agent.execution_version)
    for name, tool in sorted(agent.roster.tools.items()):
        kind = "worker" if isinstance(tool, WorkerTool) else "tool"
        yield f"{place}{kind}:{name}", digest(tool_contract(tool))
    for name, child in sorted(agent.roster.children.items()):
        yield f"{place}subagent:{name}", digest(name)
        yield from _parts(child, models, f"{place}{name}/")


def tool_contract(tool: Any) -> dict[str, Any]:
    """What a stored call relies on in a tool, by the name of each member."""
    found = {
        "name": tool.name,
        "description": tool.description,
        "input": tool.input_schema,
        "output": tool.output_schema,
        "capabilities": sorted(tool.capabilities or ()),
    }
    return found | ({"binding": tool.binding} if isinstance(tool, WorkerTool) else {})


def _model(llm: LLM | None) -> dict[str, Any] | None:
    if llm is None:
        return None
    return {
        "provider": llm.provider,
        "model": llm.model,
        "params": {key: _param(value) for key, value in llm.model_params.items()},
        "reasoning": llm.reasoning,
        "tool_calling": llm.resolve_tool_calling(),
        "max_tool_corrections": llm.max_tool_corrections,
        "max_parse_failures": llm.max_parse_failures,
    }


def _param(value: Any) -> Any:
    try:
        digest(value)
    except TypeError:
        return type(value).__name__
    return value


def check(run_id: str, stored: Mapping[str, str], current: Mapping[str, str]) -> None:
    """CheckpointMismatchError naming every part that differs."""
    changed = sorted(name for name in {*stored, *current} - {""} if stored.get(name) != current.get(name))
    if not changed:
        return
    changes = [
        {
            "part": name,
            "old": stored.get(name),
            "new": current.get(name),
            "breaking": True,
            "reason": _REASONS[name.rsplit("/", 1)[-1].partition(":")[0]],
        }
        for name in changed
    ]
    raise CheckpointMismatchError(
        f"Run '{run_id}' was stored under another configuration; changed: {', '.join(changed)}. "
        "Restore the matching configuration, or start a new run",
        changes=changes,
    )
