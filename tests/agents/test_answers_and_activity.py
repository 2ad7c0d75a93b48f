"""The two streams for people, row by row: the answer while it is written, and activity that anybody may see."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from agent_support import FakeClock, Gate, agent, call, delegate

from protolink import (
    LLM,
    Agent,
    AgentGroup,
    AnswerEvent,
    ApprovalDecision,
    CapabilityPolicy,
    GroupLimits,
    InMemoryDurableStore,
    PresentationEvent,
    RedactionPolicy,
    RunBudget,
    RunHandle,
    RunReport,
    Task,
    Tool,
)
from protolink.tools import ask_user_tool

SECRET = "what only the tool may see"


async def listed(items: Any) -> list[Any]:
    return [item async for item in items]


def acting(*responses: Any, **options: Any) -> Agent:
    tool = Tool.from_callable(lambda text="": "the secret result", name="act", capabilities=["act"])
    return agent(*responses, tools=[tool, ask_user_tool()], **options)


async def answers(handle: RunHandle) -> list[AnswerEvent]:
    """Read while the run goes on, and again from its history: both must tell the same."""
    found = await listed(handle.answer_events())
    assert await listed(handle.answer_events()) == found
    return found


# ---------------------------------------------------------------------------------------------------- answers


def said(events: list[AnswerEvent]) -> str:
    """What a page shows in the end, when it does what the kinds say."""
    shown = ""
    for event in events:
        shown = shown + event.text if event.kind == "delta" else event.text
    return shown


@pytest.mark.claim("GRP-020")
@pytest.mark.parametrize("native", [False, True])
async def test_pages_end_with_the_answer_and_one_completion(native: bool) -> None:
    turns = ["The answer"] if native else [call("act", text=SECRET), "The answer"]
    run = acting(*turns, native=native).start_run("go")
    found = await answers(run)
    assert said(found) == "The answer" == (await run.result()).output
    assert [event.kind for event in found].count("completed") == 1
    assert found[-1].kind == "completed"
    assert SECRET not in repr(found)
    assert {(event.run_id, event.agent_name) for event in found} == {(run.context.run_id, "agent")}
    numbers = [event.sequence for event in found]
    assert numbers == sorted(numbers)
    assert set(numbers) <= {event.sequence for event in await listed(run.events())}
    with pytest.raises(AttributeError):
        found[0].text = "changed"


class Breaking(LLM):
    """Its line breaks in the middle of its first reply."""

    def __init__(self) -> None:
        super().__init__("breaking", {})
        self.calls = 0

    async def call(self, history: Any) -> str:
        return json.dumps({"type": "final", "content": "Now it is right"})

    async def call_stream(self, history: Any) -> AsyncIterator[str]:
        self.calls += 1
        if self.calls == 1:
            yield '{"type": "final", "content": "Not th'
            raise ConnectionError("the line broke")
        for piece in (await self.call(history)).split(" "):
            yield piece + " "

    def validate_connection(self) -> bool:
        return True


@pytest.mark.claim("GRP-020")
async def test_reply_that_broke_off_is_taken_back_and_told_again() -> None:
    target = Agent(name="agent", llm=Breaking(), clock=FakeClock(), verbosity=0)
    found = await answers(target.start_run("go"))
    assert [(event.kind, event.text) for event in found][:2] == [("delta", "Not th"), ("replace", "")]
    assert [event.kind for event in found].count("delta") > 2
    assert said(found) == "Now it is right"
    assert found[-1].kind == "completed"


@pytest.mark.claim("GRP-020")
@pytest.mark.parametrize("end", ["failed", "canceled", "input-required", "budget"])
async def test_run_without_an_answer_takes_back_what_was_shown(end: str) -> None:
    gate = Gate()

    async def wait() -> None:
        """Wait."""
        await gate.wait()

    options: dict[str, Any] = {}
    responses: list[Any] = [call("wait"), KeyError("model")]
    if end == "input-required":
        options = {"durability": InMemoryDurableStore(), "policy": CapabilityPolicy({"wait": "require_approval"})}
    tools = [Tool.from_callable(wait, capabilities=["wait"])]
    budget = RunBudget(max_llm_calls=1) if end == "budget" else None
    handle = agent(*responses, tools=tools, **options).start_run("go", budget=budget)
    if end == "canceled":
        await gate.reached.wait()
        await handle.cancel()
    gate.opened.set()
    found = await answers(handle)
    assert (await handle.result()).status == ("failed" if end == "budget" else end)
    assert (said(found), found[-1].kind, found[-1].text) == ("", "discarded", "")
    assert [event.kind for event in found].count("completed") == 0


async def test_answer_of_a_direct_call_is_its_result() -> None:
    def make() -> dict[str, int]:
        """Make it."""
        return {"a": 1}

    handle = agent(tools=[make]).start_run(Task.create_tool_call(tool_name="make", args={}))
    [found] = await answers(handle)
    assert (found.kind, json.loads(found.text)) == ("completed", {"a": 1})


async def test_raw_text_is_there_for_late_readers_too() -> None:
    handle = acting(call("act", text="x"), "done").start_run("go")
    early = await listed(handle.chunks())
    await handle.result()
    assert await listed(handle.chunks()) == early
    assert json.loads(early[0])["tool"] == "act"


# ---------------------------------------------------------------------------------------------------- activity


async def activity(handle: RunHandle) -> list[PresentationEvent]:
    return await listed(handle.presentation_events())


def kinds(events: list[PresentationEvent]) -> list[tuple[str, str]]:
    return [(event.kind, event.status) for event in events]


@pytest.mark.claim("GRP-021")
async def test_each_kind_of_activity_is_told() -> None:
    async def approve(request: Any, context: Any) -> ApprovalDecision:
        return ApprovalDecision(True, request.request_id)

    async def reply(request: Any) -> str:
        return "CSV"

    kid = agent("from the kid", name="kid")
    tool = Tool.from_callable(lambda text="": "result", name="act", capabilities=["act"])
    target = agent(
        call("act", text=SECRET),
        call("ask_user", question="Which format?"),
        delegate("kid", "my prompt"),
        "done",
        tools=[tool, ask_user_tool(reply)],
        subagents=[kid],
        policy=CapabilityPolicy({"act": "require_approval"}),
        approval_handler=approve,
    )
    limits = GroupLimits(max_concurrent_runs=1)
    gate = Gate()

    async def wait() -> None:
        """Wait."""
        await gate.wait()

    holder = Agent(name="holder", tools=[wait], verbosity=0)
    async with AgentGroup([target, holder], limits=limits) as group:
        group.run("holder", Task.create_tool_call(tool_name="wait", args={}))
        task = Task.create_infer(prompt="my prompt", budget=RunBudget(max_llm_calls=5))
        handle = group.run("agent", task)
        await gate.reached.wait()
        gate.opened.set()
        shown = await activity(handle)
    assert kinds(shown)[:3] == [("queue", "queued"), ("queue", "admitted"), ("run", "working")]
    assert kinds(shown)[-1] == ("run", "completed")
    assert {
        ("model", "started"),
        ("model", "completed"),
        ("tool", "requested"),
        ("tool", "started"),
        ("tool", "completed"),
        ("approval", "required"),
        ("approval", "decided"),
        ("input", "requested"),
        ("input", "answered"),
        ("delegation", "requested"),
        ("delegation", "started"),
        ("delegation", "completed"),
        ("artifact", "produced"),
        ("budget", "warning"),
    } <= set(kinds(shown))
    told = json.dumps([event.to_dict() for event in shown])
    assert all(text not in told for text in (SECRET, "my prompt", "Which format?", "CSV", "from the kid", "result"))
    numbers = [event.sequence for event in shown]
    assert numbers == sorted(set(numbers))


@pytest.mark.claim("GRP-021")
async def test_ids_of_activity_are_those_of_the_run_whenever_it_is_read() -> None:
    handle = acting(call("act", text="x"), delegate("kid"), "done", subagents=[agent("kid", name="kid")]).start_run(
        "go"
    )
    first = await activity(handle)
    assert await activity(handle) == first
    events = {event.sequence: event for event in await listed(handle.events())}
    for item in first:
        source = events[item.sequence]
        assert (item.action_id, item.parent_action_id) == (source.action_id, source.parent_action_id)
        assert (item.delegation_id, item.run_id, item.timestamp) == (
            source.delegation_id,
            source.run_id,
            source.timestamp,
        )


async def test_names_in_activity_are_redacted() -> None:
    tool = Tool.from_callable(lambda: "x", name="ask_acme")
    policy = RedactionPolicy(sensitive_values={"acme"})
    target = agent(call("ask_acme"), "done", tools=[tool])
    handle = RunHandle.start(target, Task.create_infer(prompt="go"), redaction_policy=policy)
    titles = [event.title for event in await activity(handle) if event.kind == "tool"]
    assert titles
    assert all("acme" not in title and "[REDACTED]" in title for title in titles)


async def test_refusals_are_activity_too() -> None:
    full = GroupLimits(max_concurrent_runs=1, max_queued_runs=0)
    gate = Gate()

    async def wait() -> None:
        """Wait."""
        await gate.wait()

    holder = Agent(name="holder", tools=[wait], verbosity=0)
    async with AgentGroup([holder], limits=full) as group:
        group.run("holder", Task.create_tool_call(tool_name="wait", args={}))
        refused = group.run("holder", "go")
        assert kinds(await activity(refused)) == [("queue", "rejected"), ("run", "failed")]
    denied = acting(call("act", text="x"), policy=CapabilityPolicy({"act": "deny"})).start_run("go")
    assert ("tool", "denied") in kinds(await activity(denied))
    poor = acting(call("act", text="x")).start_run("go", budget=RunBudget(max_llm_calls=1))
    assert ("budget", "exceeded") in kinds(await activity(poor))


# ---------------------------------------------------------------------------------------------------- attributes


class Kept:
    """A run store that keeps what it gets."""

    def __init__(self) -> None:
        self.reports: list[RunReport] = []

    def save_task(self, task: Task, **about: Any) -> None:
        pass

    def save_report(self, report: RunReport, **about: Any) -> None:
        self.reports.append(report)


async def test_handle_tells_what_it_was_started_with() -> None:
    target, store, policy = acting("done"), Kept(), RedactionPolicy()
    task = Task.create_infer(prompt="go")
    handle = RunHandle.start(target, task, store=store, redaction_policy=policy)
    assert (handle.target, handle.task, handle.client, handle.store) == (target, task, None, store)
    assert handle.redaction_policy is policy
    assert handle.context.run_id == task.id
    assert (await handle.result()).report is handle.report


async def test_report_of_a_paused_attempt_is_stored_too() -> None:
    store = Kept()
    target = acting(call("act", text="x"), yield_after_steps=1, durability=InMemoryDurableStore())
    handle = RunHandle.start(target, Task.create_infer(prompt="go"), store=store)
    result = await handle.result()
    assert (result.status, result.handoff is None) == ("input-required", False)
    [report] = store.reports
    assert report.final_task is not None
    assert report.final_task["state"] == "input-required"


async def test_stored_report_is_redacted_and_the_results_is_not() -> None:
    store = Kept()
    policy = RedactionPolicy(sensitive_keys={"text"})
    handle = RunHandle.start(
        acting(call("act", text=SECRET), "done"), Task.create_infer(prompt="go"), store=store, redaction_policy=policy
    )
    result = await handle.result()
    assert SECRET not in json.dumps(store.reports[0].to_dict()["actions"])
    assert result.tool_evidence[0].arguments == {"text": SECRET}


async def test_store_that_fails_changes_no_result() -> None:
    class Broken(Kept):
        def save_report(self, report: RunReport, **about: Any) -> None:
            raise OSError("disk full")

    result = await RunHandle.start(acting("done"), Task.create_infer(prompt="go"), store=Broken()).result()
    assert result.output == "done"
