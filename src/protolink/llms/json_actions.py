"""The JSON action language: how a model without native tool calls says what it wants.

One reply is one JSON object: ``final``, ``tool_call`` or ``agent_call``. Reading is lenient about what stands around
the object (a fence, a sentence) and strict about the object: a reply that could be meant in two ways is refused, never
guessed at, because the next thing that happens may be an effect. So an object inside an array, inside a broken object
or beside a second one is no action.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ..models.json import dumps, is_plain, loads
from ..models.turn import AGENT_CALL, Call, ModelTurn
from .schema import untitled

#: Values of ``type`` in an action.
ACTION_TYPES = ("final", "tool_call", AGENT_CALL)

_KEYS = {
    "final": {"type", "thought", "content"},
    "tool_call": {"type", "thought", "tool", "args"},
    "agent_call infer": {"type", "thought", "agent", "action", "prompt"},
    "agent_call tool_call": {"type", "thought", "agent", "action", "tool", "args"},
}

# An unterminated string swallows the rest: every character is looked at once, whatever the text.
_BRACES = re.compile(r'"(?:[^"\\]|\\.)*+(?:"|\\?\Z)|[{}]', re.DOTALL)


class ActionParseError(ValueError):
    """A reply is no action. The text is meant for the model; ``raw`` is the reply, ``usage`` its tokens where known."""

    def __init__(self, message: str, *, raw: str = "", usage: dict[str, Any] | None = None) -> None:
        super().__init__(message)
        self.raw = raw
        self.usage = usage


def parse_action(text: str) -> ModelTurn:
    """The turn that a reply's text means; ``raw`` is the text. Raises ActionParseError and nothing else."""
    try:
        return action_turn(finite(_one_object(text), "the action"), raw=text)
    except ActionParseError as error:
        error.raw = text
        raise


def names_action(text: str) -> bool:
    """True when the text holds an object that says to be an action, well-formed or not."""
    return any(isinstance(item := _read(span), dict) and _known(item.get("type")) for span in _spans(text))


def _one_object(text: str) -> dict[str, Any]:
    if not text.strip():
        raise ActionParseError("the reply is empty")
    whole = _read(text)
    if isinstance(whole, dict):
        return _unambiguous(text, whole)
    if whole is not None:
        raise ActionParseError(f"the reply is a JSON {_kind(whole)}; it must be one JSON object")
    found = [(span, start, end) for span, start, end in _placed(text) if '"' in span]
    if not found:
        raise ActionParseError("the reply holds no JSON object")
    if len(found) > 1:
        raise ActionParseError(f"the reply holds {len(found)} JSON objects; send one action at a time")
    span, start, end = found[0]
    if text[:start].rstrip().endswith("[") or text[end:].lstrip().startswith("]"):
        raise ActionParseError("the object stands inside an array; send the object alone")
    item = _read(span)
    if not isinstance(item, dict):
        raise ActionParseError("the object is not valid JSON")
    return _unambiguous(span, item)


def _unambiguous(text: str, item: dict[str, Any]) -> dict[str, Any]:
    """The object read from the text, refused when a key stands twice in it: readers differ on which one counts."""
    json.loads(text, object_pairs_hook=_without_repeats)
    return item


def _without_repeats(pairs: list[tuple[str, Any]]) -> None:
    keys = [key for key, _ in pairs]
    if len(set(keys)) < len(keys):
        repeated = next(key for key in keys if keys.count(key) > 1)
        raise ActionParseError(f"the key '{repeated[:50]}' stands twice in one object")


def _read(text: str) -> Any:
    """The JSON value of a text, or None when it is not JSON (or is nested beyond what the reader takes)."""
    try:
        return loads(text)
    except (ValueError, TypeError):  # TypeError: lone surrogates
        return None


def _spans(text: str) -> Iterator[str]:
    return (span for span, _, _ in _placed(text))


def _placed(text: str) -> Iterator[tuple[str, int, int]]:
    """The outermost ``{...}`` stretches of a text with their places. An unclosed one reaches to the end."""
    start = text.find("{")
    while start >= 0:
        end = _closing(text, start)
        yield text[start:end], start, end
        start = text.find("{", end)


def _closing(text: str, start: int) -> int:
    depth = 0
    for mark in _BRACES.finditer(text, start):
        if mark[0] == "{":
            depth += 1
        elif mark[0] == "}":
            depth -= 1
            if depth == 0:
                return mark.end()
    return len(text)


def action_turn(action: Mapping[str, Any], raw: str | None = None, call_id: str = "") -> ModelTurn:
    """The turn of an action object, which must be plain JSON. Text beside a call is its ``thought``.

    Raises ActionParseError.
    """
    kind = action.get("type")
    if not _known(kind):
        raise ActionParseError(f"'type' must be one of {', '.join(ACTION_TYPES)}")
    thought = action.get("thought", "")
    if not isinstance(thought, str):
        raise ActionParseError("'thought' must be text")
    if kind == "final":
        _only(action, "final")
        return ModelTurn(_content(action.get("content")), raw=raw)
    if kind == "tool_call":
        _only(action, "tool_call")
        call = Call(call_id, _name(action, "tool"), _arguments(action))
    else:
        call = Call(call_id, AGENT_CALL, _delegation(action))
    return ModelTurn(thought, (call,), raw=raw)


def _delegation(action: Mapping[str, Any]) -> dict[str, Any]:
    agent, kind = _name(action, "agent"), action.get("action")
    if kind == "infer":
        _only(action, "agent_call infer")
        return {"agent": agent, "action": "infer", "prompt": _name(action, "prompt")}
    if kind == "tool_call":
        _only(action, "agent_call tool_call")
        return {"agent": agent, "action": "tool_call", "tool": _name(action, "tool"), "args": _arguments(action)}
    raise ActionParseError("'action' of an agent_call must be infer or tool_call")


def _known(kind: Any) -> bool:
    return isinstance(kind, str) and kind in ACTION_TYPES


def _only(action: Mapping[str, Any], form: str) -> None:
    if extra := action.keys() - _KEYS[form]:
        names = ", ".join(sorted(map(str, extra)))
        raise ActionParseError(f"{form} takes no {names[:200]}; allowed keys: {', '.join(sorted(_KEYS[form]))}")


def _name(action: Mapping[str, Any], key: str) -> str:
    value = action.get(key)
    if not isinstance(value, str) or not value.strip():
        raise ActionParseError(f"'{key}' must be nonblank text")
    return value


def _arguments(action: Mapping[str, Any]) -> dict[str, Any]:
    value = action.get("args", {})
    if not isinstance(value, dict):
        raise ActionParseError("'args' must be a JSON object")
    return value


def finite(value: dict[str, Any], what: str) -> dict[str, Any]:
    """The object itself, refused when a number in it is no JSON number: 1e999 reads as infinity."""
    try:
        plain = is_plain(value)
    except RecursionError:
        raise ActionParseError(f"{what} is nested too deeply") from None
    if not plain:
        raise ActionParseError(f"{what} holds a number that is too large for JSON")
    return value


def _content(value: Any) -> str:
    if isinstance(value, dict):
        return dumps(value)
    if not isinstance(value, str) or not value.strip():
        raise ActionParseError("'content' of a final must be nonempty text or an object")
    return value


def _kind(value: Any) -> str:
    return {list: "array", str: "string", bool: "literal"}.get(type(value), "number")


# ---------------------------------------------------------------------------------------------------- the prompt

PROTOCOL = """\
Every reply you send is exactly one JSON object and nothing else. It is one of:
{"type":"final","content":"the answer to the user"}"""

_TOOL_FORM = '{"type":"tool_call","tool":"tool name","args":{}}'
_PEER_FORMS = """\
{"type":"agent_call","agent":"agent name","action":"infer","prompt":"what the agent is to do"}
{"type":"agent_call","agent":"agent name","action":"tool_call","tool":"name of the agent's tool","args":{}}"""

_RULES = """\
Each object may also have "thought", a short text for yourself; other keys are refused.
After a call you are shown its result, or why it was refused, and choose again. Send final when the work is done."""


def protocol_prompt(*, tools: bool, peers: bool) -> str:
    """How to reply. Names only the actions that are possible."""
    forms = [PROTOCOL]
    if tools:
        forms.append(_TOOL_FORM)
    if peers:
        forms.append(_PEER_FORMS)
    return "\n".join([*forms, _RULES])


def tools_prompt(tools: Sequence[Any]) -> str:
    """The tools with their schemas, a line each; empty without tools."""
    if not tools:
        return ""
    return "\n".join(["Tools (name, what it does, JSON Schema of args):", *map(_tool_line, tools)])


def _tool_line(tool: Any) -> str:
    return f"- {tool.name}: {tool.description or 'no description'} {dumps(untitled(tool.input_schema or {}))}"


def peers_prompt(cards: Sequence[Any]) -> str:
    """The agents that work can be handed to, a line each; empty without agents."""
    if not cards:
        return ""
    lines = (f"- {card.name}: {card.description or 'no description'}" for card in cards)
    return "\n".join(["Agents that you can hand work to:", *lines])
