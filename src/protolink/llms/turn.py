"""One reply of a model, in the one form that the engine reads, whatever form the adapter returned."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from ..models.json import dumps, plain
from ..models.turn import Call, ModelTurn
from ..models.value import dataclass
from .json_actions import ActionParseError, action_turn, parse_action
from .native import mapped_turn

__all__ = ["Call", "LLMActionResult", "ModelTurn", "to_turn"]


@dataclass(frozen=True, slots=True)
class LLMActionResult:
    """One action chosen by a model. Adapters whose models make several calls in a turn return a ModelTurn instead.

    ``action`` is an action object (``{"type": "final" | "tool_call" | "agent_call", ...}``). ``raw_response`` is the
    reply as it came. ``native``: by the provider's tool calls, not by JSON text. ``metadata`` may have ``usage`` (a
    mapping of token counts), ``call_id`` and ``finish_reason``.
    """

    action: Mapping[str, Any]
    raw_response: str
    native: bool = False
    metadata: dict[str, Any] = field(default_factory=dict)


def to_turn(result: LLMActionResult | ModelTurn | str) -> ModelTurn:
    """The turn that an adapter's result means; text is read as a JSON action. Raises ActionParseError."""
    if isinstance(result, ModelTurn):
        return _spoken(result)
    if isinstance(result, str):
        return parse_action(result)
    if isinstance(result, LLMActionResult) and isinstance(result.action, Mapping):
        return _from_action(result)
    raise TypeError(f"a model adapter returned {type(result).__name__}; expected LLMActionResult, ModelTurn or text")


def _spoken(turn: ModelTurn) -> ModelTurn:
    """The turn with its delegations mapped; what it cannot mean keeps the provider's counts."""
    try:
        if not turn.calls and not turn.text.strip():
            raise ActionParseError("the reply is empty")
        return mapped_turn(turn)
    except ActionParseError as error:
        error.raw, error.usage = turn.raw or _written(turn), turn.usage
        raise


def _written(turn: ModelTurn) -> str:
    """A native turn as text, for a conversation in which its calls cannot stand as calls."""
    return "\n".join(filter(None, [turn.text, *(f"{call.tool} {dumps(call.args)}" for call in turn.calls)]))


def _from_action(result: LLMActionResult) -> ModelTurn:
    metadata = result.metadata
    try:
        turn = action_turn(plain(result.action), result.raw_response, str(metadata.get("call_id") or ""))
    except (ActionParseError, TypeError) as error:  # TypeError: NaN, or an object that only Python has
        raise ActionParseError(str(error), raw=result.raw_response, usage=metadata.get("usage")) from error
    return ModelTurn(turn.text, turn.calls, metadata.get("usage"), metadata.get("finish_reason"), turn.raw)
