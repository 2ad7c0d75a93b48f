"""``llm_factory``: a model made anew for each run, and what happens when it is not one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from agent_support import Mode, agent, call, delegate, infer, run_id, script, until

from protolink import Agent, CapabilityPolicy, RunInterrupted, Task, TaskState, Tool
from protolink.journal import InMemoryDurableStore
from protolink.llms import MockLLM


class Factory:
    """Makes scripted models and remembers them."""

    def __init__(self, *responses: Any) -> None:
        self.responses = responses
        self.made: list[MockLLM] = []

    def __call__(self) -> MockLLM:
        self.made.append(script(*self.responses))
        return self.made[-1]


def used(factory: Callable[[], Any], **how: Any) -> Agent:
    return Agent(name="agent", llm_factory=factory, verbosity=0, **how)


async def test_every_run_has_a_model_of_its_own(mode: Mode) -> None:
    factory = Factory(call("one"), "done")
    found = mode.agent(llm_factory=factory, tools=[Tool.from_callable(lambda: 1, name="one")])
    for count in (1, 2):
        ran = await mode.run(found, infer())
        assert ran.task.get_output() == "done"
        assert len(factory.made) == count
        assert found.llm is None


async def test_runs_at_once_do_not_share_a_model() -> None:
    gate, factory = asyncio.Event(), Factory(call("wait"), "done")
    found = used(factory)

    @found.tool
    async def wait() -> None:
        await gate.wait()

    running = [asyncio.ensure_future(found.invoke("go")) for _ in range(3)]
    await until(lambda: len(factory.made) == 3)
    gate.set()
    assert await asyncio.gather(*running) == ["done"] * 3
    assert [model._played for model in factory.made] == [2, 2, 2]


async def test_nothing_is_made_at_construction_nor_by_reading_the_agent() -> None:
    factory = Factory("done")
    found = used(factory)
    assert found.can_infer
    found.to_dict()
    assert (factory.made, found.llm) == ([], None)


@pytest.mark.parametrize("kind", ["sync", "async", "object"])
async def test_factories_of_every_kind_may_return_a_name(kind: str) -> None:
    async def later() -> str:
        await asyncio.sleep(0)
        return "mock"

    class Callable:
        async def __call__(self) -> str:
            return "mock:small"

    factory: Any = {"sync": lambda: "mock", "async": later, "object": Callable()}[kind]
    assert "mock response" in await used(factory).invoke("go")


@pytest.mark.parametrize("wrong", [None, 5, object(), MockLLM, ["mock"]])
@pytest.mark.parametrize("kind", ["sync", "async"])
async def test_factory_that_returns_no_model_is_a_type_error(wrong: Any, kind: str) -> None:
    async def later() -> Any:
        return wrong

    found = used((lambda: wrong) if kind == "sync" else later)
    with pytest.raises(TypeError, match=f"LLM or its name, not {type(wrong).__name__}"):
        await found.invoke("go")
    assert found.active_task_ids == ()


async def test_unknown_name_is_the_error_of_names() -> None:
    with pytest.raises(ValueError, match="nobody"):
        await used(lambda: "nobody:knows").invoke("go")


@pytest.mark.parametrize("kind", ["sync", "async"])
async def test_errors_of_the_factory_reach_the_caller_as_they_are(kind: str) -> None:
    error = LookupError("no credentials")

    def sync() -> Any:
        raise error

    async def later() -> Any:
        raise error

    task = infer()
    with pytest.raises(LookupError) as caught:
        await used(sync if kind == "sync" else later).run_task(task)
    assert caught.value is error
    assert task.state is TaskState.SUBMITTED


async def test_handle_tells_the_factorys_error_in_its_result() -> None:
    result = await used(lambda: 5).start_run("go").result()
    assert result.status == "failed"
    assert result.error is not None
    assert result.error["code"] == "TypeError"


@pytest.mark.parametrize("value", ["mock", 5, MockLLM()])
def test_what_cannot_be_called_is_no_factory(value: Any) -> None:
    with pytest.raises(TypeError, match="llm_factory must be callable"):
        used(value)


async def test_child_of_a_run_has_one_model_for_all_its_work_in_it() -> None:
    factory = Factory("first", "second")
    kid = Agent(name="kid", llm_factory=factory, verbosity=0)
    parent = agent(delegate("kid", "one"), delegate("kid", "two"), "done", subagents=[kid])
    assert await parent.invoke("go") == "done"
    assert len(factory.made) == 1
    assert kid.llm is None


async def test_each_attempt_of_a_stored_run_makes_its_model_once() -> None:
    store, policy = InMemoryDurableStore(), CapabilityPolicy({"act": "ask"})
    factories = [Factory(call("act"), "unused"), Factory("done")]
    tools = [Tool.from_callable(lambda: "acted", name="act", capabilities=["act"])]
    task = infer()
    found = used(factories[0], durability=store, policy=policy, tools=tools)
    await found.run_task(task)
    again = used(factories[1], durability=store, policy=policy, tools=tools)
    request = task.metadata["interruption"]["request_id"]
    assert await again.resume(run_id(task), request_id=request, approved=True) == "done"
    assert [len(factory.made) for factory in factories] == [1, 1]


async def test_factory_that_fails_at_a_resume_leaves_the_run_as_it_was() -> None:
    store, policy = InMemoryDurableStore(), CapabilityPolicy({"act": "ask"})
    tools = [Tool.from_callable(lambda: "acted", name="act", capabilities=["act"])]
    models: list[Any] = [script(call("act"), "unused"), 5, script("done")]
    found = used(lambda: models.pop(0), durability=store, policy=policy, tools=tools)
    with pytest.raises(RunInterrupted) as pause:
        await found.invoke("go")
    answer = {"request_id": pause.value.interruption.request_id, "approved": True}
    with pytest.raises(TypeError):
        await found.resume(pause.value.run_id, **answer)
    assert await found.resume(pause.value.run_id, **answer) == "done"


async def test_task_for_a_tool_alone_does_not_ask_the_model() -> None:
    factory = Factory()
    found = used(factory, tools=[Tool.from_callable(lambda: 1, name="one")])
    await found.run_task(Task.create_tool_call(tool_name="one", args={}))
    assert [model._played for model in factory.made] == [0]
