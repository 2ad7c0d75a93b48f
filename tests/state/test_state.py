"""What an agent may be told to remember, and the forms of operations on it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from protolink import (
    ConversationLimits,
    HistoryCompactionRequest,
    HistoryCompactionResult,
    State,
    StateOperationRequest,
    StateOperationResult,
    StoreState,
)


@pytest.mark.parametrize("wanted", [None, [], (), State()])
def test_nothing_is_remembered_unless_it_is_named(wanted: Any) -> None:
    assert State.of(wanted) == State(None)
    assert State.of(wanted).modules == ()


@pytest.mark.parametrize("wanted", [["conversation"], ("conversation",), {"conversation"}, {"conversation": None}])
def test_conversation_is_remembered_within_default_limits(wanted: Any) -> None:
    found = State.of(wanted)
    assert found == State(ConversationLimits(200, 32_000, 1_000))
    assert found.modules == ("conversation",)


def test_state_comes_back_from_json() -> None:
    state = State(ConversationLimits(10, None, 5))
    assert State.of(json.loads(json.dumps(state.to_dict()))) == state
    assert State.of(State().to_dict()) == State()


@pytest.mark.parametrize("name", ["memory", "", "Conversation", 5, None])
def test_unknown_module_is_a_value_error_that_names_it(name: Any) -> None:
    with pytest.raises(ValueError, match=r"no state module .*Modules: conversation"):
        State.of(["conversation", name])


@pytest.mark.parametrize(("name", "where"), [("task", "run_store"), ("tools", "Storage"), ("flow", "task")])
def test_modules_that_are_kept_elsewhere_say_where(name: str, where: str) -> None:
    with pytest.raises(ValueError, match=where):
        State.of([name])


@pytest.mark.parametrize("wanted", ["conversation", 5, True])
def test_other_types_are_a_type_error(wanted: Any) -> None:
    with pytest.raises(TypeError, match="state is a State or a list"):
        State.of(wanted)


@pytest.mark.parametrize("name", ["max_messages", "max_tokens", "max_sessions"])
@pytest.mark.parametrize("value", [0, -1, 1.5, True, "5"])
def test_limits_are_whole_numbers_above_zero(name: str, value: Any) -> None:
    with pytest.raises(ValueError, match=name):
        ConversationLimits(**{name: value})
    with pytest.raises(ValueError, match=name):
        State.of({"conversation": {name: value}})


@pytest.mark.parametrize("data", [5, [], {"max_days": 5}])
def test_malformed_limits_are_a_value_error(data: Any) -> None:
    with pytest.raises(ValueError, match="Conversation limits"):
        ConversationLimits.from_dict(data)


# ---------------------------------------------------------------------------------------------------- operations


@pytest.mark.parametrize(
    "request_",
    [
        StateOperationRequest(),
        StateOperationRequest("s", ("conversation",), True, 3, 0),
        HistoryCompactionRequest(),
        HistoryCompactionRequest(5, "s"),
        HistoryCompactionResult("s", 10, 4),
        HistoryCompactionResult(None, 0, 0),
        StateOperationResult("describe"),
        StateOperationResult(
            "reset",
            "s",
            (StoreState("conversation", True, True, 1, 2, True, False, {"s": []}, {"turns": 1}, "bad"),),
            ("conversation",),
            ("a",),
            ("b",),
            ("c",),
            {"agent": "x"},
        ),
    ],
    ids=repr,
)
def test_operations_come_back_from_json(request_: Any) -> None:
    assert type(request_).from_dict(json.loads(json.dumps(request_.to_dict()))) == request_


def test_result_has_the_documented_members() -> None:
    data = StateOperationResult("describe", stores=(StoreState("conversation"),)).to_dict()
    assert list(data) == ["operation", "session_id", "stores", "cleared", "compacted", "missing", "errors", "metadata"]
    assert set(data["stores"][0]) == {
        "name", "enabled", "exists", "item_count", "message_count", "cleared", "compacted", "data", "metadata", "error",
    }  # fmt: skip


def test_requests_have_defaults_for_what_is_missing() -> None:
    assert StateOperationRequest.from_dict({}) == StateOperationRequest(None, (), False, None, 1)
    assert HistoryCompactionRequest.from_dict({}) == HistoryCompactionRequest(20, None)
    assert HistoryCompactionResult("s", 10, 4).removed == 6


@pytest.mark.parametrize(
    ("cls", "data"),
    [
        (StateOperationRequest, {"session_id": " "}),
        (StateOperationRequest, {"session_id": 5}),
        (StateOperationRequest, {"modules": "conversation"}),
        (StateOperationRequest, {"modules": [5]}),
        (StateOperationRequest, {"include_data": 1}),
        (StateOperationRequest, {"keep_turns": -1}),
        (StateOperationRequest, {"keep_turns": True}),
        (StateOperationRequest, {"keep_work": None}),
        (StateOperationRequest, {"sessions": ["s"]}),
        (StateOperationRequest, ["s"]),
        (HistoryCompactionRequest, {"keep": -1}),
        (HistoryCompactionRequest, {"keep": None}),
        (HistoryCompactionRequest, {"session_id": ""}),
        (HistoryCompactionRequest, {"strategy": "x"}),
        (HistoryCompactionRequest, None),
        (StateOperationResult, {}),
        (StateOperationResult, {"operation": "reset", "stores": [{}]}),
        (StateOperationResult, {"operation": "reset", "cleared": "x"}),
        (StoreState, {"name": "x", "color": 1}),
    ],
)
def test_malformed_operations_are_a_value_error(cls: Any, data: Any) -> None:
    with pytest.raises(ValueError):
        cls.from_dict(data)
