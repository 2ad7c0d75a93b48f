"""Signals in the middle of a tool: what is stored and what the caller gets never disagree."""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import Any

import pytest

from protolink import RunContext, Task, TaskState, UncertainExecutionError
from protolink.tools import Tool

CALL = ("publish", {"text": "hello"})


def interrupted_tool(scene: Any, kind: str, **traits: Any) -> Tool:
    """A tool that Ctrl-C hits after its effect: in the loop's thread, in a coroutine, or in a thread of its own."""

    def publish(text: str) -> str:
        """Publish a text."""
        scene.effects.append(text)
        raise KeyboardInterrupt

    async def publish_later(text: str) -> str:
        """Publish a text."""
        return publish(text)

    return Tool.from_callable(publish if kind == "sync" else publish_later, name="publish", **traits)


def task_of(scene: Any) -> Task:
    context = RunContext(run_id="run-1")
    if scene.mode == "direct":
        return Task.create_tool_call(tool_name=CALL[0], args=CALL[1], context=context)
    return Task.create_infer(prompt="go", context=context)


@pytest.mark.parametrize("kind", ["sync", "async"])
async def test_stored_state_and_task_agree_after_an_interrupt(
    scene: Any, kind: str, states_of: Callable[..., Any]
) -> None:
    agent = scene.agent([interrupted_tool(scene, kind)], CALL)
    task = task_of(scene)
    with pytest.raises(KeyboardInterrupt):
        await agent.run_task(task)
    stored = agent.durability.get("run-1")
    assert (stored.status, states_of(stored)) == ("uncertain", ["uncertain"])
    assert task.state is TaskState.FAILED
    assert task.state.value == stored.data["task"]["state"]
    assert task.metadata["blockers"][-1]["code"] == "execution_uncertain"
    assert stored.data["task"]["metadata"]["blockers"] == task.metadata["blockers"]
    assert agent.active_task_ids == ()


@pytest.mark.parametrize("kind", ["sync", "async"])
async def test_an_interrupted_tool_is_not_repeated(scene: Any, kind: str) -> None:
    agent = scene.agent([interrupted_tool(scene, kind)], CALL)
    with pytest.raises(KeyboardInterrupt):
        await scene.begin(agent)
    with pytest.raises(UncertainExecutionError) as caught:
        await agent.resume("run-1")
    agent.reconcile("run-1", caught.value.action_id, result="found")
    assert await agent.resume("run-1") == scene.result("found")
    assert scene.effects == ["hello"]


@pytest.mark.parametrize("tool", ["publish", "publish_later"])
def test_an_interrupted_process_leaves_an_unknown_effect(application: Any, tool: str) -> None:
    processes = application("native")
    assert processes.run("start", call=[tool, {"text": "interrupt"}])["error"] == "KeyboardInterrupt"
    assert processes.checkpoint().status == "uncertain"
    assert processes.run("resume")["error"] == "UncertainExecutionError"
    assert processes.published() == 1


def test_ctrl_c_in_a_blocking_call_comes_back_when_the_state_is_stored(application: Any) -> None:
    """The signal reaches the waiting main thread while the tool waits in the loop's thread."""
    processes = application("direct")
    found = processes.run("start", die="waiting", signal="SIGINT", call=["publish_later", {"text": "hello"}])
    assert found["error"] == "KeyboardInterrupt"
    stored = processes.checkpoint()
    [entry] = stored.data["actions"].values()
    assert (stored.status, entry["state"], stored.data["task"]["state"]) == ("uncertain", "uncertain", "canceled")
    assert stored.data["task"]["metadata"]["blockers"][-1]["code"] == "execution_uncertain"


def test_a_canceled_unknown_effect_is_reconciled_to_canceled(application: Any) -> None:
    processes = application("direct")
    processes.run("start", die="waiting", signal="SIGINT", call=["publish_later", {"text": "hello"}])
    assert processes.run("reconcile", result="found") == {"output": None}
    assert processes.checkpoint().status == "canceled"
    assert "cannot be resumed" in processes.run("resume")["text"]


def test_no_handler_is_installed_for_termination(direct: Any) -> None:
    before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)
    agent = direct.agent([direct.publish()], CALL)
    agent.sync.call_tool("publish", text="hello")
    assert (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)) == before


@pytest.mark.parametrize("traits", [{"read_only": True}])
@pytest.mark.parametrize("kind", ["sync", "async"])
async def test_an_interrupted_read_has_no_unknown_effect(scene: Any, kind: str, traits: Any) -> None:
    agent = scene.agent([interrupted_tool(scene, kind, **traits)], CALL)
    with pytest.raises(KeyboardInterrupt):
        await scene.begin(agent)
    assert agent.durability.get("run-1").status != "uncertain"
