from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protolink.errors import TaskExecutionError
from protolink.models import Artifact, Message, Part, Task, TaskState, ToolCall
from protolink.models import task as task_module

S = TaskState
EARLY, LATE = "2026-01-01T00:00:00.000000+00:00", "2026-01-01T00:00:01.000000+00:00"
ALLOWED = {
    S.SUBMITTED: {S.WORKING, S.CANCELED, S.FAILED},
    S.WORKING: {S.INPUT_REQUIRED, S.COMPLETED, S.CANCELED, S.FAILED},
    S.INPUT_REQUIRED: {S.WORKING, S.CANCELED, S.FAILED},
    S.COMPLETED: set(),
    S.CANCELED: set(),
    S.FAILED: set(),
    S.UNKNOWN: set(S),
}

flat = st.dictionaries(st.text(max_size=4), st.integers(-9, 9) | st.text(max_size=4), max_size=3)
part_lists = st.lists(st.builds(Part.text, st.text()) | st.builds(Part.tool_output, result=st.integers()), max_size=2)
tasks = st.builds(
    Task,
    state=st.sampled_from(TaskState),
    messages=st.lists(st.builds(Message, parts=part_lists), max_size=2),
    artifacts=st.lists(st.builds(Artifact, parts=part_lists, metadata=flat), max_size=2),
    metadata=flat,
    flow_state=flat,
)


class Context:
    """Stands in for the run context of the layer above."""

    def __init__(self, **fields: Any) -> None:
        self.fields = fields

    def copy(self, **overrides: Any) -> Context:
        return Context(**{**self.fields, **overrides})

    def attach_to_task(self, task: Task) -> None:
        task.metadata["run_context"] = self.fields


@given(tasks)
def test_task_survives_its_json_form(task: Task) -> None:
    assert Task.from_dict(task.to_dict()) == task


@pytest.mark.parametrize("new", S)
@pytest.mark.parametrize("old", S)
def test_only_listed_moves_are_allowed(old: TaskState, new: TaskState) -> None:
    task = Task(state=old)
    if new is old:
        assert task.update_state(new) is task
        assert "state_history" not in task.metadata
    elif new in ALLOWED[old]:
        task.update_state(new.value, at=EARLY)
        assert task.state is new
        move = {"previous_state": old.value, "new_state": new.value, "timestamp": EARLY}
        assert task.metadata["state_history"] == [move]
    else:
        with pytest.raises(ValueError, match=f"Invalid task state transition: {old.value} -> {new.value}"):
            task.update_state(new)
        assert task.state is old
        assert task.metadata == {}


def test_unknown_state_text_is_refused() -> None:
    with pytest.raises(ValueError, match="paused"):
        Task().update_state("paused")


@pytest.mark.parametrize("state", S)
def test_terminal_states_are_three(state: TaskState) -> None:
    assert Task(state=state).is_terminal == (state in {S.COMPLETED, S.CANCELED, S.FAILED})


@pytest.mark.claim("CAN-001")
def test_cancel_sets_serializable_state_to_canceled() -> None:
    task = Task.create("work")
    assert task.cancel("stop") is task
    record = task.to_dict()
    assert record["state"] == "canceled"
    assert record["metadata"]["cancel_reason"] == "stop"
    assert Task.from_dict(record).state is S.CANCELED


def test_cancel_without_reason_names_none() -> None:
    assert "cancel_reason" not in Task().cancel().metadata
    assert Task(state=S.CANCELED).cancel("late").metadata["cancel_reason"] == "late"


@pytest.mark.parametrize("ended", [S.COMPLETED, S.FAILED])
def test_cancel_refuses_other_endings(ended: TaskState) -> None:
    task = Task(state=ended)
    with pytest.raises(ValueError, match="transition"):
        task.cancel("no")
    assert task.metadata == {}


def test_complete_passes_through_working() -> None:
    task = Task.create("q").complete("done", at=LATE)
    moves = [(move["previous_state"], move["new_state"]) for move in task.metadata["state_history"]]
    assert moves == [("submitted", "working"), ("working", "completed")]
    assert task.messages[-1].role == "agent"
    assert task.messages[-1].parts == [Part.text("done")]
    assert task.messages[-1].timestamp == LATE


def test_complete_again_adds_a_message() -> None:
    task = Task(state=S.COMPLETED).complete("more")
    assert [message.parts[0].content for message in task.messages] == ["more"]


@pytest.mark.parametrize("ended", [S.CANCELED, S.FAILED])
def test_complete_refuses_other_endings(ended: TaskState) -> None:
    task = Task(state=ended)
    with pytest.raises(ValueError, match="transition"):
        task.complete("no")
    assert task.messages == []


def test_fail_records_the_newest_error() -> None:
    task = Task.create("q").fail("first").fail("second")
    assert task.state is S.FAILED
    assert task.metadata["error"] == "second"
    assert len(task.messages) == 1


@pytest.mark.parametrize("ended", [S.CANCELED, S.COMPLETED])
def test_fail_refuses_other_endings(ended: TaskState) -> None:
    task = Task(state=ended)
    with pytest.raises(ValueError, match="transition"):
        task.fail("no")
    assert "error" not in task.metadata


def test_require_input_passes_through_working() -> None:
    task = Task().require_input("which?", at=EARLY)
    assert task.state is S.INPUT_REQUIRED
    assert task.messages[-1].role == "agent"
    assert [move["new_state"] for move in task.metadata["state_history"]] == ["working", "input-required"]
    asked = Message.user("own")
    assert Task(state=S.WORKING).require_input(asked).messages == [asked]
    assert Task().require_input().messages == []


@pytest.mark.parametrize("ended", [S.CANCELED, S.COMPLETED, S.FAILED])
def test_ended_task_neither_begins_nor_waits(ended: TaskState) -> None:
    with pytest.raises(ValueError, match="transition"):
        Task(state=ended).begin()
    with pytest.raises(ValueError, match="transition"):
        Task(state=ended).require_input()


@pytest.mark.parametrize("state", [S.SUBMITTED, S.INPUT_REQUIRED, S.UNKNOWN])
def test_begin_leads_to_working(state: TaskState) -> None:
    assert Task(state=state).begin().state is S.WORKING


def test_factories_make_one_user_message() -> None:
    assert Task.create("hi").messages[0].parts == [Part.text("hi")]
    own = Message.agent("x")
    assert Task.create(own).messages[0] is own
    infer = Task.create_infer("hi", metadata={"k": 1})
    assert infer.messages[0].parts == [Part.infer(prompt="hi", metadata={"k": 1})]
    assert Task.create_infer(prompt="hi").messages[0].parts == [Part.infer(prompt="hi")]
    call = Task.create_tool_call(tool_name="t", args={"x": 1}, call_id="c")
    assert call.messages[0].parts == [Part.tool_call(tool_name="t", args={"x": 1}, call_id="c")]
    assert [task.metadata for task in (infer, call)] == [{}, {}]
    assert [task.messages[0].role for task in (infer, call)] == ["user", "user"]
    with pytest.raises(TypeError, match="Message or text"):
        Task.create(3)  # type: ignore[arg-type]


def test_part_factories_make_parts() -> None:
    assert Task.infer(prompt="p") == Part.infer(prompt="p")
    assert Task.tool_call(tool_name="t", call_id="c") == Part.tool_call(tool_name="t", call_id="c")


@pytest.mark.parametrize("context", [5, {"run_id": "r"}, "r"])
def test_context_is_a_run_context(context: Any) -> None:
    for make in (Task.create, Task.create_infer, Task.create_tool_call):
        with pytest.raises(TypeError, match="context"):
            make("x", context=context)


def test_context_is_copied_with_overrides() -> None:
    context = Context(run_id="run_1", session_id="old", budget="b")
    task = Task.create_infer("hi", context=context, session_id="new")
    assert task.metadata["run_context"] == {"run_id": "run_1", "session_id": "new", "budget": "b"}
    assert context.fields["session_id"] == "old"


def test_run_controls_use_the_bound_factory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task_module, "_context_factory", None)
    task_module.bind_context_factory(Context)
    task = Task.create_tool_call("t", session_id="s")
    assert task.metadata["run_context"] == {"run_id": task.id, "session_id": "s", "budget": None}


def test_run_controls_work_without_the_runtime(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(task_module, "_context_factory", None)
    task = Task.create("hi", session_id="s", budget={"max_steps": 3})
    assert task.metadata == {
        "run_context": {"run_id": task.id, "session_id": "s", "budget": {"max_steps": 3}},
        "run_id": task.id,
        "session_id": "s",
    }


def test_last_item_is_the_newest() -> None:
    assert Task().get_last_item() is None
    message, artifact = Message(timestamp=EARLY), Artifact(timestamp=LATE)
    task = Task(messages=[message], artifacts=[artifact])
    assert task.get_last_item() is artifact
    message.timestamp, artifact.timestamp = LATE, EARLY
    assert task.get_last_item() is message
    artifact.timestamp = LATE
    assert task.get_last_item() is artifact


def test_last_item_compares_moments_not_text() -> None:
    message = Message(timestamp="2026-01-01T02:00:00+02:00")
    artifact = Artifact(timestamp="2026-01-01T00:30:00Z")
    assert Task(messages=[message], artifacts=[artifact]).get_last_item() is artifact
    message.timestamp = "2026-01-01T00:45:00"
    assert Task(messages=[message], artifacts=[artifact]).get_last_item() is message
    message.timestamp = "yesterday"
    assert Task(messages=[message], artifacts=[artifact]).get_last_item() is artifact


def test_skewed_clock_does_not_hide_the_answer() -> None:
    request = Message(parts=[Part.text("q")], timestamp=LATE)
    answer = Artifact(parts=[Part.infer_output(content="a")], timestamp=EARLY)
    assert Task(state=S.COMPLETED, messages=[request], artifacts=[answer]).get_output() == "a"


def test_last_part_content_is_typed() -> None:
    task = Task.create_tool_call("t", {"x": 1}, call_id="c")
    assert task.get_last_part() == Part.tool_call(tool_name="t", args={"x": 1}, call_id="c")
    assert task.get_last_part_content() == ToolCall("t", {"x": 1}, "c")
    assert Task(artifacts=[Artifact()]).get_last_part() is None
    assert Task().get_last_part_content() is None


@pytest.mark.parametrize(
    ("item", "output"),
    [
        (Artifact(parts=[Part.infer_output(content={"a": 1})]), {"a": 1}),
        (Artifact(parts=[Part.tool_output(result=7)]), 7),
        (Artifact(parts=[Part.tool_output(result=None)]), None),
        (Artifact(parts=[Part.text("t")]), "t"),
        (Artifact(parts=[Part.text("t"), Part.json([1])]), [1]),
        (Message.agent("t"), "t"),
        (Message.assistant("t"), "t"),
    ],
)
def test_output_is_the_newest_answer(item: Message | Artifact, output: object) -> None:
    task = Task.create("q")
    (task.messages if isinstance(item, Message) else task.artifacts).append(item)  # type: ignore[arg-type]
    item.timestamp = "2999-01-01T00:00:00+00:00"
    assert task.get_output("none") == output


@pytest.mark.parametrize(
    "item",
    [
        Message.user("t"),
        Message(role="system", parts=[Part.text("t")]),
        Message.infer(prompt="t"),
        Artifact(),
        Artifact(parts=[Part.error("c", "m")]),
        Artifact(parts=[Part.tool_output(error="broken")]),
        Artifact(kind="preview", parts=[Part.infer_output(content="t")]),
        Artifact(kind="preview", parts=[Part.json({"t": 1})]),
        Artifact(kind="action_result", parts=[Part.json({"status": "completed"})]),
        Artifact(kind="action_rejection", parts=[Part.json({"status": "rejected"})]),
    ],
)
def test_no_answer_gives_the_default(item: Message | Artifact) -> None:
    answer = Message.agent("an older answer")
    answer.timestamp, item.timestamp = EARLY, LATE
    task = Task(messages=[answer])
    (task.messages if isinstance(item, Message) else task.artifacts).append(item)  # type: ignore[arg-type]
    assert task.get_output("none") == "none"
    assert task.get_output() is None


@pytest.mark.parametrize("state", [S.SUBMITTED, S.WORKING, S.INPUT_REQUIRED, S.COMPLETED, S.UNKNOWN])
def test_status_of_others_raises_nothing(state: TaskState) -> None:
    task = Task(state=state)
    assert task.raise_for_status() is task


@pytest.mark.parametrize(
    ("task", "text"),
    [
        (Task(id="t1").fail("boom"), "Task 't1' failed: boom"),
        (Task(id="t1", state=S.FAILED), "Task 't1' failed"),
        (Task(id="t1").cancel("enough"), "Task 't1' canceled: enough"),
        (Task(id="t1").cancel(), "Task 't1' canceled"),
    ],
)
def test_status_of_ended_badly_raises(task: Task, text: str) -> None:
    with pytest.raises(TaskExecutionError) as caught:
        task.raise_for_status()
    assert str(caught.value) == text
    assert caught.value.task is task


def test_json_has_seven_members() -> None:
    record = Task(metadata={"k": (1, 2)}).to_dict()
    assert list(record) == ["id", "state", "messages", "artifacts", "metadata", "flow_state", "created_at"]
    assert record["metadata"] == {"k": [1, 2]}


def test_empty_json_makes_a_task() -> None:
    task = Task.from_dict({})
    assert task.state is S.SUBMITTED
    assert task.id.startswith("task_")


@pytest.mark.parametrize("data", [3, {"state": "odd"}, {"state": 1}, {"messages": {}}, {"metadata": []}])
def test_malformed_task_is_refused(data: object) -> None:
    with pytest.raises(ValueError, match=r"Task|odd"):
        Task.from_dict(data)  # type: ignore[arg-type]


def test_adding_returns_the_task() -> None:
    task, message, artifact = Task(), Message(), Artifact()
    assert task.add_message(message).add_artifact(artifact) is task
    assert task.messages[0] is message
    assert task.artifacts[0] is artifact
