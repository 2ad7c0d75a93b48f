"""How stored messages are grouped into turns and made fewer."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protolink.state import ConversationLimits
from protolink.state.turns import bounded, compacted, dialogue, marked, newest, spoken, tokens, turns

NONE = ConversationLimits(None, None, None)


def turn(name: str, works: int = 0, size: int = 4) -> list[dict[str, Any]]:
    """A prompt, pairs of a call and its result, and an answer."""
    origin = {"agent": "a", "run_id": name, "turn": name}
    said = [marked({"role": "user", "content": f"{name}?".ljust(size)}, "prompt", **origin)]
    for index in range(works):
        calls = [{"id": f"{name}{index}", "name": "tool", "args": {}}]
        said.append(marked({"role": "assistant", "content": "", "tool_calls": calls}, "work", **origin))
        answer = {"role": "tool", "content": "r" * size, "tool_name": "tool", "tool_call_id": f"{name}{index}"}
        said.append(marked(answer, "work", **origin))
    return [*said, marked({"role": "assistant", "content": f"{name}!".ljust(size)}, "answer", **origin)]


def names(messages: list[dict[str, Any]]) -> list[str]:
    return [found[0]["metadata"]["turn"] for found in turns(messages)]


def test_turns_are_what_runs_added() -> None:
    first, second = turn("x", 2), turn("y")
    assert turns([*first, *second]) == [first, second]
    assert turns([]) == []


def test_messages_of_an_application_form_turns_at_each_user_message() -> None:
    said = [
        {"role": "assistant", "content": "hello"},
        {"role": "user", "content": "a"},
        {"role": "assistant", "content": "b"},
        {"role": "user", "content": "c"},
    ]
    assert turns([*said, *turn("x")]) == [said[:1], said[1:3], said[3:], turn("x")]


def test_two_prompts_of_one_run_are_one_turn() -> None:
    both = [*turn("x"), *turn("x")]
    assert turns(both) == [both]


def test_dialogue_leaves_out_calls_and_results() -> None:
    said = dialogue(turn("x", 3))
    assert [(item["role"], item["content"]) for item in said] == [("user", "x?  "), ("assistant", "x!  ")]


def test_stored_message_has_no_empty_fields_and_keeps_its_own_metadata() -> None:
    stored = marked({"role": "user", "content": "hi", "name": None, "metadata": {"own": 1}}, "prompt", agent="a")
    assert stored == {"role": "user", "content": "hi", "metadata": {"own": 1, "agent": "a", "part": "prompt"}}


def test_what_a_model_is_told_again_has_no_metadata_ids_and_times() -> None:
    stored = {"role": "user", "content": "hi", "metadata": {"agent": "a"}, "id": "m", "created_at": "then"}
    assert spoken([stored]) == [{"role": "user", "content": "hi"}]


def test_within_the_limits_nothing_is_dropped() -> None:
    said = [*turn("x", 2), *turn("y", 1)]
    assert bounded(said, NONE) == said
    assert bounded(said, ConversationLimits(len(said), tokens(said))) == said


def test_work_of_older_turns_goes_before_any_dialogue() -> None:
    said = [*turn("x", 2), *turn("y", 2), *turn("z", 2)]
    assert bounded(said, ConversationLimits(17, None)) == [*dialogue(turn("x", 2)), *turn("y", 2), *turn("z", 2)]
    assert bounded(said, ConversationLimits(10, None)) == [
        *dialogue(turn("x", 2)), *dialogue(turn("y", 2)), *turn("z", 2)
    ]  # fmt: skip


def test_then_the_oldest_turns_go_as_a_whole() -> None:
    said = [*turn("x"), *turn("y"), *turn("z", 1)]
    assert names(bounded(said, ConversationLimits(7, None))) == ["y", "z"]
    assert names(bounded(said, ConversationLimits(5, None))) == ["z"]


def test_newest_turn_stays_whatever_its_size() -> None:
    said = [*turn("x"), *turn("y", 5)]
    assert bounded(said, ConversationLimits(1, None)) == dialogue(turn("y", 5))
    assert bounded(said, ConversationLimits(None, 1)) == dialogue(turn("y", 5))


def test_tokens_of_calls_count() -> None:
    assert tokens(turn("x", 1)) > tokens(turn("x", 0)) + 1
    said = [*turn("x", 1, size=400), *turn("y")]
    assert bounded(said, ConversationLimits(None, tokens(said) - 1)) == [*dialogue(turn("x", 1, size=400)), *turn("y")]


@given(st.lists(st.integers(0, 4), max_size=8), st.integers(1, 30), st.integers(1, 200))
def test_bounds_hold_and_no_call_is_left_without_its_answer(works: list[int], most: int, largest: int) -> None:
    said = [item for index, count in enumerate(works) for item in turn(f"t{index}", count)]
    kept = bounded(said, ConversationLimits(most, largest))
    assert not works or names(kept)[-1] == f"t{len(works) - 1}"
    assert names(kept) == [f"t{index}" for index in range(len(works) - len(turns(kept)), len(works))]
    fits = len(kept) <= most and tokens(kept) <= largest
    assert fits or kept == dialogue(turn(f"t{len(works) - 1}", works[-1]))
    calls = [call["id"] for item in kept for call in item.get("tool_calls", [])]
    assert calls == [item["tool_call_id"] for item in kept if item["role"] == "tool"]
    assert bounded(kept, ConversationLimits(most, largest)) == kept


@pytest.mark.parametrize(
    ("keep_turns", "keep_work", "wanted"),
    [
        (None, 1, [2, 2, 6]),
        (None, 0, [2, 2, 2]),
        (None, 9, [6, 6, 6]),
        (2, 1, [2, 6]),
        (1, 0, [2]),
        (0, 1, []),
        (9, 2, [2, 6, 6]),
    ],
)
def test_compaction_keeps_that_many_turns_and_that_much_work(
    keep_turns: int | None, keep_work: int, wanted: list[int]
) -> None:
    said = [*turn("x", 2), *turn("y", 2), *turn("z", 2)]
    assert [len(found) for found in turns(compacted(said, keep_turns=keep_turns, keep_work=keep_work))] == wanted


@pytest.mark.parametrize(("most", "wanted"), [(0, []), (3, []), (4, ["z"]), (6, ["y", "z"]), (99, ["x", "y", "z"])])
def test_newest_messages_are_cut_between_turns(most: int, wanted: list[str]) -> None:
    assert names(newest([*turn("x", 4), *turn("y"), *turn("z", 1)], most)) == wanted
