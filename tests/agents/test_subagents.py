"""Owned children: their own conversation and identity, the parent's budget, policy, cancellation and stream."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest
from agent_support import (
    Gate,
    agent,
    call,
    codes,
    delegate,
    delegate_tool,
    infer,
    kinds,
    outcome,
    receipts,
    recorded,
    run_id,
    script,
    stream,
    turn,
)

from protolink import (
    ActionDeniedError,
    Agent,
    CapabilityPolicy,
    DurableExecutionError,
    PolicyDecision,
    RunAction,
    RunContext,
    RunEvent,
    SubagentLimits,
    TaskState,
    Tool,
    ToolExecution,
    UncertainExecutionError,
)
from protolink.journal import InMemoryDurableStore
from protolink.llms import MockLLM
from protolink.tools import PreparedTool


def look() -> str:
    """Look."""
    return "seen"


def boom() -> None:
    """Fail."""
    raise KeyError("no row")


def listening(*replies: Any) -> tuple[MockLLM, list[list[dict[str, Any]]]]:
    """A model that keeps the conversations that it was shown."""
    heard: list[list[dict[str, Any]]] = []

    def answer(history: Any, prompt: str) -> Any:
        heard.append([dict(m) for m in history.messages if m["role"] != "system"])
        return replies[len(heard) - 1]

    return MockLLM(response_callback=answer), heard


@pytest.mark.claim("WRK-008")
async def test_child_starts_from_its_prompt_in_a_conversation_of_its_own() -> None:
    llm, heard = listening("kid's answer", "kid's second answer")
    kid = Agent(name="kid", llm=llm, verbosity=0)
    found = agent(delegate("kid", "first"), delegate("kid", "second"), "done", subagents=[kid])
    assert await found.invoke("the parent's secret") == "done"
    assert [[m["content"] for m in said] for said in heard] == [["first"], ["second"]]


@pytest.mark.claim("WRK-009")
async def test_parent_observes_the_answer_of_the_child() -> None:
    llm, heard = listening(delegate("kid"), "done")
    found = Agent(name="parent", llm=llm, subagents=[agent("the kid's answer", name="kid")], verbosity=0)
    assert await found.invoke("go") == "done"
    assert "the kid's answer" in str(heard[1][-1]["content"])


@pytest.mark.claim("CTX-005", "CTX-010", "CAN-022")
async def test_child_has_a_context_of_its_own_that_tells_where_it_came_from() -> None:
    contexts: list[RunContext] = []

    class Watching:
        async def evaluate(self, action: RunAction, context: RunContext) -> Any:
            contexts.append(context)
            return PolicyDecision("allow", "fine", "watching")

    kid = agent(call("look"), "kid", name="kid", tools=[look], policy=Watching())
    found = agent(delegate("kid"), "done", name="parent", subagents=[kid])
    task = infer(session_id="s", context=RunContext(trace_id="t", workspace_uri="w"))
    await found.run_task(task)
    [context] = contexts
    own = RunContext.from_task(task)
    assert context.parent_run_id == own.run_id
    assert context.run_id != own.run_id
    assert context.agent_chain == ["parent", "kid"]
    assert (context.trace_id, context.workspace_uri) == ("t", "w")
    assert context.session_id not in ("s", None)


@pytest.mark.claim("DEL-008", "DEL-009", "DEL-012", "DEL-013", "LIV-010", "LIV-011", "LIV-013")
async def test_forwarded_events_keep_their_identity_and_name_the_calling_action() -> None:
    kid = agent(call("look"), "kid", name="kid", tools=[look])
    task = infer()
    events = await stream(agent(delegate("kid"), "done", subagents=[kid]), task)
    start = next(e for e in events if kinds([e]) == ["agent_call_start"])
    parent_action = start.metadata["action_id"]
    inner = [e for e in events if isinstance(e, RunEvent) and e.agent_name == "kid"]
    assert {e.parent_action_id for e in inner} == {e.delegation_id for e in inner} == {parent_action}
    assert len({e.run_id for e in inner}) == len({e.task_id for e in inner}) == 1
    assert inner[0].run_id != run_id(task)
    assert inner[0].task_id != task.id
    assert {e.final for e in inner} == {False}
    assert {e.metadata["parent_run_id"] for e in inner} == {run_id(task)}
    assert [e.metadata["source_sequence"] for e in inner] == sorted(e.metadata["source_sequence"] for e in inner)
    finals = [(e.type, e.payload.get("final")) for e in inner if e.metadata["source_final"]]
    assert finals == [("llm.stream", True), ("task.status", True)]
    acted = [e for e in inner if e.type in ("action.started", "action.completed")]
    assert len({e.action_id for e in acted}) == 1
    assert parent_action not in {e.action_id for e in acted}


@pytest.mark.claim("DEL-002", "DEL-016", "LIV-012")
async def test_events_of_the_child_are_kept_with_the_parent_s_task_once() -> None:
    kid = agent(call("look"), "kid", name="kid", tools=[look])
    task = infer()
    events = await stream(agent(delegate("kid"), "done", subagents=[kid]), task)
    assert recorded(task) == ["action.started", "action.started", "action.completed", "action.completed"]
    assert [e["agent_name"] for e in task.metadata["run_events"]] == ["agent", "kid", "kid", "agent"]
    kept = [e["event_id"] for e in task.metadata["run_events"]]
    assert len(set(kept)) == len(kept)
    assert set(kept) <= {e.event_id for e in events}


@pytest.mark.claim("DEL-010", "LIV-008")
async def test_links_of_a_grandchild_are_its_own() -> None:
    grand = agent(call("look"), "grand", name="grand", tools=[look])
    kid = agent(delegate("grand"), "kid", name="kid", subagents=[grand])
    found = agent(delegate("kid"), "done", subagents=[kid], subagent_limits=SubagentLimits(max_depth=2))
    events = [RunEvent.from_task_event(e) for e in await stream(found, infer())]
    of_kid = next(e for e in events if e.agent_name == "kid" and e.type == "action.started")
    of_grand = [e for e in events if e.agent_name == "grand"]
    assert {e.parent_action_id for e in of_grand} == {of_kid.action_id}
    assert {e.metadata["parent_run_id"] for e in of_grand} == {of_kid.run_id}
    assert of_kid.parent_action_id not in (None, of_kid.action_id)


@pytest.mark.claim("DEL-011")
async def test_numbers_in_the_parent_s_stream_are_the_parent_s() -> None:
    kid = agent("kid", name="kid")
    handle = agent(delegate("kid"), "done", subagents=[kid]).start_run("go")
    events = [event async for event in handle.events()]
    assert [e.sequence for e in events] == list(range(1, len(events) + 1))


@pytest.mark.claim("DEL-014", "LIV-014", "LIV-020", "LIV-003")
async def test_end_of_the_child_does_not_end_the_parent() -> None:
    kid = agent("kid", name="kid")
    handle = agent(delegate("kid"), delegate("kid", "again"), "done", subagents=[kid]).start_run("go")
    kid.llm.sequential_responses = ["one", "two"]
    final = [e async for e in handle.events() if e.type == "task.status" and e.final]
    assert [(e.agent_name, e.payload["new_state"]) for e in final] == [(final[0].agent_name, "completed")]
    assert final[0].task_id == handle.task.id
    assert (await handle.result()).output == "done"


@pytest.mark.claim("DEL-015")
async def test_artifacts_of_the_child_stay_with_the_parent() -> None:
    kid = agent(call("look"), "the kid's answer", name="kid", tools=[look])
    task = infer()
    await agent(delegate("kid"), "done", subagents=[kid]).run_task(task)
    assert receipts(task) == [("action_result", "look"), ("action_result", "kid")]
    assert "the kid's answer" in [part.content for a in task.artifacts for part in a.parts]
    assert task.get_output() == "done"


@pytest.mark.claim("DEL-017")
async def test_failed_child_fails_the_parent_and_keeps_its_evidence() -> None:
    kid = agent(call("look"), call("boom"), name="kid", tools=[look, boom])
    task = infer()
    error = await outcome(agent(delegate("kid"), "never", subagents=[kid]), task)
    assert isinstance(error, RuntimeError)
    assert isinstance(error.__cause__, KeyError)
    assert (task.state, codes(task)) == (TaskState.FAILED, ["KeyError"])
    assert recorded(task) == [
        "action.started",
        "action.started",
        "action.completed",
        "action.started",
        "action.failed",
        "action.failed",
    ]
    assert ("action_result", "look") in receipts(task)


@pytest.mark.claim("DEL-017")
async def test_canceled_child_keeps_its_evidence() -> None:
    gate, task = Gate(), infer()

    async def wait() -> None:
        await gate.wait()

    kid = agent(call("look"), call("wait"), name="kid", tools=[look, wait])
    found = agent(delegate("kid"), "never", subagents=[kid])
    running = asyncio.ensure_future(found.run_task(task))
    await gate.reached.wait()
    await found.cancel_task(task.id)
    await running
    assert task.state is TaskState.CANCELED
    assert ("action_result", "look") in receipts(task)
    assert "action.completed" in recorded(task)


@pytest.mark.claim("LIV-015")
async def test_children_still_at_work_at_the_end_of_the_parent_are_canceled_and_awaited() -> None:
    gate, after = Gate(), list[str]()

    async def wait() -> None:
        try:
            await gate.wait()
        finally:
            await asyncio.sleep(0)
            after.append("cleaned up")

    async def fail() -> None:
        await gate.reached.wait()
        raise KeyError("no row")

    slow = agent(call("wait"), name="slow", tools=[wait])
    broken = agent(call("fail"), name="broken", tools=[fail])
    found = agent(
        turn(*[("agent_call", {"agent": kid.name, "action": "infer", "prompt": "go"}) for kid in (slow, broken)]),
        native=True,
        subagents=[slow, broken],
        parallel_tool_calls=True,
    )
    task = infer()
    running = asyncio.ensure_future(outcome(found, task))
    await gate.reached.wait()
    assert isinstance(await running, RuntimeError)
    assert (gate.canceled, after) == (True, ["cleaned up"])


@pytest.mark.claim("LIV-002")
async def test_events_of_parallel_children_can_be_told_apart() -> None:
    kids = [agent(call("look"), f"answer {n}", name=f"kid{n}", tools=[look]) for n in range(2)]
    found = agent(
        turn(*[("agent_call", {"agent": kid.name, "action": "infer", "prompt": "go"}) for kid in kids]),
        "done",
        native=True,
        subagents=kids,
        parallel_tool_calls=True,
    )
    events = [e for e in await stream(found, infer()) if isinstance(e, RunEvent) and e.agent_name in ("kid0", "kid1")]
    by_run: dict[str | None, list[RunEvent]] = {}
    for event in events:
        by_run.setdefault(event.run_id, []).append(event)
    assert len(by_run) == 2
    for group in by_run.values():
        assert len({e.agent_name for e in group}) == 1
        types = [e.type for e in group]
        assert types[0] == types[-1] == "task.status"
        assert types.index("action.started") < types.index("action.completed")


@pytest.mark.claim("INT-022", "WRK-011", "EVT-043")
async def test_delegation_is_authorized_as_an_agent_call() -> None:
    shown: list[RunAction] = []
    kid = agent("kid", name="kid")
    found = agent(
        delegate("kid", "do this"),
        "done",
        subagents=[kid],
        policy=CapabilityPolicy({"agent.delegate": "ask"}),
        approval_handler=lambda request, context: shown.append(request.action) or True,
    )
    assert await found.invoke("go") == "done"
    [action] = shown
    assert (action.kind, action.name, action.capabilities) == ("agent.call", "kid", {"agent.delegate"})
    assert action.payload["prompt"] == "do this"


async def test_tool_of_a_child_without_a_model_can_be_called() -> None:
    kid = Agent(name="kid", tools=[look], verbosity=0)
    llm, heard = listening(delegate_tool("kid", "look"), "done")
    assert await Agent(name="parent", llm=llm, subagents=[kid], verbosity=0).invoke("go") == "done"
    assert "seen" in str(heard[1][-1]["content"])


async def test_child_without_a_model_cannot_infer() -> None:
    kid = Agent(name="kid", tools=[look], verbosity=0)
    task = infer()
    await outcome(agent(delegate("kid"), "done", subagents=[kid]), task)
    assert (task.state, codes(task)) == (TaskState.FAILED, ["no_llm"])


async def test_child_with_a_factory_gets_a_model_of_its_own() -> None:
    kid = Agent(name="kid", llm_factory=lambda: script("made for this"), verbosity=0)
    llm, heard = listening(delegate("kid"), "done")
    assert await Agent(name="parent", llm=llm, subagents=[kid], verbosity=0).invoke("go") == "done"
    assert "made for this" in str(heard[1][-1]["content"])


@pytest.mark.parametrize("make", [lambda kid: kid, lambda kid: Agent(name="between", subagents=[kid])])
async def test_durable_child_needs_a_durable_parent(make: Callable[[Agent], Agent]) -> None:
    kid = agent("never", name="kid", durability=InMemoryDurableStore())
    task = infer()
    error = await outcome(agent("never", subagents=[make(kid)]), task)
    assert isinstance(error, DurableExecutionError)
    assert "durab" in str(error)


async def test_durable_child_uses_the_store_of_its_parent() -> None:
    own, store = InMemoryDurableStore(), InMemoryDurableStore()
    kid = agent("kid", name="kid", durability=own)
    task = infer()
    await agent(delegate("kid"), "done", subagents=[kid], durability=store).run_task(task)
    assert task.get_output() == "done"
    assert list(own.list()) == []


async def test_unknown_effect_in_a_child_stops_the_tree_and_names_the_child_s_run() -> None:
    kid = agent(call("boom"), "kid", name="kid", tools=[boom])
    found = agent(delegate("kid"), "done", subagents=[kid], durability=InMemoryDurableStore())
    task = infer()
    error = await outcome(found, task)
    assert isinstance(error, UncertainExecutionError)
    assert error.run_id not in (None, run_id(task))
    found.reconcile(error.run_id, error.action_id, result="it was done")
    assert await found.resume(run_id(task)) == "done"


async def test_denial_in_a_child_is_the_denial_of_the_run() -> None:
    tool = Tool.from_callable(look, capabilities=["look"])
    kid = agent(call("look"), name="kid", tools=[tool], policy=CapabilityPolicy({"look": "deny"}))
    task = infer()
    error = await outcome(agent(delegate("kid"), "never", subagents=[kid]), task)
    assert isinstance(error, ActionDeniedError)
    assert codes(task) == ["action_denied"]


async def test_parent_tells_who_its_children_are() -> None:
    kid = agent("kid", name="kid")
    task = infer()
    await agent(delegate("kid"), "done", subagents=[kid]).run_task(task)
    [listed] = task.metadata["subagent_runs"]
    assert listed["agent"] == "kid"
    assert listed["run_id"] not in (run_id(task), task.id)


def test_name_of_a_child_has_no_slash() -> None:
    with pytest.raises(ValueError, match="'a/b' holds a '/'"):
        agent("x", subagents=[agent("y", name="a/b")])
    assert agent("x", name="a/b").name == "a/b"


@pytest.mark.parametrize("durable", [False, True])
async def test_what_a_childs_tool_changes_in_its_context_stays_with_the_child(durable: bool) -> None:
    seen: list[tuple[str, Any, Any]] = []

    def noting(name: str, *, spoil: bool = False) -> PreparedTool:
        async def execute(execution: ToolExecution) -> str:
            context = execution.context
            seen.append((name, list(context.permissions["fs.read"]["paths"]), list(context.metadata["notes"])))
            if spoil:
                context.permissions["fs.read"]["paths"].append("/etc")
                context.metadata["notes"].append("spoiled")
            return name

        def prepare(arguments: dict[str, Any], context: RunContext) -> RunAction:
            return RunAction(kind="tool.call", name=name, payload={"arguments": arguments})

        return PreparedTool(look, name=name, prepare=prepare, execute=execute, capabilities=())

    kid = agent(call("spoil"), "done", name="kid", tools=[noting("spoil", spoil=True)])
    store = {"durability": InMemoryDurableStore()} if durable else {}
    parent = agent(
        call("before"), delegate("kid"), call("after"), "done",
        tools=[noting("before"), noting("after")], subagents=[kid], **store,
    )  # fmt: skip
    mine = RunContext(permissions={"fs.read": {"paths": ["/data"]}}, metadata={"notes": ["mine"]})
    assert await parent.invoke("go", context=mine) == "done"
    assert seen == [(name, ["/data"], ["mine"]) for name in ("before", "spoil", "after")]
    assert mine.permissions == {"fs.read": {"paths": ["/data"]}}
