"""Finding the application's agents: ``module:function``, chosen by the operator and by nobody else."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from ..agents import Agent
from ..journal import RunManager


class FactoryError(ValueError):
    """The factory cannot be used. The text names it and says what to change."""


def manager_of(factory: str) -> RunManager:
    """The manager of what ``module:function`` returns: an Agent, an iterable of Agents, or a RunManager.

    The module is looked up from the working directory too. Importing and calling it runs the application's code.
    FactoryError when it cannot be found, fails or returns something else.
    """
    function = _function(factory)
    try:
        made = function()
    except Exception as error:  # the application's code; what went wrong there is told with its type
        raise FactoryError(f"factory '{factory}' failed: {type(error).__name__}: {error}") from error
    return made if isinstance(made, RunManager) else RunManager(_agents(factory, made))


def _function(factory: str) -> Callable[[], Any]:
    module_name, colon, name = factory.partition(":")
    if not (colon and all(part.isidentifier() for part in (*module_name.split("."), *name.split(".")))):
        raise FactoryError(f"factory '{factory}' is not of the form module:function, such as app:application")
    found: Any = _module(factory, module_name)
    for part in name.split("."):
        if not hasattr(found, part):
            raise FactoryError(f"factory '{factory}': module '{module_name}' has no '{name}'")
        found = getattr(found, part)
    if not callable(found):
        raise FactoryError(f"factory '{factory}' is a {type(found).__name__}; name a function without arguments")
    function: Callable[[], Any] = found
    return function


def _module(factory: str, name: str) -> Any:
    here = str(Path.cwd())
    # A console script has its own folder on the path, not the one that the operator stands in.
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and (name == error.name or name.startswith(f"{error.name}.")):
            raise FactoryError(f"factory '{factory}': there is no module '{error.name}' here or installed") from error
        raise FactoryError(f"factory '{factory}': importing it needs module '{error.name}'") from error
    except Exception as error:  # the application's code, as above
        raise FactoryError(f"factory '{factory}': importing it failed: {type(error).__name__}: {error}") from error


def _agents(factory: str, made: Any) -> list[Agent]:
    agents = [made] if isinstance(made, Agent) else list(made) if isinstance(made, Iterable) else None
    if agents is None or not all(isinstance(agent, Agent) for agent in agents):
        what = type(made).__name__
        raise FactoryError(f"factory '{factory}' returned a {what}; return an Agent, several, or a RunManager")
    return agents
