"""A server that speaks chat completions on loopback, as each test scripts it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pytest


@dataclass
class Request:
    method: str
    path: str
    headers: dict[str, str]
    body: Any


def http(status: int, body: Any, **headers: str) -> bytes:
    """A whole answer; a body that is no text is sent as JSON."""
    kind = "application/json"
    data = (body if isinstance(body, str) else json.dumps(body)).encode()
    named = {"Content-Type": kind, "Content-Length": str(len(data)), **_header_names(headers)}
    head = "".join(f"{name}: {value}\r\n" for name, value in named.items())
    return f"HTTP/1.1 {status} Said\r\n{head}\r\n".encode() + data


def _header_names(headers: Mapping[str, str]) -> dict[str, str]:
    return {name.replace("_", "-").title(): value for name, value in headers.items()}


def completion(text: str | None = None, *calls: Any, finish: str = "stop", usage: Any = None) -> bytes:
    """A chat completion; a call is ``(id, name, arguments)``."""
    message: dict[str, Any] = {"role": "assistant", "content": text}
    if calls:
        message["tool_calls"] = [
            {"id": id, "type": "function", "function": {"name": name, "arguments": arguments}}
            for id, name, arguments in calls
        ]
    choice = {"index": 0, "message": message, "finish_reason": finish}
    return http(200, {"id": "c", "object": "chat.completion", "choices": [choice], "usage": usage})


def delta(finish: str | None = None, **said: Any) -> dict[str, Any]:
    """One chunk of a stream."""
    return {
        "id": "c",
        "object": "chat.completion.chunk",
        "choices": [{"index": 0, "delta": said, "finish_reason": finish}],
    }


def words(*pieces: str, usage: Any = None) -> list[Any]:
    """The chunks of a text."""
    chunks = [*(delta(content=piece) for piece in pieces), delta("stop")]
    return [*chunks, {"id": "c", "choices": [], "usage": usage}] if usage else chunks


def stream(*chunks: Any, end: bytes = b"0\r\n\r\n", done: bool = True) -> bytes:
    """Server-sent events, each in a piece of its own; text is sent as it is. ``end=b""`` breaks the transfer off."""
    events = [item if isinstance(item, str) else json.dumps(item) for item in chunks] + ["[DONE]"] * done
    pieces = [f"data: {event}\n\n".encode() for event in events]
    body = b"".join(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces)
    return b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n" + body + end


class ChatServer:
    """Gives one scripted reply a connection, in order, and keeps the ``requests``.

    A reply is bytes, or a coroutine function of the server and the writer. Once the script is through, connections are
    closed without an answer.
    """

    def __init__(self, *replies: bytes | Callable[[ChatServer, asyncio.StreamWriter], Awaitable[None]]) -> None:
        self.replies = list(replies)
        self.requests: list[Request] = []
        self.closing = asyncio.Event()
        self._port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port}/v1"

    @property
    def body(self) -> Any:
        """What the newest request said."""
        return self.requests[-1].body

    async def __aenter__(self) -> ChatServer:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self._port)
        self._port = self._server.sockets[0].getsockname()[1]  # entered again, it is found at the same place
        return self

    async def __aexit__(self, *exc: object) -> None:
        self.closing.set()
        self._server.close()
        await self._server.wait_closed()

    async def hung_up(self) -> None:
        """Return when the client of the newest request has closed the connection."""
        await self._reader.read()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            self.requests.append(await _read(reader))
            self._reader = reader
            if self.replies:
                reply = self.replies.pop(0)
                if isinstance(reply, bytes):
                    writer.write(reply)
                else:
                    await reply(self, writer)
                await writer.drain()
        except ConnectionError:
            pass  # the client went first, which is what a test of time-outs wants
        finally:
            writer.close()


async def _read(reader: asyncio.StreamReader) -> Request:
    head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
    method, path, _ = head[0].split(" ")
    headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in head[1:] if line)}
    data = await reader.readexactly(int(headers.get("content-length", 0)))
    return Request(method, path, headers, json.loads(data) if data else None)


class Chat:
    """What tests write their scripts with."""

    Server = ChatServer
    http = staticmethod(http)
    completion = staticmethod(completion)
    delta = staticmethod(delta)
    words = staticmethod(words)
    stream = staticmethod(stream)


@pytest.fixture
def chat() -> type[Chat]:
    return Chat
