"""How tools come to an agent: at construction, by call, and by decorator."""

from __future__ import annotations

from typing import Any

import pytest
from agent_support import agent, call

from protolink import ActionDeniedError, Agent, CapabilityPolicy, Part, PolicyDecision, RunAction, RunContext, Tool
from protolink.models import Artifact


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def test_decorator_registers_the_function_and_returns_it_unchanged() -> None:
    found = agent()

    def one() -> int:
        """The number one."""
        return 1

    assert found.tool(one) is one
    assert found.tools["one"].description == "The number one."


def test_decorator_takes_a_name() -> None:
    found = agent()

    @found.tool("uno")
    def one() -> int:
        return 1

    @found.tool(name="due")
    def two() -> int:
        return 2

    assert list(found.tools) == ["uno", "due"]
    assert one() == 1
    assert two() == 2


def test_decorator_with_empty_parentheses_uses_the_function_s_name() -> None:
    found = agent()

    @found.tool()
    def one() -> int:
        return 1

    assert list(found.tools) == ["one"]


def test_name_given_twice_is_refused() -> None:
    with pytest.raises(ValueError, match="twice"):
        agent().tool("one", name="two")


@pytest.mark.claim("APR-006")
def test_decorator_options_reach_the_tool() -> None:
    found = agent()

    @found.tool(name="sum", description="Adds.", tags=["math"], examples=["sum(1, 2)"], capabilities=["math.add"])
    def add(a: int, b: int) -> int:
        return a + b

    tool = found.tools["sum"]
    assert (tool.description, tool.tags, tool.examples) == ("Adds.", ["math"], ["sum(1, 2)"])
    assert tool.capabilities == ("math.add",)
    assert set(tool.input_schema["properties"]) == {"a", "b"}


async def test_same_name_replaces_the_tool() -> None:
    found = agent(tools=[add])
    found.add_tool(Tool.from_callable(lambda: "new", name="add"))
    assert list(found.tools) == ["add"]
    assert await found.call_tool("add") == "new"


def test_add_tools_keeps_the_earlier_ones_when_a_later_one_is_bad() -> None:
    found = agent()
    with pytest.raises(TypeError):
        found.add_tools([add, 5])
    assert list(found.tools) == ["add"]


@pytest.mark.parametrize("bad", [None, 5, "add", {"name": "add"}])
def test_what_is_no_tool_is_a_type_error(bad: Any) -> None:
    with pytest.raises(TypeError):
        agent().add_tool(bad)


@pytest.mark.parametrize("name", ["", "   "])
def test_blank_name_is_a_value_error(name: str) -> None:
    found = agent()
    with pytest.raises(ValueError, match="name"):
        found.tool(name)(add)
    assert found.tools == {}


async def test_tool_added_during_a_run_is_there_for_the_next_one() -> None:
    found = agent(call("grow"), "grown", call("new"), "used")

    @found.tool
    def grow() -> None:
        found.add_tool(Tool.from_callable(lambda: "new", name="new"))

    assert await found.invoke("one") == "grown"
    assert await found.invoke("two") == "used"


def test_one_tool_may_serve_several_agents() -> None:
    tool = Tool.from_callable(add)
    first, second = Agent(name="a", tools=[tool]), Agent(name="b", tools=[tool], sync_execution="thread")
    assert first.tools["add"].sync_execution is None
    assert second.tools["add"].sync_execution == "thread"


@pytest.mark.claim("APR-007", "ACT-005")
async def test_action_builder_describes_without_doing() -> None:
    shown: list[RunAction] = []
    done: list[str] = []

    def handler(request: Any, context: RunContext) -> bool:
        shown.append(request.action)
        assert done == []
        return True

    def preview(arguments: dict[str, Any], context: RunContext) -> RunAction:
        artifact = Artifact(kind="preview").add_part(Part.json({"will": arguments["path"]}))
        return RunAction(kind="tool.call", name="write", payload={"arguments": arguments}).with_artifacts([artifact])

    found = agent(policy=CapabilityPolicy({"files.write": "ask"}), approval_handler=handler)

    @found.tool(capabilities=["files.write"], action_builder=preview)
    def write(path: str) -> str:
        done.append(path)
        return path

    assert await found.call_tool("write", path="a.txt") == "a.txt"
    [action] = shown
    assert action.artifacts[0].parts[0].content == {"will": "a.txt"}
    assert action.artifacts[0].action_id == action.action_id
    assert done == ["a.txt"]


@pytest.mark.claim("APR-009")
async def test_capabilities_of_the_tool_are_merged_into_what_the_builder_returns() -> None:
    found = agent(policy=CapabilityPolicy({"files.write": "deny"}))

    def preview(arguments: dict[str, Any], context: RunContext) -> RunAction:
        return RunAction(kind="tool.call", name="write", capabilities={"extra"})

    @found.tool(capabilities=["files.write"], action_builder=preview)
    def write() -> str:
        raise AssertionError("denied tools do not run")

    with pytest.raises(ActionDeniedError) as caught:
        await found.call_tool("write")
    assert caught.value.action.capabilities == {"files.write", "extra"}


@pytest.mark.claim("APR-008")
async def test_arguments_are_checked_again_right_before_execution() -> None:
    ran: list[Any] = []

    class Tampering:
        """Changes the arguments after they were checked for the first time."""

        async def evaluate(self, action: RunAction, context: RunContext) -> PolicyDecision:
            assert action.payload == {"arguments": {"n": 1}}
            action.payload["arguments"]["n"] = "not a number"
            return PolicyDecision("allow", "fine", "tampering")

    found = agent(policy=Tampering())

    @found.tool
    def count(n: int) -> None:
        ran.append(n)

    with pytest.raises(ValueError, match="n"):
        await found.call_tool("count", n="one")
    with pytest.raises(ValueError, match="n"):
        await found.call_tool("count", n=1)
    assert ran == []
