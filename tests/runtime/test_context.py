"""RunContext: the envelope, and how a task carries it."""

from __future__ import annotations

import dataclasses
import math
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protolink.models import Task
from protolink.models.json import dumps, loads
from protolink.runtime import CancellationToken, RunBudget, RunContext

scalars = st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(max_size=8)
data = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
)
objects = st.dictionaries(st.text(max_size=6), data, max_size=3)
maybe_text = st.none() | st.text(max_size=10)
budgets = st.builds(
    RunBudget,
    max_steps=st.none() | st.integers(),
    max_runtime_seconds=st.none() | st.floats(allow_nan=False, allow_infinity=False),
    metadata=objects,
)
contexts = st.builds(
    RunContext,
    run_id=st.text(min_size=1, max_size=10),
    session_id=maybe_text,
    trace_id=maybe_text,
    workspace_uri=maybe_text,
    parent_run_id=maybe_text,
    agent_chain=st.lists(st.text(max_size=6), max_size=3),
    permissions=objects,
    budget=budgets,
    canceled=st.booleans(),
    cancel_reason=maybe_text,
    metadata=objects,
)


def filled() -> RunContext:
    return RunContext(
        run_id="run_1",
        session_id="s",
        trace_id="t",
        workspace_uri="file:///w",
        parent_run_id="run_0",
        agent_chain=["gateway"],
        permissions={"fs.read": "allow"},
        budget=RunBudget(max_steps=8),
        metadata={"k": {"nested": 1}},
    )


def is_now(text: str) -> bool:
    moment = datetime.fromisoformat(text)
    return moment.utcoffset() == timedelta(0) and abs(datetime.now(UTC) - moment) < timedelta(minutes=5)


@pytest.mark.claim("CTX-001", "CTX-002", "CTX-043")
def test_attaching_stores_the_complete_context_in_the_task() -> None:
    task = Task.create_infer(prompt="Summarize")
    context = filled()
    assert context.attach_to_task(task) is None
    assert task.metadata["run_context"] == context.to_dict()


@pytest.mark.claim("CTX-044")
def test_filled_correlation_and_cancellation_fields_are_mirrored() -> None:
    task = Task.create("x")
    filled().cancel("stop").attach_to_task(task)
    mirrored = {key: value for key, value in task.metadata.items() if key != "run_context"}
    assert mirrored == {
        "run_id": "run_1",
        "session_id": "s",
        "trace_id": "t",
        "parent_run_id": "run_0",
        "workspace_uri": "file:///w",
        "canceled": True,
        "cancel_reason": "stop",
    }


def test_unfilled_fields_are_not_mirrored() -> None:
    task = Task.create("x")
    RunContext(run_id="run_1").attach_to_task(task)
    assert set(task.metadata) == {"run_context", "run_id"}


@pytest.mark.claim("CTX-045")
def test_a_mirrored_key_stays_when_its_field_became_none() -> None:
    task = Task.create("x")
    context = filled()
    context.attach_to_task(task)
    context.session_id = None
    context.attach_to_task(task)
    assert task.metadata["session_id"] == "s"
    assert task.metadata["run_context"]["session_id"] is None


def test_a_mirrored_cancellation_is_taken_back_with_the_field() -> None:
    task = Task.create("x")
    RunContext(canceled=True).attach_to_task(task)
    RunContext(canceled=False).attach_to_task(task)
    assert task.metadata["canceled"] is False
    assert not RunContext.from_task(task).canceled


@pytest.mark.claim("CTX-006", "CTX-007", "CTX-041")
def test_legacy_session_id_is_upgraded_to_a_typed_context_and_kept() -> None:
    task = Task.create("x")
    task.metadata["session_id"] = "old"
    context = RunContext.ensure_task_context(task)
    assert isinstance(context, RunContext)
    assert context.session_id == "old"
    assert task.metadata["session_id"] == "old"
    assert task.metadata["run_context"] == context.to_dict()


@pytest.mark.claim("CTX-042")
def test_ensuring_appends_the_agent_only_when_named() -> None:
    task = Task.create("x")
    assert RunContext.ensure_task_context(task, agent_name="a").agent_chain == ["a"]
    assert RunContext.ensure_task_context(task).agent_chain == ["a"]
    assert RunContext.ensure_task_context(task, agent_name="b").agent_chain == ["a", "b"]
    assert task.metadata["run_context"]["agent_chain"] == ["a", "b"]


@pytest.mark.claim("CTX-009", "CTX-048")
def test_a_child_is_a_new_run_that_keeps_what_the_parent_carries() -> None:
    parent = filled()
    child = parent.child()
    assert child.run_id != parent.run_id
    assert child.parent_run_id == parent.run_id
    kept = ("session_id", "trace_id", "workspace_uri", "permissions", "budget", "metadata")
    assert [getattr(child, name) for name in kept] == [getattr(parent, name) for name in kept]


@pytest.mark.claim("CTX-010", "CTX-050")
def test_a_child_continues_the_chain_of_agents() -> None:
    grandchild = filled().child(run_id="c", agent_name="planner").child(agent_name="worker")
    assert grandchild.parent_run_id == "c"
    assert grandchild.agent_chain == ["gateway", "planner", "worker"]


@pytest.mark.claim("CTX-049")
def test_a_child_takes_the_given_run_id_or_makes_one() -> None:
    parent = filled()
    assert parent.child(run_id="mine").run_id == "mine"
    first, second = parent.child().run_id, parent.child().run_id
    assert first.startswith("run_")
    assert first != second


def test_the_child_of_a_canceled_run_is_canceled() -> None:
    assert filled().cancel("stop").child().canceled


@pytest.mark.claim("CTX-011")
def test_fields_can_be_assigned_after_construction() -> None:
    context = RunContext()
    context.session_id = "later"
    context.canceled = True
    assert dataclasses.is_dataclass(context)
    assert context.to_dict()["session_id"] == "later"
    assert context.to_dict()["canceled"] is True


@pytest.mark.claim("CTX-012")
def test_default_contexts_share_nothing() -> None:
    one, two = RunContext(), RunContext()
    for name in ("agent_chain", "permissions", "budget", "metadata"):
        assert getattr(one, name) is not getattr(two, name)
    assert one.run_id != two.run_id
    assert one.created_at <= two.created_at
    one.permissions["a"] = True
    one.budget.max_steps = 1
    assert two.permissions == {}
    assert two.budget.max_steps is None


@pytest.mark.claim("CTX-013")
def test_run_id_defaults_to_a_generated_run_id() -> None:
    assert RunContext().run_id.startswith("run_")
    assert len(RunContext().run_id) > len("run_") + 16


@pytest.mark.claim("CTX-015", "CTX-016", "CTX-017", "CTX-018", "CTX-019", "CTX-020", "CTX-024", "CTX-026", "CTX-027")
def test_every_other_field_defaults_to_nothing() -> None:
    found = RunContext().to_dict()
    assert {key: found[key] for key in found if key not in ("run_id", "created_at", "budget")} == {
        "session_id": None,
        "trace_id": None,
        "workspace_uri": None,
        "parent_run_id": None,
        "agent_chain": [],
        "permissions": {},
        "canceled": False,
        "cancel_reason": None,
        "metadata": {},
    }


@pytest.mark.claim("CTX-022")
def test_the_default_budget_has_no_limit() -> None:
    budget = RunContext().budget
    assert isinstance(budget, RunBudget)
    limits = {key: value for key, value in budget.to_dict().items() if key.startswith("max_")}
    assert len(limits) == 6
    assert set(limits.values()) == {None}


@pytest.mark.claim("CTX-023")
@pytest.mark.parametrize("given_budget", [None, {"max_steps": 3}, RunBudget(max_steps=3)])
def test_the_budget_is_always_a_run_budget(given_budget: Any) -> None:
    for context in (
        RunContext.from_dict({"budget": given_budget}),
        RunContext(budget=given_budget),
        RunContext().copy(budget=given_budget),
    ):
        assert isinstance(context.budget, RunBudget)
        assert context.budget.max_steps == (None if given_budget is None else 3)


@pytest.mark.claim("CTX-025", "CTX-052")
def test_canceling_a_context_signals_no_token() -> None:
    token = CancellationToken()
    context = RunContext().cancel("x")
    assert not token.is_cancelled
    token.cancel()
    assert RunContext().canceled is False
    assert RunContext.from_dict(context.to_dict()).canceled is True


@pytest.mark.claim("CTX-028")
def test_created_at_defaults_to_the_current_utc_time() -> None:
    assert is_now(RunContext().created_at)


@pytest.mark.claim("CTX-029")
def test_serialization_has_every_field_and_a_nested_budget() -> None:
    found = filled().to_dict()
    assert set(found) == {item.name for item in dataclasses.fields(RunContext)}
    assert found["budget"]["max_steps"] == 8
    assert loads(dumps(found)) == found


@pytest.mark.claim("CTX-030", "CTX-035")
@pytest.mark.parametrize("source", [None, {}])
def test_missing_data_gives_defaults_with_generated_identity(source: Any) -> None:
    context = RunContext.from_dict(source)
    assert context.run_id.startswith("run_")
    assert is_now(context.created_at)
    blank = RunContext(run_id=context.run_id, created_at=context.created_at)
    assert context == blank


@pytest.mark.claim("CTX-031", "CTX-032", "CTX-033", "CTX-034")
@pytest.mark.parametrize(
    ("old", "new", "value"),
    [
        ("workspace", "workspace_uri", "file:///w"),
        ("budgets", "budget", {"max_steps": 2}),
        ("cancelled", "canceled", True),
        ("cancellation_reason", "cancel_reason", "why"),
    ],
)
def test_older_spellings_are_read(old: str, new: str, value: Any) -> None:
    expected = RunBudget(max_steps=2) if new == "budget" else value
    assert getattr(RunContext.from_dict({old: value}), new) == expected


def test_the_present_spelling_wins_over_the_older() -> None:
    assert RunContext.from_dict({"workspace": "old", "workspace_uri": "new"}).workspace_uri == "new"


@pytest.mark.claim("CTX-036")
@given(contexts)
def test_a_serialized_context_reads_back_equal(context: RunContext) -> None:
    assert RunContext.from_dict(loads(dumps(context.to_dict()))) == context


@pytest.mark.claim("CTX-037")
def test_the_typed_context_of_a_task_is_read() -> None:
    task = Task.create("x")
    filled().attach_to_task(task)
    assert RunContext.from_task(task) == filled().copy(created_at=task.metadata["run_context"]["created_at"])


@pytest.mark.claim("CTX-014")
def test_without_any_run_id_the_task_id_is_the_run_id() -> None:
    task = Task.create("x")
    assert RunContext.from_task(task).run_id == task.id
    task.metadata["run_id"] = "explicit"
    assert RunContext.from_task(task).run_id == "explicit"
    RunContext(run_id="typed").attach_to_task(task)
    task.metadata["run_id"] = "explicit"
    assert RunContext.from_task(task).run_id == "typed"


@pytest.mark.claim("CTX-038")
def test_legacy_top_level_metadata_fills_what_the_context_leaves_open() -> None:
    task = Task.create("x")
    RunContext(run_id="run_1", session_id="typed").attach_to_task(task)
    task.metadata |= {
        "session_id": "loose",
        "trace_id": "t",
        "workspace": "file:///w",
        "parent_run_id": "run_0",
        "cancelled": True,
        "cancellation_reason": "why",
    }
    context = RunContext.from_task(task)
    assert (context.session_id, context.trace_id, context.workspace_uri) == ("typed", "t", "file:///w")
    assert (context.parent_run_id, context.canceled, context.cancel_reason) == ("run_0", True, "why")


@pytest.mark.parametrize("value", [5, ["x"], {"a": 1}, ""])
def test_top_level_values_of_another_shape_are_left_to_the_application(value: Any) -> None:
    task = Task.create("x")
    task.metadata |= {"session_id": value, "workspace": value, "canceled": value, "budget": 1000}
    context = RunContext.from_task(task, default_session_id="d")
    assert (context.session_id, context.workspace_uri, context.canceled) == ("d", None, False)
    assert context.budget == RunBudget()


@pytest.mark.claim("CTX-039")
def test_the_default_session_is_used_only_when_the_task_has_none() -> None:
    task = Task.create("x")
    assert RunContext.from_task(task, default_session_id="d").session_id == "d"
    task.metadata["session_id"] = "own"
    assert RunContext.from_task(task, default_session_id="d").session_id == "own"


@pytest.mark.claim("CTX-040")
def test_reading_and_changing_a_context_leaves_the_task_alone() -> None:
    task = Task.create("x")
    original = RunContext(run_id="r", permissions={"fs": {"paths": ["/a"]}}, budget=RunBudget(max_steps=1))
    original.attach_to_task(task)
    before = dumps(task.metadata)
    context = RunContext.from_task(task)
    context.permissions["fs"]["paths"].append("/b")
    context.budget.max_steps = 99
    context.agent_chain.append("x")
    original.permissions["fs"]["paths"].append("/c")
    assert dumps(task.metadata) == before


@pytest.mark.claim("CTX-046", "CTX-047")
def test_an_agent_is_appended_unless_it_is_last_already() -> None:
    context = filled()
    longer = context.with_agent("next")
    assert longer.agent_chain == ["gateway", "next"]
    assert context.agent_chain == ["gateway"]
    assert longer.with_agent("next").agent_chain == ["gateway", "next"]
    assert longer.with_agent("gateway").agent_chain == ["gateway", "next", "gateway"]


@pytest.mark.claim("CTX-051")
def test_canceling_returns_a_canceled_copy() -> None:
    context = filled()
    canceled = context.cancel("enough")
    assert (canceled.canceled, canceled.cancel_reason) == (True, "enough")
    assert (context.canceled, context.cancel_reason) == (False, None)
    assert context.cancel().cancel_reason is None


@pytest.mark.claim("CTX-053")
def test_a_copy_equals_the_original_but_for_the_replacements() -> None:
    context = filled()
    twin = context.copy(session_id="other")
    assert twin is not context
    assert twin == dataclasses.replace(context, session_id="other")
    with pytest.raises(TypeError, match="no field 'sesion_id'"):
        context.copy(sesion_id="typo")


@pytest.mark.claim("CTX-054")
def test_a_copy_isolates_containers_and_keeps_nested_values() -> None:
    context = filled()
    twin = context.copy()
    assert twin.metadata is not context.metadata
    assert twin.permissions is not context.permissions
    assert twin.agent_chain is not context.agent_chain
    assert twin.budget is not context.budget
    assert twin.metadata["k"] is context.metadata["k"]


@pytest.mark.claim("CTX-055")
def test_copy_helpers_never_change_the_original_but_attaching_changes_the_task() -> None:
    context = filled()
    before = context.to_dict()
    for derived in (context.with_agent("x"), context.child(agent_name="y"), context.cancel("z"), context.copy()):
        derived.metadata["new"] = 1
        derived.agent_chain.append("later")
    assert context.to_dict() == before
    attached, ensured = Task.create("x"), Task.create("x")
    context.attach_to_task(attached)
    RunContext.ensure_task_context(ensured)
    assert "run_context" in attached.metadata
    assert "run_context" in ensured.metadata


@pytest.mark.parametrize(
    "hostile",
    [
        [],
        "text",
        7,
        {"run_id": 1},
        {"agent_chain": "gateway"},
        {"agent_chain": [1]},
        {"permissions": ["x"]},
        {"budget": 3},
        {"budget": {"max_steps": "many"}},
        {"budget": {"max_runtime_seconds": math.nan}},
        {"canceled": "false"},
        {"metadata": "x"},
        {"created_at": 0},
    ],
)
def test_malformed_contexts_are_refused(hostile: Any) -> None:
    with pytest.raises((ValueError, TypeError)):
        RunContext.from_dict(hostile)
    task = Task.create("x")
    task.metadata["run_context"] = hostile
    with pytest.raises((ValueError, TypeError)):
        RunContext.from_task(task)


def test_task_factories_attach_a_real_context() -> None:
    context = filled()
    task = Task.create_infer("x", context=context, session_id="own", budget=RunBudget(max_steps=2))
    found = RunContext.from_task(task)
    assert (found.run_id, found.session_id, found.budget.max_steps) == ("run_1", "own", 2)
    plain_task = Task.create("x", session_id="only")
    assert RunContext.from_task(plain_task).run_id == plain_task.id
    assert set(plain_task.metadata["run_context"]) == {item.name for item in dataclasses.fields(RunContext)}


@pytest.mark.parametrize("shape", ["deep", "cycle"])
def test_a_context_without_an_end_of_depths_is_refused(shape: str) -> None:
    inner: dict[str, Any] = {}
    if shape == "cycle":
        inner["inner"] = inner
    for _ in range(100_000 if shape == "deep" else 0):
        inner = {"inner": inner}
    task = Task.create("x")
    task.metadata["run_context"] = {"metadata": inner}
    with pytest.raises(TypeError, match="nested too deep to be copied, or holds itself"):
        RunContext.from_task(task)
    with pytest.raises(TypeError, match="nested too deep"):
        RunContext(metadata=inner).attach_to_task(Task.create("x"))
