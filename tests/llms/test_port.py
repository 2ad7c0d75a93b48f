from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from protolink.drive.ports import Misspoken, Reply
from protolink.llms import LLM, Call, ConversationHistory, LLMModelProfile, MockLLM, ModelTurn, create_llm
from protolink.llms.port import LLMPort
from protolink.models import AgentCard, estimate_tokens
from protolink.runtime import RunContext, build_context_manifest


@dataclass
class Tool:
    name: str = "read"
    description: str = "Reads a file."
    input_schema: dict[str, Any] = field(default_factory=lambda: {"properties": {"path": {"title": "Path"}}})
    capabilities: tuple[str, ...] = ("fs.read",)


@dataclass
class Peer:
    name: str = "writer"
    description: str = "Writes prose."

    def to_dict(self) -> dict[str, Any]:
        return {"name": self.name, "description": self.description}


ACTION = {"type": "tool_call", "tool": "read", "args": {"path": "a"}}


def port(llm: LLM | None = None, **options: Any) -> LLMPort:
    options = {"agent_name": "clerk", "system_prompt": "Be kind.", "tools": [Tool()], **options}
    return LLMPort(llm or MockLLM(), **options)


def asked(query: str = "hello") -> ConversationHistory:
    return ConversationHistory().add_user(query)


async def replied(bound: LLMPort, history: ConversationHistory, emit: Callable[[str], None] | None) -> Reply:
    """The reply, whether it comes at once or has to be awaited."""
    found = bound.reply(history, emit)
    return found if isinstance(found, Reply) else await found


class Watching(MockLLM):
    """Keeps what it was asked."""

    async def call(self, history: ConversationHistory) -> str:
        self.seen = history
        return await super().call(history)


# ------------------------------------------------------------------------------------------------ manifest


@pytest.mark.claim("MAN-006")
def test_a_configured_context_window_stands_in_the_manifest() -> None:
    llm = create_llm("mock").configure_metrics(LLMModelProfile(context_window=8192))
    bound = port(llm)
    assert bound.context_window == 8192
    assert bound.manifest(asked(), "hello", RunContext()).context_window == 8192


def test_the_manifest_counts_what_build_context_manifest_counts() -> None:
    llm, tool, peer = MockLLM(), Tool(), Peer()
    bound = port(llm, tools=[tool], cards=[peer])
    context = RunContext(run_id="r", session_id="s")
    history = asked().add_assistant("x" * 100).add_tool("y" * 50, "read").add_user("more")
    expected = build_context_manifest(
        history=history.with_system(bound.system_prompt),
        query="hello",
        run_context=context,
        agent_name="clerk",
        provider="mock",
        model="mock-gpt",
        tools={"read": tool},
        agent_cards=[peer],
    ).to_dict()
    found = bound.manifest(history, "hello", context).to_dict()
    assert {**found, "created_at": None} == {**expected, "created_at": None}


def test_the_sections_add_up_and_the_query_is_counted_once() -> None:
    manifest = port().manifest(asked("q" * 40).add_assistant("a" * 80), "q" * 40, RunContext())
    assert (manifest.user_tokens, manifest.history_tokens) == (10, 20)
    assert manifest.system_tokens > 0
    assert manifest.tool_prompt_tokens > 0
    assert manifest.total_estimated_tokens == sum(item.tokens for item in manifest.context_items)


def test_native_declarations_are_counted_beside_the_prompt() -> None:
    bound = port(MockLLM(tool_calling="native"))
    manifest = bound.manifest(asked(), "hello", RunContext())
    assert manifest.system_tokens == estimate_tokens(bound.system_prompt)
    assert manifest.tool_prompt_tokens == port().manifest(asked(), "hello", RunContext()).tool_prompt_tokens


def test_the_conversations_own_system_prompt_is_replaced_not_added() -> None:
    with_own = ConversationHistory("s" * 4000).add_user("hello")
    plain = port().manifest(asked(), "hello", RunContext())
    assert port().manifest(with_own, "hello", RunContext()).total_estimated_tokens == plain.total_estimated_tokens


# ------------------------------------------------------------------------------------------------ replies


async def test_the_model_is_told_prompt_tools_and_peers() -> None:
    llm = Watching(default_response="ok")
    card = AgentCard(name="writer", description="Writes prose.", url="runtime://writer")
    history = asked()
    await replied(port(llm, cards=[card], description="Files things."), history, None)
    prompt = llm.seen.system_prompt or ""
    for told in (
        "Be kind.",
        "clerk",
        "Files things.",
        "read",
        "Reads a file.",
        "writer",
        "Writes prose.",
        "agent_call",
    ):
        assert told in prompt
    assert "title" not in prompt
    assert llm.seen.messages[1:] == [{"role": "user", "content": "hello"}]
    assert history.system_prompt is None


async def test_override_replaces_the_whole_prompt() -> None:
    llm = Watching(default_response="ok")
    await replied(port(llm, override=True), asked(), None)
    assert llm.seen.system_prompt == "Be kind."


async def test_an_answer_is_a_reply_without_calls() -> None:
    reply = await replied(port(MockLLM(default_response="done")), asked(), None)
    assert (reply.text, reply.calls, reply.raw, reply.native, reply.metrics) == ("done", (), None, False, {})
    assert reply.latency_ms >= 0


async def test_a_json_call_keeps_its_text_for_the_conversation() -> None:
    reply = await replied(port(MockLLM(sequential_responses=[ACTION])), asked(), None)
    assert reply.calls == (Call("", "read", {"path": "a"}),)
    assert json.loads(reply.raw or "") == ACTION


@pytest.mark.parametrize("mode", ["json", "native"])
@pytest.mark.parametrize("response", ["done", ACTION, {"type": "final", "content": {"a": 1}}])
async def test_streamed_and_whole_replies_are_the_same(mode: str, response: Any) -> None:
    pieces: list[str] = []
    bound = port(MockLLM(sequential_responses=[response], tool_calling=mode))
    whole, streamed = await replied(bound, asked(), None), await replied(bound, asked(), pieces.append)
    for name in ("text", "calls", "raw", "input_tokens", "output_tokens", "estimated", "native"):
        assert getattr(whole, name) == getattr(streamed, name)
    assert len(pieces) == (0 if mode == "native" and response is ACTION else 1)


async def test_native_replies_keep_several_calls_with_their_ids() -> None:
    turn = ModelTurn("", (Call("c1", "read", {}), Call("c2", "read", {"path": "b"})))
    reply = await replied(port(MockLLM(sequential_responses=[turn], tool_calling="native")), asked(), None)
    assert (reply.calls, reply.native) == (turn.calls, True)


@pytest.mark.parametrize("streamed", [False, True])
async def test_a_reply_that_is_no_action_is_misspoken(streamed: bool) -> None:
    bound = port(MockLLM(sequential_responses=['{"type":"tool_call"}']))
    with pytest.raises(Misspoken) as caught:
        await replied(bound, asked(), [].append if streamed else None)
    assert "'tool'" in caught.value.error
    assert caught.value.reply.raw == '{"type":"tool_call"}'
    assert caught.value.reply.input_tokens > 0
    assert caught.value.reply.output_tokens == 5


async def test_a_misspoken_native_turn_keeps_the_providers_counts() -> None:
    bad = Call("", "protolink_delegate_agent", {})
    llm = MockLLM(
        sequential_responses=[ModelTurn("", (bad,), usage={"input_tokens": 7, "output_tokens": 3})],
        tool_calling="native",
    )
    with pytest.raises(Misspoken) as caught:
        await replied(port(llm), asked(), None)
    assert (caught.value.reply.input_tokens, caught.value.reply.output_tokens) == (7, 3)
    assert caught.value.reply.raw == "protolink_delegate_agent {}"


@pytest.mark.parametrize(
    "call",
    [Call("c", "read", {"path": float("nan")}), Call("c", "read", {"path": "\ud83d"}), Call("c", "read\ud83d")],
)
async def test_a_native_call_that_is_no_json_is_misspoken(call: Call) -> None:
    turn = ModelTurn("I read.", (call,), usage={"input_tokens": 7, "output_tokens": 3})
    with pytest.raises(Misspoken) as caught:
        await replied(port(MockLLM(sequential_responses=[turn], tool_calling="native")), asked(), None)
    reply = caught.value.reply
    assert (reply.raw, reply.input_tokens, reply.output_tokens) == ("I read.", 7, 3)
    caught.value.error.encode()


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("turn", ["cut \ud83d", ModelTurn("cut \ud83d", raw="raw \ud83d")])
async def test_half_a_character_of_a_reply_is_spelled_out(turn: Any, streamed: bool) -> None:
    shown: list[str] = []
    llm = MockLLM(sequential_responses=[turn], tool_calling="native")
    reply = await replied(port(llm), asked(), shown.append if streamed else None)
    assert (reply.text, shown) == ("cut \\ud83d", ["cut \\ud83d"] if streamed else [])
    assert reply.raw in (None, "raw \\ud83d")


async def test_half_a_character_of_a_misspoken_reply_is_spelled_out() -> None:
    class Writing(MockLLM):
        async def call(self, history: ConversationHistory) -> str:
            return '{"type":"final","text":"\ud83d"}'

    with pytest.raises(Misspoken) as caught:
        await replied(port(Writing()), asked(), None)
    assert caught.value.reply.raw == '{"type":"final","text":"\\ud83d"}'


async def test_errors_of_the_model_pass_through() -> None:
    with pytest.raises(ConnectionError):
        await replied(port(MockLLM(sequential_responses=[ConnectionError("down")])), asked(), None)


async def test_a_text_adapter_works_streamed_and_whole() -> None:
    class Texter(LLM):
        async def call(self, history: ConversationHistory) -> str:
            return json.dumps(ACTION)

        async def call_stream(self, history: ConversationHistory) -> AsyncIterator[str]:
            text = json.dumps(ACTION)
            yield text[:5]
            yield text[5:]

        def validate_connection(self) -> bool:
            return True

    pieces: list[str] = []
    bound = port(Texter("small"))
    assert (await replied(bound, asked(), None)).calls == (await replied(bound, asked(), pieces.append)).calls
    assert len(pieces) == 2


# ------------------------------------------------------------------------------------------------ usage and cost


async def test_without_usage_tokens_are_estimates() -> None:
    bound = port(MockLLM(default_response="d" * 40))
    history = asked()
    reply = await replied(bound, history, None)
    manifest = bound.manifest(history, "hello", RunContext())
    assert (reply.input_tokens, reply.output_tokens) == (manifest.total_estimated_tokens, 10)
    assert reply.estimated is True


@pytest.mark.parametrize(
    "usage",
    [{"input_tokens": 11, "output_tokens": 5}, {"prompt_tokens": 11, "completion_tokens": 5, "total_tokens": 16}],
)
async def test_the_providers_usage_is_taken_under_both_names(usage: dict[str, Any]) -> None:
    llm = MockLLM(sequential_responses=[ModelTurn("x", usage=usage)], tool_calling="native")
    reply = await replied(port(llm), asked(), None)
    assert (reply.input_tokens, reply.output_tokens, reply.estimated) == (11, 5, False)


@pytest.mark.parametrize("usage", [{"input_tokens": 11}, {"input_tokens": 11, "output_tokens": None}])
async def test_half_a_usage_leaves_an_estimate(usage: dict[str, Any]) -> None:
    llm = MockLLM(sequential_responses=[ModelTurn("x" * 8, usage=usage)], tool_calling="native")
    reply = await replied(port(llm), asked(), None)
    assert (reply.input_tokens, reply.output_tokens, reply.estimated) == (11, 2, True)


@pytest.mark.parametrize("count", [-1, True, 2.5, "9"])
async def test_what_is_no_count_is_estimated(count: Any) -> None:
    usage = {"input_tokens": count, "output_tokens": count}
    llm = MockLLM(sequential_responses=[ModelTurn("x" * 8, usage=usage)], tool_calling="native")
    reply = await replied(port(llm), asked(), None)
    assert (reply.output_tokens, reply.estimated) == (2, True)


async def test_prices_make_a_cost() -> None:
    usage = {"input_tokens": 1_000_000, "output_tokens": 500_000}
    llm = MockLLM(sequential_responses=[ModelTurn("x", usage=usage)], tool_calling="native")
    llm.configure_metrics(input_cost_per_million=2.0, output_cost_per_million=8.0, currency="EUR")
    reply = await replied(port(llm), asked(), None)
    assert reply.metrics["cost"] == {
        "input_cost": 2.0,
        "output_cost": 4.0,
        "total_cost": 6.0,
        "currency": "EUR",
        "estimated": False,
    }


async def test_one_price_makes_half_a_cost() -> None:
    llm = MockLLM(default_response="x").configure_metrics(output_cost_per_million=1_000_000)
    cost = (await replied(port(llm), asked(), None)).metrics["cost"]
    assert (cost["input_cost"], cost["output_cost"], cost["total_cost"]) == (None, 1.0, 1.0)


async def test_disabled_metrics_have_no_cost() -> None:
    llm = MockLLM().configure_metrics(input_cost_per_million=2.0, enabled=False)
    assert (await replied(port(llm), asked(), None)).metrics == {}


def test_the_models_limits_and_names_pass_through() -> None:
    llm = MockLLM("m")
    llm.max_tool_corrections, llm.max_parse_failures = 4, 5
    bound = port(llm)
    assert (bound.provider, bound.model, bound.context_window) == ("mock", "m", None)
    assert (bound.max_tool_corrections, bound.max_parse_failures) == (4, 5)


@pytest.mark.parametrize("method", ["turn", "begin_turn"])
async def test_a_model_that_gives_no_turn_is_named(method: str) -> None:
    async def nothing(*args: Any, **options: Any) -> None:
        return None

    llm = MockLLM()
    setattr(llm, method, nothing if method == "turn" else lambda *args, **options: None)
    with pytest.raises(TypeError, match=f"MockLLM.{method} gave a NoneType; it must give a ModelTurn"):
        await replied(port(llm), asked(), None)
