"""Tools made of functions."""

from __future__ import annotations

import dataclasses
import inspect
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest

from protolink.drive.ports import InvalidArguments
from protolink.errors import ToolRejectedError
from protolink.models import Artifact, Part
from protolink.runtime import RunAction, RunContext
from protolink.tools import Tool, ToolExecution

ExecutionOf = Callable[..., ToolExecution]


def add(a: int, b: int = 2) -> int:
    """Add two numbers.

    Carefully.
    """
    return a + b


async def add_later(a: int, b: int = 2) -> int:
    return a + b


class Doubler:
    """Not what a model should read."""

    def __call__(self, n: int) -> int:
        return 2 * n

    def method(self, n: int) -> int:
        """Double by method."""
        return 2 * n


def prepared(tool: Tool, **arguments: Any) -> RunAction:
    made = tool.prepare(arguments, RunContext())
    assert isinstance(made, RunAction)
    return made


def test_fields_keep_the_documented_order_and_additions_come_last() -> None:
    names = [field.name for field in dataclasses.fields(Tool) if field.init]
    assert names == [
        "name", "description", "input_schema", "output_schema", "tags", "func", "args", "examples", "capabilities",
        "action_builder", "sync_execution", "read_only", "idempotent", "probe",
    ]  # fmt: skip


def test_from_callable_takes_name_and_description_from_the_function() -> None:
    tool = Tool.from_callable(add)
    assert (tool.name, tool.description) == ("add", "Add two numbers.\n\nCarefully.")
    assert (tool.tags, tool.capabilities, tool.read_only, tool.idempotent, tool.probe) == ([], (), False, False, None)
    assert tool.asks_user is False


def test_function_without_docstring_is_described_by_its_name() -> None:
    assert Tool.from_callable(add_later).description == "Call add_later."
    assert Tool.from_callable(add_later, name="sum").description == "Call sum."
    assert Tool.from_callable(Doubler()).description == "Call Doubler."
    assert Tool.from_callable(Doubler().method).description == "Double by method."
    assert Tool.from_callable(partial(add, b=1)).description == "Add two numbers.\n\nCarefully."


def test_from_callable_takes_every_declared_option() -> None:
    def probe(action: RunAction) -> None: ...

    tool = Tool.from_callable(
        add, name="sum", description="d", output_schema={"type": "number"}, tags=["math"], examples=[{"a": 1}],
        sync_execution="thread", read_only=True, idempotent=True, probe=probe,
    )  # fmt: skip
    assert (tool.name, tool.description, tool.output_schema, tool.tags, tool.examples) == (
        "sum", "d", {"type": "number"}, ["math"], [{"a": 1}],
    )  # fmt: skip
    assert (tool.sync_execution, tool.read_only, tool.idempotent, tool.probe) == ("thread", True, True, probe)
    assert tool.input_schema is not None
    assert tool.input_schema["title"] == "sumInput"


@pytest.mark.parametrize("func", [None, 5, "add"])
def test_what_is_no_function_is_a_type_error(func: Any) -> None:
    with pytest.raises(TypeError, match="a tool needs a function"):
        Tool.from_callable(func)


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"name": " "}, ValueError),
        ({"name": ""}, ValueError),
        ({"name": 5}, TypeError),
        ({"sync_execution": "process"}, ValueError),
        ({"capabilities": "files.read"}, TypeError),
        ({"capabilities": [" "]}, ValueError),
        ({"capabilities": [5]}, TypeError),
        ({"tags": "math"}, TypeError),
    ],
)
def test_bad_declarations_are_refused_at_once(options: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        Tool.from_callable(add, **options)


def test_generator_is_no_tool() -> None:
    def numbers() -> Any:
        yield 1

    with pytest.raises(TypeError, match="is a generator"):
        Tool.from_callable(numbers)


@pytest.mark.parametrize("func", [add, add_later])
async def test_awaiting_a_tool_validates_and_calls(func: Callable[..., Any]) -> None:
    tool = Tool.from_callable(func)
    assert await tool(a=3) == 5
    assert await tool(a=3.0, b=4) == 7
    with pytest.raises(ValueError, match=r"tool args\.a must be an integer, got str"):
        await tool(a="3")


async def test_parameter_may_have_any_name() -> None:
    def tool(self: int, arguments: int, context: int) -> int:
        return self + arguments + context

    assert await Tool.from_callable(tool)(self=1, arguments=2, context=3) == 6


def test_default_action_carries_the_validated_arguments() -> None:
    action = prepared(Tool.from_callable(add), a=1.0)
    assert (action.kind, action.name) == ("tool.call", "add")
    assert action.payload == {"arguments": {"a": 1, "b": 2}}
    assert action.description == "Add two numbers.\n\nCarefully."
    assert action.capabilities == frozenset()


@pytest.mark.claim("DUR-034")
def test_declared_capabilities_are_required_by_the_action() -> None:
    tool = Tool.from_callable(add, capabilities=["math.add", "math.add", "cpu.use"])
    assert tool.capabilities == ("math.add", "cpu.use")
    assert prepared(tool, a=1).capabilities == {"math.add", "cpu.use"}


def test_every_preparation_is_an_action_of_its_own() -> None:
    tool = Tool.from_callable(add)
    first, second = prepared(tool, a=1), prepared(tool, a=1)
    assert first.action_id != second.action_id
    assert first.contract == second.contract


async def test_prepare_action_awaits_whatever_prepare_gives() -> None:
    async def builder(arguments: dict[str, Any], context: RunContext) -> RunAction:
        return RunAction(kind="math", name="later")

    assert (await Tool.from_callable(add).prepare_action({"a": 1}, RunContext())).name == "add"
    assert (
        await Tool.from_callable(add, action_builder=builder).prepare_action({"a": 1}, RunContext())
    ).name == "later"


@pytest.mark.claim("APR-007")
@pytest.mark.parametrize("mode", ["sync", "async"])
async def test_action_builder_returns_the_action_with_its_previews(mode: str) -> None:
    seen: list[Any] = []
    preview = Artifact(kind="preview", name="sum", parts=[Part.json({"a": 1})])

    def build(arguments: dict[str, Any], context: RunContext) -> RunAction:
        seen.append((arguments, context.run_id))
        return RunAction(kind="math.add", name="sum", payload={"note": "n"}).with_artifacts([preview])

    async def build_later(arguments: dict[str, Any], context: RunContext) -> RunAction:
        return build(arguments, context)

    tool = Tool.from_callable(add, action_builder=build if mode == "sync" else build_later)
    made = tool.prepare({"a": 1.0}, RunContext(run_id="run"))
    assert isinstance(made, RunAction) == (mode == "sync")
    action = made if isinstance(made, RunAction) else await made
    assert seen == [({"a": 1, "b": 2}, "run")]
    assert (action.kind, action.name) == ("math.add", "sum")
    assert [artifact.name for artifact in action.artifacts] == ["sum"]
    assert action.payload == {"note": "n", "arguments": {"a": 1, "b": 2}}


def test_arguments_that_the_builder_wrote_are_kept() -> None:
    def build(arguments: dict[str, Any], context: RunContext) -> RunAction:
        return RunAction(kind="tool.call", name="add", payload={"arguments": {**arguments, "b": 40}})

    assert prepared(Tool.from_callable(add, action_builder=build), a=2).payload == {"arguments": {"a": 2, "b": 40}}


def test_builder_that_changes_its_arguments_does_not_change_the_record() -> None:
    def build(arguments: dict[str, Any], context: RunContext) -> RunAction:
        arguments.clear()
        return RunAction(kind="tool.call", name="add")

    assert prepared(Tool.from_callable(add, action_builder=build), a=2).payload == {"arguments": {"a": 2, "b": 2}}


@pytest.mark.claim("APR-009")
@pytest.mark.parametrize("mode", ["sync", "async"])
async def test_capabilities_of_the_tool_are_always_merged_into_a_built_action(mode: str) -> None:
    def build(arguments: dict[str, Any], context: RunContext) -> RunAction:
        return RunAction(kind="tool.call", name="add", capabilities=frozenset({"extra"}))

    async def build_later(arguments: dict[str, Any], context: RunContext) -> RunAction:
        return build(arguments, context)

    tool = Tool.from_callable(add, capabilities=["math.add"], action_builder=build if mode == "sync" else build_later)
    action = await tool.prepare_action({"a": 1}, RunContext())
    assert action.capabilities == {"math.add", "extra"}


@pytest.mark.parametrize("made", [None, {"kind": "tool.call"}, "action"])
async def test_builder_that_returns_no_action_is_a_type_error(made: Any) -> None:
    async def later(arguments: dict[str, Any], context: RunContext) -> Any:
        return made

    for builder in (lambda arguments, context: made, later):
        with pytest.raises(TypeError, match="action_builder must return a RunAction"):
            await Tool.from_callable(add, action_builder=builder).prepare_action({"a": 1}, RunContext())


def test_builder_whose_arguments_would_be_refused_later_is_a_type_error_now() -> None:
    tool = Tool.from_callable(
        add, action_builder=lambda arguments, context: RunAction("tool.call", "add", {"arguments": {"a": "one"}})
    )
    with pytest.raises(TypeError, match="arguments do not fit the tool"):
        prepared(tool, a=1)


def test_rejection_by_the_builder_passes_through() -> None:
    def build(arguments: dict[str, Any], context: RunContext) -> RunAction:
        raise ToolRejectedError("no such number", code="unknown_number")

    with pytest.raises(ToolRejectedError, match="no such number"):
        prepared(Tool.from_callable(add, action_builder=build), a=1)


@pytest.mark.claim("APR-008")
def test_arguments_are_validated_before_preparation_and_again_before_execution(execution_of: ExecutionOf) -> None:
    calls: list[Any] = []

    def build(arguments: dict[str, Any], context: RunContext) -> RunAction:
        calls.append("built")
        return RunAction(kind="tool.call", name="add")

    def run(a: int) -> None:
        calls.append("ran")

    tool = Tool.from_callable(run, action_builder=build)
    with pytest.raises(InvalidArguments):
        tool.prepare({"a": "1"}, RunContext())
    assert calls == []
    forged = prepared(tool, a=1).with_payload({"arguments": {"a": "1"}})
    with pytest.raises(InvalidArguments):
        tool.invoke(execution_of(forged))
    with pytest.raises(InvalidArguments):
        tool.invoke(execution_of(forged.with_payload({})))
    assert calls == ["built"]


def test_function_needs_only_its_action_and_checks_it_too() -> None:
    tool = Tool.from_callable(lambda a: [a], name="wrap")
    action = prepared(tool, a=1)
    assert tool.alone is not None
    assert tool.alone(action) == [1]
    with pytest.raises(InvalidArguments):
        tool.alone(action.with_payload({}))


def test_subclass_that_looks_at_its_execution_is_given_one() -> None:
    class Telling(Tool):
        def invoke(self, execution: ToolExecution) -> Any:
            return execution.task_id

    assert Telling.from_callable(lambda a: a, name="tell").alone is None


@pytest.mark.parametrize("mode", [None, "inline"])
def test_plain_function_is_called_directly(mode: Any, execution_of: ExecutionOf) -> None:
    tool = Tool.from_callable(lambda a: (a, threading.get_ident()), name="where", sync_execution=mode)
    assert tool.invoke(execution_of(prepared(tool, a=1))) == (1, threading.get_ident())


@pytest.mark.parametrize("mode", [None, "inline", "thread"])
async def test_async_function_gives_its_coroutine(mode: Any, execution_of: ExecutionOf) -> None:
    tool = Tool.from_callable(add_later, sync_execution=mode)
    result = tool.invoke(execution_of(prepared(tool, a=1)))
    assert inspect.iscoroutine(result)
    assert await result == 3


@pytest.mark.parametrize("pool", ["default", "given"])
async def test_thread_tool_leaves_the_event_loop_free(pool: str, execution_of: ExecutionOf) -> None:
    tool = Tool.from_callable(lambda a: (a, threading.current_thread().name), name="where", sync_execution="thread")
    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="bounded") as executor:
        if pool == "given":
            tool.executor = executor
        result = tool.invoke(execution_of(prepared(tool, a=1)))
        assert isinstance(result, Awaitable)
        value, name = await result
    assert value == 1
    assert name != threading.current_thread().name
    assert name.startswith("bounded") == (pool == "given")
    assert (await tool(a=2))[0] == 2 if pool == "default" else True


async def test_exception_of_the_function_is_its_own(execution_of: ExecutionOf) -> None:
    def broken() -> None:
        raise KeyError("mine")

    tool = Tool.from_callable(broken)
    with pytest.raises(KeyError, match="mine"):
        tool.invoke(execution_of(prepared(tool)))
    with pytest.raises(KeyError, match="mine"):
        await tool()


def test_live_result_keeps_its_type(execution_of: ExecutionOf) -> None:
    marker = object()
    tool = Tool.from_callable(lambda: marker, name="give")
    assert tool.invoke(execution_of(prepared(tool))) is marker


def test_copy_of_a_tool_checks_as_the_original_does() -> None:
    copied = dataclasses.replace(Tool.from_callable(add), capabilities=["x"])
    assert copied.input_schema == Tool.from_callable(add).input_schema
    assert copied.validate_args({"a": 1}) == {"a": 1, "b": 2}
