"""Native tool calls: what providers are told about tools and peers, and what their calls mean.

Delegation has two functions of its own, so that the same loop serves models that have tool calls and models that write
JSON actions. The arguments of a peer's tool travel as JSON text: its schema is not known here, and providers that check
declarations strictly take no free-form objects.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..models.json import dumps, loads
from ..models.turn import AGENT_CALL, Call, ModelTurn
from ..models.value import dataclass
from .json_actions import ActionParseError, finite
from .schema import parameters

DELEGATE = "protolink_delegate_agent"
CALL_AGENT_TOOL = "protolink_call_agent_tool"


@dataclass(frozen=True, slots=True)
class Declaration:
    """A function as a model is told about it. ``parameters`` is a JSON Schema of type object."""

    name: str
    description: str
    parameters: dict[str, Any]


def declarations(tools: Iterable[Any], cards: Sequence[Any] = ()) -> tuple[Declaration, ...]:
    """One declaration a tool, and the two delegation functions when there are peers."""
    own = [Declaration(tool.name, tool.description or "", parameters(tool.input_schema)) for tool in tools]
    return (*own, *_delegations(cards)) if cards else tuple(own)


def _delegations(cards: Sequence[Any]) -> tuple[Declaration, Declaration]:
    peers = "; ".join(f"{card.name}: {card.description}" if card.description else card.name for card in cards)
    agent = {"type": "string", "enum": [card.name for card in cards], "description": "name of the agent"}
    return (
        Declaration(
            DELEGATE,
            f"Hand a piece of work to another agent and get its answer. Agents: {peers}",
            _object(agent=agent, prompt={"type": "string", "description": "what the agent is to do"}),
        ),
        Declaration(
            CALL_AGENT_TOOL,
            "Call one tool of another agent and get its result.",
            _object(
                agent=agent,
                tool={"type": "string", "description": "name of the agent's tool"},
                args_json={"type": "string", "description": "the tool's arguments, a JSON object written as text"},
            ),
        ),
    )


def _object(**properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


# ---------------------------------------------------------------------------------------------------- wire shapes


def openai_responses(declared: Iterable[Declaration]) -> list[dict[str, Any]]:
    """The ``tools`` of OpenAI's responses API."""
    return [{"type": "function", **_function(item), "strict": False} for item in declared]


def chat_completions(declared: Iterable[Declaration]) -> list[dict[str, Any]]:
    """The ``tools`` of chat completions, as most servers speak them."""
    return [{"type": "function", "function": _function(item)} for item in declared]


def anthropic(declared: Iterable[Declaration]) -> list[dict[str, Any]]:
    """The ``tools`` of Anthropic's messages API."""
    return [{"name": item.name, "description": item.description, "input_schema": item.parameters} for item in declared]


def gemini(declared: Iterable[Declaration]) -> list[dict[str, Any]]:
    """The function declarations of one Gemini tool."""
    return [
        {"name": item.name, "description": item.description, "parameters_json_schema": item.parameters}
        for item in declared
    ]


def _function(item: Declaration) -> dict[str, Any]:
    return {"name": item.name, "description": item.description, "parameters": item.parameters}


# ---------------------------------------------------------------------------------------------------- calls back


def native_call(call_id: str, name: str, arguments: str | Mapping[str, Any] | None) -> Call:
    """The call that a provider reports; arguments come as an object or as JSON text ("" and None: no arguments).

    Raises ActionParseError with words for the model.
    """
    return mapped(Call(call_id, name, _json_object(arguments, f"arguments of {name}")))


def mapped(call: Call) -> Call:
    """A call of one of the delegation functions as an ``agent_call``; any other call as it is."""
    if call.tool == DELEGATE:
        _only(call, {"agent", "prompt"})
        return replace(call, tool=AGENT_CALL, args=_infer(call))
    if call.tool == CALL_AGENT_TOOL:
        _only(call, {"agent", "tool", "args_json"})
        return replace(call, tool=AGENT_CALL, args=_tool_call(call))
    return call


def unmapped(name: str, args: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """A call as the model made it: the name and arguments that ``mapped`` read. For conversations sent again."""
    if name != AGENT_CALL:
        return name, dict(args)
    if args.get("action") == "infer":
        return DELEGATE, {"agent": args.get("agent"), "prompt": args.get("prompt")}
    return CALL_AGENT_TOOL, {
        "agent": args.get("agent"),
        "tool": args.get("tool"),
        "args_json": dumps(args.get("args") or {}),
    }


def mapped_turn(turn: ModelTurn) -> ModelTurn:
    """The turn with its delegation calls mapped. The turn itself when it has none."""
    for call in turn.calls:
        if call.tool == DELEGATE or call.tool == CALL_AGENT_TOOL:
            return replace(turn, calls=tuple(map(mapped, turn.calls)))
    return turn


def _infer(call: Call) -> dict[str, Any]:
    return {"agent": _text(call, "agent"), "action": "infer", "prompt": _text(call, "prompt")}


def _tool_call(call: Call) -> dict[str, Any]:
    args = _json_object(call.args.get("args_json"), "args_json")
    return {"agent": _text(call, "agent"), "action": "tool_call", "tool": _text(call, "tool"), "args": args}


def _json_object(value: Any, what: str) -> dict[str, Any]:
    if value is None or value == "":
        return {}
    if isinstance(value, str):
        try:
            value = loads(value)
        except (ValueError, TypeError):  # TypeError: lone surrogates
            raise ActionParseError(f"{what} must be the JSON text of one object") from None
    if not isinstance(value, Mapping):
        raise ActionParseError(f"{what} must be one JSON object")
    return finite(dict(value), what)


def _text(call: Call, key: str) -> str:
    value = call.args.get(key)
    if not isinstance(value, str) or not value.strip():
        raise ActionParseError(f"'{key}' of {call.tool} must be nonblank text")
    return value


def _only(call: Call, allowed: set[str]) -> None:
    if extra := call.args.keys() - allowed:
        raise ActionParseError(f"{call.tool} takes no {', '.join(sorted(extra))[:200]}")
