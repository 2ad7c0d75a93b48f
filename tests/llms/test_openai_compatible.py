"""The real client of the ``openai`` package against a server on loopback: what is sent, and what replies mean."""

from __future__ import annotations

import asyncio
import json
import sys
from dataclasses import dataclass, field
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from protolink.llms import (
    ActionParseError,
    Call,
    ConversationHistory,
    LLMProvider,
    ModelTurn,
    OpenAICompatibleLLM,
    create_llm,
)

READ = {"type": "object", "title": "Read", "properties": {"path": {"type": "string", "title": "Path"}}}
USAGE = {"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18}
FINAL = '{"type":"final","content":"done"}'


@dataclass
class Tool:
    name: str = "read"
    description: str = "Reads a file."
    input_schema: dict[str, Any] = field(default_factory=lambda: READ)
    capabilities: tuple[str, ...] = ()


@dataclass
class Peer:
    name: str = "writer"
    description: str = "Writes prose."


TOOLS = {"read": Tool()}


def model(server: Any, **options: Any) -> OpenAICompatibleLLM:
    llm = create_llm("openai-compatible:small", base_url=server.url, **options)
    assert isinstance(llm, OpenAICompatibleLLM)
    return llm


def asked(text: str = "hello") -> ConversationHistory:
    return ConversationHistory("Be kind.").add_user(text)


@pytest.fixture(params=["whole", "streamed"])
def emitted(request: pytest.FixtureRequest) -> list[str] | None:
    """None for a reply in one piece; for a streamed one, where its fragments go."""
    return [] if request.param == "streamed" else None


def emit(emitted: list[str] | None) -> Any:
    return None if emitted is None else emitted.append


# ------------------------------------------------------------------------------------------------ construction


def test_construction_touches_neither_network_nor_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "openai", None)
    llm = create_llm(LLMProvider.OPENAI_COMPATIBLE, model="m", base_url="http://127.0.0.1:1/v1/", api_key="k")
    assert isinstance(llm, OpenAICompatibleLLM)
    assert (llm.provider, llm.model, llm.base_url) == ("openai-compatible", "m", "http://127.0.0.1:1/v1")
    assert llm.resolve_tool_calling() == "native"


async def test_a_missing_package_is_named_with_its_extra_at_first_use(monkeypatch: pytest.MonkeyPatch) -> None:
    llm = create_llm("openai-compatible:m", base_url="http://127.0.0.1:1/v1")
    monkeypatch.setitem(sys.modules, "openai", None)
    with pytest.raises(ImportError, match=r"pip install protolink\[openai\]"):
        await llm.turn(asked())
    with pytest.raises(ImportError, match=r"protolink\[openai\]"):
        llm.validate_connection()


@pytest.mark.parametrize(
    "url", ["", "localhost:8080", "ftp://host/v1", "http://", "http://h:99999", "http://me:pass-word@host/v1"]
)
def test_an_address_that_cannot_work_is_refused_without_its_password(url: str) -> None:
    with pytest.raises(ValueError, match="base_url") as caught:
        create_llm("openai-compatible:m", base_url=url)
    assert "pass-word" not in str(caught.value)


@pytest.mark.parametrize(
    "options",
    [
        {"timeout": 0},
        {"timeout": True},
        {"timeout": "9"},
        {"answer_limit": 0},
        {"api_key": " "},
        {"api_key": "sk-1\n"},
        {"headers": {"X-Team": "é"}},
        {"model_params": {"stream": True}},
    ],
)
def test_bad_options_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=next(iter(options))):
        create_llm("openai-compatible:m", base_url="http://127.0.0.1:1", **options)


def test_the_model_and_the_address_are_required() -> None:
    with pytest.raises(TypeError, match="base_url"):
        create_llm("openai-compatible:m")
    with pytest.raises(TypeError, match="model"):
        create_llm("openai-compatible", base_url="http://127.0.0.1:1")


# ------------------------------------------------------------------------------------------------ text


async def test_a_plain_reply_is_the_final_text_with_its_usage(chat: Any) -> None:
    async with chat.Server(chat.completion("Hi.", usage=USAGE)) as server:
        turn = await model(server).turn(asked(), tools=TOOLS)
    assert turn == ModelTurn("Hi.", (), {"prompt_tokens": 11, "completion_tokens": 7}, "stop")


async def test_a_streamed_reply_is_told_piece_by_piece(chat: Any) -> None:
    pieces: list[str] = []
    async with chat.Server(chat.stream(*chat.words("Hel", "lo.", usage=USAGE))) as server:
        turn = await model(server).turn(asked(), emit=pieces.append)
    assert pieces == ["Hel", "lo."]
    assert (turn.text, turn.usage) == ("Hello.", {"prompt_tokens": 11, "completion_tokens": 7})
    assert server.body["stream"] is True
    assert server.body["stream_options"] == {"include_usage": True}


async def test_a_server_that_knows_no_stream_options_streams_without_them(chat: Any) -> None:
    refusal = chat.http(400, {"error": {"message": "Unrecognized argument: stream_options"}})
    pieces: list[str] = []
    async with chat.Server(refusal, *(chat.stream(*chat.words("ok")),) * 2) as server:
        llm = model(server)
        turns = [await llm.turn(asked(), emit=pieces.append) for _ in range(2)]
    assert [turn.text for turn in turns] == ["ok", "ok"]
    assert turns[0].usage is None
    assert ["stream_options" in request.body for request in server.requests] == [True, False, False]


async def test_the_request_has_model_messages_and_parameters(chat: Any) -> None:
    async with chat.Server(chat.completion("ok")) as server:
        llm = model(server, model_params={"temperature": 0.5, "seed": 4, "odd_one": [1]}, reasoning="low")
        await llm.turn(asked())
    assert (server.requests[0].method, server.requests[0].path) == ("POST", "/v1/chat/completions")
    assert {key: value for key, value in server.body.items() if key != "messages"} == {
        "model": "small",
        "temperature": 0.5,
        "seed": 4,
        "odd_one": [1],
        "reasoning_effort": "low",
    }
    assert server.body["messages"] == [
        {"role": "system", "content": "Be kind."},
        {"role": "user", "content": "hello"},
    ]


async def test_the_key_and_headers_are_sent(chat: Any) -> None:
    async with chat.Server(chat.completion("ok")) as server:
        await model(server, api_key="sk-secret", headers={"X-Team": "blue"}).turn(asked())
    assert server.requests[0].headers["authorization"] == "Bearer sk-secret"
    assert server.requests[0].headers["x-team"] == "blue"


async def test_nothing_of_the_environment_is_sent_to_the_server(chat: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("API_KEY", "ADMIN_KEY", "ORG_ID", "PROJECT_ID"):
        monkeypatch.setenv(f"OPENAI_{name}", "mine-alone")
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:1/elsewhere")
    async with chat.Server(chat.completion("ok")) as server:
        await model(server).turn(asked())
    assert "authorization" not in server.requests[0].headers
    assert "mine-alone" not in str(server.requests[0].headers)


def test_one_model_serves_several_event_loops(chat: Any) -> None:
    server = chat.Server(chat.completion("one"), chat.completion("two"))
    models: list[OpenAICompatibleLLM] = []

    async def once() -> str:
        async with server:
            models.append(models[0] if models else model(server))
            return (await models[0].turn(asked())).text

    assert [asyncio.run(once()) for _ in range(2)] == ["one", "two"]
    assert [request.headers["connection"] for request in server.requests] == ["close", "close"]


async def test_chat_speaks_without_actions(chat: Any) -> None:
    async with chat.Server(chat.completion("One."), chat.stream(*chat.words("T", "wo."))) as server:
        llm = model(server, tool_calling="json")
        whole = await llm.chat("1?")
        pieces = [piece async for piece in llm.chat("2?", streaming=True)]
    assert (whole, pieces) == ("One.", ["T", "wo."])
    assert [message["content"] for message in server.body["messages"]] == ["1?", "One.", "2?"]
    assert "response_format" not in server.body


async def test_the_models_are_listed(chat: Any) -> None:
    listing = chat.http(200, {"object": "list", "data": [{"id": "a", "object": "model"}, {"id": "b"}]})
    async with chat.Server(listing, listing, chat.http(401, {"error": {"message": "no"}})) as server:
        llm = model(server)
        assert await asyncio.to_thread(llm.list_models) == ["a", "b"]
        assert await asyncio.to_thread(llm.validate_connection) is True
        assert await asyncio.to_thread(llm.validate_connection) is False
    assert (server.requests[0].method, server.requests[0].path) == ("GET", "/v1/models")


# ------------------------------------------------------------------------------------------------ native calls


def fragments(chat: Any) -> list[Any]:
    """Two calls whose arguments come in pieces, one after the other."""

    def part(index: int, arguments: str, **more: Any) -> Any:
        name = {"name": more.pop("name")} if "name" in more else {}
        return chat.delta(tool_calls=[{"index": index, **more, "function": {"arguments": arguments, **name}}])

    return [
        chat.delta(role="assistant", content="Look"),
        chat.delta(content="ing."),
        part(0, "", id="c1", name="read", type="function"),
        part(0, '{"pa'),
        part(0, 'th":"a"}'),
        part(1, '{"path":', id="c2", name="read", type="function"),
        part(1, '"b"}'),
        chat.delta("tool_calls"),
    ]


async def test_several_calls_come_as_one_turn(chat: Any, emitted: list[str] | None) -> None:
    whole = chat.completion(
        "Looking.", ("c1", "read", '{"path":"a"}'), ("c2", "read", '{"path":"b"}'), finish="tool_calls"
    )
    async with chat.Server(whole if emitted is None else chat.stream(*fragments(chat))) as server:
        turn = await model(server).turn(asked(), tools=TOOLS, emit=emit(emitted))
    assert turn.calls == (Call("c1", "read", {"path": "a"}), Call("c2", "read", {"path": "b"}))
    assert (turn.text, turn.finish_reason) == ("Looking.", "tool_calls")
    assert emitted in (None, ["Look", "ing."])


@pytest.mark.parametrize("index", [None, 0])
async def test_streamed_calls_are_told_apart_by_id_where_the_index_does_not(chat: Any, index: int | None) -> None:
    calls = [
        {"id": f"c{name}", "function": {"name": name, "arguments": "{}"}} | ({} if index is None else {"index": index})
        for name in ("one", "two")
    ]
    async with chat.Server(chat.stream(chat.delta(tool_calls=calls), chat.delta("tool_calls"))) as server:
        turn = await model(server).turn(asked(), tools=TOOLS, emit=lambda text: None)
    assert turn.calls == (Call("cone", "one", {}), Call("ctwo", "two", {}))


@pytest.mark.parametrize(
    ("arguments", "read"), [("", {}), (None, {}), ("{}", {}), ({"path": "a"}, {"path": "a"}), ('{"n":1}', {"n": 1})]
)
async def test_arguments_come_as_text_as_an_object_or_not_at_all(chat: Any, arguments: Any, read: Any) -> None:
    async with chat.Server(chat.completion(None, ("c1", "read", arguments))) as server:
        turn = await model(server).turn(asked(), tools=TOOLS)
    assert turn.calls == (Call("c1", "read", read),)


async def test_an_id_that_stands_twice_is_kept_once(chat: Any) -> None:
    async with chat.Server(chat.completion(None, ("c", "read", "{}"), ("c", "read", "{}"))) as server:
        turn = await model(server).turn(asked(), tools=TOOLS)
    assert [call.id for call in turn.calls] == ["c", ""]


@pytest.mark.parametrize("arguments", ['{"path":', "[1]", '"a"', "{'path': 1}"])
async def test_arguments_that_are_no_json_object_are_no_action(
    chat: Any, arguments: str, emitted: list[str] | None
) -> None:
    calls = [("c1", "read", '{"path":"a"}'), ("c2", "read", arguments)]
    parts = [
        {"index": n, "id": id, "function": {"name": name, "arguments": text}}
        for n, (id, name, text) in enumerate(calls)
    ]
    usage = {"choices": [], "usage": USAGE}
    streamed = chat.stream(chat.delta(tool_calls=parts), chat.delta("tool_calls"), usage)
    async with chat.Server(chat.completion(None, *calls, usage=USAGE) if emitted is None else streamed) as server:
        with pytest.raises(ActionParseError, match="arguments of read") as caught:
            await model(server).turn(asked(), tools=TOOLS, emit=emit(emitted))
    assert arguments in caught.value.raw
    assert caught.value.usage == {"prompt_tokens": 11, "completion_tokens": 7}


async def test_a_call_without_a_name_is_no_action(chat: Any) -> None:
    async with chat.Server(chat.completion(None, ("c1", None, "{}"))) as server:
        with pytest.raises(ActionParseError, match="names no function"):
            await model(server).turn(asked(), tools=TOOLS)


@pytest.mark.parametrize("text", [None, "", "  \n"])
@pytest.mark.parametrize("mode", ["native", "json"])
async def test_an_empty_reply_is_no_action(chat: Any, text: str | None, mode: str, emitted: list[str] | None) -> None:
    streamed = chat.stream(chat.delta(content=text), chat.delta("stop"))
    async with chat.Server(chat.completion(text) if emitted is None else streamed) as server:
        with pytest.raises(ActionParseError, match="empty"):
            await model(server, tool_calling=mode).turn(asked(), tools=TOOLS, emit=emit(emitted))


async def test_tools_and_peers_are_declared_as_functions(chat: Any) -> None:
    async with chat.Server(chat.completion("ok")) as server:
        await model(server).turn(asked(), tools=TOOLS, agent_cards=[Peer()])
    functions = [item["function"] for item in server.body["tools"]]
    assert [item["name"] for item in functions] == ["read", "protolink_delegate_agent", "protolink_call_agent_tool"]
    assert functions[0]["parameters"] == {"type": "object", "properties": {"path": {"type": "string"}}}


async def test_calls_and_their_answers_keep_their_roles_and_ids(chat: Any) -> None:
    history = asked().add_assistant(
        "", tool_calls=[{"id": "c1", "name": "read", "args": {"path": "a"}}, {"id": "c2", "name": "read", "args": {}}]
    )
    history.add_tool('{"result":1}', "read", tool_call_id="c1").add_tool('{"result":2}', "read", tool_call_id="c2")
    async with chat.Server(chat.completion("ok")) as server:
        await model(server).turn(history, tools=TOOLS)
    said, first, second = server.body["messages"][2:]
    assert said["content"] is None
    assert [(call["id"], call["type"], call["function"]["name"]) for call in said["tool_calls"]] == [
        ("c1", "function", "read"),
        ("c2", "function", "read"),
    ]
    assert json.loads(said["tool_calls"][0]["function"]["arguments"]) == {"path": "a"}
    assert first == {"role": "tool", "tool_call_id": "c1", "content": '{"result":1}'}
    assert second == {"role": "tool", "tool_call_id": "c2", "content": '{"result":2}'}


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("protolink_delegate_agent", {"agent": "writer", "prompt": "write"}),
        ("protolink_call_agent_tool", {"agent": "writer", "tool": "count", "args_json": '{"n":1}'}),
    ],
)
async def test_a_delegation_is_sent_back_as_the_call_it_was(chat: Any, name: str, arguments: Any) -> None:
    reply = chat.completion(None, ("c1", name, json.dumps(arguments)))
    async with chat.Server(reply, chat.completion("ok")) as server:
        llm = model(server)
        [call] = (await llm.turn(asked(), agent_cards=[Peer()])).calls
        assert call.tool == "agent_call"
        told = asked().add_assistant("", tool_calls=[{"id": call.id, "name": call.tool, "args": call.args}])
        await llm.turn(told.add_tool("{}", "agent_call", tool_call_id=call.id), agent_cards=[Peer()])
    [sent] = server.body["messages"][2]["tool_calls"]
    assert sent["function"]["name"] == name
    assert json.loads(sent["function"]["arguments"]) == arguments


async def test_an_empty_reply_in_the_conversation_is_not_sent_again(chat: Any) -> None:
    history = asked().add_assistant("").add_user("That was no valid action.")
    async with chat.Server(chat.completion("ok")) as server:
        await model(server).turn(history)
    assert [message["role"] for message in server.body["messages"]] == ["system", "user", "user"]


# ------------------------------------------------------------------------------------------------ JSON actions


def validator(server: Any) -> Draft202012Validator:
    wanted = server.body["response_format"]
    assert (wanted["type"], wanted["json_schema"]["strict"]) == ("json_schema", True)
    Draft202012Validator.check_schema(wanted["json_schema"]["schema"])
    return Draft202012Validator(wanted["json_schema"]["schema"])


async def test_json_mode_asks_for_the_schema_of_the_possible_actions(chat: Any, emitted: list[str] | None) -> None:
    action = '{"type":"tool_call","tool":"read","args":{"path":"a"}}'
    streamed = chat.stream(*chat.words(action[:9], action[9:], usage=USAGE))
    async with chat.Server(chat.completion(action, usage=USAGE) if emitted is None else streamed) as server:
        turn = await model(server, tool_calling="json").turn(asked(), tools=TOOLS, emit=emit(emitted))
    assert turn.calls == (Call("", "read", {"path": "a"}),)
    assert (turn.raw, turn.usage) == (action, {"prompt_tokens": 11, "completion_tokens": 7})
    assert emitted in (None, [action[:9], action[9:]])
    assert "tools" not in server.body
    schema = validator(server)
    assert schema.is_valid(json.loads(action))
    assert schema.is_valid(json.loads(FINAL))
    assert not schema.is_valid({"type": "tool_call", "tool": "write", "args": {}})
    assert not schema.is_valid({"type": "tool_call", "tool": "read", "args": {"path": 5}})
    assert not schema.is_valid({"type": "agent_call", "agent": "writer", "action": "infer", "prompt": "go"})


async def test_answers_are_bounded_where_the_application_says_so(chat: Any) -> None:
    async with chat.Server(chat.completion(FINAL)) as server:
        await model(server, tool_calling="json", answer_limit=100).turn(asked())
    schema = validator(server)
    assert schema.is_valid({"type": "final", "content": "x" * 100})
    assert not schema.is_valid({"type": "final", "content": "x" * 101})


async def test_a_reply_cut_by_the_token_limit_says_so(chat: Any) -> None:
    async with chat.Server(chat.completion('{"type":"final","content":"do', finish="length")) as server:
        with pytest.raises(ActionParseError, match="token limit") as caught:
            await model(server, tool_calling="json").turn(asked())
    assert caught.value.raw == '{"type":"final","content":"do'


async def test_a_refused_schema_falls_back_step_by_step_and_is_remembered(chat: Any, emitted: list[str] | None) -> None:
    no = chat.http(400, {"error": {"message": "response_format is not supported"}})
    yes = chat.completion(FINAL) if emitted is None else chat.stream(*chat.words(FINAL))
    async with chat.Server(no, no, yes, yes) as server:
        llm = model(server, tool_calling="json")
        turns = [await llm.turn(asked(), emit=emit(emitted)) for _ in range(2)]
    assert [turn.text for turn in turns] == ["done", "done"]
    formats = [request.body.get("response_format", {}).get("type") for request in server.requests]
    assert formats == ["json_schema", "json_object", None, None]


async def test_a_refusal_of_stream_options_leaves_the_schema_alone(chat: Any) -> None:
    no = chat.http(422, {"detail": "extra field stream_options"})
    async with chat.Server(no, chat.stream(*chat.words(FINAL))) as server:
        await model(server, tool_calling="json").turn(asked(), emit=lambda text: None)
    assert "stream_options" not in server.body
    assert server.body["response_format"]["type"] == "json_schema"


async def test_json_mode_speaks_in_three_alternating_roles(chat: Any) -> None:
    call = '{"type":"tool_call","tool":"read","args":{}}'
    history = asked().add_assistant(call).add_tool('{"result":1}', "read", tool_call_id="a1")
    history.add_system("Mind the gap.").add_assistant("").add_user("Go on.")
    async with chat.Server(chat.completion(FINAL)) as server:
        await model(server, tool_calling="json").turn(history, tools=TOOLS)
    assert server.body["messages"] == [
        {"role": "system", "content": "Be kind."},
        {"role": "user", "content": "hello"},
        {"role": "assistant", "content": call},
        {"role": "user", "content": '{"result":1}\n\nMind the gap.\n\nGo on.'},
    ]


async def test_calls_of_a_native_conversation_read_as_actions_in_json_mode(chat: Any) -> None:
    calls = [
        {"id": "1", "name": "read", "args": {"path": "a"}},
        {"id": "2", "name": "agent_call", "args": {"agent": "writer", "action": "infer", "prompt": "go"}},
    ]
    async with chat.Server(chat.completion(FINAL)) as server:
        await model(server, tool_calling="json").turn(asked().add_assistant("Hm.", tool_calls=calls))
    thought, *actions = server.body["messages"][2]["content"].split("\n")
    assert thought == "Hm."
    assert [json.loads(action) for action in actions] == [
        {"type": "tool_call", "tool": "read", "args": {"path": "a"}},
        {"type": "agent_call", "agent": "writer", "action": "infer", "prompt": "go"},
    ]
