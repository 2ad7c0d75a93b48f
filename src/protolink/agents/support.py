"""What a tree of agents cannot do, found out before a run begins."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..errors import DurableExecutionError
from ..llms import LLM
from .factories import Models

if TYPE_CHECKING:
    from .agent import Agent


def check_supported(agent: Agent, models: Models) -> None:
    """DurableExecutionError for what a stored run cannot go through, ValueError for slices without a store."""
    if agent.durability is not None:
        _check_durable(agent, models, "")
    elif _yields(agent):
        raise ValueError("yield_after_steps needs durability on this agent or on the parent that owns it")
    else:
        _check_live(agent)


def _yields(agent: Agent) -> bool:
    return agent.yield_after_steps is not None or any(map(_yields, agent.roster.children.values()))


def _check_live(agent: Agent) -> None:
    for child in agent.roster.children.values():
        if child.durability is not None:
            raise DurableExecutionError(
                f"Subagent '{child.name}' is durable, its parent '{agent.name}' is not; give the parent durability"
            )
        _check_live(child)


def _check_durable(agent: Agent, models: Models, path: str) -> None:
    llm = models.get(path)
    if agent.handles_itself:
        name = type(agent).__name__
        raise DurableExecutionError(f"{name} overrides handle_task or execute_task; durable runs need the default ones")
    if llm is not None and type(llm).infer is not LLM.infer:
        raise DurableExecutionError(f"{type(llm).__name__} overrides infer; durable runs need the default loop")
    if agent.retrieval != "auto":
        raise DurableExecutionError(f"retrieval={agent.retrieval!r} is not available in durable runs; use 'auto'")
    for name, child in agent.roster.children.items():
        _check_durable(child, models, f"{path}/{name}".lstrip("/"))
