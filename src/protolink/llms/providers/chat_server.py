"""A server that speaks chat completions, through the package ``openai``.

The package's own retries are off: the runtime counts attempts. Connections are closed after each reply, because a run
may wait for days between two turns, or go on in another event loop, and a connection that died meanwhile would cost an
attempt.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import Any
from urllib.parse import SplitResult, urlsplit

from ...models import RedactionPolicy
from .chat_messages import Message
from .chat_reply import ChatReply
from .failures import Failures

#: Shorter secrets are placeholders; masking them would only garble texts.
_SHORTEST_SECRET = 4


class ChatServer:
    """Where requests go. Nothing is imported or connected before the first of them.

    ``params`` of a request are its fields beside the messages, ``model`` among them. ValueError for an address, a key
    or a ``timeout`` (seconds) that cannot work.
    """

    def __init__(self, base_url: str, api_key: str | None, timeout: float, headers: Mapping[str, str]) -> None:
        if api_key is not None and not (_sendable(api_key) and " " not in api_key):
            raise ValueError("api_key must be printable ASCII text without spaces or line ends, or None")
        if not all(_sendable(name) and _sendable(value) for name, value in headers.items()):
            raise ValueError("headers must map names to values of printable ASCII text")
        if isinstance(timeout, bool) or not isinstance(timeout, (int, float)) or not timeout > 0:
            raise ValueError("timeout must be a number of seconds above 0")
        self.base_url = _checked_url(base_url)
        self.timeout = float(timeout)
        self.api_key = api_key
        self.headers = dict(headers)
        self._failures = Failures(self.base_url, self.timeout, _secrets(api_key, self.headers))
        self._client: Any = None

    async def complete(self, messages: list[Message], params: dict[str, Any], reply: ChatReply) -> None:
        """Ask for the whole reply at once. Raises what ``Failures`` makes of errors."""
        client, openai = self._connected()
        failure = None
        try:
            async with asyncio.timeout(self.timeout):
                answer = await self._create(client, openai, messages, params)
            if reply.take(answer) is None:
                raise self._failures.foreign(answer if isinstance(answer, str) else None)
        except Exception as error:  # the package's; raised outside, so that its texts are not chained to ours
            failure = self._failures.of(error, openai)
        if failure is not None:
            raise failure

    async def stream(
        self, messages: list[Message], params: dict[str, Any], reply: ChatReply
    ) -> AsyncGenerator[str, None]:
        """Ask for the reply in fragments, and tell their text. A stream that ends too early is a ConnectionError."""
        client, openai = self._connected()
        failure: Exception | None = None
        try:
            async with asyncio.timeout(self.timeout):
                stream = await self._create(client, openai, messages, params, stream=True)
            async with stream:
                if not _streams(stream.response.headers):
                    raise self._failures.foreign("it does not stream")
                async with aclosing(self._read(stream, reply)) as pieces:
                    async for piece in pieces:
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
            model=params["model"], messages=messages, extra_body=params, extra_headers=headers, **more
        )

    async def _read(self, stream: Any, reply: ChatReply) -> AsyncGenerator[str, None]:
        """The pieces of text in the stream's chunks, each of which must come in time."""
        chunks = aiter(stream)
        while True:
            async with asyncio.timeout(self.timeout):
                chunk = await anext(chunks, None)
            if chunk is None:
                return
            if piece := reply.take(chunk):
                yield piece

    def models(self) -> list[str]:
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
            "api_key": self.api_key or "none",
            "max_retries": 0,
            "timeout": openai.Timeout(self.timeout, connect=min(self.timeout, 10.0)),
        }

    def _request_headers(self, openai: Any) -> dict[str, Any]:
        """Our headers, without those that the package would take from its own environment variables."""
        absent = dict.fromkeys(("OpenAI-Organization", "OpenAI-Project"), openai.Omit())
        if self.api_key is None:
            absent["Authorization"] = openai.Omit()
        return {**absent, **self.headers}


def _package() -> Any:
    try:
        import openai
    except ImportError as error:
        raise ImportError("openai-compatible models need the package openai: pip install protolink[openai]") from error
    return openai


def _streams(headers: Mapping[str, str]) -> bool:
    """False for a document instead of a stream. A missing or unusual type is given the benefit of the doubt."""
    return not headers.get("content-type", "").startswith(("application/json", "text/html"))


def _sendable(text: Any) -> bool:
    """True for what may stand in a header. The package's own error would show the text."""
    return isinstance(text, str) and bool(text) and text.isascii() and text.isprintable()


def _secrets(api_key: str | None, headers: Mapping[str, str]) -> frozenset[str]:
    policy = RedactionPolicy()
    named = [value for name, value in headers.items() if policy.is_sensitive_key(name)]
    found = [*named, *(value.removeprefix("Bearer ") for value in named), api_key or ""]
    return frozenset(value for value in found if len(value) >= _SHORTEST_SECRET)


def _checked_url(url: str) -> str:
    if not isinstance(url, str):
        raise TypeError(f"base_url must be text, not {type(url).__name__}")
    parts = urlsplit(url.strip())
    if parts.scheme not in ("http", "https") or not parts.hostname or not _port_fits(parts):
        raise ValueError("base_url must be the http(s) address of a server, like http://127.0.0.1:8080/v1")
    if parts.username is not None or parts.password is not None:
        raise ValueError("base_url must not hold a user or password; give api_key or headers")
    return url.strip().rstrip("/")


def _port_fits(parts: SplitResult) -> bool:
    try:
        return parts.port != 0
    except ValueError:  # no number, or beyond 65535
        return False
