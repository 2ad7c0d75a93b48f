"""The execution contract: what must not change while a run is stored, part by part.

Python code, arbitrary objects and policies are not in it: a new ``execution_version`` says that they changed, and
policies are meant to be today's.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ..llms import LLM
from ..models import DEFAULT_REDACTION_POLICY
from ..models.json import digest
from .factories import Models
from .roster import WorkerTool

if TYPE_CHECKING:
    from .agent import Agent


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
        # Without what the redaction policy masks: a key that was rotated is no other model, and no digest may be
        # made of a secret that somebody could guess.
        "params": DEFAULT_REDACTION_POLICY.redact({key: _param(value) for key, value in llm.model_params.items()}),
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
