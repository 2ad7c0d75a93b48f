"""The JSON Schema of the action language, for servers that can hold a model to one.

It is narrower than what ``parse_action`` reads: no ``thought``, because the models that need holding are small and fill
every text they may write. A tool's schema keeps its references by standing whole under ``$defs``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..models.turn import AGENT_CALL
from .schema import parameters


def action_schema(tools: Iterable[Any], cards: Sequence[Any] = (), *, text_limit: int | None = None) -> dict[str, Any]:
    """One object: a final answer, a call of one of the tools, or work for one of the agents.

    ``text_limit``: characters that an answer or a prompt may have.
    """
    text: dict[str, Any] = {"type": "string", "minLength": 1}
    if text_limit is not None:
        text["maxLength"] = text_limit
    defined: dict[str, Any] = {}
    forms = [_object(type={"const": "final"}, content=text)]
    forms += [
        _object(type={"const": "tool_call"}, tool={"const": tool.name}, args=_arguments(tool, defined))
        for tool in tools
    ]
    if cards:
        forms += _delegations([card.name for card in cards], text)
    return {"anyOf": forms} | ({"$defs": defined} if defined else {})


def _delegations(names: list[str], text: dict[str, Any]) -> list[dict[str, Any]]:
    kind, agent = {"const": AGENT_CALL}, {"enum": names}
    return [
        _object(type=kind, agent=agent, action={"const": "infer"}, prompt=text),
        _object(
            type=kind,
            agent=agent,
            action={"const": "tool_call"},
            tool={"type": "string", "minLength": 1},
            args={"type": "object"},
        ),
    ]


def _object(**properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _arguments(tool: Any, defined: dict[str, Any]) -> dict[str, Any]:
    """The schema of a tool's arguments: in place, or under ``$defs`` when it refers to parts of itself."""
    schema = {"additionalProperties": False, **parameters(tool.input_schema)}
    place = f"#/$defs/{tool.name}"
    moved: dict[str, Any] = _moved(schema, place)
    if moved == schema:
        return schema
    defined[tool.name] = moved
    return {"$ref": place}


def _moved(schema: Any, place: str) -> Any:
    """The schema with its references to itself pointing below ``place``."""
    if isinstance(schema, list):
        return [_moved(item, place) for item in schema]
    if not isinstance(schema, Mapping):
        return schema
    return {key: _reference(item, place) if key == "$ref" else _moved(item, place) for key, item in schema.items()}


def _reference(target: Any, place: str) -> Any:
    if isinstance(target, str) and target.startswith("#"):
        return place + target[1:]
    return _moved(target, place)
