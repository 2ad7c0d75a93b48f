"""Canceling: from anywhere, at any moment, with nothing lost that already happened."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator
from typing import Any

import pytest
from agent_support import (
    Gate,
    Mode,
    StoppedClock,
    agent,
    call,
    delegate,
    infer,
    kinds,
    outcome,
    receipts,
    recorded,
    run_id,
    script,
    stream,
    until,
)

from protolink import (
    Agent,
    BudgetDecision,
    BudgetPolicy,
    BudgetUsage,
    CapabilityPolicy,
    DurableExecutionError,
    Part,
    PolicyDecision,
    RunAction,
    RunBudget,
    RunContext,
    Task,
    TaskAlreadyRunningError,
    TaskCancellationRequest,
    TaskExecutionError,
    TaskNotCancelableError,
    TaskNotFoundError,
    TaskState,
    TaskStatusUpdateEvent,
    Tool,
    UncertainExecutionError,
)
from protolink.journal import InMemoryDurableStore
from protolink.llms import MockLLM


def waiting(gate: Gate, **options: Any) -> Agent:
    """An agent whose only tool stops at the gate."""

    async def wait() -> str:
        await gate.wait()
        return "waited"

    return agent(call("wait"), "done", tools=[wait], **options)


def slow_model(gate: Gate, **options: Any) -> Agent:
    async def answer(history: Any, prompt: str) -> str:
        await gate.wait()
        return "done"

    return Agent(name="agent", llm=MockLLM(response_callback=answer), verbosity=0, **options)


def assert_canceled(task: Task, reason: str | None) -> None:
    context = RunContext.from_task(task)
    assert task.state is TaskState.CANCELED
    assert task.metadata.get("cancel_reason") == reason
    assert (context.canceled, context.cancel_reason) == (True, reason)
    assert "error" not in task.metadata
    assert task.metadata.get("blockers", []) == []


@pytest.mark.claim("CAN-003", "CAN-006", "CAN-007", "CAN-008", "CAN-018", "CAN-023", "CAN-024", "CAN-027")
async def test_cancel_from_another_coroutine_gives_back_the_canceled_task() -> None:
    gate, task = Gate(), infer()
    found = waiting(gate)
    running = asyncio.ensure_future(found.run_task(task))
    await gate.reached.wait()
    assert found.active_task_ids == (task.id,)
    token = found.get_cancellation_token(task.id)
    assert await found.cancel_task(task.id, reason="not needed") is task
    assert await running is task
    assert_canceled(task, "not needed")
    assert gate.canceled
    assert token is not None
    assert (token.is_cancelled, token.reason) == (True, "not needed")
    assert found.active_task_ids == ()


@pytest.mark.claim("CAN-005")
async def test_id_of_a_task_is_known_before_it_is_submitted() -> None:
    gate, task = Gate(), infer()
    found = waiting(gate)
    with pytest.raises(TaskNotFoundError):
        await found.cancel_task(task.id)

    async def canceler(task_id: str) -> None:
        await until(lambda: task_id in found.active_task_ids and gate.reached.is_set())
        await found.cancel_task(task_id)

    canceling = asyncio.ensure_future(canceler(task.id))
    await found.run_task(task)
    await canceling
    assert task.state is TaskState.CANCELED


@pytest.mark.claim("CAN-018")
async def test_pending_model_request_is_interrupted() -> None:
    gate, task = Gate(), infer()
    found = slow_model(gate)
    running = asyncio.ensure_future(found.run_task(task))
    await gate.reached.wait()
    await found.cancel_task(task.id, "stop")
    await running
    assert gate.canceled
    assert_canceled(task, "stop")


@pytest.mark.claim("CAN-018", "CAN-015")
async def test_sleep_before_a_retry_is_interrupted_and_no_attempt_follows() -> None:
    asked: list[int] = []

    def answer(history: Any, prompt: str) -> str:
        asked.append(1)
        raise ConnectionError("try again")

    clock, task = StoppedClock(), infer()
    found = Agent(name="a", llm=MockLLM(response_callback=answer), clock=clock, verbosity=0)
    running = asyncio.ensure_future(found.run_task(task))
    await clock.sleeping.wait()
    await found.cancel_task(task.id, "stop")
    await running
    assert_canceled(task, "stop")
    assert len(asked) == 1


@pytest.mark.claim("CAN-018", "CAN-021", "CAN-022")
async def test_pending_child_is_canceled_with_its_parent() -> None:
    gate, task = Gate(), infer()

    async def wait() -> None:
        await gate.wait()

    kid = agent(call("wait"), name="kid", tools=[wait])
    found = agent(delegate("kid"), subagents=[kid])
    running = asyncio.ensure_future(stream(found, task))
    await gate.reached.wait()
    await found.cancel_task(task.id, "stop")
    events = await running
    assert gate.canceled
    assert_canceled(task, "stop")
    ended = [e for e in events if getattr(e, "agent_name", "") == "kid" and e.type == "task.status"][-1]
    assert ended.payload["new_state"] == "canceled"
    assert ended.run_id != run_id(task)
    assert ended.metadata["parent_run_id"] == run_id(task)


@pytest.mark.claim("CAN-025", "CAN-026")
async def test_stream_ends_with_one_final_canceled_status_and_no_error() -> None:
    gate, task = Gate(), infer()
    found = waiting(gate)
    running = asyncio.ensure_future(stream(found, task))
    await gate.reached.wait()
    await found.cancel_task(task.id, "stop")
    events = await running
    final = [e for e in events if isinstance(e, TaskStatusUpdateEvent) and e.final]
    assert final == [events[-1]]
    assert (final[0].new_state, final[0].metadata["cancel_reason"]) == ("canceled", "stop")
    assert final[0].metadata["task"] == task.to_dict()
    assert "task.error" not in kinds(events)
    assert kinds(events)[-2:] == ["action.canceled", "status:canceled"]


async def test_reader_of_the_stream_may_cancel_at_any_event() -> None:
    total = len(await stream(agent(call("act"), "done", tools=[Tool.from_callable(lambda: 1, name="act")]), infer()))
    for position in range(total - 1):
        found, task = agent(call("act"), "done", tools=[Tool.from_callable(lambda: 1, name="act")]), infer()
        seen: list[Any] = []
        async for event in found.handle_task_streaming(task):
            seen.append(event)
            if len(seen) == position + 1 and task.id in found.active_task_ids:
                await found.cancel_task(task.id, "enough")
        assert task.is_terminal
        assert isinstance(seen[-1], TaskStatusUpdateEvent)
        assert seen[-1].final
        assert seen[-1].new_state == task.state.value


async def test_reader_that_cancels_while_a_tool_runs_does_not_wait_for_it() -> None:
    gate, task = Gate(), infer()
    found, words = waiting(gate), list[str]()
    async for event in found.handle_task_streaming(task):
        words += kinds([event])
        if words[-1] == "tool_start":
            await gate.reached.wait()
            await found.cancel_task(task.id, "enough")
    assert gate.canceled
    assert words[-1] == "status:canceled"


async def test_cancel_through_another_thread_s_loop() -> None:
    gate, task = Gate(), infer()
    found, loop = waiting(gate), asyncio.get_running_loop()
    running = asyncio.ensure_future(found.run_task(task))
    await gate.reached.wait()

    def elsewhere() -> Task:
        return asyncio.run_coroutine_threadsafe(found.cancel_task(task.id, "from a thread"), loop).result()

    assert await asyncio.to_thread(elsewhere) is task
    await running
    assert_canceled(task, "from a thread")


async def test_sync_facade_cancels_what_runs_in_another_loop() -> None:
    gate, task = Gate(), infer()
    found = waiting(gate)
    running = asyncio.ensure_future(found.run_task(task))
    await gate.reached.wait()
    canceled = await asyncio.to_thread(found.sync.cancel_task, task.id, "from the facade")
    assert canceled is task
    await running
    assert_canceled(task, "from the facade")


@pytest.mark.claim("CAN-029")
@pytest.mark.parametrize("durable", [False, True])
async def test_cancellation_of_the_owner_from_outside_is_raised_again(durable: bool) -> None:
    gate, task = Gate(), infer()
    store = InMemoryDurableStore()
    found = slow_model(gate, **({"durability": store} if durable else {}))
    running = asyncio.ensure_future(found.run_task(task))
    await gate.reached.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert task.state is TaskState.CANCELED
    assert task.metadata["cancel_reason"]
    assert found.active_task_ids == ()
    if durable:
        assert store.get(run_id(task)).status == "canceled"


@pytest.mark.claim("CAN-029")
async def test_outer_cancellation_does_not_wait_for_a_tool_that_ignores_it() -> None:
    started, task = asyncio.Event(), infer()
    release = asyncio.Event()

    async def deaf() -> None:
        started.set()
        while not release.is_set():
            try:
                await release.wait()
            except asyncio.CancelledError:
                continue

    running = asyncio.ensure_future(agent(call("deaf"), tools=[deaf]).run_task(task))
    await started.wait()
    running.cancel()
    await asyncio.sleep(0)
    running.cancel()
    release.set()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert task.state is TaskState.CANCELED


@pytest.mark.claim("CAN-030")
@pytest.mark.parametrize("durable", [False, True])
async def test_closing_the_stream_early_cancels_and_stores(durable: bool) -> None:
    gate, task, store = Gate(), infer(), InMemoryDurableStore()
    found = slow_model(gate, **({"durability": store} if durable else {}))
    events: AsyncIterator[Any] = found.handle_task_streaming(task)
    await anext(events)
    await gate.reached.wait()
    await events.aclose()  # type: ignore[attr-defined]
    assert task.state is TaskState.CANCELED
    assert found.active_task_ids == ()
    if durable:
        assert store.get(run_id(task)).status == "canceled"


@pytest.mark.claim("CAN-028")
async def test_stream_that_is_canceled_by_id_raises_nothing() -> None:
    gate, task = Gate(), infer()
    found = slow_model(gate)
    running = asyncio.ensure_future(stream(found, task))
    await gate.reached.wait()
    await found.cancel_task(task.id)
    assert kinds(await running)[-1] == "status:canceled"
    assert_canceled(task, None)


@pytest.mark.claim("CAN-017", "CAN-032", "CAN-034")
async def test_result_that_comes_in_spite_of_the_cancellation_is_kept() -> None:
    gate, task = Gate(), infer()

    async def commit() -> str:
        try:
            await gate.wait()
        except asyncio.CancelledError:
            pass
        return "committed"

    found = agent(call("commit"), "never", tools=[commit])
    running = asyncio.ensure_future(found.run_task(task))
    await gate.reached.wait()
    await found.cancel_task(task.id, "too late")
    await running
    assert_canceled(task, "too late")
    assert receipts(task) == [("action_result", "commit")]
    assert recorded(task) == ["action.started", "action.completed"]
    [late] = task.metadata["completed_after_cancellation"]
    assert (late["action_name"], late["reason"]) == ("commit", "too late")
    assert found.llm._played == 1


@pytest.mark.claim("CAN-031", "CAN-037")
async def test_result_of_an_earlier_part_survives_the_cancellation() -> None:
    gate = Gate()

    async def wait() -> None:
        await gate.wait()

    task = Task.create_tool_call(tool_name="first", args={})
    task.messages[-1].parts.append(Part.tool_call(tool_name="wait", args={}))
    found = agent(tools=[Tool.from_callable(lambda: "kept", name="first"), wait])
    running = asyncio.ensure_future(found.run_task(task))
    await gate.reached.wait()
    await found.cancel_task(task.id)
    await running
    assert_canceled(task, None)
    assert [a.parts[0].as_tool_output().result for a in task.artifacts] == ["kept"]


async def canceled_inside(found: Agent, task: Task) -> None:
    assert await outcome(found, task) is None
    assert_canceled(task, "inside")


def cancel_now(found: Agent) -> None:
    [task_id] = found.active_task_ids
    token = found.get_cancellation_token(task_id)
    assert token is not None
    token.cancel("inside")


@pytest.mark.claim("CAN-011", "CAN-012", "CAN-019")
@pytest.mark.parametrize("second", ["tool_call", "infer"])
async def test_token_is_checked_before_each_part(second: str) -> None:
    ran: list[str] = []
    found = agent("never")

    @found.tool
    def first() -> str:
        cancel_now(found)
        ran.append("first")
        return "kept"

    task = Task.create_tool_call(tool_name="first", args={})
    more = Part.tool_call(tool_name="first", args={}) if second == "tool_call" else Part.infer(prompt="go")
    task.messages[-1].parts.append(more)
    await canceled_inside(found, task)
    assert ran == ["first"]
    assert found.llm._played == 0
    assert [a.parts[0].as_tool_output().result for a in task.artifacts] == ["kept"]


@pytest.mark.claim("CAN-012")
async def test_token_is_checked_at_every_step() -> None:
    found = agent(call("act"), "never")

    @found.tool
    def act() -> str:
        cancel_now(found)
        return "acted"

    await canceled_inside(found, infer())
    assert found.llm._played == 1


@pytest.mark.claim("CAN-012")
@pytest.mark.parametrize("step", [1, 2])
async def test_token_is_checked_when_a_step_begins(step: int) -> None:
    """The cancellation comes between the result before the step and the model's call in it."""

    class Asked(BudgetPolicy):
        def evaluate(self, budget: RunBudget, usage: BudgetUsage, **about: Any) -> BudgetDecision:
            if usage.steps == step:
                cancel_now(found)
            return super().evaluate(budget, usage, **about)

    found = agent(call("act"), "never", tools=[Tool.from_callable(lambda: "acted", name="act")])
    found.budget_policy = Asked()
    task = infer()
    RunContext(budget=RunBudget(max_steps=9)).attach_to_task(task)
    await canceled_inside(found, task)
    assert found.llm._played == step - 1


@pytest.mark.claim("CAN-013")
@pytest.mark.parametrize("action", [call("act"), delegate("kid")], ids=["tool", "delegation"])
async def test_token_is_checked_before_what_the_model_chose(action: Any) -> None:
    ran: list[str] = []
    kid = agent("never", name="kid")

    def answer(history: Any, prompt: str) -> Any:
        cancel_now(found)
        return action

    tool = Tool.from_callable(lambda: ran.append("act"), name="act")
    found = Agent(name="a", llm=MockLLM(response_callback=answer), tools=[tool], subagents=[kid], verbosity=0)
    await canceled_inside(found, infer())
    assert (ran, kid.llm._played) == ([], 0)


@pytest.mark.claim("CAN-014")
async def test_token_is_checked_before_authorization() -> None:
    judged: list[str] = []
    found = agent(call("act"), "never")

    class Watching:
        async def evaluate(self, action: RunAction, context: RunContext) -> PolicyDecision:
            judged.append(action.name)
            return PolicyDecision("allow", "fine", "watching")

    async def build(arguments: dict[str, Any], context: RunContext) -> RunAction:
        cancel_now(found)
        return RunAction(kind="tool.call", name="act", payload={"arguments": arguments})

    @found.tool(action_builder=build)
    def act() -> None:
        raise AssertionError("canceled before")

    found.policy = Watching()
    await canceled_inside(found, infer())
    assert judged == []


@pytest.mark.claim("CAN-014")
async def test_token_is_checked_before_dispatch() -> None:
    ran: list[str] = []

    def approve(request: Any, context: Any) -> bool:
        cancel_now(found)
        return True

    tool = Tool.from_callable(lambda: ran.append("act"), name="act", capabilities=["act"])
    policy = CapabilityPolicy({"act": "ask"})
    found = agent(call("act"), "never", tools=[tool], policy=policy, approval_handler=approve)
    await canceled_inside(found, infer())
    assert ran == []


@pytest.mark.claim("CAN-015")
async def test_token_is_checked_before_a_retry() -> None:
    asked: list[int] = []

    def answer(history: Any, prompt: str) -> str:
        asked.append(1)
        cancel_now(found)
        raise ConnectionError("try again")

    found = Agent(name="a", llm=MockLLM(response_callback=answer), clock=StoppedClock(), verbosity=0)
    await canceled_inside(found, infer())
    assert len(asked) == 1


@pytest.mark.claim("CAN-043")
async def test_blocking_tool_in_the_loop_thread_finishes_before_the_cancellation_counts() -> None:
    done: list[str] = []
    canceling: list[asyncio.Future[Task]] = []
    found = agent(call("block"), "never")

    @found.tool
    def block() -> str:
        canceling.append(asyncio.ensure_future(found.cancel_task(found.active_task_ids[0], "while blocked")))
        done.extend(["one", "two"])
        return "blocked"

    task = infer()
    await found.run_task(task)
    assert_canceled(task, "while blocked")
    assert done == ["one", "two"]
    assert receipts(task) == [("action_result", "block")]


@pytest.mark.claim("CAN-044", "CAN-045")
async def test_blocking_tool_in_a_thread_leaves_the_loop_free_and_goes_on() -> None:
    started, release, finished = threading.Event(), threading.Event(), threading.Event()

    def block() -> str:
        started.set()
        release.wait()
        finished.set()
        return "blocked"

    task = infer()
    found = agent(call("block"), tools=[block], sync_execution="thread")
    running = asyncio.ensure_future(found.run_task(task))
    await until(started.is_set)
    await found.cancel_task(task.id, "leave it")
    await running
    assert_canceled(task, "leave it")
    assert not finished.is_set()
    release.set()
    found.sync_executor.shutdown(wait=True)
    assert finished.is_set()


async def test_durable_tool_that_is_cut_off_leaves_its_effect_unknown() -> None:
    gate, task, store = Gate(), infer(), InMemoryDurableStore()
    found = waiting(gate, durability=store)
    running = asyncio.ensure_future(outcome(found, task))
    await gate.reached.wait()
    await found.cancel_task(task.id, "stop")
    assert isinstance(await running, UncertainExecutionError)
    assert task.state is TaskState.CANCELED
    assert [b["code"] for b in task.metadata["blockers"]] == ["execution_uncertain"]
    assert store.get(run_id(task)).status == "uncertain"


@pytest.mark.claim("CAN-004")
async def test_task_holds_nothing_but_json_while_it_runs_and_after(mode: Mode) -> None:
    gate, task = Gate(), infer()
    found = mode.agent(call("wait"), "done")

    @found.tool(read_only=True)
    async def wait() -> None:
        await gate.wait()

    running = asyncio.ensure_future(mode.run(found, task))
    await gate.reached.wait()
    json.dumps(task.to_dict(), allow_nan=False)
    json.dumps(task.metadata)
    await found.cancel_task(task.id)
    await running
    json.dumps(task.metadata)
    assert task.state is TaskState.CANCELED


@pytest.mark.claim("CAN-038", "CAN-039", "CAN-041")
@pytest.mark.parametrize("task_id", ["task-unknown", "", "  "])
async def test_unknown_task_is_not_found(task_id: str) -> None:
    found = agent("done")
    with pytest.raises(TaskNotFoundError):
        await found.cancel_task(task_id)
    assert found.get_cancellation_token(task_id) is None


@pytest.mark.claim("CAN-027", "CAN-039", "CAN-041")
async def test_task_that_ended_is_not_found() -> None:
    def boom() -> None:
        raise KeyError("x")

    for found in (agent("done"), agent(call("boom"), tools=[boom])):
        task = infer()
        await outcome(found, task)
        assert task.is_terminal
        assert found.active_task_ids == ()
        assert found.get_cancellation_token(task.id) is None
        with pytest.raises(TaskNotFoundError):
            await found.cancel_task(task.id)


async def test_request_object_carries_id_and_reason() -> None:
    gate, task = Gate(), infer()
    found = waiting(gate)
    running = asyncio.ensure_future(found.run_task(task))
    await gate.reached.wait()
    await found.cancel_task(TaskCancellationRequest(task.id, reason="by request"))
    await running
    assert_canceled(task, "by request")


@pytest.mark.parametrize("reason", [5, float("nan"), "\ud800", object()])
async def test_reason_that_is_no_text_cancels_nothing(reason: Any) -> None:
    gate, task = Gate(), infer()
    found = waiting(gate, durability=InMemoryDurableStore())
    running = asyncio.ensure_future(found.run_task(task))
    await gate.reached.wait()
    for request in (task.id, TaskCancellationRequest(task.id, metadata={"reason": reason})):
        with pytest.raises(ValueError, match="reason"):
            await found.cancel_task(request, None if isinstance(request, TaskCancellationRequest) else reason)
    gate.opened.set()
    assert (await running).state is TaskState.COMPLETED


@pytest.mark.parametrize("reason", [5, float("nan"), "\ud800"])
async def test_handle_refuses_a_reason_that_is_no_text(reason: Any) -> None:
    gate = Gate()
    handle = waiting(gate).start_run("go")
    await gate.reached.wait()
    with pytest.raises(ValueError, match="reason"):
        await handle.cancel(reason)
    gate.opened.set()
    assert (await handle.result()).status == "completed"


async def test_first_reason_stays() -> None:
    gate, task = Gate(), infer()
    found = waiting(gate)
    running = asyncio.ensure_future(found.run_task(task))
    await gate.reached.wait()
    await asyncio.gather(found.cancel_task(task.id, "first"), found.cancel_task(task.id, "second"))
    await running
    assert_canceled(task, "first")


class Custom(Agent):
    """Handles tasks in its own way, in stages."""

    def __init__(self, gate: Gate) -> None:
        super().__init__(name="custom", verbosity=0)
        self.gate = gate
        self.stages: list[str] = []

    async def handle_task(self, task: Task) -> Task:
        self.stages.append("first")
        await self.gate.wait()
        token = self.get_cancellation_token(task.id)
        assert token is not None
        token.raise_if_cancelled()
        self.stages.append("second")
        return task.complete("custom")


@pytest.mark.claim("CAN-010", "CAN-018")
async def test_custom_handler_is_registered_and_canceled() -> None:
    found, task = Custom(Gate()), infer()
    running = asyncio.ensure_future(found.run_task(task))
    await found.gate.reached.wait()
    assert found.active_task_ids == (task.id,)
    await found.cancel_task(task.id, "stop")
    assert await running is task
    assert_canceled(task, "stop")
    assert found.stages == ["first"]


@pytest.mark.claim("CAN-020")
async def test_custom_handler_may_stop_itself_by_its_token() -> None:
    found, task = Custom(Gate()), infer()
    running = asyncio.ensure_future(found.run_task(task))
    await found.gate.reached.wait()
    token = found.get_cancellation_token(task.id)
    assert token is not None
    token.cancel("between stages")
    found.gate.opened.set()
    assert await running is task
    assert_canceled(task, "between stages")
    assert found.stages == ["first"]


@pytest.mark.claim("CAN-040")
async def test_task_that_is_terminal_but_still_registered_cannot_be_canceled() -> None:
    class Lingering(Custom):
        async def handle_task(self, task: Task) -> Task:
            task.complete("early")
            await self.gate.wait()
            return task

    found, task = Lingering(Gate()), infer()
    running = asyncio.ensure_future(found.run_task(task))
    await found.gate.reached.wait()
    with pytest.raises(TaskNotCancelableError):
        await found.cancel_task(task.id)
    found.gate.opened.set()
    assert (await running).state is TaskState.COMPLETED


@pytest.mark.claim("CAN-009")
async def test_execute_task_registers_too() -> None:
    gate, task = Gate(), infer()
    found = waiting(gate)
    running = asyncio.ensure_future(found.execute_task(task))
    await gate.reached.wait()
    assert found.active_task_ids == (task.id,)
    await found.cancel_task(task.id)
    assert (await running).state is TaskState.CANCELED


@pytest.mark.claim("CAN-066")
async def test_task_that_runs_already_is_refused_to_everybody_else() -> None:
    gate, task = Gate(), infer()
    found = waiting(gate)
    running = asyncio.ensure_future(found.run_task(task))
    await gate.reached.wait()
    with pytest.raises(TaskAlreadyRunningError):
        await found.run_task(task)
    with pytest.raises(TaskAlreadyRunningError):
        await stream(found, task)
    assert found.active_task_ids == (task.id,)
    gate.opened.set()
    assert (await running).get_output() == "done"


@pytest.mark.claim("CAN-067")
async def test_owner_of_a_task_may_register_it_again() -> None:
    class Wrapping(Agent):
        async def handle_task(self, task: Task) -> Task:
            found = await self.execute_task(task)
            assert self.active_task_ids == (task.id,)
            return found

    task = infer()
    found = Wrapping(name="wrapping", llm=script("inner"), verbosity=0)
    await found.run_task(task)
    assert task.get_output() == "inner"
    assert found.active_task_ids == ()


@pytest.mark.parametrize("state", ["canceled", "failed", "completed"])
@pytest.mark.parametrize("way", ["run_task", "stream", "handle"])
async def test_task_that_has_ended_does_not_run_again(state: str, way: str) -> None:
    """Else a canceled task would complete, and its state would contradict its reason and its context."""
    acted: list[int] = []
    tool = Tool.from_callable(lambda: acted.append(1), name="act")
    target = agent(call("act"), "done", tools=[tool])
    task = Task.create_infer(prompt="go")
    {"canceled": task.cancel, "failed": task.fail, "completed": task.complete}[state]("before it began")
    before = task.to_dict()["state"]
    if way == "handle":
        result = await target.start_run(task).result()
        assert result.status == "failed"
        assert "has ended already" in str(result.error)
    else:
        with pytest.raises(ValueError, match="has ended already"):
            if way == "run_task":
                await target.run_task(task)
            else:
                await stream(target, task)
    assert (acted, task.to_dict()["state"], target.active_task_ids) == ([], before, ())


async def test_durable_agent_does_not_begin_with_a_task_that_has_ended() -> None:
    store = InMemoryDurableStore()
    target = agent("done", durability=store)
    ended = infer()
    ended.cancel("before it began")
    with pytest.raises(DurableExecutionError, match="no run"):
        await target.run_task(ended)
    assert (ended.state, store.list()) == (TaskState.CANCELED, [])
    done = await target.run_task(infer())
    assert (await target.run_task(done)).state is TaskState.COMPLETED, "one that is stored is told again"


class Handling(Agent):
    """Handles its tasks itself."""

    async def handle_task(self, task: Task) -> Task:
        task.complete("handled")
        return task


@pytest.mark.parametrize("durable", [False, True])
@pytest.mark.parametrize("part", ["infer", "tool_call"])
@pytest.mark.parametrize("way", ["run_task", "execute_task", "stream", "handle"])
@pytest.mark.parametrize("reason", ["not needed", None])
async def test_run_of_a_canceled_context_starts_nothing_and_ends_canceled(
    durable: bool, part: str, way: str, reason: str | None
) -> None:
    started: list[str] = []
    tool = Tool.from_callable(lambda: started.append("tool"), name="act")
    llm = MockLLM(response_callback=lambda history, prompt: started.append("model") or "done")
    store = InMemoryDurableStore() if durable else None
    target = Agent(name="a", llm=llm, tools=[tool], durability=store, verbosity=0)
    context = RunContext(run_id="run-1").cancel(reason)
    task = infer(context=context)
    if part == "tool_call":
        task = Task.create_tool_call(tool_name="act", args={}, context=context)
    if way == "stream":
        told = [event for event in await stream(target, task) if isinstance(event, TaskStatusUpdateEvent)]
        assert [(event.new_state, event.final) for event in told] == [("working", False), ("canceled", True)]
    elif way == "handle":
        assert (await target.start_run(task).result()).status == "canceled"
    else:
        assert await getattr(target, way)(task) is task
    assert_canceled(task, reason)
    assert (started, receipts(task), target.active_task_ids) == ([], [], ())
    if store is not None:
        assert store.get("run-1").status == "canceled"
        with pytest.raises(DurableExecutionError, match="ended canceled"):
            await target.resume("run-1")


async def test_invoke_in_a_canceled_context_raises_with_its_reason() -> None:
    llm = script("never")
    with pytest.raises(TaskExecutionError, match="canceled: not needed"):
        await Agent(name="a", llm=llm, verbosity=0).invoke("go", context=RunContext().cancel("not needed"))
    assert llm._played == 0


@pytest.mark.parametrize("streamed", [False, True])
async def test_handler_of_ones_own_is_not_called_in_a_canceled_context(streamed: bool) -> None:
    target, task = Handling(name="a", verbosity=0), infer(context=RunContext().cancel("not needed"))
    if streamed:
        assert kinds(await stream(target, task)) == ["status:working", "status:canceled"]
    else:
        assert await target.run_task(task) is task
    assert_canceled(task, "not needed")
