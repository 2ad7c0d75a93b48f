"""Tools that describe first and execute later."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from typing import Any

import pytest

import protolink.tools
from protolink.drive.ports import InvalidArguments
from protolink.errors import ToolRejectedError
from protolink.runtime import CancellationToken, RunAction, RunContext
from protolink.tools.prepared import PreparedTool, ToolExecution

ExecutionOf = Callable[..., ToolExecution]


def rename(path: str, force: bool = False) -> str:
    """Rename one file."""
    raise AssertionError("never called")


def describe(arguments: dict[str, Any], context: RunContext) -> RunAction:
    if arguments["path"] == "gone":
        raise ToolRejectedError(
            code="no_file", message="No such file.", details={"known": ["here"]}, suggestion="Take 'here'."
        )
    return RunAction(kind="file.rename", name="move", payload={"arguments": arguments, "run": context.run_id})


async def describe_later(arguments: dict[str, Any], context: RunContext) -> RunAction:
    return describe(arguments, context)


async def perform(execution: ToolExecution) -> str:
    return f"renamed {execution.authorization.action.payload['arguments']['path']}"


def tool_with(**options: Any) -> PreparedTool:
    return PreparedTool(
        rename, **({"prepare": describe, "execute": perform, "capabilities": ("files.write",)} | options)
    )


@pytest.mark.claim("REJ-002")
def test_prepared_tool_is_named_and_declared_by_its_signature() -> None:
    tool = tool_with()
    assert (tool.name, tool.description, tool.capabilities) == ("rename", "Rename one file.", ("files.write",))
    assert tool.input_schema["required"] == ["path"]
    assert tool.output_schema == {"type": "string", "title": "renameOutput"}
    assert (tool.read_only, tool.idempotent, tool.probe, tool.asks_user) == (False, False, None, False)
    assert PreparedTool is protolink.tools.PreparedTool


def test_options_of_a_prepared_tool_are_kept() -> None:
    def probe(action: RunAction) -> None: ...

    tool = tool_with(name="move", description="Move.", read_only=True, idempotent=True, probe=probe)
    assert (tool.name, tool.description, tool.read_only, tool.idempotent, tool.probe) == (
        "move", "Move.", True, True, probe,
    )  # fmt: skip
    assert tool.input_schema["title"] == "moveInput"


@pytest.mark.claim("REJ-004")
async def test_signature_describes_only_and_direct_calls_are_refused(execution_of: ExecutionOf) -> None:
    tool = tool_with()
    with pytest.raises(RuntimeError, match="prepared tool"):
        await tool(path="here")
    action = await tool.prepare_action({"path": "here"}, RunContext())
    assert await tool.invoke(execution_of(action)) == "renamed here"


@pytest.mark.claim("REJ-005", "REJ-014")
@pytest.mark.parametrize("prepare", [describe, describe_later])
async def test_prepare_may_be_sync_or_async_and_returns_the_action(prepare: Any) -> None:
    tool = tool_with(prepare=prepare)
    made = tool.prepare({"path": "here"}, RunContext(run_id="run"))
    assert isinstance(made, RunAction) == (prepare is describe)
    action = made if isinstance(made, RunAction) else await made
    assert (action.kind, action.name) == ("file.rename", "move")
    assert action.payload == {"arguments": {"path": "here", "force": False}, "run": "run"}


@pytest.mark.claim("REJ-003", "REJ-005")
@pytest.mark.parametrize("prepare", [describe, describe_later])
async def test_rejection_in_preparation_passes_through_unchanged(prepare: Any) -> None:
    with pytest.raises(ToolRejectedError) as caught:
        await tool_with(prepare=prepare).prepare_action({"path": "gone"}, RunContext())
    assert caught.value.to_dict() == {
        "status": "rejected",
        "changes_made": False,
        "code": "no_file",
        "message": "No such file.",
        "details": {"known": ["here"]},
        "suggestion": "Take 'here'.",
    }


@pytest.mark.parametrize("mode", ["sync", "async"])
async def test_prepare_that_returns_no_action_is_a_type_error(mode: str) -> None:
    async def later(arguments: dict[str, Any], context: RunContext) -> Any:
        return {"kind": "x"}

    tool = tool_with(prepare=later if mode == "async" else lambda arguments, context: {"kind": "x"})
    with pytest.raises(TypeError, match="prepare must return a RunAction, got dict"):
        await tool.prepare_action({"path": "here"}, RunContext())


async def test_bad_arguments_never_reach_prepare() -> None:
    calls: list[Any] = []
    tool = tool_with(prepare=lambda arguments, context: calls.append(arguments))
    with pytest.raises(InvalidArguments, match=r"tool args\.path must be a string"):
        await tool.prepare_action({"path": 5}, RunContext())
    assert calls == []


async def test_capabilities_and_arguments_are_added_to_what_prepare_returns() -> None:
    tool = tool_with(
        prepare=lambda arguments, context: RunAction("x", "y", {"note": 1}, frozenset({"own"})), capabilities=["a", "b"]
    )
    action = await tool.prepare_action({"path": "here"}, RunContext())
    assert action.capabilities == {"own", "a", "b"}
    assert action.payload == {"note": 1, "arguments": {"path": "here", "force": False}}


@pytest.mark.claim("REJ-006")
@pytest.mark.parametrize("mode", ["sync", "async"])
async def test_execute_gets_the_execution_with_the_authorized_arguments(mode: str, execution_of: ExecutionOf) -> None:
    seen: list[Any] = []

    def execute(execution: ToolExecution) -> str:
        seen.append((type(execution), execution.authorization.action.payload["arguments"]))
        return "done"

    async def execute_later(execution: ToolExecution) -> str:
        return execute(execution)

    tool = tool_with(execute=execute if mode == "sync" else execute_later)
    action = await tool.prepare_action({"path": "here", "force": True}, RunContext())
    result = tool.invoke(execution_of(action))
    assert inspect.isawaitable(result) == (mode == "async")
    assert (await result if inspect.isawaitable(result) else result) == "done"
    assert seen == [(ToolExecution, {"path": "here", "force": True})]


@pytest.mark.claim("APR-008")
async def test_authorized_arguments_are_checked_again_before_execute(execution_of: ExecutionOf) -> None:
    tool = tool_with()
    action = await tool.prepare_action({"path": "here"}, RunContext())
    with pytest.raises(InvalidArguments):
        tool.invoke(execution_of(action.with_payload({"arguments": {"path": 5}})))


@pytest.mark.claim("REJ-007")
async def test_check_stops_the_executor_of_a_canceled_run(execution_of: ExecutionOf) -> None:
    effects: list[str] = []

    async def execute(execution: ToolExecution) -> None:
        execution.check()
        effects.append("done")

    tool = tool_with(execute=execute)
    action = await tool.prepare_action({"path": "here"}, RunContext())
    await tool.invoke(execution_of(action))
    token = CancellationToken()
    token.cancel("enough")
    with pytest.raises(asyncio.CancelledError, match="enough"):
        await tool.invoke(execution_of(action, token))
    assert effects == ["done"]


@pytest.mark.parametrize("role", ["prepare", "execute"])
def test_role_that_is_no_function_is_a_type_error(role: str) -> None:
    with pytest.raises(TypeError, match=f"PreparedTool {role} must be a function"):
        tool_with(**{role: None})


@pytest.mark.parametrize(
    ("options", "error"),
    [({"name": " "}, ValueError), ({"capabilities": "files.write"}, TypeError), ({"capabilities": [""]}, ValueError)],
)
def test_bad_declaration_of_a_prepared_tool_is_refused(options: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error):
        tool_with(**options)
