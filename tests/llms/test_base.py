from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from protolink.llms import LLM, Call, ConversationHistory, LLMActionResult, LLMModelProfile, MockLLM, ModelTurn
from protolink.llms.json_actions import ActionParseError
from protolink.llms.turn import to_turn


class Texter(LLM):
    """An adapter with the text API only."""

    provider = "text"

    def __init__(self, reply: Any = '{"type":"final","content":"hi there"}', **options: Any) -> None:
        super().__init__("small", **options)
        self.reply = reply

    async def call(self, history: ConversationHistory) -> str:
        return self.reply

    async def call_stream(self, history: ConversationHistory) -> AsyncIterator[str]:
        for word in self.reply.split(" "):
            yield word + " "

    def validate_connection(self) -> bool:
        return True


class Native(Texter):
    async def call_action(self, history: ConversationHistory, **options: Any) -> LLMActionResult | ModelTurn:
        self.options = options
        return self.reply


class NativeStream(Native):
    async def call_action_stream(
        self, history: ConversationHistory, *, chunk_callback: Callable[[str], None] | None = None, **options: Any
    ) -> LLMActionResult | ModelTurn:
        assert chunk_callback is not None
        chunk_callback("bit")
        return self.reply


def asked() -> ConversationHistory:
    return ConversationHistory().add_user("hello")


# ------------------------------------------------------------------------------------------------ settings


@pytest.mark.claim("REJ-022")
def test_max_tool_corrections_defaults_to_two() -> None:
    assert Texter().max_tool_corrections == 2
    assert MockLLM().max_tool_corrections == 2


@pytest.mark.claim("REJ-008")
def test_max_tool_corrections_is_settable() -> None:
    llm = MockLLM()
    for value in (0, 10):
        llm.max_tool_corrections = value
        assert llm.max_tool_corrections == value


def test_max_parse_failures_defaults_to_three_and_is_settable() -> None:
    llm = Texter()
    assert llm.max_parse_failures == 3
    llm.max_parse_failures = 1
    assert llm.max_parse_failures == 1


@pytest.mark.parametrize("name", ["max_tool_corrections", "max_parse_failures"])
@pytest.mark.parametrize("value", [True, 1.0, "2", None])
def test_limits_of_another_type_are_refused(name: str, value: Any) -> None:
    with pytest.raises(TypeError, match=name):
        setattr(Texter(), name, value)


@pytest.mark.parametrize(
    ("name", "value"),
    [("max_tool_corrections", -1), ("max_tool_corrections", 11), ("max_parse_failures", 0), ("max_parse_failures", 11)],
)
def test_limits_out_of_range_are_refused(name: str, value: int) -> None:
    llm = Texter()
    before = getattr(llm, name)
    with pytest.raises(ValueError, match=name):
        setattr(llm, name, value)
    assert getattr(llm, name) == before


def test_an_unknown_tool_calling_mode_is_refused() -> None:
    with pytest.raises(ValueError, match="tool_calling"):
        Texter(tool_calling="xml")


@pytest.mark.parametrize("model", ["", "  ", None])
def test_a_model_needs_a_name(model: Any) -> None:
    with pytest.raises(ValueError, match="model"):
        MockLLM(model)


@pytest.mark.parametrize(
    ("kind", "wish", "mode"),
    [
        (Texter, None, "json"),
        (Texter, "auto", "json"),
        (Texter, "native", "json"),
        (Native, None, "native"),
        (Native, "auto", "native"),
        (Native, "native", "native"),
        (Native, "json", "json"),
        (MockLLM, "auto", "json"),
    ],
)
def test_json_is_the_fallback_where_native_is_missing_or_unwanted(kind: Any, wish: str | None, mode: str) -> None:
    assert kind(tool_calling=wish).resolve_tool_calling() == mode


def test_configure_metrics_returns_the_model_and_fills_its_names() -> None:
    llm = Texter()
    assert llm.configure_metrics(context_window=100, input_cost_per_million=1.5) is llm
    profile = llm.metrics_profile
    assert (profile.context_window, profile.input_cost_per_million, profile.currency) == (100, 1.5, "USD")
    assert (profile.provider, profile.model) == ("text", "small")


def test_configure_metrics_takes_a_mapping_and_keywords_win() -> None:
    profile = Texter().configure_metrics({"context_window": 1, "currency": "EUR"}, context_window=2).metrics_profile
    assert (profile.context_window, profile.currency) == (2, "EUR")


def test_keywords_without_a_profile_add_to_what_was_known() -> None:
    llm = Texter().configure_metrics(LLMModelProfile(context_window=5)).configure_metrics(output_cost_per_million=2)
    assert (llm.metrics_profile.context_window, llm.metrics_profile.output_cost_per_million) == (5, 2)


def test_a_profile_of_another_kind_is_refused() -> None:
    with pytest.raises(TypeError, match="profile"):
        Texter().configure_metrics(5)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="windows"):
        Texter().configure_metrics({"windows": 5})


# ------------------------------------------------------------------------------------------------ a turn


async def test_the_text_api_alone_is_enough_for_actions() -> None:
    llm = Texter('{"type":"tool_call","tool":"read","args":{}}')
    assert (await llm.turn(asked())).calls == (Call("", "read", {}),)


async def test_a_plain_function_may_be_the_text_api() -> None:
    class Blocking(Texter):
        def call(self, history: ConversationHistory) -> str:  # type: ignore[override]
            return self.reply

    assert (await Blocking().turn(asked())).text == "hi there"


async def test_a_stream_is_emitted_as_it_comes_and_read_at_its_end() -> None:
    pieces: list[str] = []
    turn = await Texter().turn(asked(), emit=pieces.append)
    assert pieces == ['{"type":"final","content":"hi ', 'there"} ']
    assert turn.text == "hi there"


async def test_a_model_known_not_to_stream_is_called_whole() -> None:
    pieces: list[str] = []
    llm = Texter().configure_metrics({"supports_streaming": False})
    assert (await llm.turn(asked(), emit=pieces.append)).text == "hi there"
    assert pieces == []


async def test_a_reply_that_is_no_text_blames_the_adapter() -> None:
    with pytest.raises(TypeError, match=r"Texter\.call returned NoneType"):
        await Texter(None).turn(asked())


async def test_a_native_adapter_gets_tools_and_peers() -> None:
    llm = Native(ModelTurn("ok"))
    assert (await llm.turn(asked(), tools={"read": 1}, agent_cards=["peer"])).text == "ok"
    assert llm.options == {"tools": {"read": 1}, "agent_callback_available": True, "agent_cards": ["peer"]}


async def test_a_native_adapter_without_stream_is_called_whole() -> None:
    pieces: list[str] = []
    assert (await Native(ModelTurn("ok")).turn(asked(), emit=pieces.append)).text == "ok"
    assert pieces == []


async def test_a_native_adapter_streams_where_it_can() -> None:
    pieces: list[str] = []
    assert (await NativeStream(ModelTurn("ok")).turn(asked(), emit=pieces.append)).text == "ok"
    assert pieces == ["bit"]


async def test_native_methods_are_refused_where_there_are_none() -> None:
    with pytest.raises(NotImplementedError, match="Texter"):
        await Texter().call_action(asked(), tools={})
    with pytest.raises(NotImplementedError, match="Texter"):
        await Texter().call_action_stream(asked(), tools={})


# ------------------------------------------------------------------------------------------------ results


def test_an_action_result_becomes_a_turn_with_id_and_usage() -> None:
    action = {"type": "tool_call", "tool": "read", "args": {"a": 1}}
    result = LLMActionResult(action, "raw", native=True, metadata={"call_id": "c9", "usage": {"input_tokens": 3}})
    expected = ModelTurn("", (Call("c9", "read", {"a": 1}),), {"input_tokens": 3}, None, "raw")
    assert to_turn(result) == expected


def test_a_result_is_frozen_and_has_defaults() -> None:
    result = LLMActionResult({"type": "final", "content": "x"}, "x")
    assert (result.native, result.metadata) == (False, {})
    with pytest.raises(AttributeError):
        result.native = True  # type: ignore[misc]


def test_text_is_read_as_an_action() -> None:
    assert to_turn('{"type":"final","content":"x"}').text == "x"


def test_native_delegations_are_mapped_in_turns() -> None:
    turn = to_turn(ModelTurn("", (Call("c", "protolink_delegate_agent", {"agent": "a", "prompt": "p"}),)))
    assert turn.calls == (Call("c", "agent_call", {"agent": "a", "action": "infer", "prompt": "p"}),)


@pytest.mark.parametrize(
    "result",
    [
        ModelTurn("  "),
        LLMActionResult({"type": "final", "content": ""}, "r"),
        LLMActionResult({"type": "tool_call", "tool": "x", "args": {"n": float("nan")}}, "r"),
    ],
)
def test_a_result_that_is_no_action_is_the_models_fault(result: Any) -> None:
    with pytest.raises(ActionParseError):
        to_turn(result)


@pytest.mark.parametrize("result", [None, 5, {"type": "final"}, LLMActionResult("final", "")])  # type: ignore[arg-type]
def test_a_result_of_another_kind_is_the_adapters_fault(result: Any) -> None:
    with pytest.raises(TypeError, match="adapter"):
        to_turn(result)


# ------------------------------------------------------------------------------------------------ conversation


async def test_chat_remembers_both_sides_and_unwraps_an_answer() -> None:
    llm = MockLLM(default_response="hi")
    llm.set_system_prompt("be brief")
    assert await llm.chat("hello") == "hi"
    assert [item["content"] for item in llm.history.messages] == ["be brief", "hello", "hi"]


async def test_chat_takes_plain_text() -> None:
    assert await Texter("just text").chat("hello") == "just text"


async def test_chat_streams_and_remembers_at_the_end() -> None:
    llm = Texter("just text")
    assert [piece async for piece in llm.chat("hello", streaming=True)] == ["just ", "text "]
    assert [item["role"] for item in llm.history.messages] == ["user", "assistant"]


async def test_a_failed_chat_leaves_the_history_alone() -> None:
    llm = MockLLM(sequential_responses=[ConnectionError("down")])
    with pytest.raises(ConnectionError):
        await llm.chat("hello")
    assert len(llm.history) == 0


async def test_use_history_goes_on_with_the_callers_object() -> None:
    history = ConversationHistory().add_user("a").add_assistant("b")
    llm = MockLLM(default_response="hi")
    assert llm.use_history(history) is llm
    await llm.chat("hello")
    assert len(history) == 4
    llm.compact_history(1)
    assert [item["content"] for item in history.messages] == ["hi"]


def test_use_history_wants_a_history() -> None:
    with pytest.raises(TypeError, match="ConversationHistory"):
        MockLLM().use_history([])  # type: ignore[arg-type]


def test_the_json_prompt_teaches_the_action_language() -> None:
    prompt = MockLLM().build_system_prompt("Be kind.", agent_name="clerk", description="Files things.")
    assert '"type":"final"' in prompt
    assert "Be kind." in prompt
    assert "clerk" in prompt
    assert "Files things." in prompt


def test_the_native_prompt_does_not() -> None:
    prompt = MockLLM(tool_calling="native").build_system_prompt("Be kind.", agent_name="clerk")
    assert '"type"' not in prompt
    assert "Be kind." in prompt


def test_override_leaves_the_instructions_alone() -> None:
    assert MockLLM().build_system_prompt("Only this.", agent_name="clerk", override=True) == "Only this."
