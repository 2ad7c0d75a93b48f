"""Pauses below the root: they surface at the root, are answered through it, and several can wait at once."""

from __future__ import annotations

from typing import Any

import pytest
from agent_support import agent, call, delegate, infer, played, receipts, run_id, turn

from protolink import (
    ActionDeniedError,
    Agent,
    CapabilityPolicy,
    CheckpointMismatchError,
    RunInterrupted,
    SubagentLimits,
    Task,
    TaskState,
    Tool,
)
from protolink.journal import InMemoryDurableStore
from protolink.tools.builtins import ask_user_tool

ASKING = CapabilityPolicy({"act": "ask"})


class Tree:
    """A root, a kid and a grandchild whose actions need approval or an answer."""

    def __init__(self, *grand: Any, kids: tuple[Any, ...] = (), parallel: bool = False) -> None:
        self.ran: list[Any] = []
        self.store = InMemoryDurableStore()
        self.grand = agent(*grand, "grand done", name="grand", tools=[self.tool(), ask_user_tool()], policy=ASKING)
        self.kid = agent(delegate("grand"), "kid done", name="kid", subagents=[self.grand])
        self.root = agent(
            delegate("kid"),
            "root done",
            name="root",
            subagents=[self.kid],
            durability=self.store,
            subagent_limits=SubagentLimits(max_depth=2),
        )

    def tool(self) -> Tool:
        def act(n: int) -> str:
            """Act."""
            self.ran.append(n)
            return f"acted {n}"

        return Tool.from_callable(act, capabilities=["act"])


async def test_pause_of_a_grandchild_is_answered_through_the_root() -> None:
    tree, task = Tree(call("act", n=1)), infer()
    await tree.root.run_task(task)
    waiting = task.metadata["interruption"]
    assert (task.state, waiting["kind"], tree.ran) == (TaskState.INPUT_REQUIRED, "approval", [])
    assert waiting["run_id"] != run_id(task)
    done = await tree.root.resume(run_id(task), request_id=waiting["request_id"], approved=True)
    assert (done, tree.ran) == ("root done", [1])
    assert [played(a.llm) for a in (tree.root, tree.kid, tree.grand)] == [2, 2, 2]


async def test_id_of_a_child_s_run_does_not_resume_the_tree() -> None:
    tree, task = Tree(call("act", n=1)), infer()
    await tree.root.run_task(task)
    waiting = task.metadata["interruption"]
    with pytest.raises(CheckpointMismatchError) as caught:
        await tree.root.resume(waiting["run_id"], request_id=waiting["request_id"], approved=True)
    assert run_id(task) in str(caught.value)
    assert tree.ran == []


async def test_grandchild_may_pause_again_and_again_for_different_things() -> None:
    tree, task = Tree(call("ask_user", question="Which?"), call("act", n=1), call("act", n=2)), infer()
    await tree.root.run_task(task)
    kinds: list[str] = []
    while task.state is TaskState.INPUT_REQUIRED:
        waiting = task.metadata["interruption"]
        kinds.append(waiting["kind"])
        response = {"answer": "that one"} if waiting["kind"] == "input" else {"approved": True}
        task = await tree.root.resume_task(run_id(task), request_id=waiting["request_id"], **response)
    assert kinds == ["input", "approval", "approval"]
    assert (task.get_output(), tree.ran) == ("root done", [1, 2])


async def test_denial_below_fails_the_whole_run() -> None:
    tree, task = Tree(call("act", n=1)), infer()
    await tree.root.run_task(task)
    request = task.metadata["interruption"]["request_id"]
    with pytest.raises(ActionDeniedError, match="not now"):
        await tree.root.resume(run_id(task), request_id=request, approved=False, reason="not now")
    assert tree.ran == []
    assert tree.store.get(run_id(task)).status == "failed"


def siblings(ran: list[Any], parallel: bool, *, count: int = 2) -> Agent:
    def act(n: int) -> str:
        """Act."""
        ran.append(n)
        return f"acted {n}"

    tool = Tool.from_callable(act, capabilities=["act"])
    kids = [agent(call("act", n=n), f"kid {n} done", name=f"kid{n}", tools=[tool], policy=ASKING) for n in range(count)]
    return agent(
        turn(*[("agent_call", {"agent": kid.name, "action": "infer", "prompt": "go"}) for kid in kids]),
        "root done",
        native=True,
        subagents=kids,
        durability=InMemoryDurableStore(),
        parallel_tool_calls=parallel,
    )


@pytest.mark.parametrize("parallel", [False, True])
async def test_several_children_wait_at_once(parallel: bool) -> None:
    ran: list[Any] = []
    found, task = siblings(ran, parallel, count=3), infer()
    await found.run_task(task)
    waiting = task.metadata["interruptions"]
    assert [item["kind"] for item in waiting] == ["approval"] * 3
    assert len({item["run_id"] for item in waiting} | {run_id(task)}) == 4
    assert len({item["request_id"] for item in waiting}) == 3
    assert task.metadata["interruption"] == waiting[0]
    assert ran == []


@pytest.mark.parametrize("parallel", [False, True])
@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
async def test_children_are_answered_in_any_order(parallel: bool, order: tuple[int, int]) -> None:
    ran: list[Any] = []
    found, task = siblings(ran, parallel), infer()
    await found.run_task(task)
    requests = [item["request_id"] for item in task.metadata["interruptions"]]
    paused = await found.resume_task(run_id(task), request_id=requests[order[0]], approved=True)
    assert [item["request_id"] for item in paused.metadata["interruptions"]] == [requests[order[1]]]
    assert ran == [order[0]]
    assert await found.resume(run_id(task), request_id=requests[order[1]], approved=True) == "root done"
    assert ran == list(order)
    final = await found.resume_task(run_id(task))
    assert sorted(receipts(final)) == [
        ("action_result", "act"),
        ("action_result", "act"),
        ("action_result", "kid0"),
        ("action_result", "kid1"),
    ]


async def test_interruption_carries_all_requests_oldest_first() -> None:
    found = siblings([], False)
    with pytest.raises(RunInterrupted) as caught:
        await found.invoke("go")
    task = caught.value.task
    assert [i.request_id for i in caught.value.interruptions] == [
        item["request_id"] for item in task.metadata["interruptions"]
    ]
    assert caught.value.interruption == caught.value.interruptions[0]


async def test_same_answer_again_is_a_plain_resume() -> None:
    ran: list[Any] = []
    found, task = siblings(ran, False), infer()
    await found.run_task(task)
    first, second = (item["request_id"] for item in task.metadata["interruptions"])
    await found.resume_task(run_id(task), request_id=first, approved=True)
    again = await found.resume_task(run_id(task), request_id=first, approved=True)
    assert [item["request_id"] for item in again.metadata["interruptions"]] == [second]
    assert ran == [0]


async def test_plain_resume_of_what_waits_for_a_person_changes_nothing() -> None:
    found, task = siblings([], False), infer()
    await found.run_task(task)
    before = found.durability.get(run_id(task)).data
    again = await found.resume_task(run_id(task))
    assert again.metadata["interruptions"] == task.metadata["interruptions"]
    assert found.durability.get(run_id(task)).data == before


async def test_bound_tool_of_a_child_pauses_a_direct_call() -> None:
    ran: list[int] = []

    def act(n: int) -> str:
        """Act."""
        ran.append(n)
        return "acted"

    kid = Agent(name="kid", tools=[Tool.from_callable(act, capabilities=["act"])], policy=ASKING, verbosity=0)
    root = Agent(name="root", subagents=[kid], durability=InMemoryDurableStore(), verbosity=0)
    root.add_worker_tool("kid", tool="act", name="kid_act")
    task = Task.create_tool_call(tool_name="kid_act", args={"n": 1})
    await root.run_task(task)
    waiting = task.metadata["interruption"]
    assert (waiting["kind"], ran) == ("approval", [])
    assert await root.resume(run_id(task), request_id=waiting["request_id"], approved=True) == "acted"
    assert ran == [1]


async def test_child_that_yields_beside_one_that_asks_is_granted_by_the_same_resume() -> None:
    ran: list[Any] = []

    def act(n: int) -> str:
        """Act."""
        ran.append(n)
        return "acted"

    guarded = Tool.from_callable(act, capabilities=["act"])
    free = Tool.from_callable(act, name="free")
    asker = agent(call("act", n=1), "asker done", name="asker", tools=[guarded], policy=ASKING)
    yielder = agent(call("free", n=2), "yielder done", name="yielder", tools=[free], yield_after_steps=1)
    root = agent(
        turn(*[("agent_call", {"agent": kid, "action": "infer", "prompt": "go"}) for kid in ("asker", "yielder")]),
        "root done",
        native=True,
        subagents=[asker, yielder],
        durability=InMemoryDurableStore(),
    )
    task = infer()
    await root.run_task(task)
    assert [item["kind"] for item in task.metadata["interruptions"]] == ["approval", "yield"]
    paused = await root.resume_task(run_id(task))
    assert [item["kind"] for item in paused.metadata["interruptions"]] == ["approval"]
    request = paused.metadata["interruption"]["request_id"]
    assert await root.resume(run_id(task), request_id=request, approved=True) == "root done"
    assert ran == [2, 1]
