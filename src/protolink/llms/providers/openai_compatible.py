"""Models behind servers that speak OpenAI's chat completions: vendors, gateways and local servers.

The package ``openai`` does the talking, with its own retries off: the runtime counts attempts. Connections are closed
after each reply, because a run may wait for days between two turns, or go on in another event loop, and a connection
that died meanwhile would cost an attempt.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Any, Literal
from urllib.parse import urlsplit

from ...models import ConversationHistory, RedactionPolicy
from ...models.turn import ModelTurn
from ..action_schema import action_schema
from ..base import LLM, Emit
from ..native import chat_completions, declarations
from .chat_messages import Message, json_messages, native_messages
from .chat_reply import ChatReply
from .failures import Failures, ProviderRefused

#: Fields of a request that the adapter fills.
_OURS = frozenset({"messages", "model", "n", "response_format", "stream", "stream_options", "tools"})

#: Statuses by which servers refuse a field that they do not know.
_UNKNOWN_FIELD = frozenset({400, 415, 422})

#: Shorter secrets are placeholders; masking them would only garble texts.
_SHORTEST_SECRET = 4

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

    ``tool_calling="json"`` is for models without tool calls: the server is asked to hold them to the action language, by schema where it can.
    ``answer_limit``: characters that such a schema allows an answer, for models that find no end.
    ``model_params`` go into the request as they are.

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
        if api_key is not None and (not isinstance(api_key, str) or not api_key.strip()):
            raise ValueError("api_key must be nonblank text or None")
        if isinstance(timeout, bool) or not isinstance(timeout, (int, float)) or not timeout > 0:
            raise ValueError("timeout must be a number of seconds above 0")
        if answer_limit is not None and (type(answer_limit) is not int or answer_limit < 1):
            raise ValueError("answer_limit must be a number of characters above 0, or None")
        self.base_url = _checked_url(base_url)
        self.timeout = float(timeout)
        self.answer_limit = answer_limit
        self._api_key = api_key
        self._headers = dict(headers or {})
        self._failures = Failures(self.base_url, self.timeout, _secrets(api_key, self._headers))
        self._wishes = Wishes()
        self._client: Any = None

    # ------------------------------------------------------------------------------------------ what LLM asks for

    async def call(self, history: ConversationHistory) -> str:
        """The text of the reply, free of any format."""
        return (await self._reply(native_messages(history), {}, None)).text

    async def call_stream(self, history: ConversationHistory) -> AsyncIterator[str]:
        """``call`` in the pieces that the server sends."""
        reply = ChatReply()
        async with aclosing(self._pieces(reply, native_messages(history), self._params())) as pieces:
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
        openai = _package()
        failure = None
        try:
            http = openai.DefaultHttpxClient(**self._transport())
            with openai.OpenAI(**self._connection(openai), http_client=http) as client:
                found = client.models.list(extra_headers=self._request_headers(openai)).data
        except Exception as error:  # the package's, or a bug in it
            failure = self._failures.of(error, openai)
        if failure is not None:
            raise failure
        if not isinstance(found, list):
            raise self._failures.foreign(None)
        return [str(getattr(item, "id", item)) for item in found]

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
            answer = await self._answer(messages, params)
            if reply.take(answer) is None:
                raise self._failures.foreign(answer if isinstance(answer, str) else None)
            return reply
        if usage:
            params = {**params, "stream_options": {"include_usage": True}}
        async with aclosing(self._pieces(reply, messages, params)) as pieces:
            async for piece in pieces:
                emit(piece)
        return reply

    async def _answer(self, messages: list[Message], params: dict[str, Any]) -> Any:
        client, openai = self._connected()
        failure = None
        try:
            async with asyncio.timeout(self.timeout):
                return await self._create(client, openai, messages, params)
        except Exception as error:  # the package's; raised outside, so that its texts are not chained to ours
            failure = self._failures.of(error, openai)
        raise failure

    async def _pieces(
        self, reply: ChatReply, messages: list[Message], params: dict[str, Any]
    ) -> AsyncGenerator[str, None]:
        """Stream into ``reply``, telling its text. Raises ConnectionError when the stream ends too early."""
        client, openai = self._connected()
        failure: Exception | None = None
        try:
            async with asyncio.timeout(self.timeout):
                stream = await self._create(client, openai, messages, params, stream=True)
            async with stream:
                if not _streams(stream.response.headers):
                    raise self._failures.foreign("it does not stream")
                async for piece in self._read(stream, reply):
                    yield piece
        except Exception as error:  # the package's; raised outside, so that its texts are not chained to ours
            failure = self._failures.of(error, openai)
        if failure is None and reply.finish_reason is None:
            failure = self._failures.cut()
        if failure is not None:
            raise failure

    async def _create(
        self, client: Any, openai: Any, messages: list[Message], params: dict[str, Any], **more: Any
    ) -> Any:
        headers = self._request_headers(openai)
        return await client.chat.completions.create(
            model=self.model, messages=messages, extra_body=params, extra_headers=headers, **more
        )

    async def _read(self, stream: Any, reply: ChatReply) -> AsyncIterator[str]:
        """The pieces of text in the stream's chunks, each of which must come in time."""
        chunks = aiter(stream)
        while True:
            async with asyncio.timeout(self.timeout):
                chunk = await anext(chunks, None)
            if chunk is None:
                return
            if piece := reply.take(chunk):
                yield piece

    def _params(
        self,
        extra: Mapping[str, Any] | None = None,
        schema: dict[str, Any] | None = None,
        wishes: Wishes | None = None,
    ) -> dict[str, Any]:
        """The request's fields beside model and messages."""
        params = {**self.model_params, **(extra or {})}
        if self.reasoning != "none":
            params["reasoning_effort"] = self.reasoning
        if schema is not None and wishes is not None and wishes.shape != "none":
            params["response_format"] = _response_format(wishes.shape, schema)
        return params

    # ------------------------------------------------------------------------------------------ the connection

    def _connected(self) -> tuple[Any, Any]:
        openai = _package()
        if self._client is None:
            # Connections end with their reply, so this client holds nothing that would have to be closed.
            http = openai.DefaultAsyncHttpxClient(headers={"Connection": "close"}, **self._transport())
            self._client = openai.AsyncOpenAI(**self._connection(openai), http_client=http)
        return self._client, openai

    def _transport(self) -> dict[str, Any]:
        """No redirects: they would turn a POST into a GET. Reading the certificates takes a tenth of a second, so plain
        http goes without; a context that trusts nobody keeps that safe.
        """
        if self.base_url.startswith("http:"):
            return {"follow_redirects": False, "verify": ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)}
        return {"follow_redirects": False}

    def _connection(self, openai: Any) -> dict[str, Any]:
        return {
            "base_url": self.base_url,
            "api_key": self._api_key or "none",
            "max_retries": 0,
            "timeout": openai.Timeout(self.timeout, connect=min(self.timeout, 10.0)),
        }

    def _request_headers(self, openai: Any) -> dict[str, Any]:
        """Our headers, without those that the package would take from its own environment variables."""
        absent = dict.fromkeys(("OpenAI-Organization", "OpenAI-Project"), openai.Omit())
        if self._api_key is None:
            absent["Authorization"] = openai.Omit()
        return {**absent, **self._headers}


def _package() -> Any:
    try:
        import openai
    except ImportError as error:
        raise ImportError("openai-compatible models need the package openai: pip install protolink[openai]") from error
    return openai


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


def _streams(headers: Mapping[str, str]) -> bool:
    """False for a document instead of a stream. A missing or unusual type is given the benefit of the doubt."""
    return not headers.get("content-type", "").startswith(("application/json", "text/html"))


def _secrets(api_key: str | None, headers: Mapping[str, str]) -> frozenset[str]:
    policy = RedactionPolicy()
    named = [value for name, value in headers.items() if policy.is_sensitive_key(name)]
    found = [*named, *(value.removeprefix("Bearer ") for value in named), api_key or ""]
    return frozenset(value for value in found if len(value) >= _SHORTEST_SECRET)


def _checked_url(url: str) -> str:
    if not isinstance(url, str):
        raise TypeError(f"base_url must be text, not {type(url).__name__}")
    parts = urlsplit(url.strip())
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError("base_url must be the http(s) address of a server, like http://127.0.0.1:8080/v1")
    if parts.username is not None or parts.password is not None:
        raise ValueError("base_url must not hold a user or password; give api_key or headers")
    return url.strip().rstrip("/")
