from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protolink.models import ConversationHistory, HistoryMessage, estimate_tokens

History = ConversationHistory
short = st.text(max_size=6)
steps = st.lists(
    st.one_of(
        st.tuples(st.sampled_from(["add_user", "add_assistant", "add_system", "set_system"]), short),
        st.tuples(st.just("truncate"), st.integers(0, 4)),
        st.tuples(st.just("reset_to_system")),
        st.tuples(st.sampled_from(["fork", "with_system", "switch"])),
    ),
    max_size=25,
)


def shown(history: History) -> list[tuple[str, object]]:
    return [(message.role, message.content) for message in history]


def check_bookkeeping(history: History) -> None:
    """What is kept while adding equals what a full scan finds."""
    rows = shown(history)
    assert len(history) == len(rows)
    assert history.tokens == sum(estimate_tokens(text) for role, text in rows if role != "system")
    assert history.system_tokens == sum(estimate_tokens(text) for role, text in rows if role == "system")
    for role in ("user", "assistant", "system", "tool"):
        found = history.last(role)
        assert (found and found.content) == next((text for name, text in reversed(rows) if name == role), None)
    for _, text in rows:
        places = [index for index, row in enumerate(rows) if row == ("user", text)]
        assert history.newest_user(text) == (places[-1] if places else None)


@given(steps)
def test_bookkeeping_agrees_with_a_scan(script: list[tuple]) -> None:
    """Two histories that may share messages, each against a plain list of its own."""
    pair: list[tuple[History, list]] = [(History("start"), [("system", "start")]), (History(), [])]
    for name, *arguments in script:
        history, rows = pair[0]
        if name == "switch":
            pair.reverse()
        elif name == "fork":
            pair[1] = (history.copy(), list(rows))
        elif name == "with_system":
            rest = rows[1:] if history.system_prompt is not None else rows
            pair[1] = (history.with_system("other"), [("system", "other"), *rest])
        else:
            before = shown(pair[1][0])
            lead = rows[:1] if history.system_prompt is not None else []
            getattr(history, name)(*arguments)
            assert shown(pair[1][0]) == before
            pair[0] = (history, _expected(name, arguments, lead, rows[len(lead) :]))
        for each, expected in pair:
            assert shown(each) == expected
            check_bookkeeping(each)


def _expected(name: str, arguments: list, lead: list, rest: list) -> list:
    if name == "set_system":
        return ([("system", arguments[0])] if arguments[0] else []) + rest
    if name == "reset_to_system":
        return lead
    if name == "truncate":
        return lead + rest[max(0, len(rest) - arguments[0]) :]
    return [*lead, *rest, (name.removeprefix("add_"), arguments[0])]


def test_messages_are_short_dicts() -> None:
    history = History("sys").add_user("q", mood="calm").add_raw({"role": "user", "content": "r", "name": "bob"})
    assert history.messages == [
        {"role": "system", "content": "sys"},
        {"role": "user", "content": "q"},
        {"role": "user", "content": "r", "name": "bob"},
    ]
    assert history.messages_raw()[1].metadata == {"mood": "calm"}


def test_tool_turn_is_kept_whole() -> None:
    calls = [{"id": "c", "tool": "look", "args": {}}]
    history = History().add_assistant("", tool_calls=calls, step=1).add_tool("seen", "look", tool_call_id="c")
    said, answer = history.messages_raw()
    assert (said.tool_calls, said.metadata) == (calls, {"step": 1})
    assert (answer.role, answer.content, answer.tool_name, answer.tool_call_id) == ("tool", "seen", "look", "c")


def test_list_form_survives_reading() -> None:
    history = History("sys").add_user({"a": [1]}).add_tool("x", "t", tool_call_id="c").add_system("note")
    written = history.to_list()
    assert all(record["id"] and record["created_at"] for record in written)
    assert History.from_list(written).to_list() == written == history.to_list()


def test_ids_are_made_only_when_written() -> None:
    history = History().add_user("q")
    assert history.messages_raw()[0].id is None
    history.to_list()
    assert history.messages_raw()[0].id is not None


def test_writers_never_show_in_copies() -> None:
    def empty(history: History) -> None:
        history.replace([])

    def add(history: History) -> None:
        history.add_user("more")

    def cut(history: History) -> None:
        history.truncate(1)

    writers: list[Callable[[History], None]] = [empty, add, cut, lambda each: each.reset_to_system() and None]
    for write in writers:
        for writes_first in (True, False):
            history = History("sys").add_user("a").add_user("b")
            twin = history.with_system("other")
            write(history if writes_first else twin)
            kept = twin if writes_first else history
            assert [text for _, text in shown(kept)[1:]] == ["a", "b"]


def test_with_system_shares_the_messages() -> None:
    history = History("sys").add_user("a")
    twin = history.with_system("other")
    assert twin._items is history._items
    assert (twin.system_prompt, history.system_prompt) == ("other", "sys")
    history.add_user("b")
    assert twin._items is history._items
    assert len(twin) == 2


def test_replace_takes_dicts_and_messages() -> None:
    history = History("old").add_user("gone")
    history.replace([{"role": "system", "content": "new"}, HistoryMessage("user", "x"), {"role": "system"}])
    assert shown(history) == [("system", "new"), ("user", "x"), ("system", "")]
    assert history.system_prompt == "new"


@pytest.mark.parametrize("bad", [[{"content": "x"}], [3], [{"role": "user", "content": "a"}, {"role": ""}]])
def test_refused_replacement_changes_nothing(bad: list) -> None:
    history = History("sys").add_user("kept")
    with pytest.raises(ValueError, match="history message"):
        history.replace(bad)
    assert shown(history) == [("system", "sys"), ("user", "kept")]


def test_content_without_json_form_changes_nothing() -> None:
    history = History()
    with pytest.raises(TypeError):
        history.add_user(object())
    assert (len(history), history.last("user"), history.tokens) == (0, None, 0)
    with pytest.raises(TypeError):
        history.add_system(object())
    assert history.system_tokens == 0
    history.add_user("kept")
    with pytest.raises(TypeError):
        history.replace([{"role": "system", "content": "s"}, HistoryMessage("user", object())])
    assert shown(history) == [("user", "kept")]


@pytest.mark.parametrize("count", [-1, True, 1.5])
def test_truncate_wants_a_count(count: object) -> None:
    with pytest.raises(ValueError, match="truncate"):
        History().truncate(count)  # type: ignore[arg-type]


def test_truncate_keeps_a_leading_note() -> None:
    history = History().add_user("a").add_system("note").add_user("b").truncate(2)
    assert shown(history) == [("system", "note"), ("user", "b")]


def test_copies_share_the_prompt_that_is_given_as_a_message() -> None:
    prompt = HistoryMessage("system", "one for all")
    history = History("sys").add_user("a")
    twins = [history.with_system(prompt), history.with_system(prompt)]
    assert [shown(twin) for twin in twins] == [[("system", "one for all"), ("user", "a")]] * 2
    assert twins[0].messages_raw()[0] is twins[1].messages_raw()[0] is prompt
    assert history.system_prompt == "sys"
