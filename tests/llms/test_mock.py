from __future__ import annotations

import json
from typing import Any

import pytest

from protolink.llms import Call, ConversationHistory, LLMActionResult, MockLLM, ModelTurn
from protolink.llms.json_actions import ActionParseError

ACTION = {"type": "tool_call", "tool": "read", "args": {"paths": ["a"]}}


def asked(text: str = "hello") -> ConversationHistory:
    return ConversationHistory("be brief").add_user(text)


async def texts(llm: MockLLM, count: int) -> list[str]:
    return [(await llm.turn(asked())).text for _ in range(count)]


@pytest.mark.claim("REJ-009")
async def test_sequential_dicts_are_actions_and_strings_are_final_answers() -> None:
    llm = MockLLM(sequential_responses=[ACTION, "All read."])
    first, second = await llm.turn(asked()), await llm.turn(asked())
    assert first.calls == (Call("", "read", {"paths": ["a"]}),)
    assert (second.text, second.calls) == ("All read.", ())


async def test_call_returns_the_json_text_of_the_action() -> None:
    llm = MockLLM(sequential_responses=[ACTION, "All read."])
    assert json.loads(await llm.call(asked())) == ACTION
    assert json.loads(await llm.call(asked())) == {"type": "final", "content": "All read."}


async def test_the_last_sequential_response_repeats() -> None:
    assert await texts(MockLLM(sequential_responses=["a", "b"]), 4) == ["a", "b", "b", "b"]


async def test_sequential_responses_are_shared_by_all_ways_of_calling() -> None:
    llm = MockLLM(sequential_responses=["a", "b", "c", "d"])
    await llm.call(asked())
    pieces = [piece async for piece in llm.call_stream(asked())]
    result = await llm.call_action(asked(), tools={})
    assert isinstance(result, LLMActionResult)
    assert json.loads(pieces[0])["content"] == "b"
    assert result.action == {"type": "final", "content": "c"}
    assert await texts(llm, 1) == ["d"]


async def test_a_play_leaves_the_script_as_it_was() -> None:
    script = [{"type": "tool_call", "tool": "read", "args": {"paths": ["a"]}}]
    llm = MockLLM(sequential_responses=script)
    (await llm.turn(asked())).calls[0].args["paths"].append("b")
    assert (await llm.turn(asked())).calls[0].args == {"paths": ["a"]}
    assert script[0]["args"] == {"paths": ["a"]}


async def test_text_with_action_json_is_played_as_it_is() -> None:
    llm = MockLLM(sequential_responses=[f"```json\n{json.dumps(ACTION)}\n```"])
    turn = await llm.turn(asked())
    assert turn.calls == (Call("", "read", {"paths": ["a"]}),)
    assert turn.raw == f"```json\n{json.dumps(ACTION)}\n```"


@pytest.mark.parametrize("text", ['{"answer": 42}', "[1, 2]", "a {b} c", 'He said {"yes"', '{"type": "book"}'])
async def test_text_that_names_no_action_is_a_final_answer(text: str) -> None:
    llm = MockLLM(default_response=text)
    assert (await llm.turn(asked())).text == text
    assert json.loads(await llm.call(asked())) == {"type": "final", "content": text}


@pytest.mark.parametrize(
    "response",
    [
        "",
        {"type": "tool_call"},
        {"type": "final", "content": ""},
        '{"type":"final"}',
        f"{ACTION}".replace("'", '"') * 2,
    ],
)
async def test_an_empty_or_malformed_action_is_a_parse_failure(response: Any) -> None:
    llm = MockLLM(sequential_responses=[response])
    with pytest.raises(ActionParseError) as caught:
        await llm.turn(asked())
    assert caught.value.raw == await llm.call(asked())


@pytest.mark.parametrize(("response", "text"), [([1, 2], "[1, 2]"), (7, "7"), ({"a": 1}, '{"a":1}'), (True, "True")])
async def test_other_responses_are_answered_as_their_text(response: Any, text: str) -> None:
    assert await texts(MockLLM(sequential_responses=[response]), 1) == [text]


async def test_none_stands_for_the_default_response() -> None:
    assert await texts(MockLLM(sequential_responses=[None], default_response="d"), 1) == ["d"]


async def test_the_default_default_response() -> None:
    assert await texts(MockLLM(), 1) == ["Unprocessed generic mock response"]


@pytest.mark.parametrize("native", [None, "native"])
async def test_a_scripted_exception_is_raised(native: str | None) -> None:
    llm = MockLLM(sequential_responses=[ConnectionError("down"), "up"], tool_calling=native)
    with pytest.raises(ConnectionError, match="down"):
        await llm.turn(asked())
    assert await texts(llm, 1) == ["up"]


# ------------------------------------------------------------------------------------------------ who answers


async def test_mock_responses_match_the_last_user_message_in_any_case() -> None:
    llm = MockLLM(mock_responses={"WEATHER": "sunny", "time": "noon"}, default_response="?")
    history = asked("weather?").add_assistant("sunny").add_user("And what TIME is it")
    assert (await llm.turn(history)).text == "noon"
    assert (await llm.turn(asked("nothing"))).text == "?"
    assert (await llm.turn(ConversationHistory())).text == "?"


async def test_sequential_responses_come_before_mock_responses() -> None:
    llm = MockLLM(mock_responses={"hello": "matched"}, sequential_responses=["played"])
    assert await texts(llm, 1) == ["played"]


async def test_the_callback_comes_before_everything() -> None:
    seen: list[Any] = []

    def answer(history: ConversationHistory, system_prompt: str) -> str:
        seen.append((history.messages[-1]["content"], system_prompt))
        return "called"

    llm = MockLLM(response_callback=answer, sequential_responses=["played"], mock_responses={"hello": "matched"})
    assert await texts(llm, 1) == ["called"]
    assert seen == [("hello", "be brief")]


async def test_an_async_callback_is_awaited() -> None:
    async def answer(history: ConversationHistory, system_prompt: str) -> Any:
        return ACTION

    assert (await MockLLM(response_callback=answer).turn(asked())).calls[0].tool == "read"


async def test_an_error_of_the_callback_is_raised() -> None:
    def answer(history: ConversationHistory, system_prompt: str) -> str:
        raise KeyError("script")

    with pytest.raises(KeyError, match="script"):
        await MockLLM(response_callback=answer).call(asked())


async def test_a_callback_that_returns_none_gets_the_default() -> None:
    assert await texts(MockLLM(response_callback=lambda *_: None, default_response="d"), 1) == ["d"]


# ------------------------------------------------------------------------------------------------ modes


async def test_a_stream_is_one_fragment_and_the_same_turn() -> None:
    pieces: list[str] = []
    llm = MockLLM(sequential_responses=[ACTION])
    streamed = await llm.turn(asked(), emit=pieces.append)
    assert [json.loads(piece) for piece in pieces] == [ACTION]
    assert streamed == await llm.turn(asked())


async def test_native_mode_plays_several_calls_of_one_turn() -> None:
    turn = ModelTurn("both", (Call("c1", "read", {}), Call("c2", "list", {})))
    llm = MockLLM(sequential_responses=[turn], tool_calling="native")
    pieces: list[str] = []
    assert llm.resolve_tool_calling() == "native"
    assert await llm.turn(asked(), emit=pieces.append) == turn
    assert await llm.call_action(asked(), tools={}) == turn
    assert pieces == ["both"]


async def test_native_mode_plays_actions_as_native_results() -> None:
    llm = MockLLM(sequential_responses=[ACTION], tool_calling="native")
    result = await llm.call_action(asked(), tools={})
    assert isinstance(result, LLMActionResult)
    assert (result.action, result.native) == (ACTION, True)


async def test_a_native_subclass_streams_and_delegates_as_the_script_says() -> None:
    class Counting(MockLLM):
        asked = 0

        async def call_action(self, history: ConversationHistory, **options: Any) -> LLMActionResult | ModelTurn:
            self.asked += 1
            return await super().call_action(history, **options)

    delegation = {"type": "agent_call", "agent": "writer", "action": "infer", "prompt": "write"}
    llm = Counting(sequential_responses=[delegation, "done"], tool_calling="native")
    pieces: list[str] = []
    first = await llm.turn(asked(), emit=pieces.append)
    last = await llm.turn(asked(), emit=pieces.append)
    assert first.calls == (Call("", "agent_call", {"agent": "writer", "action": "infer", "prompt": "write"}),)
    assert (last.text, pieces, llm.asked) == ("done", ["done"], 2)


async def test_json_mode_refuses_a_turn_with_several_calls() -> None:
    llm = MockLLM(sequential_responses=[ModelTurn("", (Call("", "a"), Call("", "b")))])
    with pytest.raises(ValueError, match="native"):
        await llm.turn(asked())


async def test_json_mode_plays_a_turn_with_one_call() -> None:
    turn = await MockLLM(sequential_responses=[ModelTurn("why", (Call("", "read", {"a": 1}),))]).turn(asked())
    assert turn.calls == (Call("", "read", {"a": 1}),)
    assert json.loads(turn.raw or "") == {"type": "tool_call", "tool": "read", "args": {"a": 1}, "thought": "why"}


async def test_a_subclass_with_its_own_call_is_asked() -> None:
    class Loud(MockLLM):
        async def call(self, history: ConversationHistory) -> str:
            return (await super().call(history)).replace("quiet", "LOUD")

    assert (await Loud(default_response="quiet").turn(asked())).text == "LOUD"


async def test_a_replaced_method_of_one_object_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    async def other(history: ConversationHistory) -> str:
        return '{"type":"final","content":"patched"}'

    llm = MockLLM()
    monkeypatch.setattr(llm, "call", other)
    assert (await llm.turn(asked())).text == "patched"


def test_mock_is_offline_and_named_so() -> None:
    llm = MockLLM()
    assert (llm.provider, llm.model, llm.model_params) == ("mock", "mock-gpt", {})
    assert llm.validate_connection() is True


@pytest.mark.parametrize(
    "wrong", [{"sequential_responses": "abc"}, {"sequential_responses": {}}, {"response_callback": 1}]
)
def test_malformed_scripts_are_refused_at_once(wrong: dict[str, Any]) -> None:
    with pytest.raises(TypeError):
        MockLLM(**wrong)


# ------------------------------------------------------------------------------------------------ at once


def test_a_script_answers_runs_at_once() -> None:
    turn = MockLLM(sequential_responses=["done"]).begin_turn(asked())
    assert turn == ModelTurn("done")


async def test_a_callback_that_has_to_be_awaited_is_awaited() -> None:
    async def later(history: ConversationHistory, system_prompt: str) -> str:
        return "later"

    found = MockLLM(response_callback=later).begin_turn(asked())
    assert not isinstance(found, ModelTurn)
    assert (await found).text == "later"


def test_a_scripted_exception_is_raised_at_once() -> None:
    with pytest.raises(ConnectionError, match="down"):
        MockLLM(sequential_responses=[ConnectionError("down")]).begin_turn(asked())


async def test_a_subclass_is_asked_by_the_method_it_brings() -> None:
    class Turning(MockLLM):
        async def turn(self, history: ConversationHistory, **options: Any) -> ModelTurn:
            return ModelTurn("turned")

    class Calling(MockLLM):
        async def call(self, history: ConversationHistory) -> str:
            return json.dumps({"type": "final", "content": "called"})

    for llm, text in ((Turning(), "turned"), (Calling(), "called")):
        found = llm.begin_turn(asked())
        assert not isinstance(found, ModelTurn)
        assert (await found).text == text


async def test_a_method_that_a_test_puts_into_the_class_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    async def turned(self: MockLLM, history: ConversationHistory, **options: Any) -> ModelTurn:
        return ModelTurn("turned")

    monkeypatch.setattr(MockLLM, "turn", turned)
    found = MockLLM(default_response="scripted").begin_turn(asked())
    assert not isinstance(found, ModelTurn)
    assert (await found).text == "turned"
