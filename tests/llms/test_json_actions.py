from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protolink.llms import Call, ModelTurn
from protolink.llms.json_actions import ActionParseError, action_turn, parse_action, protocol_prompt
from protolink.models.json import dumps, is_plain

FINAL = '{"type":"final","content":"done"}'
TOOL = '{"type":"tool_call","tool":"read","args":{"path":"a"}}'
INFER = {"type": "agent_call", "agent": "writer", "action": "infer", "prompt": "write"}
PEER_TOOL = {"type": "agent_call", "agent": "writer", "action": "tool_call", "tool": "read", "args": {"n": 1}}


def refusal(text: str) -> str:
    with pytest.raises(ActionParseError) as caught:
        parse_action(text)
    assert caught.value.raw == text
    return str(caught.value)


def without(action: dict[str, Any], key: str) -> str:
    return dumps({name: item for name, item in action.items() if name != key})


# ------------------------------------------------------------------------------------------------ the actions


def test_final_is_text_without_calls() -> None:
    assert parse_action(FINAL) == ModelTurn("done", raw=FINAL)


def test_final_object_becomes_its_json_text() -> None:
    assert json.loads(parse_action('{"type":"final","content":{"answer":[1,2]}}').text) == {"answer": [1, 2]}


@pytest.mark.parametrize("content", ['""', '"  "', "null", "[1]", "3", "true"])
def test_final_without_text_is_refused(content: str) -> None:
    assert "'content'" in refusal(f'{{"type":"final","content":{content}}}')


def test_final_without_content_is_refused() -> None:
    assert "'content'" in refusal('{"type":"final"}')


def test_tool_call_carries_name_and_args() -> None:
    assert parse_action(TOOL) == ModelTurn("", (Call("", "read", {"path": "a"}),), raw=TOOL)


def test_tool_call_args_default_to_none_given() -> None:
    assert parse_action('{"type":"tool_call","tool":"now"}').calls == (Call("", "now", {}),)


@pytest.mark.parametrize("args", ["[]", '"x"', "null", "1"])
def test_tool_call_args_must_be_an_object(args: str) -> None:
    assert "'args'" in refusal(f'{{"type":"tool_call","tool":"now","args":{args}}}')


@pytest.mark.parametrize("tool", ['""', "null", "7", '" "'])
def test_tool_call_needs_a_name(tool: str) -> None:
    assert "'tool'" in refusal(f'{{"type":"tool_call","tool":{tool}}}')


def test_agent_infer_is_a_delegation() -> None:
    expected = Call("", "agent_call", {"agent": "writer", "action": "infer", "prompt": "write"})
    assert parse_action(dumps(INFER)).calls == (expected,)


def test_agent_tool_call_is_a_delegation() -> None:
    expected = {"agent": "writer", "action": "tool_call", "tool": "read", "args": {"n": 1}}
    assert parse_action(dumps(PEER_TOOL)).calls == (Call("", "agent_call", expected),)


def test_agent_tool_call_args_default_to_none_given() -> None:
    assert parse_action(without(PEER_TOOL, "args")).calls[0].args["args"] == {}


@pytest.mark.parametrize(
    ("action", "key"),
    [(INFER, "agent"), (INFER, "action"), (INFER, "prompt"), (PEER_TOOL, "agent"), (PEER_TOOL, "tool")],
)
def test_agent_call_without_a_required_key_is_refused(action: dict[str, Any], key: str) -> None:
    assert f"'{key}'" in refusal(without(action, key))


@pytest.mark.parametrize(
    "action",
    [
        {"type": "final", "content": "x", "args": {}},
        {"type": "tool_call", "tool": "x", "content": "y"},
        {**INFER, "args": {}},
        {**INFER, "tool": "read"},
        {**PEER_TOOL, "prompt": "x"},
        {"type": "final", "content": "x", "Thought": "y"},
    ],
)
def test_keys_beyond_the_action_are_refused(action: dict[str, Any]) -> None:
    assert "takes no" in refusal(dumps(action))


@pytest.mark.parametrize("action", [{"type": "tool_call", "tool": "now"}, INFER, PEER_TOOL])
def test_thought_stands_beside_the_call(action: dict[str, Any]) -> None:
    assert parse_action(dumps({**action, "thought": "because"})).text == "because"


def test_thought_beside_final_is_not_the_answer() -> None:
    assert parse_action('{"type":"final","content":"yes","thought":"because"}').text == "yes"


def test_thought_must_be_text() -> None:
    assert "'thought'" in refusal('{"type":"final","content":"yes","thought":{}}')


@pytest.mark.parametrize("kind", ['"finish"', "null", "[]", "{}", "1"])
def test_unknown_type_is_refused_and_the_known_are_named(kind: str) -> None:
    assert "final, tool_call, agent_call" in refusal(f'{{"type":{kind},"content":"x"}}')


def test_object_without_type_is_refused() -> None:
    assert "'type'" in refusal('{"content":"x"}')


# ------------------------------------------------------------------------------------------------ the text around it


@pytest.mark.parametrize(
    "text",
    [
        f"```json\n{TOOL}\n```",
        f"```\n{TOOL}\n```",
        f"I will read it: {TOOL}",
        f'{TOOL}\n\nThat reads the file, as you said "read it".',
        f"First {{think}}, then {TOOL} and {{wait}}.",
        f"\n  {TOOL}\t",
    ],
)
def test_fence_or_prose_around_one_object_is_tolerated(text: str) -> None:
    turn = parse_action(text)
    assert turn.calls == (Call("", "read", {"path": "a"}),)
    assert turn.raw == text


def test_braces_and_quotes_inside_text_end_nothing() -> None:
    text = 'Here: {"type":"final","content":"a } and \\" {\\"type\\":\\"final\\"} b"} ok'
    assert parse_action(text).text == 'a } and " {"type":"final"} b'


@pytest.mark.parametrize("between", ["", "\n", " and then ", "\n```\n```json\n"])
def test_two_objects_are_refused(between: str) -> None:
    assert "2 JSON objects" in refusal(f"{TOOL}{between}{FINAL}")


@pytest.mark.parametrize(
    "text", [f"[{TOOL}]", f"[{TOOL},{FINAL}]", "[]", f"Here: [{TOOL}]", f"```json\n[\n{TOOL}\n]\n```"]
)
def test_arrays_are_refused(text: str) -> None:
    assert refusal(text)


@pytest.mark.parametrize("text", ["", "  \n", "The answer is 42.", '"final"', "42", "null", "true", "{}", "{think}"])
def test_what_is_no_object_is_refused(text: str) -> None:
    assert refusal(text)


@pytest.mark.parametrize(
    "text",
    [
        TOOL[:-1],
        f'{{"type":"tool_call","tool":"write","args":{TOOL}',
        f'{{"note": oops, "inner": {TOOL}}}',
        f'{{"open {TOOL}',
        TOOL.replace('"', "'"),
    ],
)
def test_an_action_inside_something_broken_is_not_taken(text: str) -> None:
    assert refusal(text)


@pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity", "1e999", "-1e999"])
def test_numbers_that_json_has_not_are_refused(number: str) -> None:
    assert refusal(f'{{"type":"tool_call","tool":"pay","args":{{"n":[{number}]}}}}')
    assert refusal(f'{{"type":"final","content":{{"n":{number}}}}}')


@pytest.mark.parametrize("depth", [300, 5_000, 100_000])
def test_huge_nesting_is_refused(depth: int) -> None:
    nested = "[" * depth + "]" * depth
    assert refusal(f'{{"type":"tool_call","tool":"x","args":{{"a":{nested}}}}}')
    assert refusal("prose " + '{"a":' * depth + "1" + "}" * depth)


@pytest.mark.parametrize(
    "text",
    ['{"type":"final","content":"a","content":"b"}', '{"type":"tool_call","tool":"pay","args":{"to":"a","to":"b"}}'],
)
def test_a_key_that_stands_twice_is_refused(text: str) -> None:
    assert "twice" in refusal(text)


# ------------------------------------------------------------------------------------------------ any text at all

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
action_like = st.fixed_dictionaries(
    {},
    optional={
        "type": st.sampled_from(["final", "tool_call", "agent_call", "x"]) | json_values,
        "content": json_values,
        "tool": json_values,
        "args": json_values,
        "agent": json_values,
        "action": st.sampled_from(["infer", "tool_call"]) | json_values,
        "prompt": json_values,
        "thought": json_values,
    },
)
fragments = st.lists(
    st.sampled_from(
        [*'{}[]":,\\', '"type"', '"final"', '"content"', "1e999", "NaN", "\\u", "\ud800", "```json\n", TOOL]
    ),
    max_size=12,
).map("".join)


def outcome(text: str) -> ModelTurn | ActionParseError:
    try:
        return parse_action(text)
    except ActionParseError as error:
        return error


@given(st.text() | fragments | action_like.map(json.dumps) | json_values.map(json.dumps))
def test_any_text_is_an_action_or_an_action_parse_error(text: str) -> None:
    found = outcome(text)
    assert found.raw == text
    if isinstance(found, ActionParseError):
        assert str(found)
    else:
        assert found.calls or found.text.strip()
        assert all(is_plain(call.args) for call in found.calls)


@given(action_like.filter(is_plain))
def test_an_object_means_the_same_as_its_text(action: dict[str, Any]) -> None:
    found = outcome(json.dumps(action))
    if isinstance(found, ActionParseError):
        with pytest.raises(ActionParseError):
            action_turn(action)
    else:
        assert action_turn(action, found.raw) == found


# ------------------------------------------------------------------------------------------------ the prompt


def test_prompt_offers_only_what_is_possible() -> None:
    bare = protocol_prompt(tools=False, peers=False)
    full = protocol_prompt(tools=True, peers=True)
    assert '"final"' in bare
    assert "tool_call" not in bare
    assert "agent_call" not in bare
    assert all(f'"{kind}"' in full for kind in ("final", "tool_call", "agent_call", "infer"))


def test_every_action_shown_in_the_prompt_is_readable() -> None:
    shown = [line for line in protocol_prompt(tools=True, peers=True).splitlines() if line.startswith("{")]
    assert len(shown) == 4
    assert [len(parse_action(line).calls) for line in shown] == [0, 1, 1, 1]
