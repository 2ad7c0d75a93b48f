"""The engine's own events, which are not checked and not copied, read as those of anybody else."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from protolink.models import (
    Artifact,
    Part,
    TaskArtifactUpdateEvent,
    TaskErrorEvent,
    TaskEvent,
    TaskLLMStreamEvent,
    TaskProgressEvent,
    TaskStatusUpdateEvent,
)
from protolink.runtime import RunContext, RunEvent
from protolink.runtime.event_kinds import KINDS, TASK_TYPES

ACTION = {"kind": "agent.call", "name": "worker", "action_id": "action_1"}
STORED = {"id": "task_9", "metadata": {"run_context": {"run_id": "run_9", "agent_chain": ["stored"]}}}

texts = st.sampled_from([None, "", "told"])
values = st.sampled_from(
    [None, "", "told", 4, True, [], {}, ACTION, {"action": ACTION}, {"metadata": {"action_id": "action_2"}}, STORED]
)
TEXTS = ("run_id", "agent_name")
FACTS = [
    "action",
    "action_id",
    "action_kind",
    "agent",
    "artifact",
    "content",
    "decision",
    "delegation_id",
    "error",
    "error_message",
    "event_id",
    "final",
    "interruption",
    "latency_ms",
    "llm_event_type",
    "manifest",
    "message",
    "metadata",
    "metrics",
    "model",
    "new_state",
    "parent_action_id",
    "parent_span_id",
    "progress",
    "request",
    "span_id",
    "step",
    "task",
    "task_id",
    "timestamp",
    "tool",
    "type",
]
facts = st.builds(
    lambda told, scope: told | scope,
    st.dictionaries(st.sampled_from(FACTS), values, max_size=8),
    st.dictionaries(st.sampled_from(TEXTS), texts),
)
kinds = st.sampled_from([*KINDS, "llm_step", "llm_chunk", "novel", ""])
streamed = st.builds(
    TaskLLMStreamEvent,
    task_id=st.sampled_from(["task_1", ""]),
    agent_name=texts,
    llm_event_type=kinds,
    step=st.sampled_from([None, 2]),
    content=values,
    final=st.booleans(),
    metadata=facts,
)
others = st.one_of(
    st.builds(TaskStatusUpdateEvent, st.just("task_1"), texts, st.just("completed"), st.booleans(), metadata=facts),
    st.builds(
        TaskArtifactUpdateEvent,
        st.just("task_1"),
        st.builds(Artifact, action_id=texts, metadata=st.just({"a": {"b": 1}}), parts=st.just([Part.text("x")])),
        metadata=facts,
    ),
    st.builds(TaskProgressEvent, st.just("task_1"), st.just(40), texts, metadata=facts),
    st.builds(TaskErrorEvent, st.just("task_1"), st.just("code"), st.just("text"), metadata=facts),
)
contexts = st.sampled_from([None, RunContext(run_id="run_1", agent_chain=["chain"])])


@given(streamed | others, contexts)
def test_own_events_become_what_any_event_becomes(event: TaskEvent, context: RunContext | None) -> None:
    before = copy.deepcopy(event)
    found = RunEvent.from_task_event(event, context=context, own=True)
    assert found == RunEvent.from_task_event(event, context=context)
    assert found == RunEvent.from_task_event(event.to_dict(), context=context)
    assert event == before


def test_an_own_event_shares_its_containers_with_the_payload() -> None:
    event = TaskLLMStreamEvent("task_1", llm_event_type="tool_start", metadata={"action": ACTION})
    assert RunEvent.from_task_event(event, own=True).payload["metadata"] is event.metadata
    assert RunEvent.from_task_event(event).payload["metadata"] is not event.metadata


@pytest.mark.parametrize("wrong", [5, [], {"text": "x"}, True])
def test_members_that_are_no_text_are_left_open_and_stay_in_the_payload(wrong: Any) -> None:
    raw = dict.fromkeys(("llm_event_type", "run_id", "task_id", "agent_name", "event_id", "timestamp"), wrong)
    found = RunEvent.from_task_event({"type": "task_progress", **raw, "metadata": {"run_id": "hidden"}})
    assert (found.type, found.run_id, found.task_id, found.agent_name) == ("task.progress", None, None, None)
    assert isinstance(found.event_id, str)
    assert isinstance(found.timestamp, str)
    assert {key: found.payload[key] for key in raw} == raw


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind not in TASK_TYPES])
def test_facts_beside_the_metadata_count_like_those_in_it(kind: str) -> None:
    facts = {"action": ACTION, "tool": "write", "model": "small", "step": 3, "agent_name": "writer"}
    own = {"type": "task_llm_stream", "llm_event_type": kind, "content": "text", "event_id": "e", "timestamp": "t"}
    inside = TaskLLMStreamEvent("", None, kind, content="text", metadata=facts, event_id="e", timestamp="t")
    one, two = RunEvent.from_task_event(own | facts), RunEvent.from_task_event(inside, own=True)
    assert (two.step, two.agent_name) == (3, "writer")
    one.payload = two.payload = {}
    assert one == two


def test_the_answer_is_told_whatever_else_its_event_says() -> None:
    event = TaskLLMStreamEvent("task_1", llm_event_type="llm_final", content="done", metadata={"model": "small"})
    assert RunEvent.from_task_event(event, own=True).summary == "llm_final: done"


def test_every_id_of_an_own_event_is_lifted() -> None:
    ids = {"action_id": "a", "parent_action_id": "b", "span_id": "c", "parent_span_id": "d", "delegation_id": "e"}
    event = TaskLLMStreamEvent("task_1", llm_event_type="tool_start", metadata=dict(ids))
    found = RunEvent.from_task_event(event, own=True)
    assert {key: getattr(found, key) for key in ids} == ids
    assert {key: found.payload[key] for key in ids} == ids
