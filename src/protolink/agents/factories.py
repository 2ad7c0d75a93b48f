"""The models of a run: each agent's own, or what its ``llm_factory`` makes, once for each run."""

from __future__ import annotations

import inspect
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

from ..errors import DurableExecutionError
from ..llms import LLM, create_llm
from ..runtime.request_context import below, current_scope
from .roster import members

if TYPE_CHECKING:
    from .agent import Agent

#: By the agent's path in the tree; None for an agent without a model.
Models = dict[str, LLM | None]


async def make_models(agent: Agent) -> Models:
    """The models of an agent and of everybody below it. Exceptions of factories are the application's."""
    found: Models = {}
    for path, member in members(agent):
        if member.llm_factory is None:
            found[path] = None if member.llm is None else _checked(member.llm)
            continue
        with _visible(path):
            made = member.llm_factory()
            found[path] = _checked(await made if inspect.isawaitable(made) else made)
    return found


def make_models_now(agent: Agent) -> Models:
    """The same without a loop. DurableExecutionError for a factory that has to be awaited."""
    found: Models = {}
    for path, member in members(agent):
        if member.llm_factory is None:
            found[path] = None if member.llm is None else _checked(member.llm)
            continue
        with _visible(path):
            made = member.llm_factory()
        if inspect.isawaitable(made):
            if inspect.iscoroutine(made):
                made.close()
            raise DurableExecutionError("an async llm_factory cannot be awaited here; use one that returns at once")
        found[path] = _checked(made)
    return found


def _visible(path: str) -> AbstractContextManager[None]:
    """A child's factory sees what a child may see of the request context."""
    return below(current_scope()) if path else nullcontext()


def _checked(made: Any) -> LLM:
    found = create_llm(made) if isinstance(made, str) else made
    if not isinstance(found, LLM):
        raise TypeError(f"llm_factory must return an LLM or its name, not {type(found).__name__}")
    return found
