"""What every tool says about itself, checked once."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ..drive.ports import InvalidArguments
from ..models.turn import RESERVED_NAMES
from ..runtime import RunAction
from .arguments import Arguments


def checked_name(name: Any) -> str:
    """TypeError unless text, ValueError when blank."""
    if not isinstance(name, str):
        raise TypeError(f"tool name must be text, got {type(name).__name__}")
    if not name.strip():
        raise ValueError("tool name must not be blank")
    if not name.isprintable():
        raise ValueError("tool name must not have control characters or lone surrogates")
    return name


def unreserved_name(name: Any) -> str:
    """``checked_name``, and ValueError for a word of the action vocabulary: a model could not tell them apart."""
    if checked_name(name) in RESERVED_NAMES:
        raise ValueError(f"tool name '{name}' is reserved for the runtime's own actions; give the tool another name")
    return str(name)


def checked_texts(field: str, values: Any) -> list[str]:
    """Distinct nonblank texts in their order; None is none. TypeError for a bare text, which would be split up."""
    if values is None:
        return []
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise TypeError(f"tool {field} must be a list of text, got {type(values).__name__}")
    found = list(dict.fromkeys(values))
    if not all(isinstance(item, str) for item in found):
        raise TypeError(f"tool {field} must be text")
    if not all(item.strip() for item in found):
        raise ValueError(f"tool {field} must not be blank")
    return found


def completed(
    made: object, arguments: dict[str, Any], capabilities: frozenset[str], checked: Arguments, maker: str
) -> RunAction:
    """The action an application built, with what it may not leave out: arguments and the tool's capabilities.

    TypeError when ``maker`` returned no action, or one whose arguments the tool would refuse once it is authorized.
    """
    if not isinstance(made, RunAction):
        raise TypeError(f"{maker} must return a RunAction, got {type(made).__name__}")
    if "arguments" not in made.payload:
        made = made.with_payload({**made.payload, "arguments": arguments})
    elif made.payload["arguments"] != arguments:
        try:
            checked.read(made.payload["arguments"])
        except InvalidArguments as error:
            raise TypeError(f"{maker} returned an action whose arguments do not fit the tool: {error}") from None
    if not capabilities <= made.capabilities:
        made = made.with_capabilities(capabilities)
    return made
