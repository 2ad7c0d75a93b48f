"""What application code may do at its worst: every drive still ends, and state and task agree."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from protolink import Agent, BudgetExceededError, RunBudget, RunContext, SQLiteDurableStore, Task
from protolink.errors import StoreUnavailableError, ToolFailedError, ToolRejectedError, UncertainExecutionError
from protolink.llms import MockLLM
from protolink.testing import ScriptedModel
from protolink.tools import Tool

CALL = {"type": "tool_call", "tool": "work", "args": {}}
DONE = {"type": "final", "content": "done"}
PATIENCE = 20.0


class Gone(BaseException):
    """Not an Exception, as a framework's own signals are."""


def raises(error):
    async def raising(*_):
        raise error

    return raising


def work() -> str:
    return "worked"


def agent_with(place, error, **more):
    script, tool, policy = [CALL, DONE], Tool.from_callable(work), None
    if place == "model":
        script = [raises(error)]
    elif place == "builder":
        tool = Tool.from_callable(work, action_builder=raises(error))
    else:
        policy = type("Policy", (), {"evaluate": staticmethod(raises(error))})()
    return Agent(name="helper", llm=ScriptedModel(script), tools=[tool], policy=policy, **more)


@pytest.mark.parametrize("durable", [False, True])
@pytest.mark.parametrize("place", ["model", "builder", "policy"])
@pytest.mark.parametrize("error", [Gone("gone"), GeneratorExit("gone")])
async def test_a_base_exception_ends_the_drive_and_is_raised(tmp_path, place, durable, error):
    agent = agent_with(place, error, durability=tmp_path / "runs.sqlite" if durable else None)
    task = Task.create_infer(prompt="go")
    with pytest.raises(type(error)):
        await asyncio.wait_for(agent.run_task(task), PATIENCE)
    assert task.state.value == ("input-required" if durable else "failed")
    assert agent.active_task_ids == ()
    if durable:
        assert agent.durability.list()[0].data["task"]["state"] == task.state.value


@pytest.mark.parametrize("durable", [False, True])
@pytest.mark.parametrize("place", ["builder", "policy"])
async def test_a_cancellation_that_nobody_asked_for_is_no_endless_loop(tmp_path, place, durable):
    error = asyncio.CancelledError("not by this run")
    agent = agent_with(place, error, durability=tmp_path / "runs.sqlite" if durable else None)
    task = Task.create_infer(prompt="go")
    handle = agent.start_run(task)
    result = await asyncio.wait_for(handle.result(), PATIENCE)
    assert result.status == ("input-required" if durable else "failed")


@pytest.mark.parametrize("error", [SystemExit("stop"), KeyboardInterrupt("stop")])
def test_a_signal_in_a_model_does_not_stop_the_sync_facade_for_others(error):
    with pytest.raises(type(error)):
        agent_with("model", error).sync.invoke("go")
    assert Agent(name="other", llm=ScriptedModel([DONE])).sync.invoke("go") == "done"


class Unreadable:
    def to_dict(self):
        raise ValueError("cannot be told")

    def __repr__(self):
        raise RuntimeError("cannot be shown")


async def test_a_result_whose_own_conversion_fails_is_uncertain_and_stored_so(tmp_path):
    tool = Tool.from_callable(lambda: Unreadable(), name="work")
    agent = Agent(name="helper", tools=[tool], durability=tmp_path / "runs.sqlite")
    with pytest.raises(UncertainExecutionError):
        await agent.call_tool("work")
    assert agent.durability.list()[0].status == "uncertain"


async def test_a_live_result_without_any_text_is_shown_by_its_type():
    tool = Tool.from_callable(lambda: Unreadable(), name="work")
    agent = Agent(name="helper", llm=ScriptedModel([CALL, DONE]), tools=[tool])
    assert await agent.invoke("go") == "done"


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (ToolFailedError("no file \udcff"), "failed"),
        (RuntimeError("no file \udcff"), "uncertain"),
        (ToolRejectedError("no file \udcff", code="missing", details={"path": "\udcff"}), "completed"),
    ],
)
async def test_texts_that_utf8_cannot_hold_lose_no_receipt(tmp_path, error, status):
    tool = Tool.from_callable(raises(error), name="work", input_schema={"type": "object"})
    agent = Agent(name="helper", llm=ScriptedModel([CALL, DONE]), tools=[tool], durability=tmp_path / "runs.sqlite")
    result = await agent.start_run("go").result()
    assert result.status in (status, "failed")
    assert agent.durability.list()[0].status == status


async def test_a_run_is_free_again_when_its_start_was_canceled(tmp_path):
    agent = Agent(name="helper", llm=ScriptedModel([DONE]), durability=tmp_path / "runs.sqlite")
    task = Task.create_infer(prompt="go")
    copy = Task.from_dict(task.to_dict())
    starting = asyncio.ensure_future(agent.run_task(task))
    await asyncio.sleep(0)
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    done = await agent.run_task(copy)
    assert done.state.value == "completed"


async def test_a_run_that_could_not_be_given_up_is_resumed_in_this_process(tmp_path, monkeypatch):
    store = SQLiteDurableStore(tmp_path / "runs.sqlite")
    agent = Agent(name="helper", llm=ScriptedModel([raises(RuntimeError("down"))]), durability=store)
    opened = type(store.open("other", "helper", create=True))
    release = opened.release

    async def away(self):
        raise StoreUnavailableError("the store is away", store="here")

    monkeypatch.setattr(opened, "release", away)
    task = await agent.run_task(Task.create_infer(prompt="go"))
    assert task.state.value == "input-required"
    monkeypatch.setattr(opened, "release", release)
    again = await agent.resume_task(store.list()[0].run_id)
    assert again.state.value == "input-required"


@pytest.mark.parametrize("durable", [False, True])
async def test_budget_policy_that_fails_denies_and_ends_the_run(durable: bool, tmp_path: Any) -> None:
    class Broken:
        def evaluate(self, budget: Any, usage: Any) -> Any:
            raise OSError("no rates")

    agent = Agent(
        name="a",
        llm=MockLLM(default_response="x"),
        budget_policy=Broken(),
        durability=tmp_path / "runs.sqlite" if durable else None,
        verbosity=0,
    )
    task = Task.create_infer(prompt="go", budget=RunBudget(max_llm_calls=5))
    with pytest.raises(BudgetExceededError, match="no rates"):
        await agent.run_task(task)
    assert task.state.value == "failed"
    assert agent.active_task_ids == ()


async def test_prompt_that_cannot_be_stored_takes_no_run_id(tmp_path: Any) -> None:
    agent = Agent(name="a", llm=MockLLM(default_response="x"), durability=tmp_path / "runs.sqlite", verbosity=0)
    with pytest.raises(TypeError):
        await agent.invoke("go \ud800", context=RunContext(run_id="run_1"))
    assert agent.durability.get("run_1") is None


@pytest.mark.parametrize("name", ["a\ud800", "a\nb", "a\x00"])
def test_names_that_cannot_be_shown_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match="name"):
        Agent(name=name)
    with pytest.raises(ValueError, match="name"):
        Agent(name="a").add_tool(Tool.from_callable(lambda: "x", name=name))
