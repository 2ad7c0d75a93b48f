"""The tool that asks a person."""

from __future__ import annotations

import asyncio
import json
from functools import partial
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from protolink.drive.ports import AnswerTimedOut, InvalidArguments
from protolink.runtime import RunAction, RunContext, UserInputRequest
from protolink.tools import ask_user_tool


async def answer_csv(request: UserInputRequest) -> str | None:
    return "CSV"


def request() -> UserInputRequest:
    return UserInputRequest("input_1", "Which?", ("CSV", "JSON"), "run_1", "task_1", "action_1")


@pytest.mark.claim("INT-024")
def test_ask_user_tool_comes_from_the_tools_package() -> None:
    tool = ask_user_tool()
    assert (tool.name, tool.capabilities, tool.asks_user) == ("ask_user", ("user.interact",), True)
    assert (tool.read_only, tool.idempotent, tool.probe) == (False, False, None)
    assert (tool.timeout_seconds, tool.max_answer_chars) == (300.0, 16384)
    assert tool.input_schema["title"] == "ask_userInput"
    assert tool.input_schema["required"] == ["question"]
    Draft202012Validator.check_schema(tool.input_schema)


def test_result_schema_is_the_documented_record() -> None:
    check = Draft202012Validator(ask_user_tool().output_schema)
    assert check.is_valid({"request_id": "r", "status": "declined", "answer": None})
    assert not check.is_valid({"request_id": "r", "status": "asked", "answer": None})
    assert not check.is_valid({"status": "answered", "answer": "a"})


def test_preparation_describes_the_question() -> None:
    action = ask_user_tool().prepare({"question": "Which?"}, RunContext())
    assert (action.kind, action.name, action.capabilities) == ("tool.call", "ask_user", {"user.interact"})
    assert action.payload == {"arguments": {"question": "Which?", "options": None}}


@pytest.mark.parametrize(
    "arguments",
    [
        {"question": "q" * 8000},
        {"question": " q "},
        {"question": "q", "options": []},
        {"question": "q", "options": [str(n) for n in range(10)]},
        {"question": "q", "options": ["o" * 500]},
    ],
)
def test_question_within_its_bounds_is_accepted(arguments: dict[str, Any]) -> None:
    tool = ask_user_tool()
    assert tool.prepare(arguments, RunContext()).payload["arguments"]["question"] == arguments["question"]
    assert Draft202012Validator(tool.input_schema).is_valid(arguments)


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"question": ""},
        {"question": " \n"},
        {"question": "q" * 8001},
        {"question": 5},
        {"question": "q", "options": "CSV"},
        {"question": "q", "options": [str(n) for n in range(11)]},
        {"question": "q", "options": ["o" * 501]},
        {"question": "q", "options": ["a", " "]},
        {"question": "q", "options": ["a", "a"]},
        {"question": "q", "extra": 1},
    ],
)
def test_question_outside_its_bounds_is_refused(arguments: dict[str, Any]) -> None:
    tool = ask_user_tool()
    with pytest.raises(InvalidArguments):
        tool.prepare(arguments, RunContext())
    assert not Draft202012Validator(tool.input_schema).is_valid(arguments)


def test_request_names_everything_that_an_answer_belongs_to() -> None:
    tool = ask_user_tool(max_answer_chars=9)
    action = tool.prepare({"question": "Which?", "options": ["CSV", "JSON"]}, RunContext())
    found = tool.question(action, "input_1", "task_1", "run_1")
    assert found == UserInputRequest("input_1", "Which?", ("CSV", "JSON"), "run_1", "task_1", action.action_id)
    body = tool.body(found)
    assert json.loads(json.dumps(body)) == {
        "request_id": "input_1",
        "question": "Which?",
        "options": ["CSV", "JSON"],
        "run_id": "run_1",
        "task_id": "task_1",
        "action_id": action.action_id,
        "max_answer_chars": 9,
    }
    assert UserInputRequest.from_dict(body) == found


def test_question_without_options_has_none() -> None:
    tool = ask_user_tool()
    action = tool.prepare({"question": "Which?"}, RunContext())
    assert tool.question(action, "i", "t", "r").options == ()


def test_forged_question_is_refused() -> None:
    with pytest.raises(InvalidArguments):
        ask_user_tool().question(RunAction("tool.call", "ask_user", {"arguments": {"question": " "}}), "i", "t", "r")


@pytest.mark.parametrize("answer", ["CSV", "x" * 10, " padded ", "something else", None])
def test_answer_is_accepted_as_it_is(answer: str | None) -> None:
    assert ask_user_tool(max_answer_chars=16).accept(answer) == answer


@pytest.mark.parametrize("answer", ["", "  \n", "x" * 17, 5, True, ["CSV"], b"CSV"])
def test_blank_oversized_or_foreign_answer_is_a_value_error(answer: Any) -> None:
    with pytest.raises(ValueError, match="an answer m"):
        ask_user_tool(max_answer_chars=16).accept(answer)


def test_refusal_of_an_answer_does_not_repeat_it() -> None:
    with pytest.raises(ValueError) as caught:
        ask_user_tool(max_answer_chars=3).accept("hunter2")
    assert "hunter2" not in str(caught.value)


async def test_nobody_connected_is_told_apart_from_no_answer() -> None:
    async def decline(request: UserInputRequest) -> None:
        return None

    assert ask_user_tool().ask(request()) is None
    asked = ask_user_tool(decline).ask(request())
    assert asked is not None
    assert await asked is None


async def test_handler_gets_the_request_and_its_answer_is_checked() -> None:
    seen: list[UserInputRequest] = []

    async def handler(request: UserInputRequest) -> Any:
        seen.append(request)
        return " "

    asked = ask_user_tool(handler).ask(request())
    assert asked is not None
    with pytest.raises(ValueError, match="must not be blank"):
        await asked
    assert seen == [request()]


@pytest.mark.parametrize("error", [OSError("gone"), TimeoutError("mine")])
async def test_exception_of_the_handler_propagates(error: Exception) -> None:
    async def handler(request: UserInputRequest) -> str:
        raise error

    asked = ask_user_tool(handler).ask(request())
    assert asked is not None
    with pytest.raises(type(error)) as caught:
        await asked
    assert caught.value is error


async def test_handler_that_does_not_answer_in_time_is_stopped() -> None:
    stopped: list[bool] = []

    async def handler(request: UserInputRequest) -> str:
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            stopped.append(True)
        return "never"

    asked = ask_user_tool(handler, timeout_seconds=1e-9).ask(request())
    assert asked is not None
    with pytest.raises(AnswerTimedOut):
        await asked
    assert stopped == [True]


async def test_async_handlers_of_every_shape_are_accepted() -> None:
    class Person:
        async def __call__(self, request: UserInputRequest) -> str:
            return "object"

        async def method(self, request: UserInputRequest) -> str:
            return "method"

    handlers = [answer_csv, Person(), Person().method, partial(answer_csv)]
    found = [await asked for handler in handlers if (asked := ask_user_tool(handler).ask(request())) is not None]
    assert found == ["CSV", "object", "method", "CSV"]


@pytest.mark.parametrize("handler", [lambda request: "CSV", "person", 5])
def test_handler_that_is_not_async_is_a_type_error(handler: Any) -> None:
    with pytest.raises(TypeError, match="async function"):
        ask_user_tool(handler)


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"timeout_seconds": 0}, ValueError),
        ({"timeout_seconds": -1}, ValueError),
        ({"timeout_seconds": float("inf")}, ValueError),
        ({"timeout_seconds": float("nan")}, ValueError),
        ({"timeout_seconds": "5"}, TypeError),
        ({"timeout_seconds": True}, TypeError),
        ({"max_answer_chars": 0}, ValueError),
        ({"max_answer_chars": 1.5}, TypeError),
        ({"max_answer_chars": True}, TypeError),
    ],
)
def test_limit_that_makes_no_sense_is_refused(options: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        ask_user_tool(**options)


async def test_direct_call_is_refused() -> None:
    with pytest.raises(RuntimeError, match="through an agent"):
        await ask_user_tool(answer_csv)(question="Which?")
