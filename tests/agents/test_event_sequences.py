"""The events of whole runs, exactly, and what is kept of them when nobody watches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from agent_support import (
    BEGUN,
    BLOCK,
    WITH_CHUNK,
    agent,
    call,
    delegate,
    delegate_tool,
    infer,
    kind,
    kinds,
    limited,
    only,
    outcome,
    recorded,
    run_id,
    script,
    stream,
    turn,
)

from protolink import (
    Agent,
    CapabilityPolicy,
    ContextManifest,
    InMemoryEventSink,
    RunAction,
    RunContext,
    RunEvent,
    Task,
    TaskArtifactUpdateEvent,
    TaskLLMStreamEvent,
    TaskStatusUpdateEvent,
    Tool,
    ToolRejectedError,
)
from protolink.journal import InMemoryDurableStore
from protolink.llms import MockLLM
from protolink.tools.prepared import PreparedTool

ASKING = CapabilityPolicy({"act": "ask"})
FINISHED = ["llm_final", "artifact:result", "status:completed"]
FAILED = ["task.error", "status:failed"]
REFUSED = ["tool_rejected", "artifact:action_rejection"]
RAN = [*BEGUN, "tool_result", "artifact:action_result"]


def act() -> str:
    """Act."""
    return "acted"


def boom() -> None:
    """Fail."""
    raise KeyError("no row")


def refuse_once() -> Callable[[int], str]:
    def pick(n: int) -> str:
        """Pick a number."""
        if n == 0:
            raise ToolRejectedError(code="zero", message="Zero is taken.")
        return "picked"

    return pick


def prepared() -> PreparedTool:
    def pick(n: int) -> str:
        """Pick a number."""
        raise AssertionError("a signature is not called")

    def prepare(arguments: dict[str, Any], context: RunContext) -> Any:
        if arguments["n"] == 0:
            raise ToolRejectedError(code="zero", message="Zero is taken.")
        return RunAction(kind="tool.call", name="pick", payload={"arguments": arguments})

    return PreparedTool(pick, prepare=prepare, execute=lambda execution: "picked", capabilities=("pick",))


def guarded() -> Tool:
    return Tool.from_callable(act, capabilities=["act"])


def answers() -> Agent:
    return agent("hi")


def one_tool() -> Agent:
    return agent(call("act"), "done", tools=[act])


def corrected() -> Agent:
    return agent(call("pick", n=0), call("pick", n=1), "done", tools=[refuse_once()])


def corrected_in_preparation() -> Agent:
    return agent(call("pick", n=0), call("pick", n=1), "done", tools=[prepared()])


def unknown_tool() -> Agent:
    return agent(call("missing"), "done", tools=[act])


def bad_arguments() -> Agent:
    return agent(call("act", n=1), "done", tools=[act])


def never_right() -> Agent:
    return agent(*[call("missing", n=n) for n in range(3)], tools=[act])


def granted() -> Agent:
    return agent(call("act"), "done", tools=[guarded()], policy=ASKING, approval_handler=lambda r, c: True)


def refused() -> Agent:
    return agent(call("act"), tools=[guarded()], policy=ASKING, approval_handler=lambda r, c: False)


def nobody_to_ask() -> Agent:
    return agent(call("act"), tools=[guarded()], policy=ASKING)


def denied() -> Agent:
    return agent(call("act"), tools=[guarded()], policy=CapabilityPolicy({"act": "deny"}))


def raising() -> Agent:
    return agent(call("boom"), tools=[boom])


def misspeaking() -> Agent:
    return agent("", "done")


def no_model() -> Agent:
    return agent()


def repeating() -> Agent:
    return agent(call("act"), call("act"), "done", tools=[act])


def two_calls() -> Agent:
    return agent(turn(("act", {}), ("other", {})), "done", native=True, tools=[act, other])


def other() -> str:
    """Do the other thing."""
    return "other"


SPOKEN = WITH_CHUNK
SEQUENCES: dict[Callable[[], Agent], list[str]] = {
    answers: [*SPOKEN, *FINISHED],
    one_tool: [*SPOKEN, *RAN, *SPOKEN, *FINISHED],
    corrected: [*SPOKEN, *BEGUN, *REFUSED, *SPOKEN, *RAN, *SPOKEN, *FINISHED],
    corrected_in_preparation: [*SPOKEN, *REFUSED, *SPOKEN, *RAN, *SPOKEN, *FINISHED],
    unknown_tool: [*SPOKEN, *REFUSED, *SPOKEN, *FINISHED],
    bad_arguments: [*SPOKEN, *REFUSED, *SPOKEN, *FINISHED],
    never_right: [*[*SPOKEN, *REFUSED] * 3, *FAILED],
    granted: [
        *SPOKEN,
        *BEGUN[:2],
        "approval_required",
        "approval_decision",
        "action_approved",
        *RAN[2:],
        *SPOKEN,
        *FINISHED,
    ],
    refused: [*SPOKEN, *BEGUN[:2], "approval_required", "approval_decision", "action_denied", *FAILED],
    nobody_to_ask: [*SPOKEN, *BEGUN[:2], "approval_required", *FAILED],
    denied: [*SPOKEN, *BEGUN[:2], "action_denied", *FAILED],
    raising: [*SPOKEN, *BEGUN, "tool_error", *FAILED],
    misspeaking: [*BLOCK[:-1], "llm_parse_error", *SPOKEN, *FINISHED],
    repeating: [*SPOKEN, *RAN, *SPOKEN, *["llm_retry", "artifact:action_rejection"], *SPOKEN, *FINISHED],
    no_model: ["artifact:result", *FAILED],
}


@pytest.mark.claim(
    "EVT-034",
    "EVT-035",
    "EVT-036",
    "EVT-039",
    "EVT-040",
    "EVT-041",
    "EVT-042",
    "EVT-043",
    "EVT-044",
    "EVT-045",
    "EVT-046",
)
@pytest.mark.parametrize("make", SEQUENCES, ids=lambda make: make.__name__)
async def test_streamed_run_has_exactly_these_events(make: Callable[[], Agent]) -> None:
    assert kinds(await stream(make(), infer())) == ["status:working", *SEQUENCES[make]]


@pytest.mark.parametrize("make", SEQUENCES, ids=lambda make: make.__name__)
async def test_stream_ends_with_its_only_final_status(make: Callable[[], Agent]) -> None:
    task = infer()
    events = await stream(make(), task)
    final = [event for event in events if isinstance(event, TaskStatusUpdateEvent) and event.final]
    assert final == [events[-1]]
    assert events[-1].metadata["task"] == task.to_dict()


@pytest.mark.parametrize("make", SEQUENCES, ids=lambda make: make.__name__)
async def test_task_keeps_only_events_that_were_streamed(make: Callable[[], Agent]) -> None:
    task = infer()
    shown = {event.event_id: RunEvent.from_task_event(event).type for event in await stream(make(), task)}
    for kept in task.metadata.get("run_events", []):
        assert shown.get(kept["event_id"]) == kept["type"]


@pytest.mark.parametrize("make", SEQUENCES, ids=lambda make: make.__name__)
async def test_task_tells_the_same_whether_it_was_streamed_or_not(make: Callable[[], Agent]) -> None:
    streamed, quiet = infer(), infer()
    await stream(make(), streamed)
    await outcome(make(), quiet)
    assert recorded(streamed) == recorded(quiet)
    assert [a.kind for a in streamed.artifacts] == [a.kind for a in quiet.artifacts]
    assert streamed.state is quiet.state
    assert streamed.metadata.get("error") == quiet.metadata.get("error")


@pytest.mark.parametrize("make", SEQUENCES, ids=lambda make: make.__name__)
async def test_artifacts_are_streamed_in_the_order_in_which_the_task_has_them(make: Callable[[], Agent]) -> None:
    task = infer()
    events = await stream(make(), task)
    assert [e.artifact.id for e in events if isinstance(e, TaskArtifactUpdateEvent)] == [a.id for a in task.artifacts]


async def test_native_turn_judges_all_calls_before_the_first_starts() -> None:
    found = kinds(await stream(two_calls(), infer()))
    first = [word for word in found[: found.index("llm_step", 2)] if word not in BLOCK]
    assert first == [
        "status:working",
        "action_requested",
        "action_requested",
        "policy_decision",
        "policy_decision",
        "tool_start",
        "tool_result",
        "artifact:action_result",
        "tool_start",
        "tool_result",
        "artifact:action_result",
    ]
    assert found.count("llm_action") == 3


@pytest.mark.claim("EVT-037", "EVT-038", "BUD-033", "BUD-034")
async def test_budget_events_stand_right_before_the_call_that_they_concern() -> None:
    found = agent(call("act"), "never", tools=[act])
    events = await stream(found, limited(max_llm_calls=1))
    assert kinds(events) == [
        "status:working",
        *SPOKEN[:3],
        "budget_warning",
        *SPOKEN[3:],
        *RAN,
        *SPOKEN[:3],
        "budget_exceeded",
        *FAILED,
    ]
    warned, denied = RunEvent.from_task_event(only(events, "budget_warning")), only(events, "budget_exceeded")
    assert (warned.type, warned.severity) == ("budget.warning", "warning")
    exceeded = RunEvent.from_task_event(denied)
    assert (exceeded.type, exceeded.severity) == ("budget.exceeded", "error")
    assert exceeded.payload["decision"]["limit_name"] == "max_llm_calls"
    assert exceeded.summary == exceeded.payload["decision"]["message"]


async def test_step_warning_stands_before_the_step_that_it_concerns() -> None:
    found = kinds(await stream(agent("done"), limited(max_steps=1)))
    assert found == ["status:working", "budget_warning", *SPOKEN, *FINISHED]


@pytest.mark.parametrize(
    ("tool", "after"),
    [
        (act, ["action.completed", "artifact:result"]),
        (boom, ["action.failed", "artifact:result", "task.error"]),
    ],
    ids=["completed", "failed"],
)
@pytest.mark.claim("EVT-062", "EVT-064")
async def test_direct_call_is_told_in_native_events(tool: Callable[[], Any], after: list[str]) -> None:
    task = Task.create_tool_call(tool_name=tool.__name__, args={})
    events = await stream(agent(tools=[tool]), task)
    begun = ["status:working", "task.progress", "action.requested", "action.policy", "action.started"]
    assert kinds(events) == [*begun, *after, f"status:{task.state.value}"]
    assert only(events, "task.progress").message == f"Executing tool: {tool.__name__}"
    acted = [e for e in events if isinstance(e, RunEvent) and e.type.startswith("action.")]
    assert len({e.action_id for e in acted}) == 1


@pytest.mark.claim("EVT-062")
async def test_direct_call_that_is_refused_has_no_start() -> None:
    task = Task.create_tool_call(tool_name="missing", args={})
    events = kinds(await stream(agent(tools=[act]), task))
    assert events == ["status:working", "task.progress", "action.rejected", "artifact:result", *FAILED]


@pytest.mark.claim("EVT-062")
async def test_direct_call_that_is_denied_has_no_start() -> None:
    found = agent(tools=[guarded()], policy=CapabilityPolicy({"act": "deny"}))
    events = kinds(await stream(found, Task.create_tool_call(tool_name="act", args={})))
    begun = ["status:working", "task.progress", "action.requested", "action.policy"]
    assert events == [*begun, "action.denied", "artifact:result", *FAILED]


@pytest.mark.claim("EVT-049", "EVT-062")
async def test_direct_call_with_approval_has_the_whole_native_order() -> None:
    found = agent(tools=[guarded()], policy=ASKING, approval_handler=lambda r, c: True)
    events = await stream(found, Task.create_tool_call(tool_name="act", args={}))
    assert kinds(events)[2:-2] == [
        "action.requested",
        "action.policy",
        "approval.required",
        "approval.decided",
        "action.approved",
        "action.started",
        "action.completed",
    ]


@pytest.mark.claim("EVT-049")
async def test_approved_call_of_a_model_has_that_order_too() -> None:
    events = [RunEvent.from_task_event(event) for event in await stream(granted(), infer())]
    assert [e.type for e in events if e.type.startswith(("action.", "approval."))] == [
        "action.requested",
        "action.policy",
        "approval.required",
        "approval.decided",
        "action.approved",
        "action.started",
        "action.completed",
    ]


@pytest.mark.claim("EVT-064")
async def test_action_allowed_by_policy_has_no_approval_event() -> None:
    assert not [word for word in kinds(await stream(one_tool(), infer())) if "appro" in word]


@pytest.mark.claim("EVT-063", "REJ-018", "REJ-019")
async def test_rejection_in_preparation_names_its_phase_and_its_receipt() -> None:
    task = infer()
    events = await stream(corrected_in_preparation(), task)
    event = RunEvent.from_task_event(only(events, "tool_rejected"))
    assert event.type == "action.rejected"
    assert event.payload["metadata"]["phase"] == "preparation"
    [receipt] = [a for a in task.artifacts if a.kind == "action_rejection"]
    assert event.action_id == receipt.action_id
    assert receipt.parts[0].content["rejection"]["changes_made"] is False
    started = [RunEvent.from_task_event(e) for e in events if kind(e) == "tool_start"]
    assert event.action_id not in [e.action_id for e in started]


async def test_rejection_payload_counts_the_corrections() -> None:
    events = [e for e in await stream(never_right(), infer()) if kind(e) == "tool_rejected"]
    told = [(e.metadata["correction_count"], e.metadata["recoverable"], e.metadata["phase"]) for e in events]
    assert told == [(1, True, "validation"), (2, True, "validation"), (3, False, "validation")]
    assert {e.metadata["max_tool_corrections"] for e in events} == {2}


@pytest.mark.claim("EVT-047", "EVT-048")
async def test_normalized_events_promote_what_their_source_carries_and_keep_it() -> None:
    raw = await stream(granted(), infer())
    promoted = {
        "context_prepared": "manifest",
        "action_requested": "action",
        "approval_required": "request",
        "policy_decision": "decision",
        "approval_decision": "decision",
        "tool_start": "action_id",
    }
    for word, key in promoted.items():
        event = next(e for e in raw if kind(e) == word)
        found = RunEvent.from_task_event(event)
        source = event.to_dict()
        assert found.payload[key] == source["metadata"].get(key, found.action_id)
        assert source.items() <= found.payload.items()


@pytest.mark.parametrize("made", [granted, one_tool, corrected])
async def test_events_of_an_action_and_the_answer_tell_the_step_they_belong_to(made: Callable[[], Agent]) -> None:
    """The step of the model call that asked for the action, as its receipt tells it; the answer is of the last."""
    events = await stream(made(), infer())
    step = 0
    for event in events:
        word = kind(event)
        if word == "llm_step":
            step += 1
        if isinstance(event, TaskLLMStreamEvent):
            assert (word, event.step) == (word, step)
    assert step > 1


@pytest.mark.claim("MAN-001", "MAN-025", "EVT-034")
async def test_every_model_call_has_a_manifest_whose_sections_add_up() -> None:
    events = await stream(corrected(), infer())
    words = kinds(events)
    assert words.count("context_prepared") == words.count("llm_call_started") == 3
    for event in events:
        if kind(event) != "context_prepared":
            continue
        found = ContextManifest.from_dict(event.metadata["manifest"])
        sections = (found.system_tokens, found.tool_prompt_tokens, found.history_tokens, found.user_tokens)
        assert found.total_estimated_tokens == sum(sections) > 0
        assert (found.agent_name, found.provider, found.model) == ("agent", "mock", "mock-gpt")


async def test_later_manifests_count_the_grown_history() -> None:
    events = await stream(corrected(), infer())
    manifests = [e.metadata["manifest"] for e in events if kind(e) == "context_prepared"]
    history = [m["history_tokens"] for m in manifests]
    assert history == sorted(set(history))


@pytest.mark.claim("EVT-035", "EVT-036")
async def test_model_call_events_tell_attempt_and_usage() -> None:
    events = await stream(answers(), infer())
    started = RunEvent.from_task_event(only(events, "llm_call_started"))
    done = RunEvent.from_task_event(only(events, "llm_call_completed"))
    assert started.payload["metadata"]["attempt"] == 1
    assert started.summary == "LLM call started: mock-gpt"
    assert done.payload["metadata"]["metrics"]["usage"]["output_tokens"] > 0
    assert done.payload["metadata"]["latency_ms"] >= 0
    assert done.payload["metadata"]["budget"]["llm_calls"] == 1


@pytest.mark.claim("EVT-001")
async def test_stream_carries_task_event_objects() -> None:
    events = await stream(one_tool(), infer())
    assert {type(e) for e in events} == {TaskStatusUpdateEvent, TaskLLMStreamEvent, TaskArtifactUpdateEvent}


@pytest.mark.claim("EVT-002", "EVT-003", "EVT-050", "LIV-006")
async def test_consumer_feeds_a_stream_into_a_sink() -> None:
    task, sink = infer(), InMemoryEventSink()
    found = one_tool()
    async for event in found.handle_task_streaming(task):
        await sink.emit_task_event(event, context=RunContext.from_task(task))
    assert [e.sequence for e in sink.events] == list(range(1, len(sink.events) + 1))
    assert {e.run_id for e in sink.events} == {run_id(task)}
    assert {e.task_id for e in sink.events} == {task.id}
    chunks = [e for e in sink.events if e.payload.get("llm_event_type") == "llm_chunk"]
    assert {e.type for e in chunks} == {"llm.stream"}
    assert [e.payload["content"] for e in chunks][-1] == '{"type":"final","content":"done"}'


@pytest.mark.claim("EVT-051", "EVT-052")
async def test_sink_of_the_application_only_observes() -> None:
    class Counting:
        """Disapproves of everything that it sees, in vain."""

        def __init__(self) -> None:
            self.types: list[str] = []

        async def emit(self, event: RunEvent) -> bool:
            self.types.append(event.type)
            event.payload.clear()
            return False

    task, sink = infer(), Counting()
    async for event in one_tool().handle_task_streaming(task):
        await sink.emit(RunEvent.from_task_event(event))
    assert task.get_output() == "done"
    assert "action.completed" in sink.types


@pytest.mark.claim("INT-014")
@pytest.mark.parametrize("make", [one_tool, granted, corrected], ids=lambda make: make.__name__)
async def test_same_script_gives_the_same_events(make: Callable[[], Agent]) -> None:
    async def listed() -> list[tuple[int | None, str, bool]]:
        sink = InMemoryEventSink()
        for event in await stream(make(), infer()):
            await sink.emit_task_event(event)
        return [(e.sequence, e.type, e.final) for e in sink.events]

    assert await listed() == await listed()


async def test_events_of_one_run_have_unique_ids() -> None:
    events = await stream(corrected(), infer())
    assert len({e.event_id for e in events}) == len(events)


async def test_durable_run_has_the_events_of_a_live_one() -> None:
    def make(durable: bool) -> Agent:
        how = {"durability": InMemoryDurableStore()} if durable else {}
        kid = agent("kid's answer", name="kid")
        return agent(call("act"), delegate("kid"), "done", tools=[act], subagents=[kid], **how)

    live, durable = await stream(make(False), infer()), await stream(make(True), infer())
    assert kinds(live) == kinds(durable)


@pytest.mark.claim("LIV-007", "DEL-001")
async def test_events_of_a_child_stand_between_start_and_result_of_its_delegation() -> None:
    found = agent(delegate("kid"), "done", subagents=[agent("kid's answer", name="kid")])
    events = await stream(found, infer())
    words = kinds(events)
    start, end = words.index("agent_call_start"), words.index("agent_call_result")
    inner = events[start + 1 : end]
    assert [RunEvent.from_task_event(e).type for e in inner] == [
        "task.status",
        "llm.stream",
        "context.prepared",
        "llm.stream",
        "llm.call.started",
        "llm.stream",
        "llm.stream",
        "llm.call.completed",
        "llm.stream",
        "llm.stream",
        "llm.stream",
        "task.artifact",
        "task.status",
    ]
    assert {e.agent_name for e in inner} == {"kid"}
    requested = events[start - 2].metadata["action"]
    assert (requested["kind"], requested["capabilities"]) == ("agent.call", ["agent.delegate"])


async def test_delegated_tool_call_is_told_natively_by_the_child() -> None:
    kid = Agent(name="kid", tools=[act], verbosity=0)
    events = await stream(agent(delegate_tool("kid", "act"), "done", subagents=[kid]), infer())
    words = kinds(events)
    inner = words[words.index("agent_call_start") + 1 : words.index("agent_call_result")]
    assert inner == [
        "task.status",
        "action.requested",
        "action.policy",
        "action.started",
        "action.completed",
        "task.artifact",
        "task.status",
    ]


@pytest.mark.parametrize("expose", [False, True])
@pytest.mark.claim("CAN-034", "CAN-035", "CAN-036")
async def test_receipt_leaves_the_result_out_unless_it_is_exposed(expose: bool) -> None:
    task = infer()
    events = await stream(agent(call("act"), "done", tools=[act], expose_tool_results=expose), task)
    [receipt] = [a for a in task.artifacts if a.kind == "action_result"]
    body, told = receipt.parts[0].content, only(events, "tool_result").metadata
    assert receipt.parts[0].type == "json"
    assert (body["status"], body["action_id"], body["action_kind"]) == ("completed", receipt.action_id, "tool.call")
    assert (receipt.metadata["source"], receipt.metadata["step"]) == ("inference", 1)
    if expose:
        assert body["result"] == told["result"] == "acted"
    else:
        assert "acted" not in repr(task.to_dict()) + repr([e.to_dict() for e in events if kind(e) != "llm_chunk"])


async def test_result_that_is_left_out_still_reaches_the_model() -> None:
    seen: list[str] = []

    def answer(history: Any, prompt: str) -> Any:
        seen.append(str(history.messages))
        return call("act") if len(seen) == 1 else "done"

    found = Agent(name="a", llm=MockLLM(response_callback=answer), tools=[act], verbosity=0)
    await found.invoke("go")
    assert "acted" not in seen[0]
    assert "acted" in seen[1]


def test_script_of_the_tests_fails_when_it_is_exhausted() -> None:
    assert isinstance(script("one").sequential_responses[-1], AssertionError)


@pytest.mark.parametrize(
    ("limits", "steps"),
    [
        ({"max_tool_calls": 1}, [("budget_warning", 1), ("budget_exceeded", 2)]),  # both before a tool
        ({"max_llm_calls": 1}, [("budget_warning", 1), ("budget_exceeded", 2)]),  # both before a model call
        ({"max_steps": 2}, [("budget_warning", 2), ("budget_exceeded", 3)]),  # both before a turn
        ({"max_output_tokens": 1}, [("budget_exceeded", 1)]),  # after the reply
    ],
)
async def test_budget_events_tell_the_step_that_they_concern(
    limits: dict[str, int], steps: list[tuple[str, int]]
) -> None:
    target = agent(call("act"), call("act", n=1), "never", tools=[Tool.from_callable(lambda n=0: "acted", name="act")])
    events = await stream(target, limited(**limits))
    assert [(kind(e), e.step) for e in events if kind(e).startswith("budget")] == steps


async def test_budget_event_about_the_answer_tells_its_step() -> None:
    events = await stream(agent("a long answer"), limited(max_output_tokens=1))
    assert only(events, "budget_exceeded").step == only(events, "llm_call_completed").step == 1
