"""The models of a run: each agent's own, or what its ``llm_factory`` makes, once for each run."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ..errors import DurableExecutionError
from ..llms import LLM, create_llm

if TYPE_CHECKING:
    from .agent import Agent

#: By the agent's path in the tree; None for an agent without a model.
Models = dict[str, LLM | None]


async def make_models(agent: Agent) -> Models:
    """The models of an agent and of everybody below it. Exceptions of factories are the application's."""
    found: Models = {}
    for path, member in _tree(agent, ""):
        made = member.llm_factory() if member.llm_factory is not None else member.llm
        found[path] = _checked(await made if inspect.isawaitable(made) else made)
    return found


def make_models_now(agent: Agent) -> Models:
    """The same without a loop. DurableExecutionError for a factory that has to be awaited."""
    found: Models = {}
    for path, member in _tree(agent, ""):
        made = member.llm_factory() if member.llm_factory is not None else member.llm
        if inspect.isawaitable(made):
            if inspect.iscoroutine(made):
                made.close()
            raise DurableExecutionError("an async llm_factory cannot be awaited here; use one that returns at once")
        found[path] = _checked(made)
    return found


def _tree(agent: Agent, path: str) -> Iterator[tuple[str, Agent]]:
    yield path, agent
    for name, child in agent.roster.children.items():
        yield from _tree(child, f"{path}/{name}".lstrip("/"))


def _checked(made: Any) -> LLM | None:
    found = create_llm(made) if isinstance(made, str) else made
    if found is not None and not isinstance(found, LLM):
        raise TypeError(f"llm_factory must return an LLM or its name, not {type(found).__name__}")
    return found
