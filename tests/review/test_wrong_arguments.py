"""Wrong arguments are told to whoever gave them, by type and in words, and nothing is begun or changed."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from protolink import (
    Agent,
    CapabilityPolicy,
    RunAction,
    RunContext,
    RunInterrupted,
    Task,
    TaskAlreadyRunningError,
    TaskCancellationRequest,
    Tool,
)
from protolink.agents import active
from protolink.llms import MockLLM

NO_TASKS = (None, "a prompt", 7, {}, object())
NO_NAMES = (None, 7, [], {}, b"add")


def add(a: int) -> int:
    """Add one."""
    return a + 1


def agent(**options: Any) -> Agent:
    return Agent(name="worker", llm=MockLLM(default_response="done"), tools=[add], verbosity=0, **options)


@pytest.fixture
def pause(tmp_path: Path) -> RunInterrupted:
    """A stored run that waits for an approval; ``waiting`` makes its agent."""
    with pytest.raises(RunInterrupted) as found:
        waiting(tmp_path).sync.call_tool("publish", text="hello")
    return found.value


def waiting(folder: Path) -> Agent:
    publish = Tool.from_callable(lambda text: text, name="publish", capabilities=["publish"])
    asks = CapabilityPolicy({"publish": "require_approval"})
    return Agent(name="desk", tools=[publish], policy=asks, durability=folder / "runs.sqlite", verbosity=0)


@pytest.mark.parametrize("wrong", NO_TASKS)
@pytest.mark.parametrize("way", ["run_task", "execute_task", "handle_task", "handle_task_streaming"])
async def test_what_is_no_task_is_told(way: str, wrong: Any) -> None:
    with pytest.raises(TypeError, match=f"runs a Task, not {type(wrong).__name__}"):
        if way == "handle_task_streaming":
            [event async for event in agent().handle_task_streaming(wrong)]
        else:
            await getattr(agent(), way)(wrong)


@pytest.mark.parametrize("wrong", NO_NAMES)
@pytest.mark.parametrize("durable", [False, True])
async def test_a_tool_is_called_by_a_text(wrong: Any, durable: bool, tmp_path: Path) -> None:
    worker = agent(durability=tmp_path / "runs.sqlite") if durable else agent()
    for work in (worker.call_tool(wrong, a=1), worker.call_tool_in_context(wrong, RunContext(), a=1)):
        with pytest.raises(TypeError, match=f"its name, which is text, not {type(wrong).__name__}"):
            await work
    if durable:
        assert worker.durability is not None
        assert worker.durability.list() == []


@pytest.mark.parametrize("wrong", [None, 7, {"q": 1}, b"go"])
@pytest.mark.parametrize("durable", [False, True])
async def test_invoke_takes_text_in_live_and_durable_runs(wrong: Any, durable: bool, tmp_path: Path) -> None:
    worker = agent(durability=tmp_path / "runs.sqlite") if durable else agent()
    with pytest.raises(TypeError, match=f"invoke takes text, not {type(wrong).__name__}"):
        await worker.invoke(wrong)


async def test_invoke_takes_a_tools_name_and_a_mapping_of_arguments() -> None:
    with pytest.raises(ValueError, match="with a tool_name"):
        await agent().invoke("", "tool_call", [])  # type: ignore[arg-type]
    for wrong in (3.5, "a=1", [("a", 1)]):
        with pytest.raises(TypeError, match="tool_args must be a mapping"):
            await agent().invoke("", "tool_call", "add", wrong)  # type: ignore[arg-type]
    assert await agent().invoke("", "tool_call", "add", {"a": 1}) == 2


@pytest.mark.parametrize("wrong", [None, "publish", 7, {}])
async def test_an_authorization_is_of_an_action(wrong: Any) -> None:
    with pytest.raises(TypeError, match="takes a RunAction"):
        await agent().authorize_action(wrong)


@pytest.mark.parametrize("wrong", ["", {}, "run-1", 7])
async def test_an_authorization_is_for_a_run_context(wrong: Any) -> None:
    with pytest.raises(TypeError, match="takes a RunContext"):
        await agent().authorize_action(RunAction(kind="tool.call", name="add", payload={}), wrong)


@pytest.mark.parametrize("wrong", [None, 7, [], {}])
async def test_no_task_has_an_id_that_is_no_text(wrong: Any) -> None:
    assert agent().get_cancellation_token(wrong) is None


@pytest.mark.parametrize("wrong", [7, [], object()])
async def test_a_cancel_reason_is_text(wrong: Any) -> None:
    with pytest.raises(ValueError, match="reason must be text"):
        TaskCancellationRequest("task-1", wrong)
    with pytest.raises(ValueError, match="metadata must be a JSON object"):
        TaskCancellationRequest("task-1", metadata=wrong)


@pytest.mark.parametrize(
    ("response", "error", "text"),
    [
        ({"reason": "because"}, ValueError, "reason come with a response"),
        ({"rerun": 7}, TypeError, "rerun is an action id"),
        ({"rerun": []}, TypeError, "rerun is an action id"),
        ({"rerun": "action-1", "request_id": "ID", "approved": True}, ValueError, "either a response or rerun"),
        ({"rerun": "action-1", "request_id": "ID", "approved": False}, ValueError, "either a response or rerun"),
    ],
)
async def test_what_a_resume_would_not_use_is_refused(
    pause: RunInterrupted, tmp_path: Path, response: dict[str, Any], error: type[Exception], text: str
) -> None:
    desk = waiting(tmp_path)
    assert desk.durability is not None
    before = desk.durability.get(pause.run_id)
    if "request_id" in response:
        response = {**response, "request_id": pause.interruption.request_id}
    with pytest.raises(error, match=text):
        await desk.resume(pause.run_id, **response)
    assert desk.durability.get(pause.run_id) == before


@pytest.mark.parametrize("wrong", [None, 7, [], {}])
async def test_an_action_to_reconcile_is_named_by_text(pause: RunInterrupted, tmp_path: Path, wrong: Any) -> None:
    with pytest.raises(TypeError, match="an action id is text"):
        waiting(tmp_path).reconcile(pause.run_id, wrong, result=1)


@pytest.mark.parametrize("wrong", [None, "1", 1.5, True])
async def test_events_are_read_after_a_number(pause: RunInterrupted, tmp_path: Path, wrong: Any) -> None:
    with pytest.raises(TypeError, match="after is the number of an event"):
        waiting(tmp_path).run_events(pause.run_id, wrong)


@pytest.mark.claim("CAN-066")
async def test_a_task_entered_by_another_thread_meanwhile_does_not_run_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another thread enters the task between this one's look at the registry and its own entry."""
    worker, task, runs = agent(), Task.create_tool_call("count"), list[str]()
    entered, leave = threading.Event(), threading.Event()

    async def count() -> str:
        runs.append(threading.current_thread().name)
        if len(runs) == 1:
            entered.set()
            await asyncio.to_thread(leave.wait)
        return "counted"

    worker.add_tool(count)
    other = threading.Thread(target=lambda: asyncio.run(worker.run_task(task)), name="other")
    made = active.Active

    def late(*args: Any, **options: Any) -> Any:
        monkeypatch.setattr(active, "Active", made)
        other.start()
        entered.wait()
        return made(*args, **options)

    monkeypatch.setattr(active, "Active", late)
    try:
        with pytest.raises(TaskAlreadyRunningError):
            await worker.run_task(task)
    finally:
        leave.set()
        await asyncio.to_thread(other.join)
    assert runs == ["other"]
    assert task.get_output() == "counted"
