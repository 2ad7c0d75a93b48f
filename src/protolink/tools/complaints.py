"""What is wrong with a call's arguments, in words that a model can act on.

Values are never repeated, only their types: an argument may be a secret.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from pydantic_core import ErrorDetails

_EXPECTED = {
    "int": "an integer",
    "float": "a number",
    "string": "a string",
    "bool": "a boolean",
    "list": "a list",
    "tuple": "a list",
    "set": "a list",
    "frozen_set": "a list",
    "dict": "an object",
    "model": "an object",
    "model_attributes": "an object",
    "dataclass": "an object",
    "mapping": "an object",
    "datetime": "an ISO 8601 date and time",
    "date": "an ISO 8601 date",
    "time": "an ISO 8601 time",
    "none_required": "null",
}

Path = tuple[int | str, ...]


def kind_of(value: Any) -> str:
    """The type's name as feedback says it."""
    return "null" if value is None else type(value).__name__


def place(path: Iterable[int | str]) -> str:
    """``tool args.rows[1].name`` for the path ("rows", 1, "name")."""
    return "tool args" + "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)


def unexpected(path: Path, names: Iterable[object]) -> str:
    """The words for fields that nobody asked for."""
    return f"{place(path)} received unexpected field(s): {', '.join(map(str, names))}"


def one_of(choices: Sequence[Any]) -> str:
    """The words for a value outside its choices."""
    return f"must be one of {json.dumps(choices, ensure_ascii=False, default=str)}"


def complain(errors: Sequence[ErrorDetails], arguments: Any, schema: dict[str, Any]) -> str:
    """All of pydantic's ``errors`` about ``arguments`` as one text. ``schema`` tells the choices."""
    unions: dict[Path, list[str]] = {}
    extra: dict[Path, list[object]] = {}
    plain: list[str] = []
    for error in errors:
        path, rest = _real(error, arguments)
        if error["type"] == "extra_forbidden" and not rest:
            extra.setdefault(path[:-1], []).append(path[-1])
        elif rest:
            unions.setdefault(path, []).append(_words(error, schema, ()))
        else:
            plain.append(f"{place(path)} {_words(error, schema, path)}")
    plain += [unexpected(path, names) for path, names in extra.items()]
    plain += [
        f"{place(path)} did not match any allowed schema: {'; '.join(dict.fromkeys(words))}"
        for path, words in unions.items()
    ]
    return "; ".join(plain)


def _real(error: ErrorDetails, arguments: Any) -> tuple[Path, Path]:
    """The part of the location that exists in the arguments, and the rest, which names a branch of a union."""
    path = error["loc"]
    if error["type"] in ("missing", "missing_argument"):
        real, rest = _walk(path[:-1], arguments)
        return (real, rest) if rest else (path, ())
    return _walk(tuple(step for step in path if step != "[key]"), arguments)


def _walk(path: Path, value: Any) -> tuple[Path, Path]:
    for index, step in enumerate(path):
        try:
            value = value[step]
        except (KeyError, IndexError, TypeError):
            return path[:index], path[index:]
    return path, ()


def _words(error: ErrorDetails, schema: dict[str, Any], path: Path) -> str:
    kind = error["type"]
    if kind == "missing":
        return "is required"
    if kind in ("literal_error", "enum"):
        choices = _choices(schema, path)
        return one_of(choices) if choices else f"must be {error['ctx']['expected']}"
    expected = _EXPECTED.get(kind.removesuffix("_type"))
    if expected is None:
        return f"failed annotation validation: {error['msg']}"
    return f"must be {expected}, got {kind_of(error['input'])}"


def _choices(schema: dict[str, Any], path: Path) -> list[Any]:
    """The ``enum`` at a place of the schema, [] when it cannot be found there."""
    node: Any = schema
    for step in path:
        if isinstance(step, int):
            fixed = node.get("prefixItems", [])
            node = fixed[step] if step < len(fixed) else node.get("items")
        else:
            node = node.get("properties", {}).get(step) or node.get("additionalProperties")
        if not isinstance(node, dict):
            return []
    found: list[Any] = node.get("enum") or next((part["enum"] for part in node.get("anyOf", []) if "enum" in part), [])
    return list(found)
