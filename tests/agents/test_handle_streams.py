"""What the readers of a handle see: windows, answers, activity, fragments, and children that were spawned."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from agent_support import Gate, agent, call, delegate, script, until
from hypothesis import given
from hypothesis import strategies as st

from protolink import (
    Agent,
    InMemoryDurableStore,
    RunHandle,
    RunReport,
    StreamGapError,
    SubagentLimitError,
    SubagentLimits,
    Task,
    Tool,
)
from protolink.agents.final_text import FinalText
from protolink.llms import Call, ModelTurn


async def listed(items: AsyncIterator[Any]) -> list[Any]:
    return [item async for item in items]


def acting(*responses: Any, **options: Any) -> Agent:
    tool = Tool.from_callable(lambda text="": "secret result", name="act")
    return agent(*(responses or (call("act", text="private"), "done")), tools=[tool], **options)


# ---------------------------------------------------------------------------------------------------- starting


@pytest.mark.claim("GRP-022", "GRP-024")
async def test_handle_starts_without_a_group_and_runs_once() -> None:
    runs: list[int] = []
    target = agent(call("act"), "done", tools=[Tool.from_callable(lambda: runs.append(1), name="act")])
    handle = RunHandle.start(target, Task.create_infer(prompt="go"), event_buffer_size=50)
    assert (await handle.result()).output == "done"
    await listed(handle.events())
    await handle.result()
    assert runs == [1]


@pytest.mark.claim("GRP-023")
async def test_address_without_a_client_is_refused() -> None:
    with pytest.raises(ValueError, match="AgentClient"):
        RunHandle.start("http://127.0.0.1:1", Task.create_infer(prompt="go"))


@pytest.mark.claim("GRP-054")
async def test_explicit_store_gets_the_report() -> None:
    class Kept:
        def __init__(self) -> None:
            self.reports: list[RunReport] = []

        def save_task(self, task: Task, **about: Any) -> None:
            pass

        def save_report(self, report: RunReport, **about: Any) -> None:
            self.reports.append(report)

    own, explicit = Kept(), Kept()
    handle = RunHandle.start(agent("done", run_store=own), Task.create_infer(prompt="go"), store=explicit)
    result = await handle.result()
    assert explicit.reports == [result.report]
    assert own.reports == []
    result = await agent("done", run_store=own).start_run("go").result()
    assert own.reports == [result.report]


# ---------------------------------------------------------------------------------------------------- windows


@pytest.mark.claim("GRP-025", "GRP-033")
async def test_cursor_replays_what_is_behind_it() -> None:
    handle = acting().start_run("go")
    every = await listed(handle.events())
    assert [event.sequence for event in every] == list(range(1, len(every) + 1))
    assert await listed(handle.events(after=4)) == every[4:]
    shown = await listed(handle.presentation_events())
    cut = shown[3].sequence
    assert await listed(handle.presentation_events(after=cut)) == shown[4:]


@pytest.mark.claim("GRP-034")
async def test_expired_window_is_told_and_the_report_still_has_all() -> None:
    handle = acting().start_run("go", event_buffer_size=3)
    result = await handle.result()
    kept = await listed(handle.events())
    assert len(kept) == 3
    assert kept[-1].final
    first = kept[0].sequence
    with pytest.raises(StreamGapError, match="report") as gap:
        await listed(handle.events(after=1))
    assert (gap.value.requested, gap.value.first_available) == (2, first)
    with pytest.raises(StreamGapError):
        await listed(handle.presentation_events(after=0))
    assert await listed(handle.events(after=first - 1)) == kept
    assert result.report is not None
    numbers = [event["sequence"] for event in result.report.to_dict()["events"]]
    assert numbers[0] == 1
    assert numbers[-1] == kept[-1].sequence
    assert [evidence.tool_name for evidence in result.tool_evidence] == ["act"]


async def test_reader_that_falls_behind_neither_slows_the_run_nor_loses_its_end() -> None:
    handle = acting().start_run("go", event_buffer_size=2)
    slow = handle.events()
    await anext(slow)
    assert (await handle.result()).status == "completed"
    with pytest.raises(StreamGapError) as gap:
        await anext(slow)
    rest = await listed(handle.events(after=gap.value.first_available - 1))
    assert rest[-1].final


@given(st.lists(st.integers(0, 30), min_size=1, max_size=5), st.integers(0, 12))
async def test_readers_that_come_go_and_lag_all_see_the_same(delays: list[int], leaves: int) -> None:
    handle = acting().start_run("go")

    async def read(delay: int) -> list[int]:
        for _ in range(delay):
            await asyncio.sleep(0)
        found = []
        async for event in handle.events():
            found.append(event.sequence or 0)
            if len(found) % 3 == 0:
                await asyncio.sleep(0)
        return found

    async def leave() -> None:
        async for event in handle.events():
            if event.sequence == leaves:
                break

    *seen, _ = await asyncio.gather(*map(read, delays), leave())
    report = (await handle.result()).report
    assert report is not None
    assert all(numbers == list(range(1, len(report.events) + 1)) for numbers in seen)


@pytest.mark.claim("GRP-053")
async def test_report_is_interim_and_then_final() -> None:
    gate = Gate()

    async def wait() -> None:
        await gate.wait()

    handle = agent(call("wait"), "done", tools=[wait]).start_run("go")
    await gate.reached.wait()
    interim = handle.report
    gate.opened.set()
    result = await handle.result()
    assert handle.report is result.report
    assert len(interim.events) < len(handle.report.events)


async def test_reader_that_keeps_up_misses_nothing_in_a_small_window() -> None:
    handle = acting().start_run("go", event_buffer_size=2)
    events = await listed(handle.events())
    assert [event.sequence for event in events] == list(range(1, len(events) + 1))
    assert len(events) > 10


async def test_run_that_is_refused_still_has_a_last_event() -> None:
    handle = Agent(name="a", llm="mock", yield_after_steps=1, verbosity=0).start_run("go")
    [last] = await listed(handle.events())
    assert (last.type, last.final, last.payload["new_state"]) == ("task.status", True, "failed")


# ---------------------------------------------------------------------------------------------------- answers


@pytest.mark.claim("GRP-020")
@pytest.mark.parametrize("native", [False, True])
async def test_answer_comes_as_text_and_completes_once(native: bool) -> None:
    handle = acting(call("act", text="private"), "The answer", native=native).start_run("go")
    answers = await listed(handle.answer_events())
    assert [(a.kind, a.text) for a in answers] == [("delta", "The answer"), ("completed", "The answer")]
    assert await listed(handle.answer_events()) == answers


@pytest.mark.claim("GRP-020")
async def test_text_that_turns_out_to_be_no_answer_is_taken_back() -> None:
    turn = ModelTurn("Let me look.", (Call("c", "act", {"text": "x"}),))
    handle = acting(turn, "Found", native=True).start_run("go")
    answers = [(a.kind, a.text) for a in await listed(handle.answer_events())]
    assert answers == [("delta", "Let me look."), ("replace", ""), ("delta", "Found"), ("completed", "Found")]


async def test_failed_run_has_no_answer() -> None:
    handle = agent(KeyError("model")).start_run("go")
    assert [a.kind for a in await listed(handle.answer_events())] == ["discarded"]


async def test_childs_text_is_no_answer() -> None:
    child = agent("from the child", name="child")
    handle = agent(delegate("child"), "done", subagents=[child]).start_run("go")
    answers = await listed(handle.answer_events())
    assert [a.text for a in answers] == ["done", "done"]
    assert all("child" not in text for text in (await listed(handle.chunks()))[1:])


@given(st.text(), st.text(max_size=5), st.integers(1, 7), st.booleans())
def test_content_of_a_final_action_comes_out_in_pieces(content: str, thought: str, size: int, ascii: bool) -> None:
    content = content.encode("utf-8", "ignore").decode()
    body = {"type": "final", "thought": thought.encode("utf-8", "ignore").decode(), "content": content}
    text = "```json\n" + json.dumps(body, ensure_ascii=ascii) + "\n```"
    reader = FinalText()
    assert "".join(reader.feed(text[at : at + size]) for at in range(0, len(text), size)) == content


@pytest.mark.parametrize(
    "text",
    [
        '{"type": "tool_call", "tool": "t", "args": {"content": "x"}}',
        '{"content": "x", "type": "tool_call"}',
        '{"type": "final", "more": {"content": "x"}, "content": {"a": "b"}}',
        "no action at all",
    ],
)
def test_nothing_but_final_text_comes_out(text: str) -> None:
    assert FinalText().feed(text) == ""


# ---------------------------------------------------------------------------------------------------- activity


@pytest.mark.claim("GRP-021")
async def test_activity_tells_what_goes_on_and_nothing_of_what_is_said() -> None:
    handle = acting().start_run("my prompt")
    shown = await listed(handle.presentation_events())
    tools = [event for event in shown if event.kind == "tool"]
    assert [(event.status, event.title) for event in tools] == [
        ("requested", "act requested"),
        ("started", "act started"),
        ("completed", "act completed"),
    ]
    assert len({event.action_id for event in tools}) == 1
    assert (shown[-1].kind, shown[-1].status) == ("run", "completed")
    told = str([event.to_dict() for event in shown])
    assert all(word not in told for word in ("my prompt", "private", "secret", "done"))


@pytest.mark.claim("GRP-021")
async def test_activity_of_children_names_its_delegation() -> None:
    handle = agent(delegate("child"), "done", subagents=[agent("x", name="child")]).start_run("go")
    shown = await listed(handle.presentation_events())
    [delegation] = {event.action_id for event in shown if event.kind == "delegation"}
    inner = [event for event in shown if event.agent_name == "child"]
    assert inner
    assert {(event.delegation_id, event.parent_run_id) for event in inner} == {(delegation, handle.context.run_id)}


# ---------------------------------------------------------------------------------------------------- spawning


def parent(gate: Gate, child: Agent, **options: Any) -> Agent:
    async def wait() -> str:
        await gate.wait()
        return "waited"

    return agent(call("wait"), "done", tools=[wait], subagents=[child], **options)


@pytest.mark.claim("LIV-009")
async def test_spawned_child_works_beside_its_parent() -> None:
    gate = Gate()
    handle = parent(gate, agent("from the child", name="child")).start_run("go")
    spawned = await handle.spawn("child", "do it")
    task = await spawned.result()
    assert (task.id, task.get_output()) == (spawned.id, "from the child")
    assert task.metadata["parent_run_id"] == handle.context.run_id
    gate.opened.set()
    result = await handle.result()
    assert result.output == "done"
    events = await listed(handle.events())
    inner = [event for event in events if event.run_id == spawned.run_id]
    assert inner
    assert not any(event.final for event in inner)
    assert {event.metadata["parent_run_id"] for event in inner} == {handle.context.run_id}
    assert events[-1].run_id == handle.context.run_id


async def test_end_of_the_parent_cancels_its_children() -> None:
    gate, inner = Gate(), Gate()

    async def stay() -> None:
        await inner.wait()

    handle = parent(gate, agent(call("stay"), name="child", tools=[stay])).start_run("go")
    spawned = await handle.spawn("child", "do it")
    await inner.reached.wait()
    gate.opened.set()
    await handle.result()
    assert spawned.done
    assert (await spawned.result()).state.value == "canceled"
    assert (await listed(handle.events()))[-1].final


async def test_spawned_child_is_canceled_alone() -> None:
    gate, inner = Gate(), Gate()

    async def stay() -> None:
        await inner.wait()

    handle = parent(gate, agent(call("stay"), name="child", tools=[stay])).start_run("go")
    spawned = await handle.spawn("child", "do it")
    await inner.reached.wait()
    await spawned.cancel()
    assert (await spawned.result()).metadata["cancel_reason"] == "Parent cancelled child"
    gate.opened.set()
    assert (await handle.result()).output == "done"


async def test_spawning_is_bounded_and_charged_to_the_parent() -> None:
    gate = Gate()
    limits = SubagentLimits(max_children=1)
    handle = parent(gate, agent("one", name="child"), subagent_limits=limits).start_run("go")
    await (await handle.spawn("child", "do it")).result()
    with pytest.raises(SubagentLimitError):
        await handle.spawn("child", "again")
    with pytest.raises(ValueError, match="no subagent"):
        await handle.spawn("nobody", "do it")
    active = handle.target._active.get(handle.task.id)
    assert active is not None
    assert active.driver is not None
    assert active.driver.run.ledger.llm_calls == 2
    gate.opened.set()
    await handle.result()
    with pytest.raises(RuntimeError, match="not at work"):
        await handle.spawn("child", "do it")


@pytest.mark.claim("LIV-018")
async def test_durable_parent_spawns_nothing() -> None:
    target = agent("done", subagents=[Agent(name="child", llm=script("x"))], durability=InMemoryDurableStore())
    handle = target.start_run("go")
    with pytest.raises(RuntimeError, match="durable"):
        await handle.spawn("child", "do it")
    await until(lambda: handle.done)
