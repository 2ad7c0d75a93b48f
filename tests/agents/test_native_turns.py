"""Several calls in one turn: judged together, run in order or side by side, answered in the order of the calls."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from agent_support import agent, codes, infer, kinds, outcome, played, receipts, run_id, stream, turn

from protolink import (
    ActionDeniedError,
    Agent,
    CapabilityPolicy,
    RunBudget,
    RunInterruption,
    Task,
    TaskState,
    Tool,
    ToolCorrectionLimitError,
    ToolRejectedError,
)
from protolink.journal import InMemoryDurableStore
from protolink.llms import Call, MockLLM, ModelTurn


class Steps:
    """A tool that notes when it starts and ends, and can be made to wait for the other calls."""

    def __init__(self) -> None:
        self.log: list[str] = []
        self.together = 0
        self.most = 0

    async def step(self, n: int) -> int:
        """Take a step."""
        self.log.append(f"start {n}")
        self.together += 1
        self.most = max(self.most, self.together)
        for _ in range(3 * (3 - n)):
            await asyncio.sleep(0)
        self.together -= 1
        self.log.append(f"end {n}")
        return n * 10

    @property
    def tool(self) -> Tool:
        return Tool.from_callable(self.step)


def steps(*numbers: int) -> ModelTurn:
    return turn(*[("step", {"n": n}) for n in numbers])


def guarded(ran: list[Any]) -> Tool:
    def act(n: int) -> str:
        """Act."""
        ran.append(n)
        return f"acted {n}"

    return Tool.from_callable(act, capabilities=["act"])


ASKING = CapabilityPolicy({"act": "ask"})


async def test_calls_run_one_after_the_other_in_their_order() -> None:
    taken = Steps()
    found = agent(steps(0, 1, 2), "done", native=True, tools=[taken.tool])
    assert await found.invoke("go") == "done"
    assert taken.log == [f"{word} {n}" for n in range(3) for word in ("start", "end")]
    assert taken.most == 1


async def test_calls_run_side_by_side_when_the_agent_says_so() -> None:
    taken = Steps()
    found = agent(steps(0, 1, 2), "done", native=True, tools=[taken.tool], parallel_tool_calls=True)
    assert await found.invoke("go") == "done"
    assert taken.log[:3] == ["start 0", "start 1", "start 2"]
    assert taken.log[3:] == ["end 2", "end 1", "end 0"]


@pytest.mark.parametrize("parallel", [False, True])
async def test_results_stand_in_the_conversation_in_the_order_of_the_calls(parallel: bool) -> None:
    seen: list[Any] = []

    def answer(history: Any, prompt: str) -> Any:
        seen[:] = history.messages
        return steps(0, 1, 2) if len(seen) < 4 else "done"

    llm = MockLLM(response_callback=answer, tool_calling="native")
    found = Agent(name="a", llm=llm, tools=[Steps().tool], parallel_tool_calls=parallel, verbosity=0)
    assert await found.invoke("go") == "done"
    told = [json.loads(m["content"])["result"] for m in seen if m["role"] == "tool"]
    assert told == [0, 10, 20]


async def test_each_call_has_an_id_of_its_own_even_without_one_from_the_provider() -> None:
    many = ModelTurn("", tuple(Call("", "step", {"n": n}) for n in (0, 1)))
    task = infer()
    events = await stream(agent(many, "done", native=True, tools=[Steps().tool]), task)
    ids = [e.metadata["action_id"] for e in events if kinds([e]) == ["tool_start"]]
    assert len(set(ids)) == 2
    assert [a.action_id for a in task.artifacts if a.kind == "action_result"] == ids


@pytest.mark.parametrize("parallel", [False, True])
async def test_one_denied_call_means_that_none_starts(parallel: bool) -> None:
    taken, ran = Steps(), list[Any]()
    found = agent(
        turn(("step", {"n": 0}), ("act", {"n": 1})),
        "never",
        native=True,
        tools=[taken.tool, guarded(ran)],
        policy=CapabilityPolicy({"act": "deny"}),
        parallel_tool_calls=parallel,
    )
    task = infer()
    assert isinstance(await outcome(found, task), ActionDeniedError)
    assert (taken.log, ran, task.state) == ([], [], TaskState.FAILED)


async def test_one_refused_call_leaves_the_others_running() -> None:
    taken = Steps()
    task = infer()
    found = agent(
        turn(("step", {"n": 0}), ("step", {"n": "x"}), ("missing", {}), ("step", {"n": 1})),
        "done",
        native=True,
        tools=[taken.tool],
    )
    await found.run_task(task)
    assert task.get_output() == "done"
    assert [line for line in taken.log if line.startswith("start")] == ["start 0", "start 1"]
    assert sorted(receipts(task)) == [
        ("action_rejection", "missing"),
        ("action_rejection", "step"),
        ("action_result", "step"),
        ("action_result", "step"),
    ]


async def test_refusals_of_one_turn_count_one_by_one() -> None:
    found = agent(turn(("missing", {"n": 0}), ("missing", {"n": 1}), ("missing", {"n": 2})), "never", native=True)
    task = infer()
    assert isinstance(await outcome(found, task), ToolCorrectionLimitError)
    assert codes(task) == ["tool_correction_limit"]


async def test_rejection_by_one_executor_leaves_the_others_running() -> None:
    ran: list[int] = []

    def pick(n: int) -> str:
        """Pick."""
        ran.append(n)
        if n == 0:
            raise ToolRejectedError(code="zero", message="zero")
        return "ok"

    found = agent(turn(("pick", {"n": 0}), ("pick", {"n": 1})), "done", native=True, tools=[pick])
    assert await found.invoke("go") == "done"
    assert ran == [0, 1]


@pytest.mark.parametrize(("parallel", "others"), [(False, ["start 0", "end 0"]), (True, ["start 0", "end 0"])])
async def test_failure_of_one_call_keeps_the_results_of_the_others(parallel: bool, others: list[str]) -> None:
    taken = Steps()

    async def boom() -> None:
        """Fail."""
        await asyncio.sleep(0)
        raise KeyError("no row")

    found = agent(
        turn(("step", {"n": 0}), ("boom", {})),
        "never",
        native=True,
        tools=[taken.tool, boom],
        parallel_tool_calls=parallel,
    )
    task = infer()
    assert isinstance(await outcome(found, task), RuntimeError)
    assert taken.log == others
    assert receipts(task) == [("action_result", "step")]


async def test_call_that_failed_stops_the_ones_after_it() -> None:
    taken = Steps()

    def boom() -> None:
        """Fail."""
        raise KeyError("no row")

    found = agent(turn(("boom", {}), ("step", {"n": 0})), "never", native=True, tools=[taken.tool, boom])
    assert isinstance(await outcome(found, infer()), RuntimeError)
    assert taken.log == []


def several(ran: list[Any], **options: Any) -> Agent:
    return agent(
        turn(("act", {"n": 0}), ("free", {"n": 1}), ("act", {"n": 2}), ("free", {"n": 3})),
        "done",
        native=True,
        tools=[guarded(ran), Tool.from_callable(lambda n: ran.append(n), name="free")],
        policy=ASKING,
        **options,
    )


@pytest.mark.parametrize("parallel", [False, True])
async def test_calls_that_wait_for_a_person_do_not_hold_up_the_free_ones(parallel: bool) -> None:
    ran: list[Any] = []
    found = several(ran, durability=InMemoryDurableStore(), parallel_tool_calls=parallel)
    task = infer()
    await found.run_task(task)
    assert (task.state, ran) == (TaskState.INPUT_REQUIRED, [1, 3])
    waiting = [RunInterruption.from_dict(item) for item in task.metadata["interruptions"]]
    assert [item.request["action"]["payload"]["arguments"]["n"] for item in waiting] == [0, 2]
    assert task.metadata["interruption"] == task.metadata["interruptions"][0]


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
async def test_several_requests_are_answered_in_any_order(order: tuple[int, int]) -> None:
    ran: list[Any] = []
    found = several(ran, durability=InMemoryDurableStore())
    task = infer()
    await found.run_task(task)
    requests = [item["request_id"] for item in task.metadata["interruptions"]]
    first, second = (requests[index] for index in order)
    paused = await found.resume_task(run_id(task), request_id=first, approved=True)
    assert ran == [1, 3, 2 * order[0]]
    assert [item["request_id"] for item in paused.metadata["interruptions"]] == [second]
    assert await found.resume(run_id(task), request_id=second, approved=True) == "done"
    assert ran == [1, 3, 2 * order[0], 2 * order[1]]


async def test_denying_one_of_several_closes_the_others_and_keeps_what_ran() -> None:
    ran: list[Any] = []
    found = several(ran, durability=InMemoryDurableStore())
    task = infer()
    await found.run_task(task)
    first, second = (item["request_id"] for item in task.metadata["interruptions"])
    with pytest.raises(ActionDeniedError):
        await found.resume(run_id(task), request_id=second, approved=False, reason="no")
    stored = found.durability.get(run_id(task)).data
    assert ran == [1, 3]
    assert stored["responses"][first]["status"] == "canceled"
    assert [kind for kind, _ in receipts(Task.from_dict(stored["task"]))] == ["action_result"] * 2


async def test_live_denial_of_one_of_several_lets_none_of_them_run() -> None:
    ran: list[Any] = []

    def handler(request: Any, context: Any) -> bool:
        return bool(request.action.payload["arguments"]["n"] == 0)

    found = agent(
        turn(("act", {"n": 0}), ("act", {"n": 2})),
        "never",
        native=True,
        tools=[guarded(ran)],
        policy=ASKING,
        approval_handler=handler,
    )
    assert isinstance(await outcome(found, infer()), ActionDeniedError)
    assert 2 not in ran


async def test_turn_with_text_and_calls_keeps_the_text_in_the_conversation() -> None:
    seen: list[str] = []

    def answer(history: Any, prompt: str) -> Any:
        seen.append(str(history.messages))
        if len(seen) == 1:
            return ModelTurn("Let me look.", (Call("c1", "step", {"n": 0}),))
        return "done"

    llm = MockLLM(response_callback=answer, tool_calling="native")
    assert await Agent(name="a", llm=llm, tools=[Steps().tool], verbosity=0).invoke("go") == "done"
    assert "Let me look." in seen[1]


async def test_whole_turn_is_one_step_and_one_model_call() -> None:
    found = agent(steps(0, 1, 2), "done", native=True, tools=[Steps().tool])
    budget = RunBudget(max_steps=2, max_llm_calls=2, max_tool_calls=3)
    assert await found.invoke("go", budget=budget) == "done"
    assert played(found.llm) == 2
