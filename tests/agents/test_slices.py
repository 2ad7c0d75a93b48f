"""Work slices: a bounded number of model turns, a handoff, and an explicit grant of the next slice."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from agent_support import agent, call, codes, delegate, infer, kinds, limited, outcome, played, run_id, script, stream

from protolink import (
    ActionDeniedError,
    Agent,
    BudgetExceededError,
    CapabilityPolicy,
    CheckpointMismatchError,
    DurableExecutionError,
    RunBudget,
    RunContext,
    RunHandoff,
    RunInterrupted,
    Task,
    TaskState,
    Tool,
    UncertainExecutionError,
)
from protolink.journal import InMemoryDurableStore
from protolink.llms import MockLLM

SECTIONS = ("intro", "method", "results")


def inspect_section(section: str) -> str:
    """Read one section of the local fixture."""
    return f"Evidence from {section}."


def inspect_all() -> list[Any]:
    return [call("inspect_section", section=section) for section in SECTIONS]


def reviewer(*replies: Any, steps: int | None = 3, store: Any = None, **options: Any) -> Agent:
    options.setdefault("tools", [inspect_section])
    return agent(*replies, yield_after_steps=steps, durability=store or InMemoryDurableStore(), **options)


@pytest.mark.claim(
    "SLI-001",
    "SLI-002",
    "SLI-003",
    "SLI-004",
    "SLI-005",
    "SLI-006",
    "SLI-007",
    "SLI-008",
    "SLI-009",
    "SLI-012",
    "SLI-013",
    "SLI-016",
    "SLI-024",
    "SLI-045",
)
async def test_slice_ends_in_a_handoff_and_the_next_one_finishes() -> None:
    found = reviewer(*inspect_all(), "Reviewed all three sections.")
    context = RunContext(budget=RunBudget(max_steps=8, max_llm_calls=8, max_tool_calls=3))
    task = await found.run_task(Task.create_infer("Review the fixture.", context=context))
    handoff = RunHandoff.from_task(task)
    assert task.state is TaskState.INPUT_REQUIRED
    assert task.metadata["interruption"]["kind"] == "yield"
    assert played(found.llm) == 3
    assert handoff is not None
    assert (handoff.run_id, handoff.reason, handoff.steps) == (context.run_id, "step_slice", 3)
    assert (handoff.usage.llm_calls, handoff.usage.tool_calls, handoff.usage.steps) == (3, 3, 3)
    continued = await found.resume_task(context.run_id)
    assert continued.state is TaskState.COMPLETED
    assert continued.get_output() == "Reviewed all three sections."
    assert played(found.llm) == 4


@pytest.mark.claim("SLI-010")
async def test_answer_within_the_slice_completes_normally() -> None:
    task = await reviewer(*inspect_all()[:2], "done").run_task(infer())
    assert (task.state, task.get_output()) == (TaskState.COMPLETED, "done")


@pytest.mark.claim("SLI-017", "SLI-018", "SLI-031")
async def test_each_resume_grants_one_slice_and_steps_add_up() -> None:
    found, task = reviewer(*inspect_all(), "done", steps=1), infer()
    steps: list[int] = []
    await found.run_task(task)
    while task.state is TaskState.INPUT_REQUIRED:
        handoff = RunHandoff.from_task(task)
        assert handoff is not None
        assert handoff.usage.llm_calls == handoff.steps == played(found.llm)
        steps.append(handoff.steps)
        task = await found.resume_task(run_id(task))
    assert steps == [1, 2, 3]
    assert task.get_output() == "done"


@pytest.mark.claim("SLI-019")
async def test_handoff_lists_the_operations_that_succeeded() -> None:
    task = await reviewer(inspect_all()[0], call("missing"), "never", steps=2).run_task(infer())
    handoff = RunHandoff.from_task(task)
    [receipt] = [a for a in task.artifacts if a.kind == "action_result"]
    assert handoff is not None
    assert handoff.completed_action_ids == (receipt.action_id,)


@pytest.mark.claim("SLI-020", "SLI-021")
async def test_handoff_is_plain_progress_without_content() -> None:
    task = await reviewer(*inspect_all(), "never").run_task(infer("the private question"))
    handoff = RunHandoff.from_task(task)
    assert handoff is not None
    assert RunHandoff.from_dict(handoff.to_dict()) == handoff
    assert set(handoff.to_dict()) == {"run_id", "reason", "steps", "usage", "completed_action_ids"}
    assert "Evidence" not in repr(task.metadata["interruption"])
    assert "private" not in repr(task.metadata["interruption"])


@pytest.mark.claim("SLI-025")
async def test_task_that_waits_for_something_else_has_no_handoff() -> None:
    assert RunHandoff.from_task(infer()) is None
    done = await reviewer("done").run_task(infer())
    assert RunHandoff.from_task(done) is None
    tool = Tool.from_callable(lambda: 1, name="act", capabilities=["act"])
    asking = reviewer(call("act"), "never", tools=[tool], policy=CapabilityPolicy({"act": "ask"}))
    waiting = await asking.run_task(infer())
    assert waiting.state is TaskState.INPUT_REQUIRED
    assert RunHandoff.from_task(waiting) is None


@pytest.mark.claim("SLI-023")
async def test_invoke_and_resume_raise_an_interruption() -> None:
    found = reviewer(*inspect_all(), "done", steps=1)
    with pytest.raises(RunInterrupted) as caught:
        await found.invoke("go")
    assert caught.value.interruption.kind == "yield"
    with pytest.raises(RunInterrupted) as again:
        await found.resume(caught.value.run_id)
    assert RunHandoff.from_task(again.value.task).steps == 2  # type: ignore[union-attr]


@pytest.mark.claim("SLI-030", "SLI-046")
async def test_reading_or_running_the_paused_task_again_leaves_it_paused() -> None:
    store = InMemoryDurableStore()
    found, task = reviewer(*inspect_all(), "done", store=store), infer()
    await found.run_task(task)
    before = store.get(run_id(task))
    again = await found.run_task(Task.from_dict(task.to_dict()))
    assert again.state is TaskState.INPUT_REQUIRED
    assert played(found.llm) == 3
    assert store.get(run_id(task)).data == before.data
    assert await found.resume(run_id(task)) == "done"


@pytest.mark.claim("SLI-032")
@pytest.mark.parametrize("response", [{"approved": True}, {"answer": "go on"}, {}])
async def test_slice_is_granted_without_any_response(response: dict[str, Any]) -> None:
    found, task = reviewer(*inspect_all(), "done"), infer()
    await found.run_task(task)
    request = task.metadata["interruption"]["request_id"]
    with pytest.raises((ValueError, DurableExecutionError)):
        await found.resume(run_id(task), request_id=request, **response)
    assert played(found.llm) == 3
    assert await found.resume(run_id(task)) == "done"


@pytest.mark.claim("SLI-033")
async def test_grant_of_a_slice_approves_nothing() -> None:
    ran: list[str] = []
    tool = Tool.from_callable(lambda: ran.append("act"), name="act", capabilities=["act"])
    found = reviewer(
        inspect_all()[0],
        call("act"),
        "done",
        steps=1,
        tools=[inspect_section, tool],
        policy=CapabilityPolicy({"act": "ask"}),
    )
    task = await found.run_task(infer())
    paused = await found.resume_task(run_id(task))
    assert (paused.metadata["interruption"]["kind"], ran) == ("approval", [])
    still = await found.resume_task(run_id(task))
    assert (still.metadata["interruption"]["kind"], ran) == ("approval", [])
    request = still.metadata["interruption"]["request_id"]
    after = await found.resume_task(run_id(task), request_id=request, approved=True)
    assert ran == ["act"]
    assert after.state in (TaskState.INPUT_REQUIRED, TaskState.COMPLETED)


@pytest.mark.claim("SLI-035")
async def test_correction_costs_a_turn_of_the_slice() -> None:
    found = reviewer(call("missing"), inspect_all()[0], "done", steps=2)
    task = await found.run_task(infer())
    assert task.state is TaskState.INPUT_REQUIRED
    assert RunHandoff.from_task(task).steps == 2  # type: ignore[union-attr]
    assert await found.resume(run_id(task)) == "done"


@pytest.mark.claim("SLI-034", "SLI-038")
async def test_limits_count_over_all_slices() -> None:
    found, task = reviewer(*inspect_all(), "never", steps=1), limited(max_tool_calls=2)
    await found.run_task(task)
    await found.resume_task(run_id(task))
    with pytest.raises(BudgetExceededError, match="max_tool_calls"):
        await found.resume(run_id(task))
    assert played(found.llm) == 3


@pytest.mark.claim("SLI-037")
async def test_default_ten_turns_are_counted_over_all_slices() -> None:
    found = reviewer(*[call("inspect_section", section=str(n)) for n in range(10)], "never", steps=4)
    task = await found.run_task(infer())
    task = await found.resume_task(run_id(task))
    with pytest.raises(BudgetExceededError, match=r"\(10\)"):
        await found.resume(run_id(task))
    assert played(found.llm) == 10


@pytest.mark.claim("SLI-037")
async def test_step_limit_bounds_the_slices_together() -> None:
    found = reviewer(*[call("inspect_section", section=str(n)) for n in range(12)], "done", steps=6)
    task = await found.run_task(limited(max_steps=13))
    task = await found.resume_task(run_id(task))
    assert RunHandoff.from_task(task).steps == 12  # type: ignore[union-attr]
    assert await found.resume(run_id(task)) == "done"


@pytest.mark.claim("SLI-039", "SLI-040", "SLI-047")
@pytest.mark.parametrize("limit", [{"max_steps": 2}, {"max_llm_calls": 2}])
async def test_no_slice_is_offered_when_another_turn_is_not_permitted(limit: dict[str, int]) -> None:
    found, task = reviewer(*inspect_all()[:2], "never", steps=2), limited(**limit)
    error = await outcome(found, task)
    assert isinstance(error, BudgetExceededError)
    assert (task.state, codes(task)) == (TaskState.FAILED, ["budget_exceeded"])
    with pytest.raises(DurableExecutionError):
        await found.resume(run_id(task))


@pytest.mark.claim("SLI-040", "SLI-039")
async def test_default_step_limit_at_the_boundary_ends_the_run() -> None:
    found = reviewer(*[call("inspect_section", section=str(n)) for n in range(10)], "never", steps=10)
    task = infer()
    assert isinstance(await outcome(found, task), BudgetExceededError)
    assert task.state is TaskState.FAILED


@pytest.mark.claim("SLI-042", "SLI-047")
async def test_denial_at_the_boundary_stays_a_denial() -> None:
    tool = Tool.from_callable(lambda: 1, name="act", capabilities=["act"])
    found = reviewer(call("act"), "never", steps=1, tools=[tool], policy=CapabilityPolicy({"act": "deny"}))
    task = infer()
    assert isinstance(await outcome(found, task), ActionDeniedError)
    assert task.state is TaskState.FAILED


@pytest.mark.claim("SLI-041", "SLI-042")
async def test_unknown_effect_at_the_boundary_is_no_handoff() -> None:
    def boom() -> None:
        raise KeyError("no row")

    found = reviewer(call("boom"), "done", steps=1, tools=[boom])
    task = infer()
    error = await outcome(found, task)
    assert isinstance(error, UncertainExecutionError)
    assert RunHandoff.from_task(task) is None
    found.reconcile(error.run_id, error.action_id, result="done by hand")
    paused = await found.resume_task(run_id(task))
    assert RunHandoff.from_task(paused).steps == 1  # type: ignore[union-attr]
    assert await found.resume(run_id(task)) == "done"


@pytest.mark.claim("SLI-011", "SLI-015", "SLI-017", "SLI-026", "SLI-027", "SLI-036")
async def test_child_yields_under_the_durability_of_its_parent_and_the_root_resumes_it() -> None:
    kid = agent(*inspect_all()[:2], "kid", name="kid", tools=[inspect_section], yield_after_steps=2)
    found = agent(delegate("kid"), "done", subagents=[kid], durability=InMemoryDurableStore())
    task = await found.run_task(infer())
    handoff = RunHandoff.from_task(task)
    assert handoff is not None
    assert handoff.run_id != run_id(task)
    assert (handoff.steps, handoff.usage.steps) == (2, 3)
    with pytest.raises(CheckpointMismatchError) as caught:
        await found.resume_task(handoff.run_id)
    assert run_id(task) in str(caught.value)
    assert await found.resume(run_id(task)) == "done"


@pytest.mark.claim("SLI-028", "SLI-029")
async def test_rebuilt_agent_over_the_same_file_goes_on_with_everything(tmp_path: Path) -> None:
    path, done = tmp_path / "runs.sqlite", list[str]()

    def note(section: str) -> str:
        """Note a section."""
        done.append(section)
        return section

    def build(*replies: Any) -> Agent:
        return agent(*replies, tools=[note], yield_after_steps=2, durability=path)

    task = limited(max_tool_calls=2)
    await build(call("missing"), call("note", section="intro")).run_task(task)
    heard: list[str] = []

    def answer(history: Any, prompt: str) -> Any:
        heard.append(str(history.messages))
        return [call("note", section="intro"), call("missing"), call("missing")][len(heard) - 1]

    found = Agent(
        name="agent",
        llm=MockLLM(response_callback=answer),
        tools=[note],
        yield_after_steps=2,
        durability=path,
        verbosity=0,
    )
    paused = await found.resume_task(run_id(task))
    assert "intro" in heard[0]
    assert "missing" in heard[0]
    assert done == ["intro"]
    assert RunHandoff.from_task(paused).steps == 4  # type: ignore[union-attr]
    error = None
    try:
        await found.resume_task(run_id(task))
    except Exception as caught:
        error = caught
    assert type(error).__name__ == "ToolCorrectionLimitError"


@pytest.mark.claim("SLI-048", "SLI-028")
async def test_rebuilt_agent_with_another_configuration_is_refused() -> None:
    store = InMemoryDurableStore()
    task = await reviewer(*inspect_all(), store=store).run_task(infer())
    other = Tool.from_callable(lambda part: part, name="inspect_section")
    for changed in (reviewer("done", store=store, tools=[other]), reviewer("done", store=store, execution_version="2")):
        with pytest.raises(CheckpointMismatchError) as caught:
            await changed.resume(run_id(task))
        assert caught.value.changes
    assert await reviewer("done", store=store).resume(run_id(task)) == "done"


@pytest.mark.claim("SLI-022")
async def test_stream_ends_at_the_pause_with_the_handoff() -> None:
    events = await stream(reviewer(*inspect_all(), "never", steps=1), infer())
    assert kinds(events)[-2:] == ["run_yielded", "status:input-required"]
    assert events[-2].metadata["handoff"]["steps"] == 1
    assert events[-1].final


@pytest.mark.claim("SLI-043")
async def test_slicing_child_under_a_live_parent_is_refused_before_anything_runs() -> None:
    kid = agent("never", name="kid", yield_after_steps=1)
    found = agent("never", subagents=[kid])
    task = infer()
    assert isinstance(await outcome(found, task), ValueError)
    assert (played(found.llm), played(kid.llm)) == (0, 0)


async def test_direct_calls_are_not_sliced() -> None:
    found = reviewer(steps=1)
    found.llm = script("never")
    assert await found.call_tool("inspect_section", section="x") == "Evidence from x."
