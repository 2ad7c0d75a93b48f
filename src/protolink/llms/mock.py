"""MockLLM: a model that plays a script, for tests, examples and work without a network.

It answers without looking at more than the last user message, and hands its turns over as they are instead of writing
and reading text, so that what a test measures is the runtime.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from ..models import ConversationHistory
from ..models.json import dumps, loads
from ..models.turn import AGENT_CALL, Call, ModelTurn
from .base import LLM, Emit
from .json_actions import ACTION_TYPES, ActionParseError, action_turn, names_action, parse_action
from .turn import LLMActionResult, to_turn

DEFAULT_RESPONSE = "Unprocessed generic mock response"

_SPEAKERS = frozenset({"call", "call_stream", "call_action", "call_action_stream"})

#: What most scripts answer; there is no need to ask whether it has to be awaited.
_AT_ONCE = (ModelTurn, dict, str)

Callback = Callable[[ConversationHistory, str], Any | Awaitable[Any]]


class MockLLM(LLM):
    """Plays ``response_callback``, else ``sequential_responses``, else a match of ``mock_responses``, else the default.

    A response is an action (a dict with a known ``type``), text (action JSON is played as it is, other text is a final
    answer, "" is no action), a ModelTurn (several calls at once; more than one needs ``tool_calling="native"``), an
    exception, which is raised, or None for the default. Anything else is answered as its text.

    ``sequential_responses`` are shared by all calls of the object; the last one repeats. ``mock_responses`` maps words,
    found in the last user message in any case, to responses. ``response_callback(history, system_prompt)`` returns a
    response or awaits one; its errors are raised.
    """

    model_type = "local"
    provider = "mock"

    def __init__(
        self,
        model: str = "mock-gpt",
        model_params: Mapping[str, Any] | None = None,
        *,
        mock_responses: Mapping[str, Any] | None = None,
        sequential_responses: Iterable[Any] | None = None,
        response_callback: Callback | None = None,
        default_response: Any = DEFAULT_RESPONSE,
        reasoning: str = "none",
        tool_calling: str | None = None,
    ) -> None:
        super().__init__(model, model_params, reasoning=reasoning, tool_calling=tool_calling)
        if response_callback is not None and not callable(response_callback):
            raise TypeError("response_callback must be callable")
        if isinstance(sequential_responses, (str, bytes, Mapping)):
            raise TypeError("sequential_responses must be a list of responses, not one response")
        self.mock_responses = dict(mock_responses or {})
        self.sequential_responses = list(sequential_responses or ())
        self.response_callback = response_callback
        self.default_response = DEFAULT_RESPONSE if default_response is None else default_response
        self._played = 0

    def resolve_tool_calling(self) -> Literal["native", "json"]:
        """``native`` only when asked for."""
        return "native" if self.tool_calling == "native" else "json"

    def validate_connection(self) -> bool:
        """Always True."""
        return True

    async def call(self, history: ConversationHistory) -> str:
        """The next response as text: JSON of an action, or the text that was scripted to be no action."""
        return _text(await self._next(history))

    async def call_stream(self, history: ConversationHistory) -> AsyncIterator[str]:
        """``call`` in one fragment."""
        yield await self.call(history)

    async def call_action(
        self,
        history: ConversationHistory,
        *,
        tools: Mapping[str, Any],
        agent_callback_available: bool = False,
        agent_cards: Sequence[Any] | None = None,
    ) -> LLMActionResult | ModelTurn:
        """The next response as an action, or the ModelTurn that was scripted."""
        response = await self._next(history)
        if isinstance(response, ModelTurn):
            return response
        text = _text(response)
        return LLMActionResult(_action(_turn(response)), raw_response=text, native=True)

    async def call_action_stream(
        self,
        history: ConversationHistory,
        *,
        tools: Mapping[str, Any],
        agent_callback_available: bool = False,
        agent_cards: Sequence[Any] | None = None,
        chunk_callback: Emit | None = None,
    ) -> LLMActionResult | ModelTurn:
        """``call_action``, with the text of a final answer as one fragment."""
        result = await self.call_action(history, tools=tools, agent_cards=agent_cards)
        text = result.text if isinstance(result, ModelTurn) else result.action.get("content")
        if chunk_callback is not None and text:
            chunk_callback(text)
        return result

    async def turn(
        self,
        history: ConversationHistory,
        *,
        tools: Mapping[str, Any] | None = None,
        agent_cards: Sequence[Any] = (),
        emit: Emit | None = None,
    ) -> ModelTurn:
        """The next response. It goes through text only where a subclass has its own ``call`` or the like."""
        if not self._speaks_for_itself():
            return await super().turn(history, tools=tools, agent_cards=agent_cards, emit=emit)
        return self._said(await self._next(history), emit)

    def begin_turn(
        self,
        history: ConversationHistory,
        *,
        tools: Mapping[str, Any] | None = None,
        agent_cards: Sequence[Any] = (),
        emit: Emit | None = None,
    ) -> ModelTurn | Coroutine[Any, Any, ModelTurn]:
        """``turn``, at once unless the callback has to be awaited."""
        if "turn" in self.__dict__ or type(self).turn is not _TURN or not self._speaks_for_itself():
            return self.turn(history, tools=tools, agent_cards=agent_cards, emit=emit)
        response = self._respond(history)
        if not isinstance(response, _AT_ONCE) and inspect.isawaitable(response):
            return self._say_later(response, emit)
        return self._said(self._settled(response), emit)

    async def _say_later(self, response: Awaitable[Any], emit: Emit | None) -> ModelTurn:
        return self._said(self._settled(await response), emit)

    def _said(self, response: Any, emit: Emit | None) -> ModelTurn:
        native = self.tool_calling == "native"
        if emit is not None:
            _emit(response, native, emit)
        return _turn(response, native=native)

    def _speaks_for_itself(self) -> bool:
        """False when a subclass or a test put its own method in front of the script."""
        kind = type(self)
        if not self.__dict__.keys().isdisjoint(_SPEAKERS):
            return False
        return kind is MockLLM or all(getattr(kind, name) is getattr(MockLLM, name) for name in _SPEAKERS)

    async def _next(self, history: ConversationHistory) -> Any:
        response = self._respond(history)
        if not isinstance(response, _AT_ONCE) and inspect.isawaitable(response):
            response = await response
        return self._settled(response)

    def _respond(self, history: ConversationHistory) -> Any:
        """The next response, or what has to be awaited for it."""
        if self.response_callback is None:
            return self._scripted(history)
        return self.response_callback(history, history.system_prompt or "")

    def _settled(self, response: Any) -> Any:
        if response is None:
            response = self.default_response
        if isinstance(response, BaseException):
            raise response.with_traceback(None)
        return response

    def _scripted(self, history: ConversationHistory) -> Any:
        if self.sequential_responses:
            response = self.sequential_responses[min(self._played, len(self.sequential_responses) - 1)]
            self._played += 1
            return response
        return self._matched(history) if self.mock_responses else None

    def _matched(self, history: ConversationHistory) -> Any:
        newest = history.last("user")
        said = str(newest.content).casefold() if newest is not None else ""
        return next((item for key, item in self.mock_responses.items() if key.casefold() in said), None)


#: As it is written here: a test may put its own in the place of the class's.
_TURN = MockLLM.turn


def _turn(response: Any, *, native: bool = True) -> ModelTurn:
    """The turn that a response means; a call in JSON keeps its text. Raises ActionParseError for what is no action."""
    if isinstance(response, ModelTurn):
        return to_turn(response) if native or not response.calls else replace(response, raw=_text(response))
    if isinstance(response, str):
        if response.strip() and not ("{" in response and names_action(response)):
            return ModelTurn(response)
        return parse_action(response)
    return _dict_turn(response, native) if _is_action(response) else ModelTurn(_other(response))


def _dict_turn(response: dict[str, Any], native: bool) -> ModelTurn:
    text = dumps(response)
    raw = None if native or response["type"] == "final" else text
    try:
        return action_turn(loads(text), raw)  # read again: the script keeps its own objects
    except ActionParseError as error:
        error.raw = text
        raise


def _emit(response: Any, native: bool, emit: Emit) -> None:
    """The whole response as one fragment: what a JSON model writes, or the text of a native turn."""
    text = _turn(response).text if native else _text(response)
    if text:
        emit(text)


def _text(response: Any) -> str:
    """The reply that a JSON model would have sent to mean the response."""
    if isinstance(response, ModelTurn):
        return dumps(_action(response))
    if isinstance(response, str) and (not response.strip() or ("{" in response and names_action(response))):
        return response
    if _is_action(response):
        return dumps(response)
    return dumps(_final(response if isinstance(response, str) else _other(response)))


def _is_action(response: Any) -> bool:
    return isinstance(response, dict) and response.get("type") in ACTION_TYPES


def _other(response: Any) -> str:
    return dumps(response) if isinstance(response, dict) else str(response)


def _action(turn: ModelTurn) -> dict[str, Any]:
    """The action object of a turn with one call or none."""
    if len(turn.calls) > 1:
        raise ValueError("one JSON action cannot hold several calls; give MockLLM tool_calling='native'")
    if not turn.calls:
        return _final(turn.text)
    thought = {"thought": turn.text} if turn.text else {}
    return _call_action(turn.calls[0]) | thought


def _call_action(call: Call) -> dict[str, Any]:
    if call.tool == AGENT_CALL:
        return {"type": AGENT_CALL, **call.args}
    return {"type": "tool_call", "tool": call.tool, "args": call.args}


def _final(text: str) -> dict[str, Any]:
    return {"type": "final", "content": text}
