from __future__ import annotations

from typing import Any

import pytest

from protolink import Agent, ConversationHistory
from protolink.llms import Call, ModelTurn
from protolink.testing import ScriptedModel


def call(item: str) -> dict[str, Any]:
    return {"type": "tool_call", "tool": "note", "args": {"item": item}}


def note(item: str) -> str:
    """Write it down."""
    return item


async def test_line_follows_conversation_not_calls() -> None:
    model = ScriptedModel([call("a"), "done"])
    opening = ConversationHistory().add_user("go")
    later = opening.copy().add_assistant("...").add_tool("a", "note")
    assert [(await model.turn(opening)).calls[0].args for _ in range(3)] == [{"item": "a"}] * 3
    assert (await model.turn(later)).text == "done"


@pytest.mark.parametrize("native", [False, True])
async def test_script_drives_an_agent(native: bool) -> None:
    model = ScriptedModel([call("a"), "done"], native=native)
    assert await Agent(name="a", llm=model, tools=[note]).invoke("go") == "done"


async def test_native_turn_has_several_calls() -> None:
    done: list[str] = []
    turn = ModelTurn("", (Call("1", "note", {"item": "a"}), Call("2", "note", {"item": "b"})))
    agent = Agent(name="a", llm=ScriptedModel([turn, "done"], native=True))
    agent.tool(name="note")(lambda item: done.append(item))
    assert (await agent.invoke("go"), done) == ("done", ["a", "b"])


async def test_script_is_chosen_by_words() -> None:
    agent = Agent(name="a", llm=ScriptedModel({"first": ["one"], "second": ["two"]}))
    assert [await agent.invoke("the second job"), await agent.invoke("the first job")] == ["two", "one"]


async def test_function_makes_a_line() -> None:
    async def line(history: ConversationHistory) -> str:
        return f"you said {history.last('user').content}"  # type: ignore[union-attr]

    assert await Agent(name="a", llm=ScriptedModel([line])).invoke("hello") == "you said hello"


async def test_exception_is_raised_each_time() -> None:
    model = ScriptedModel([ValueError("no")])
    for _ in range(2):
        with pytest.raises(ValueError, match="no"):
            await model.turn(ConversationHistory().add_user("go"))


@pytest.mark.parametrize("script", [[], {"other": ["a"]}])
async def test_end_of_script_is_an_error(script: Any) -> None:
    with pytest.raises(LookupError):
        await ScriptedModel(script).turn(ConversationHistory().add_user("go"))
