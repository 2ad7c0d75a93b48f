"""Models behind servers that speak OpenAI's chat completions: vendors, gateways and local servers.

What they have in common is asked for first; what only some of them know is left out once a server has refused it.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from typing import Any, Literal

from ...models import ConversationHistory
from ...models.turn import ModelTurn
from ...models.value import dataclass
from ..action_schema import action_schema
from ..base import LLM, Emit
from ..native import chat_completions, declarations
from .chat_messages import Message, json_messages, native_messages
from .chat_reply import ChatReply
from .chat_server import ChatServer
from .failures import ProviderRefused

#: Fields of a request that the adapter fills.
_OURS = frozenset({"messages", "model", "n", "response_format", "stream", "stream_options", "tools"})

#: Statuses by which servers refuse a field that they do not know.
_UNKNOWN_FIELD = frozenset({400, 415, 422})

Shape = Literal["json_schema", "json_object", "none"]
_WEAKER: dict[Shape, Shape] = {"json_schema": "json_object", "json_object": "none"}


@dataclass(frozen=True, slots=True)
class Wishes:
    """What a server is asked for beyond the bare protocol, as long as it has not refused it."""

    shape: Shape = "json_schema"
    usage: bool = True


class OpenAICompatibleLLM(LLM):
    """A model of a server at ``base_url``, usually ending in ``/v1``.

    Without ``api_key`` none is sent; no key is looked for in the environment. ``timeout``: seconds that a whole reply,
    or when streaming the next piece of one, may take. ``headers`` go with every request.

    ``tool_calling="json"`` is for models without tool calls: the server is asked to hold them to the action language,
    by schema where it can. ``answer_limit``: characters that such a schema allows an answer, for models that find no
    end. ``model_params`` go into the request as they are.

    Importing ``openai`` waits for the first request; ImportError names the extra. Errors of requests:
    ConnectionError (ProviderUnavailable when the server answered so) and TimeoutError may pass, ProviderRefused does
    not.
    """

    model_type = "server"
    provider = "openai-compatible"

    def __init__(
        self,
        model: str,
        model_params: Mapping[str, Any] | None = None,
        *,
        base_url: str,
        api_key: str | None = None,
        timeout: float = 600.0,
        headers: Mapping[str, str] | None = None,
        answer_limit: int | None = None,
        reasoning: str = "none",
        tool_calling: str | None = None,
    ) -> None:
        super().__init__(model, model_params, reasoning=reasoning, tool_calling=tool_calling)
        if taken := _OURS & self.model_params.keys():
            raise ValueError(f"model_params may not set {', '.join(sorted(taken))}: the adapter fills them")
        if answer_limit is not None and (type(answer_limit) is not int or answer_limit < 1):
            raise ValueError("answer_limit must be a number of characters above 0, or None")
        self.answer_limit = answer_limit
        self._server = ChatServer(base_url, api_key, timeout, headers or {})
        self._wishes = Wishes()

    @property
    def base_url(self) -> str:
        """The server's address, without a slash at its end."""
        return self._server.base_url

    @property
    def constructor_options(self) -> dict[str, Any]:
        """``base_url`` and ``timeout``; ``api_key``, ``headers`` and ``answer_limit`` when there are any."""
        given = {"api_key": self._server.api_key, "headers": self._server.headers, "answer_limit": self.answer_limit}
        always = {"base_url": self.base_url, "timeout": self._server.timeout}
        return always | {name: value for name, value in given.items() if value}

    # ------------------------------------------------------------------------------------------ what LLM asks for

    async def call(self, history: ConversationHistory) -> str:
        """The text of the reply, free of any format."""
        return (await self._reply(native_messages(history), {}, None)).text

    async def call_stream(self, history: ConversationHistory) -> AsyncIterator[str]:
        """``call`` in the pieces that the server sends."""
        reply = ChatReply()
        async with aclosing(self._server.stream(native_messages(history), self._params(), reply)) as pieces:
            async for piece in pieces:
                yield piece

    async def call_action(
        self,
        history: ConversationHistory,
        *,
        tools: Mapping[str, Any],
        agent_callback_available: bool = False,
        agent_cards: Sequence[Any] | None = None,
    ) -> ModelTurn:
        """The next turn by the model's own tool calls, all of them."""
        return await self.call_action_stream(history, tools=tools, agent_cards=agent_cards)

    async def call_action_stream(
        self,
        history: ConversationHistory,
        *,
        tools: Mapping[str, Any],
        agent_callback_available: bool = False,
        agent_cards: Sequence[Any] | None = None,
        chunk_callback: Emit | None = None,
    ) -> ModelTurn:
        """``call_action``; with ``chunk_callback`` it streams."""
        declared = chat_completions(declarations(tools.values(), agent_cards or ()))
        extra = {"tools": declared} if declared else {}
        return (await self._reply(native_messages(history), extra, chunk_callback)).native_turn()

    async def turn(
        self,
        history: ConversationHistory,
        *,
        tools: Mapping[str, Any] | None = None,
        agent_cards: Sequence[Any] = (),
        emit: Emit | None = None,
    ) -> ModelTurn:
        """See ``LLM.turn``. In JSON mode the server is told the schema of the actions that are possible."""
        if self.resolve_tool_calling() == "native":
            return await super().turn(history, tools=tools, agent_cards=agent_cards, emit=emit)
        if self.metrics_profile.supports_streaming is False:
            emit = None
        schema = action_schema((tools or {}).values(), agent_cards, text_limit=self.answer_limit)
        return (await self._reply(json_messages(history), {}, emit, schema)).json_turn()

    def validate_connection(self) -> bool:
        """True when the server lists its models with this key now. Their names are not compared: servers of one model
        answer to any name. ``list_models`` tells why not.
        """
        try:
            self.list_models()
        except (ConnectionError, TimeoutError, ProviderRefused):
            return False
        return True

    def list_models(self) -> list[str]:
        """The models that the server offers; blocks. Raises what requests raise."""
        return self._server.models()

    # ------------------------------------------------------------------------------------------ one request

    async def _reply(
        self, messages: list[Message], extra: dict[str, Any], emit: Emit | None, schema: dict[str, Any] | None = None
    ) -> ChatReply:
        """The whole reply. What the server refuses beyond the bare protocol is left out, now and from then on."""
        wishes = self._wishes
        while True:
            try:
                reply = await self._once(messages, self._params(extra, schema, wishes), emit, wishes.usage)
            except ProviderRefused as error:
                fewer = _fewer(wishes, error, streaming=emit is not None, shaped=schema is not None)
                if fewer is None:
                    raise
                wishes = fewer
            else:
                self._wishes = wishes
                return reply

    async def _once(self, messages: list[Message], params: dict[str, Any], emit: Emit | None, usage: bool) -> ChatReply:
        reply = ChatReply()
        if emit is None:
            await self._server.complete(messages, params, reply)
            return reply
        if usage:
            params = {**params, "stream_options": {"include_usage": True}}
        async with aclosing(self._server.stream(messages, params, reply)) as pieces:
            async for piece in pieces:
                emit(piece)
        return reply

    def _params(
        self,
        extra: Mapping[str, Any] | None = None,
        schema: dict[str, Any] | None = None,
        wishes: Wishes | None = None,
    ) -> dict[str, Any]:
        """The request's fields beside its messages."""
        params = {"model": self.model, **self.model_params, **(extra or {})}
        if self.reasoning != "none":
            params["reasoning_effort"] = self.reasoning
        if schema is not None and wishes is not None and wishes.shape != "none":
            params["response_format"] = _response_format(wishes.shape, schema)
        return params


def _fewer(wishes: Wishes, error: ProviderRefused, *, streaming: bool, shaped: bool) -> Wishes | None:
    """The wishes without the one that the server most likely refused; None when it refused something else."""
    if error.status not in _UNKNOWN_FIELD:
        return None
    weaker = _WEAKER.get(wishes.shape) if shaped else None
    if streaming and wishes.usage and (weaker is None or "stream_options" in str(error)):
        return replace(wishes, usage=False)
    return None if weaker is None else replace(wishes, shape=weaker)


def _response_format(shape: Shape, schema: dict[str, Any]) -> dict[str, Any]:
    if shape == "json_object":
        return {"type": "json_object"}
    return {"type": "json_schema", "json_schema": {"name": "action", "strict": True, "schema": schema}}
