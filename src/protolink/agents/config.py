"""An agent's configuration as JSON and YAML: what can be written down, and what must be given again.

Written is what a description can restore. What is code or secret is marked ``reconnect_required`` instead; loading
refuses until all of it is given, because an agent without its policy, its store or its budget would still run, and do
what it must not. Callbacks without which an agent refuses work (approval handler, input handler) and observers (run
store, telemetry) are not written at all.

Loading imports the modules that the configuration names and opens the file it names, which is created when it is new.
Whoever can write a configuration can run code by it, so only trusted ones may be loaded.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from ..journal.sqlite import SQLiteDurableStore
from ..models import AgentCard
from ..models.json import plain
from ..models.shape import items, mapping, optional_text, required_text
from ..runtime import BudgetPolicy, CapabilityPolicy
from ..state import State
from ..storage import SQLiteStorage, Storage
from ..tools import as_tool
from ..transport import RuntimeTransport, TransportConfig
from . import llm_config, tool_config
from .limits import SubagentLimits
from .roster import WorkerTool

if TYPE_CHECKING:
    from .agent import Agent

A = TypeVar("A", bound="Agent")

_WHAT = "Agent configuration"
_TEXTS = ("skills", "sync_execution", "retrieval", "execution_version")
_FLAGS = ("override_system_prompt", "expose_tool_results", "parallel_tool_calls")
_COUNTS = ("verbosity", "max_sync_workers", "max_result_bytes", "yield_after_steps")
_PLAIN = ("system_prompt", *_TEXTS, *_FLAGS, *_COUNTS, "store_patience")
_PARTS = ("llm", "llm_factory", "policy", "budget_policy", "durability", "storage", "state", "transport", "registry")
_NETWORK = ("discovery_ttl", "registry_heartbeat_interval")
_KEYS = frozenset({"card", "tools", "subagents", "subagent_limits", *_PLAIN, *_PARTS, *_NETWORK})
_FACTORY = "llm_factory"
_ATTACHED = ("policy", "budget_policy", "durability", "storage", "transport", "registry")
#: Given as None, these are left out on purpose: no budgets, nobody who can reach the agent, no peers.
_DETACHABLE = ("budget_policy", "transport", "registry")


# ---------------------------------------------------------------------------------------------------- writing


def to_dict(agent: Agent) -> dict[str, Any]:
    """The configuration as detached JSON. TypeError names what has no JSON form."""
    found: dict[str, Any] = {"card": agent.card.to_dict()}
    found |= {key: getattr(agent, key) for key in _PLAIN if key != "yield_after_steps"}
    if agent.yield_after_steps is not None:
        found["yield_after_steps"] = agent.yield_after_steps
    if agent.llm_factory is not None:
        found[_FACTORY] = {"reconnect_required": True}
    elif agent.llm is not None:
        found["llm"] = llm_config.described(agent.llm)
    found["tools"] = [tool_config.described(tool) for tool in agent.tools.values()]
    found["policy"] = agent.policy.to_dict() if type(agent.policy) is CapabilityPolicy else _custom(agent.policy)
    found["budget_policy"] = _budget(agent.budget_policy)
    if agent.durability is not None:
        found["durability"] = _store(agent.durability)
    if agent.storage_given:
        found["storage"] = _storage(agent.storage)
    if agent.state.modules:
        found["state"] = agent.state.to_dict()
    found |= _network(agent)
    found["subagents"] = [{"name": name, "reconnect_required": True} for name in agent.subagents]
    found["subagent_limits"] = agent.subagent_limits.to_dict() | {"background": agent.subagent_limits.background}
    return dict(plain(found))


def _custom(part: Any) -> dict[str, Any]:
    return {"type": "custom", "class": type(part).__qualname__, "reconnect_required": True}


def _budget(policy: Any) -> dict[str, Any] | None:
    if policy is None:
        return None
    if type(policy) is not BudgetPolicy:
        return _custom(policy)
    return {"type": "budget", "warning_ratio": policy.warning_ratio}


def _store(store: Any) -> dict[str, Any]:
    if type(store) is not SQLiteDurableStore:
        return _custom(store)
    found = {"type": "sqlite", "path": os.fspath(store.path), "lease_seconds": store.lease_seconds}
    more = {"synchronous": store.synchronous, "read_only": store.read_only}
    return found | {key: value for key, value in more.items() if value not in ("FULL", False)}


def _storage(storage: Storage) -> dict[str, Any]:
    """What is in memory ends with the process, so it is as little described as a custom storage."""
    if type(storage) is not SQLiteStorage:
        return _custom(storage)
    return {
        "type": "sqlite",
        "path": os.fspath(storage.db_path),
        "table_name": storage.table_name,
        "namespace": storage.namespace,
    }


def _network(agent: Agent) -> dict[str, Any]:
    """How the agent is reached and finds others. A registry is an object or an address of its own, and not written."""
    found: dict[str, Any] = {}
    transport = agent.transport
    if transport is not None:
        plain_one = type(transport) is RuntimeTransport and transport.config == TransportConfig()
        found["transport"] = {"type": transport.transport_type} if plain_one else _custom(transport)
    if agent.registry is not None:
        found["registry"] = _custom(agent.registry)
        found |= {key: getattr(agent.network, key) for key in _NETWORK if getattr(agent.network, key)}
    return found


# ---------------------------------------------------------------------------------------------------- reading


def from_dict(cls: type[A], data: Any, overrides: Mapping[str, Any]) -> A:
    """See ``Agent.from_dict``. Shapes and missing parts are found out before anything is imported or opened."""
    source = _checked(data)
    given = dict(overrides)
    entries = tool_config.entries_of(source)
    tools = {tool.name: tool for tool in map(_reattached, given.pop("tools", None) or ())}
    children = list(given.pop("subagents", None) or ())
    _check_attached(source, entries, tools, children, given)
    ready = {entry["name"]: _tool(entry, tools) for entry in entries if not tool_config.is_worker(entry)}
    order = [item["name"] for item in _children(source)]
    children.sort(key=lambda child: order.index(child.name) if child.name in order else len(order))
    agent = cls(**_arguments(source, given), subagents=children)
    for entry in entries:
        if tool_config.is_worker(entry):
            _declare(agent, entry)
        else:
            agent.add_tool(ready[entry["name"]])
    agent.add_tools(tool for name, tool in tools.items() if name not in ready)
    return agent


def _checked(data: Any) -> Mapping[str, Any]:
    source = mapping(data, _WHAT)
    if "card" not in source:
        raise ValueError(f"{_WHAT} needs the member 'card'")
    if unknown := sorted(map(str, source.keys() - _KEYS)):
        raise ValueError(f"{_WHAT} has no member {', '.join(unknown)}")
    optional_text(source, "system_prompt", _WHAT)
    for key in _TEXTS:
        optional_text(source, key, _WHAT)
    for key in _FLAGS:
        if not isinstance(source.get(key, False), bool):
            raise ValueError(f"{_WHAT} member '{key}' must be true or false")
    for key in _COUNTS:
        if type(source.get(key, 1)) is not int:
            raise ValueError(f"{_WHAT} member '{key}' must be a whole number, not {type(source[key]).__name__}")
    _number(source, "store_patience", 0.0)
    for key in _PARTS:
        if source.get(key) is not None:
            mapping(source[key], f"{_WHAT} member '{key}'")
    if source.get("llm") is not None:
        llm_config.checked(source["llm"])
    return source


def _number(source: Mapping[str, Any], key: str, default: float) -> float:
    value = source.get(key, default)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value) or value < 0:
        raise ValueError(f"{_WHAT} member '{key}' must be a finite number of 0 or more")
    return value


def _children(source: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    found = [mapping(item, f"{_WHAT} member 'subagents'") for item in items(source, "subagents", _WHAT)]
    for item in found:
        required_text(item, "name", f"{_WHAT} of a subagent")
    return found


def _reattached(tool: Any) -> Any:
    if isinstance(tool, WorkerTool):
        raise ValueError(f"'{tool.name}' belongs to the agent that declared it; its worker is given by subagents=[...]")
    return as_tool(tool)


def _check_attached(
    source: Mapping[str, Any],
    entries: list[Mapping[str, Any]],
    tools: Mapping[str, Any],
    children: list[Any],
    given: Mapping[str, Any],
) -> None:
    """ValueError with the names of everything that must be given and is not."""
    there = {getattr(child, "name", None) for child in children}
    workers = [entry["worker_binding"]["agent"] for entry in entries if tool_config.is_worker(entry)]
    wanted = dict.fromkeys([item["name"] for item in _children(source)] + workers)
    missing = [f"subagent '{name}' (subagents=[...])" for name in wanted if name not in there]
    missing += [
        f"tool '{entry['name']}' (tools=[...])"
        for entry in entries
        if tool_config.must_be_given(entry) and entry["name"] not in tools
    ]
    missing += [f"{key} ({key}=...)" for key in _ATTACHED if _lacks(source, given, key)]
    if "llm" not in given and _FACTORY not in given:
        if source.get(_FACTORY) is not None:
            missing.append("llm_factory (llm_factory=...)")
        elif source.get("llm") is not None and (reason := llm_config.missing(source["llm"])):
            missing.append(reason)
    if missing:
        raise ValueError(f"{_WHAT} does not hold all of the agent; give to from_dict: {'; '.join(missing)}")


def _lacks(source: Mapping[str, Any], given: Mapping[str, Any], key: str) -> bool:
    present = key in given and (given[key] is not None or key in _DETACHABLE)
    return not present and bool((source.get(key) or {}).get("reconnect_required"))


def _tool(entry: Mapping[str, Any], given: Mapping[str, Any]) -> Any:
    tool = given[entry["name"]] if entry["name"] in given else tool_config.loaded(entry)
    tool_config.check_same(entry, tool)
    return tool


def _declare(agent: Agent, entry: Mapping[str, Any]) -> None:
    binding = entry["worker_binding"]
    facade = agent.add_worker_tool(
        binding["agent"], name=entry["name"], tool=binding.get("tool"), description=entry.get("description")
    )
    tool_config.check_same(entry, facade)


def _arguments(source: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """The constructor's arguments; what is given wins. The store comes last: opening it may create a file."""
    found: dict[str, Any] = {key: source[key] for key in _PLAIN if key in source}
    if "card" not in given:
        found["card"] = AgentCard.from_dict(source["card"])
    if source.get("llm") is not None and "llm" not in given and _FACTORY not in given:
        found["llm"] = llm_config.made(source["llm"])
    if source.get("policy") is not None and "policy" not in given:
        found["policy"] = CapabilityPolicy.from_dict(source["policy"])
    if "budget_policy" in source and "budget_policy" not in given:
        found["budget_policy"] = _budget_policy(source["budget_policy"])
    if source.get("subagent_limits") is not None and "subagent_limits" not in given:
        found["subagent_limits"] = _limits(source["subagent_limits"])
    if source.get("state") is not None and "state" not in given:
        found["state"] = State.of(source["state"])
    if source.get("storage") is not None and "storage" not in given:
        found["storage"] = _opened_storage(source["storage"])
    if source.get("transport") is not None and "transport" not in given:
        found["transport"] = required_text(source["transport"], "type", f"{_WHAT} member 'transport'")
    found |= {key: _number(source, key, 0.0) for key in _NETWORK if key in source}
    if source.get("durability") is not None and "durability" not in given:
        found["durability"] = _opened(source["durability"])
    return found | dict(given)


def _budget_policy(data: Mapping[str, Any] | None) -> BudgetPolicy | None:
    if data is None:
        return None
    if data.get("type") != "budget":
        raise ValueError(f"{_WHAT} member 'budget_policy' is of an unknown type; give budget_policy=...")
    return BudgetPolicy(warning_ratio=_number(data, "warning_ratio", 0.8))


def _limits(data: Any) -> SubagentLimits:
    found = mapping(data, f"{_WHAT} member 'subagent_limits'")
    try:
        return SubagentLimits(**found)
    except TypeError as error:
        raise ValueError(f"{_WHAT} member 'subagent_limits': {error}") from None


def _opened(data: Mapping[str, Any]) -> SQLiteDurableStore:
    what = f"{_WHAT} member 'durability'"
    if data.get("type") != "sqlite":
        raise ValueError(f"{what} is of an unknown type; give durability=...")
    if not isinstance(data.get("read_only", False), bool):
        raise ValueError(f"{what}: 'read_only' must be true or false")
    return SQLiteDurableStore(
        required_text(data, "path", what),
        lease_seconds=data.get("lease_seconds", 300.0),
        synchronous=optional_text(data, "synchronous", what) or "FULL",
        read_only=data.get("read_only", False),
    )


def _opened_storage(data: Mapping[str, Any]) -> SQLiteStorage:
    what = f"{_WHAT} member 'storage'"
    if data.get("type") != "sqlite":
        raise ValueError(f"{what} is of an unknown type; give storage=...")
    return SQLiteStorage(
        required_text(data, "path", what),
        table_name=optional_text(data, "table_name", what) or "storage",
        namespace=required_text(data, "namespace", what),
    )


# ---------------------------------------------------------------------------------------------------- YAML


def to_yaml_string(agent: Agent) -> str:
    data = to_dict(agent)
    text: str = _yaml().safe_dump(data, sort_keys=False, allow_unicode=True)
    if "\x85" in text:  # pyyaml writes this one character in a way that it reads as another
        text = _yaml().safe_dump(data, sort_keys=False)
    return text


def to_yaml(agent: Agent, path: str | os.PathLike[str]) -> None:
    Path(path).write_text(to_yaml_string(agent), encoding="utf-8")


def read_yaml(text: str) -> Any:
    """What YAML text says, made of plain values only. ValueError, naming the line, for what is no such text."""
    if not isinstance(text, str):
        raise ValueError(f"YAML must be text, not {type(text).__name__}; a file is read by from_yaml()")
    yaml = _yaml()
    try:
        return yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        place = "" if mark is None else f" (line {mark.line + 1})"
        raise ValueError(f"{_WHAT} is no plain YAML{place}") from None


def read_yaml_file(path: str | os.PathLike[str]) -> Any:
    """``read_yaml`` of a file in UTF-8. OSError when it cannot be read."""
    try:
        return read_yaml(Path(path).read_text(encoding="utf-8"))
    except UnicodeDecodeError:
        raise ValueError(f"{_WHAT} in {path} is not UTF-8") from None


def _yaml() -> Any:
    try:
        import yaml
    except ImportError as error:
        raise ImportError("YAML needs the package pyyaml: pip install protolink[yaml]") from error
    return yaml
