"""Checking what an agent is constructed from: ValueError or TypeError before anything is built."""

from __future__ import annotations

import math
import os
import urllib.parse
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from .. import journal
from ..drive.clock import SystemClock
from ..llms import LLM
from ..models import AgentCapabilities, AgentCard
from ..runtime import CapabilityPolicy
from ..storage import InMemoryStorage, Storage
from ..telemetry import Telemetry
from .limits import SubagentLimits

if TYPE_CHECKING:
    from ..drive.ports import Clock

_STORE_METHODS = ("get", "acquire", "save", "release")
_CLOCK_METHODS = ("now", "sleep_until", "call_at")


def checked_card(
    card: AgentCard | Mapping[str, Any] | None, name: str | None, description: str | None, url: str | None
) -> AgentCard:
    if card is not None:
        if name is not None or description is not None or url is not None:
            raise ValueError("give either a card or name, description and url, not both")
        if not isinstance(card, (AgentCard, Mapping)):
            raise TypeError(f"card must be an AgentCard or a mapping, not {type(card).__name__}")
        found = card if isinstance(card, AgentCard) else AgentCard.from_dict(card)
        printable(found.name)
        text("description", found.description)
        return found
    if not isinstance(name, str) or not name.strip():
        raise ValueError("an agent needs a card or a nonblank name")
    printable(name)
    return AgentCard(
        name=name,
        description=text("description", description) if description is not None else f"Agent {name}",
        url=url if url is not None else f"runtime://{urllib.parse.quote(name, safe='')}",
        transport="runtime",
        capabilities=AgentCapabilities(),
    )


def without_streaming(card: AgentCard) -> AgentCard:
    """The card of an agent whose own ``handle_task`` must not be passed by; the caller's card is not changed."""
    return replace(card, capabilities=replace(card.capabilities, streaming=False))


def checked_llm(llm: Any) -> LLM | None:
    if llm is None or isinstance(llm, LLM):
        return llm
    raise TypeError(f"llm must be an LLM or its name, not {type(llm).__name__}")


def checked_policy(policy: Any) -> Any:
    if policy is None:
        return CapabilityPolicy()
    if not callable(getattr(policy, "evaluate", None)):
        raise TypeError(f"policy must have evaluate(action, context), which {type(policy).__name__} has not")
    return policy


def checked_budget_policy(policy: Any) -> Any:
    if policy is not None and not callable(getattr(policy, "evaluate", None)):
        raise TypeError(f"budget_policy must have evaluate(budget, usage), which {type(policy).__name__} has not")
    return policy


def checked_limits(limits: Any) -> SubagentLimits:
    if limits is None:
        return SubagentLimits()
    if not isinstance(limits, SubagentLimits):
        raise TypeError(f"subagent_limits must be SubagentLimits, not {type(limits).__name__}")
    return limits


def checked_callable(name: str, value: Any) -> Any:
    if value is not None and not callable(value):
        raise TypeError(f"{name} must be callable, not {type(value).__name__}")
    return value


def checked_store(durability: Any) -> Any:
    if durability is None:
        return None
    if isinstance(durability, (str, os.PathLike)):
        return journal.SQLiteDurableStore(durability)
    if all(callable(getattr(durability, method, None)) for method in _STORE_METHODS):
        return durability
    raise TypeError(
        f"durability must be a path or offer {', '.join(_STORE_METHODS)}; {type(durability).__name__} does not"
    )


def checked_clock(clock: Any) -> Clock:
    if clock is None:
        return SystemClock()
    if missing := [method for method in _CLOCK_METHODS if not callable(getattr(clock, method, None))]:
        raise TypeError(f"clock must have {', '.join(_CLOCK_METHODS)}; {type(clock).__name__} lacks {missing[0]}")
    found: Clock = clock
    return found


def flag(name: str, value: Any) -> bool:
    if not isinstance(value, bool):
        raise ValueError(f"{name} must be True or False, not {type(value).__name__}")
    return value


def several(name: str, value: Any) -> Iterable[Any]:
    if value is None:
        return ()
    if isinstance(value, (str, bytes)) or not isinstance(value, Iterable):
        raise TypeError(f"{name} must be a list or another iterable, not {type(value).__name__}")
    return value


def choice(name: str, value: Any, allowed: tuple[Any, ...]) -> Any:
    if isinstance(value, bool) or value not in allowed:
        raise ValueError(f"{name} must be one of {', '.join(map(str, allowed))}")
    return value


def positive(name: str, value: Any) -> int | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ValueError(f"{name} must be a whole number above 0")
    return value


def seconds(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value < math.inf:
        raise ValueError(f"{name} must be a finite number of seconds, 0 or more")
    return float(value)


def positive_seconds(name: str, value: Any) -> float | None:
    if value is not None and seconds(name, value) == 0:
        raise ValueError(f"{name} must be above 0 seconds, or None")
    return None if value is None else float(value)


def nonblank(name: str, value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ValueError(f"{name} must be nonblank text")
    return value


def text(name: str, value: Any) -> Any:
    """Text that can be sent and stored, or None."""
    if value is None:
        return None
    if not isinstance(value, str):
        raise ValueError(f"{name} must be text")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ValueError(f"{name} is not valid Unicode text") from None
    return value


def checked_run_store(store: Any) -> Any:
    if store is not None and not callable(getattr(store, "save_task", None)):
        raise TypeError(f"run_store must have save_task(task, ...), which {type(store).__name__} has not")
    return store


def checked_storage(storage: Any) -> Storage:
    if storage is None:
        return InMemoryStorage()
    if not isinstance(storage, Storage):
        raise TypeError(f"storage must be a Storage, not {type(storage).__name__}")
    return storage


def checked_telemetry(telemetry: Any) -> Telemetry | None:
    if telemetry is not None and not isinstance(telemetry, Telemetry):
        raise TypeError(f"telemetry must be a Telemetry, not {type(telemetry).__name__}")
    return telemetry


def printable(name: str) -> None:
    """ValueError for a name that cannot be shown or stored as it is."""
    if not name.isprintable():
        raise ValueError("an agent's name must not have control characters or lone surrogates")
