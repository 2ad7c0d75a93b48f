"""What goes wrong between the client and a server: the class of the error, its words, and never the key in them."""

from __future__ import annotations

import asyncio
import time
import traceback
from email.utils import formatdate
from typing import Any

import pytest

from protolink.llms import ConversationHistory, OpenAICompatibleLLM, ProviderRefused, ProviderUnavailable, create_llm
from protolink.llms.providers.failures import retry_after

KEY = "sk-very-secret-key"
STREAMED = (False, True)


def asked() -> ConversationHistory:
    return ConversationHistory().add_user("hello")


async def fails(server: Any, *, streamed: bool, tool_calling: str | None = None, **options: Any) -> Exception:
    """The error of one turn at a server; the server is asked once."""
    llm: Any = create_llm("openai-compatible:m", base_url=server.url, api_key=KEY, tool_calling=tool_calling, **options)
    before = len(server.requests)
    with pytest.raises(Exception) as caught:
        await llm.turn(asked(), emit=(lambda text: None) if streamed else None)
    assert len(server.requests) - before <= 1
    assert KEY not in "".join(traceback.format_exception(caught.value))
    return caught.value


def transient(error: Exception) -> bool:
    """What the drive repeats by itself."""
    return isinstance(error, (ConnectionError, TimeoutError))


# ------------------------------------------------------------------------------------------------ no whole answer


@pytest.mark.parametrize("streamed", STREAMED)
async def test_a_server_that_is_not_there_is_a_connection_error_naming_it(chat: Any, streamed: bool) -> None:
    async with chat.Server() as server:
        pass
    error = await fails(server, streamed=streamed)
    assert isinstance(error, ConnectionError)
    assert server.url in str(error)
    assert "base_url" in str(error)


@pytest.mark.parametrize("streamed", STREAMED)
async def test_a_connection_closed_without_an_answer_is_a_connection_error(chat: Any, streamed: bool) -> None:
    async with chat.Server() as server:
        assert isinstance(await fails(server, streamed=streamed), ConnectionError)


async def test_an_answer_shorter_than_announced_is_a_connection_error(chat: Any) -> None:
    async with chat.Server(chat.completion("Hello.")[:-20]) as server:
        assert isinstance(await fails(server, streamed=False), ConnectionError)


@pytest.mark.parametrize("mode", ["native", "json"])
async def test_a_stream_broken_off_in_transfer_is_a_connection_error(chat: Any, mode: str) -> None:
    cut = chat.stream(chat.delta(content="Hel"), end=b"", done=False)
    async with chat.Server(cut) as server:
        assert isinstance(await fails(server, streamed=True, tool_calling=mode), ConnectionError)


@pytest.mark.parametrize("done", [False, True])
@pytest.mark.parametrize("mode", ["native", "json"])
async def test_a_stream_that_ends_before_its_reply_does_is_a_connection_error(chat: Any, mode: str, done: bool) -> None:
    final = '{"type":"final","content":"yes"}'
    async with chat.Server(chat.stream(chat.delta(content=final), done=done)) as server:
        error = await fails(server, streamed=True, tool_calling=mode)
    assert isinstance(error, ConnectionError)
    assert "before the reply was complete" in str(error)


async def dripping(server: Any, writer: asyncio.StreamWriter) -> None:
    """A byte now and then, each in time for a limit on single reads."""
    for byte in b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n":
        writer.write(bytes([byte]))
    while not server.closing.is_set():
        writer.write(b" ")
        await writer.drain()
        try:
            await asyncio.wait_for(server.closing.wait(), 0.02)
        except TimeoutError:
            continue


async def silent(server: Any, writer: asyncio.StreamWriter) -> None:
    await server.closing.wait()


async def test_slow_bytes_are_a_timeout(chat: Any) -> None:
    async with chat.Server(dripping) as server:
        error = await fails(server, streamed=False, timeout=0.2)
        server.closing.set()
    assert isinstance(error, TimeoutError)
    assert "0.2 s" in str(error)


@pytest.mark.parametrize("streamed", STREAMED)
async def test_silence_is_a_timeout(chat: Any, streamed: bool) -> None:
    async with chat.Server(silent) as server:
        error = await fails(server, streamed=streamed, timeout=0.05)
        server.closing.set()
    assert isinstance(error, TimeoutError)


async def test_a_stream_whose_pieces_are_only_comments_is_a_timeout(chat: Any) -> None:
    async def commenting(server: Any, writer: asyncio.StreamWriter) -> None:
        writer.write(chat.stream(chat.delta(content="Hel"), end=b"", done=False))
        while not server.closing.is_set():
            writer.write(b"8\r\n: ping\n\n\r\n")
            await writer.drain()
            try:
                await asyncio.wait_for(server.closing.wait(), 0.02)
            except TimeoutError:
                continue

    async with chat.Server(commenting) as server:
        error = await fails(server, streamed=True, timeout=0.2)
        server.closing.set()
    assert isinstance(error, TimeoutError)


@pytest.mark.parametrize("streamed", STREAMED)
async def test_canceling_a_turn_hangs_up(chat: Any, streamed: bool) -> None:
    asking, gone = asyncio.Event(), asyncio.Event()

    async def until_gone(server: Any, writer: asyncio.StreamWriter) -> None:
        if streamed:
            writer.write(chat.stream(chat.delta(content="Hel"), end=b"", done=False))
        asking.set()
        await server.hung_up()
        gone.set()

    async with chat.Server(until_gone) as server:
        llm = create_llm("openai-compatible:m", base_url=server.url)
        turn = asyncio.ensure_future(llm.turn(asked(), emit=(lambda text: None) if streamed else None))
        await asking.wait()
        turn.cancel()
        with pytest.raises(asyncio.CancelledError):
            await turn
        await gone.wait()


# ------------------------------------------------------------------------------------------------ no readable answer


@pytest.mark.parametrize("body", ["", '{"choices": [', "\ufeffnull?"])
async def test_a_body_that_is_no_json_may_pass(chat: Any, body: str) -> None:
    async with chat.Server(chat.http(200, body)) as server:
        error = await fails(server, streamed=False)
    assert isinstance(error, ProviderUnavailable)
    assert "not valid JSON" in str(error)


async def test_a_chunk_that_is_no_json_may_pass(chat: Any) -> None:
    async with chat.Server(chat.stream(chat.delta(content="Hel"), '{"choices": [')) as server:
        error = await fails(server, streamed=True)
    assert isinstance(error, ProviderUnavailable)


@pytest.mark.parametrize("body", [{"hello": 1}, [], {"choices": None}, {"choices": "many"}, 5])
async def test_json_that_is_no_completion_is_refused(chat: Any, body: Any) -> None:
    async with chat.Server(chat.http(200, body)) as server:
        error = await fails(server, streamed=False)
    assert isinstance(error, ProviderRefused)
    assert "base_url" in str(error)


@pytest.mark.parametrize("streamed", STREAMED)
async def test_a_web_page_is_refused(chat: Any, streamed: bool) -> None:
    page = chat.http(200, f"<html>Welcome {KEY}</html>", content_type="text/html")
    async with chat.Server(page) as server:
        error = await fails(server, streamed=streamed)
    assert isinstance(error, ProviderRefused)
    assert not transient(error)


@pytest.mark.parametrize(
    "choice",
    [
        {},
        {"message": None},
        {"message": "text"},
        {"message": {"content": 5}},
        {"message": {"content": "", "tool_calls": "x"}},
        {"message": {"content": None, "tool_calls": [None]}},
        {"message": {"content": None, "tool_calls": [{"function": 7}]}},
    ],
)
async def test_odd_shapes_inside_a_completion_are_no_action(chat: Any, choice: Any) -> None:
    async with chat.Server(chat.http(200, {"choices": [choice]})) as server:
        error = await fails(server, streamed=False)
    assert type(error).__name__ == "ActionParseError"


# ------------------------------------------------------------------------------------------------ refusals


@pytest.mark.parametrize("streamed", STREAMED)
@pytest.mark.parametrize("status", [408, 409, 429, 500, 502, 503, 504, 529])
async def test_busy_and_broken_servers_may_pass(chat: Any, status: int, streamed: bool) -> None:
    async with chat.Server(chat.http(status, {"error": {"message": f"Busy, {KEY}."}})) as server:
        error = await fails(server, streamed=streamed)
    assert isinstance(error, ProviderUnavailable)
    assert (error.status, error.retry_after) == (status, None)
    assert f"HTTP {status}: Busy, [REDACTED]." in str(error)


@pytest.mark.parametrize("streamed", STREAMED)
@pytest.mark.parametrize("status", [429, 503])
async def test_the_wait_that_the_server_asks_for_is_told(chat: Any, status: int, streamed: bool) -> None:
    async with chat.Server(chat.http(status, {"error": {"message": "Busy"}}, retry_after="7")) as server:
        error = await fails(server, streamed=streamed)
    assert isinstance(error, ProviderUnavailable)
    assert error.retry_after == 7.0


@pytest.mark.parametrize("streamed", STREAMED)
@pytest.mark.parametrize(("status", "hint"), [(401, "api_key"), (403, "api_key"), (404, "base_url"), (302, "moved")])
async def test_refusals_do_not_pass_and_say_what_to_do(chat: Any, status: int, hint: str, streamed: bool) -> None:
    refusal = chat.http(status, {"error": {"message": f"Not you: {KEY}"}}, location="http://127.0.0.1:1/")
    async with chat.Server(refusal) as server:
        error = await fails(server, streamed=streamed)
    assert isinstance(error, ProviderRefused)
    assert not transient(error)
    assert error.status == status
    assert f"HTTP {status}: Not you: [REDACTED]" in str(error)
    assert hint in str(error)


async def test_a_bad_request_is_refused_in_the_servers_words(chat: Any) -> None:
    async with chat.Server(chat.http(400, {"error": {"message": "too many tokens"}})) as server:
        error = await fails(server, streamed=False)
    assert isinstance(error, ProviderRefused)
    assert "HTTP 400: too many tokens" in str(error)


@pytest.mark.parametrize("body", ["plain words", {"detail": "plain words"}, {"error": "plain words"}])
async def test_refusals_in_other_shapes_are_read_too(chat: Any, body: Any) -> None:
    async with chat.Server(chat.http(403, body)) as server:
        assert "plain words" in str(await fails(server, streamed=False))


@pytest.mark.parametrize(
    ("code", "passes"), [(None, True), ("server_error", True), (503, True), (429, True), (400, False)]
)
async def test_an_error_inside_a_stream_passes_unless_its_code_says_no(chat: Any, code: Any, passes: bool) -> None:
    told = {"error": {"message": f"overloaded {KEY}", "code": code}}
    async with chat.Server(chat.stream(chat.delta(content="Hel"), told)) as server:
        error = await fails(server, streamed=True)
    assert isinstance(error, ProviderUnavailable if passes else ProviderRefused)
    assert "overloaded [REDACTED]" in str(error)


async def test_secret_headers_are_masked_too(chat: Any) -> None:
    reply = chat.http(401, {"error": {"message": "no team-password here"}})
    async with chat.Server(reply) as server:
        error = await fails(server, streamed=False, headers={"Authorization": "Bearer team-password"})
    assert "no [REDACTED] here" in str(error)


def test_the_key_stands_in_no_text_of_the_model() -> None:
    llm = create_llm("openai-compatible:m", base_url="http://127.0.0.1:1/v1", api_key=KEY)
    assert isinstance(llm, OpenAICompatibleLLM)
    assert KEY not in repr(llm)
    assert KEY not in str(llm.metrics_profile)


# ------------------------------------------------------------------------------------------------ Retry-After


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "2"}, 2.0),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after": "-3"}, 0.0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "inf"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after-ms": "250", "retry-after": "9"}, 0.25),
        ({"retry-after-ms": "x", "retry-after": "9"}, 9.0),
        ({"retry-after": formatdate(0, usegmt=True)}, 0.0),
    ],
)
def test_the_wait_is_read_from_seconds_milliseconds_or_a_date(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after(headers) == seconds


def test_a_date_to_come_is_so_many_seconds_away() -> None:
    told = retry_after({"retry-after": formatdate(time.time() + 3600, usegmt=True)})
    assert told is not None
    assert 3500 < told <= 3600
