"""Tools in an agent's configuration: what is written of each, and how it is found again.

Of a function only its place is written, ``module:qualname``, and only when that place really leads to it: lambdas,
local functions and bound methods have none and must be reattached, as prepared tools and tool objects of the
application's own. The declared schemas go along, so that a tool that has changed since is noticed and not taken.
"""

from __future__ import annotations

import importlib
import inspect
import re
import sys
from collections.abc import Callable, Mapping
from typing import Any

from ..models.json import plain
from ..models.shape import items, mapping, optional_text, required_text, table, texts
from ..tools import PreparedTool, Tool, ask_user_tool
from ..tools.builtins.ask_user import AskUserTool
from .fingerprint import tool_contract
from .roster import WorkerTool

_WHAT = "tool configuration"
_PATH = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*:[^\W\d]\w*(\.[^\W\d]\w*)*")
_TYPES = frozenset({"native", "worker", "builtin", "prepared", "custom"})
_FUNCTIONS = ("action_builder", "probe")
_PLACES = ("func_path", *_FUNCTIONS)
_DECLARED = ("input_schema", "output_schema")
_ASKING = ("timeout_seconds", "max_answer_chars")
_KEYS = frozenset(
    {
        "name",
        "description",
        "type",
        *_DECLARED,
        "declared",
        "tags",
        "examples",
        "capabilities",
        "args",
        *_PLACES,
        "sync_execution",
        "read_only",
        "idempotent",
        "worker_binding",
        "builtin",
        *_ASKING,
        "reconnect_required",
    }
)


# ---------------------------------------------------------------------------------------------------- writing


def described(tool: Any) -> dict[str, Any]:
    """One tool as JSON. TypeError, naming the tool, when its schemas or examples are none."""
    entry = {
        "name": tool.name,
        "description": tool.description,
        "input_schema": tool.input_schema,
        "output_schema": tool.output_schema,
        "tags": tool.tags or [],
        "examples": getattr(tool, "examples", None) or [],
        "capabilities": sorted(tool.capabilities or ()),
    }
    try:
        found: dict[str, Any] = plain(entry | _identity(tool))
    except TypeError as error:
        raise TypeError(f"the tool '{tool.name}' has no JSON form: {error}") from None
    return found


def _identity(tool: Any) -> dict[str, Any]:
    if isinstance(tool, WorkerTool):
        return {"type": "worker", "worker_binding": tool.binding, "reconnect_required": True}
    if type(tool) is AskUserTool:
        return {"type": "builtin", "builtin": tool.name, **{key: getattr(tool, key) for key in _ASKING}}
    if type(tool) is Tool:
        return {"type": "native", **_traits(tool), **_places(tool)}
    return {"type": "prepared" if isinstance(tool, PreparedTool) else "custom", "reconnect_required": True}


def _traits(tool: Tool) -> dict[str, Any]:
    given = {
        "declared": _own_schemas(tool),
        "args": tool.args,
        "sync_execution": tool.sync_execution,
        "read_only": tool.read_only,
        "idempotent": tool.idempotent,
    }
    return {key: value for key, value in given.items() if value not in (None, False, [])}


def _places(tool: Tool) -> dict[str, Any]:
    """Where its functions are; none of them when one cannot be found that way."""
    wanted = {"func_path": tool.func, "action_builder": tool.action_builder, "probe": tool.probe}
    places = {key: path_of(func) for key, func in wanted.items() if func is not None}
    return {"reconnect_required": True} if None in places.values() else places


def _own_schemas(tool: Tool) -> list[str]:
    """Which schemas came with the tool instead of being drawn from the function's hints."""
    try:
        drawn = Tool.from_callable(tool.func, name=tool.name)
    except TypeError:  # the hints say nothing usable, so the schema must be the tool's own
        return list(_DECLARED)
    return [key for key in _DECLARED if getattr(drawn, key) != getattr(tool, key)]


def path_of(func: Callable[..., Any]) -> str | None:
    """``module:qualname``; None unless exactly this function is found there."""
    module, name = getattr(func, "__module__", None), getattr(func, "__qualname__", None)
    if not inspect.isroutine(func) or not _PATH.fullmatch(f"{module}:{name}"):
        return None
    found: Any = sys.modules.get(str(module))
    for piece in str(name).split("."):
        found = getattr(found, piece, None)
    same = found is func or (inspect.ismethod(found) and inspect.ismethod(func) and found == func)
    return f"{module}:{name}" if same else None


# ---------------------------------------------------------------------------------------------------- reading


def entries_of(source: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The descriptions of all tools, their shapes checked; nothing is imported. ValueError names tool and member."""
    found = [_checked(item) for item in items(source, "tools", "Agent configuration")]
    names = [entry["name"] for entry in found]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise ValueError(f"{_WHAT} has more than one tool '{twice[0]}'")
    return found


def _checked(data: Any) -> Mapping[str, Any]:
    entry = mapping(data, _WHAT)
    what = f"{_WHAT} of '{required_text(entry, 'name', _WHAT)}'"
    if unknown := sorted(map(str, entry.keys() - _KEYS)):
        raise ValueError(f"{what} has no member {', '.join(unknown)}")
    if required_text(entry, "type", what) not in _TYPES:
        raise ValueError(f"{what} is of an unknown type; known are {', '.join(sorted(_TYPES))}")
    for key in ("description", "sync_execution", "builtin"):
        optional_text(entry, key, what)
    for key in _DECLARED:
        table(entry, key, what)
    for key in ("tags", "capabilities", "declared"):
        texts(entry, key, what)
    items(entry, "examples", what)
    for key in ("read_only", "idempotent", "reconnect_required"):
        if not isinstance(entry.get(key, False), bool):
            raise ValueError(f"{what} member '{key}' must be true or false")
    _check_places(entry, what)
    return entry


def _check_places(entry: Mapping[str, Any], what: str) -> None:
    for key in _PLACES:
        path = optional_text(entry, key, what)
        if path is not None and not _PATH.fullmatch(path):
            raise ValueError(f"{what} member '{key}' must be 'module:qualname' of a function that can be imported")
    if entry["type"] == "worker":
        binding = mapping(entry.get("worker_binding"), f"{what} member 'worker_binding'")
        required_text(binding, "agent", what)
        tool = optional_text(binding, "tool", what)
        if binding.get("action") != ("infer" if tool is None else "tool_call"):
            raise ValueError(f"{what} member 'worker_binding' must be an infer without a tool, or a tool_call with one")
    if entry["type"] == "builtin" and entry.get("builtin") != "ask_user":
        raise ValueError(f"{what} names a builtin that this version does not have")


def is_worker(entry: Mapping[str, Any]) -> bool:
    return bool(entry["type"] == "worker")


def must_be_given(entry: Mapping[str, Any]) -> bool:
    """True when no place is known from which the tool could be loaded."""
    if entry["type"] == "builtin" or is_worker(entry):
        return False
    return bool(entry.get("reconnect_required")) or entry.get("func_path") is None


def loaded(entry: Mapping[str, Any]) -> Any:
    """The tool of a checked description. Imports the modules that it names. ValueError for what is not there."""
    if entry["type"] == "builtin":
        return _asking(entry)
    functions: dict[str, Any] = {key: _imported(entry, key) for key in _PLACES if entry.get(key) is not None}
    own = {key: entry.get(key) for key in texts(entry, "declared", _WHAT) if key in _DECLARED}
    try:
        tool = Tool.from_callable(
            functions.pop("func_path"),
            name=entry["name"],
            description=entry.get("description"),
            tags=entry.get("tags"),
            examples=entry.get("examples") or None,
            capabilities=entry.get("capabilities"),
            sync_execution=entry.get("sync_execution"),
            read_only=entry.get("read_only", False),
            idempotent=entry.get("idempotent", False),
            **own,
            **functions,
        )
    except TypeError as error:
        raise ValueError(f"{_WHAT} of '{entry['name']}' makes no tool: {error}") from error
    tool.args = entry.get("args")
    return tool


def _asking(entry: Mapping[str, Any]) -> AskUserTool:
    try:
        return ask_user_tool(**{key: entry[key] for key in _ASKING if key in entry})
    except TypeError as error:
        raise ValueError(f"{_WHAT} of '{entry['name']}': {error}") from error


def _imported(entry: Mapping[str, Any], key: str) -> Callable[..., Any]:
    module, _, name = entry[key].partition(":")
    what = f"tool '{entry['name']}': {key} '{entry[key]}'"
    cure = "restore that function, or give the tool to from_dict (tools=[...])"
    try:
        found: Any = importlib.import_module(module)
    except Exception as error:  # the application's module, which may fail in any way
        raise ValueError(f"{what} cannot be imported ({type(error).__name__}: {error}); {cure}") from error
    for piece in name.split("."):
        if not hasattr(found, piece):
            raise ValueError(f"{what} is not there: no '{piece}'; {cure}")
        found = getattr(found, piece)
    if not inspect.isroutine(found):
        raise ValueError(f"{what} is a {type(found).__name__}, not a function; {cure}")
    return found


def check_same(entry: Mapping[str, Any], tool: Any) -> None:
    """ValueError when the tool declares something else than its description says."""
    contract = plain(tool_contract(tool))
    stored = {
        "name": entry["name"],
        "description": entry.get("description"),
        "input": entry.get("input_schema"),
        "output": entry.get("output_schema"),
        "capabilities": None if entry.get("capabilities") is None else sorted(entry["capabilities"]),
        "binding": entry.get("worker_binding"),
    }
    changed = [key for key, value in stored.items() if value is not None and contract.get(key) != value]
    if changed:
        binding = entry.get("worker_binding") or {}
        whose = f" of the worker '{binding['agent']}'" if binding else ""
        raise ValueError(
            f"The tool '{entry['name']}'{whose} is not the one of the configuration: {', '.join(changed)} changed. "
            "Restore the matching one, or write the configuration anew"
        )
