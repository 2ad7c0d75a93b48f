"""What an application hands to its own code for one request: who sees it, who does not, and that it is never stored."""

from __future__ import annotations

import asyncio
import copy
import json
import pickle
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from agent_support import Mode, agent, call, delegate, infer, run_id, script, until

from protolink import (
    Agent,
    AgentGroup,
    ApprovalDecision,
    ApprovalRequest,
    CapabilityPolicy,
    GroupLimits,
    LocalTraceTelemetry,
    PolicyDecision,
    RunAction,
    RunContext,
    RunInterrupted,
    SQLiteRunStore,
    SubagentLimits,
    Task,
    Tool,
    UncertainExecutionError,
    current_request_context,
    request_context,
)
from protolink.llms import MockLLM
from protolink.storage import SQLiteStorage

SECRET = "s3cr3t-planted-5d1f"


class Witness:
    """Notes what is visible where it is called."""

    def __init__(self) -> None:
        self.seen: dict[str, dict[str, Any]] = {}

    def note(self, place: str) -> None:
        assert place not in self.seen
        self.seen[place] = dict(current_request_context())

    def policy(self, place: str = "policy") -> NotedPolicy:
        return NotedPolicy(self, place)


class NotedPolicy:
    def __init__(self, witness: Witness, place: str) -> None:
        self.witness = witness
        self.place = place

    async def evaluate(self, action: RunAction, context: RunContext) -> PolicyDecision:
        if self.place not in self.witness.seen:
            self.witness.note(self.place)
        return PolicyDecision("allow", "noted", "noted")


# ---------------------------------------------------------------------------------------------------- the block


def test_nothing_is_visible_outside_a_block() -> None:
    assert dict(current_request_context()) == {}
    with request_context({"tenant": "north"}) as view:
        assert current_request_context() is view
        assert dict(view) == {"tenant": "north"}
    assert dict(current_request_context()) == {}


def test_inner_block_replaces_the_outer_one_until_it_ends() -> None:
    with request_context({"a": 1, "b": 2}):
        with request_context({"b": 3}):
            assert dict(current_request_context()) == {"b": 3}
        assert dict(current_request_context()) == {"a": 1, "b": 2}


def test_block_that_is_left_by_an_error_is_over() -> None:
    with pytest.raises(LookupError), request_context({"a": 1}):
        raise LookupError
    assert dict(current_request_context()) == {}


def test_values_cannot_be_changed_through_the_view_nor_through_the_source() -> None:
    source = {"a": 1}
    with request_context(source) as view:
        source["a"] = 2
        assert view["a"] == 1
        with pytest.raises(TypeError):
            view["a"] = 3  # type: ignore[index]


def test_view_tells_its_names_and_not_its_values() -> None:
    with request_context({"token": SECRET}) as view:
        assert repr(view) == "<request context: token>"
        assert SECRET not in f"{view} {[view]}"


@pytest.mark.parametrize("keep", [copy.copy, copy.deepcopy, pickle.dumps])
def test_view_cannot_be_copied_or_pickled(keep: Callable[[Any], Any]) -> None:
    with request_context({"token": SECRET}) as view, pytest.raises(TypeError, match="private") as caught:
        keep(view)
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    ("values", "inherit", "error"),
    [
        (["a"], (), TypeError),
        ("a", (), TypeError),
        (None, (), TypeError),
        ({1: "a"}, (), TypeError),
        ({"a": 1}, "a", TypeError),
        ({"a": 1}, ["b"], ValueError),
        ({"a": 1}, [1], ValueError),
    ],
)
def test_bad_arguments_are_refused_and_change_nothing(values: Any, inherit: Any, error: type[Exception]) -> None:
    with request_context({"before": 1}):
        with pytest.raises(error), request_context(values, inherit=inherit):
            raise AssertionError("the block must not begin")
        assert dict(current_request_context()) == {"before": 1}


# ---------------------------------------------------------------------------------------------------- who sees it


async def test_code_of_a_run_sees_the_values(mode: Mode) -> None:
    seen = Witness()

    def build(arguments: dict[str, Any], context: RunContext) -> RunAction:
        if "builder" not in seen.seen:
            seen.note("builder")
        return RunAction("tool.call", "inline", {"arguments": arguments})

    def inline() -> None:
        seen.note("inline")

    def threaded() -> None:
        seen.note("thread")
        assert threading.current_thread() is not threading.main_thread()

    async def later() -> None:
        await asyncio.sleep(0)
        seen.note("async")

    def model(history: Any, system_prompt: Any) -> Any:
        seen.seen.setdefault("model", dict(current_request_context()))
        return steps.pop(0)

    async def factory() -> MockLLM:
        seen.note("factory")
        return MockLLM(response_callback=model)

    steps = [call("inline"), call("threaded"), call("later"), "done"]
    how: dict[str, Any] = {"policy": seen.policy(), "llm_factory": factory}
    found = mode.agent(
        tools=[
            Tool.from_callable(inline, action_builder=build),
            Tool.from_callable(threaded, sync_execution="thread"),
            later,
        ],
        **how,
    )
    with request_context({"tenant": "north"}):
        ran = await mode.run(found, infer())
    assert ran.task.get_output() == "done"
    places = ["factory", "model", "policy", "builder", "inline", "thread", "async"]
    assert seen.seen == {place: {"tenant": "north"} for place in places}


@pytest.mark.parametrize("kind", ["sync", "async"])
async def test_approval_handler_sees_the_values(kind: str) -> None:
    seen = Witness()

    def sync(request: ApprovalRequest, context: RunContext) -> ApprovalDecision:
        seen.note("handler")
        return ApprovalDecision(True, request.request_id)

    async def later(request: ApprovalRequest, context: RunContext) -> ApprovalDecision:
        await asyncio.sleep(0)
        return sync(request, context)

    handler: Any = sync if kind == "sync" else later
    found = agent(policy=CapabilityPolicy({"act": "ask"}), approval_handler=handler)

    @found.tool(capabilities=["act"])
    def act() -> str:
        return "acted"

    with request_context({"user": "ann"}):
        assert await found.call_tool("act") == "acted"
    assert seen.seen == {"handler": {"user": "ann"}}


async def test_blocking_model_adapters_in_the_facade_see_the_callers_values() -> None:
    found = agent(call("who"), "done")
    users: list[str] = []

    @found.tool
    def who() -> None:
        users.append(current_request_context()["user"])

    def ask() -> None:
        with request_context({"user": "ann"}):
            found.sync.invoke("go")

    await asyncio.to_thread(ask)
    assert users == ["ann"]


async def test_two_requests_at_once_see_their_own_values() -> None:
    users: dict[str, str] = {}
    gate = asyncio.Event()
    found = agent()

    @found.tool
    async def who(name: str) -> None:
        await gate.wait()
        users[name] = current_request_context()["user"]

    async def serve(name: str) -> None:
        with request_context({"user": name}):
            await found.call_tool("who", name=name)

    serving = [asyncio.create_task(serve(name)) for name in ("ann", "bob")]
    await until(lambda: len(found.active_task_ids) == 2)
    gate.set()
    await asyncio.gather(*serving)
    assert users == {"ann": "ann", "bob": "bob"}


async def test_handle_keeps_the_values_of_its_start_after_the_block() -> None:
    found, users = agent(call("who"), "done"), []

    @found.tool
    def who() -> None:
        users.append(dict(current_request_context()))

    with request_context({"user": "ann"}):
        handle = found.start_run("go")
    with request_context({"user": "bob"}):
        await handle.result()
    assert users == [{"user": "ann"}]


async def test_run_that_waits_in_a_group_keeps_the_values_of_its_submission() -> None:
    gate, users = asyncio.Event(), []
    found = agent(name="served")

    @found.tool
    async def who(wait: bool) -> None:
        if wait:
            await gate.wait()
        users.append(current_request_context().get("user"))

    async with AgentGroup([found], limits=GroupLimits(max_concurrent_runs=1)) as group:
        handles = []
        for user, wait in (("ann", True), ("bob", False)):
            with request_context({"user": user}):
                task = Task.create_tool_call(tool_name="who", args={"wait": wait})
                handles.append(group.run("served", task))
        await until(lambda: handles[1].queued)
        gate.set()
        await asyncio.gather(*(handle.result() for handle in handles))
    assert users == ["ann", "bob"]


async def test_resumed_run_sees_the_values_of_the_resume(tmp_path: Path) -> None:
    users: list[Any] = []

    def act() -> str:
        users.append(dict(current_request_context()))
        return "acted"

    tools = [Tool.from_callable(act, capabilities=["act"])]
    how: dict[str, Any] = {"policy": CapabilityPolicy({"act": "ask"}), "durability": tmp_path / "runs.sqlite"}
    with request_context({"user": "ann"}), pytest.raises(RunInterrupted) as pause:
        await agent(call("act"), "done", tools=tools, **how).invoke("go")
    with request_context({"user": "bob"}):
        request = pause.value.interruption.request_id
        await agent("done", tools=tools, **how).resume(pause.value.run_id, request_id=request, approved=True)
    assert users == [{"user": "bob"}]


# ---------------------------------------------------------------------------------------------------- child agents


def family(seen: Witness, mode: Mode) -> Agent:
    """A parent, its child and its grandchild; everything they run notes what it sees."""

    def tool(place: str) -> Tool:
        return Tool.from_callable(lambda: seen.note(f"{place} tool"), name="look", sync_execution=thread[place])

    def model(place: str, *steps: Any) -> dict[str, Any]:
        played = list(steps)

        def reply(history: Any, system_prompt: Any) -> Any:
            seen.seen[f"{place} model"] = dict(current_request_context())
            return played.pop(0)

        def factory() -> MockLLM:
            seen.note(f"{place} factory")
            return MockLLM(response_callback=reply)

        return {"llm_factory": factory, "tools": [tool(place)]}

    thread: dict[str, Any] = {"grandchild": "inline", "child": "thread", "parent": "inline"}
    own = seen.policy("grandchild policy")
    low = Agent(name="low", verbosity=0, policy=own, **model("grandchild", call("look"), "low done"))
    mid = Agent(name="mid", verbosity=0, subagents=[low], **model("child", delegate("low"), call("look"), "mid done"))
    limits = {"subagent_limits": SubagentLimits(max_depth=2)}
    return mode.agent(subagents=[mid], **limits, **model("parent", delegate("mid"), call("look"), "done"))


async def test_children_see_what_is_inherited_and_nothing_else(mode: Mode) -> None:
    seen = Witness()
    with request_context({"tenant": "north", "token": SECRET}, inherit=["tenant"]):
        ran = await mode.run(family(seen, mode), infer())
    assert ran.task.get_output() == "done", ran
    whole, part = {"tenant": "north", "token": SECRET}, {"tenant": "north"}
    assert seen.seen == {
        **dict.fromkeys(["parent factory", "parent model", "parent tool"], whole),
        **dict.fromkeys(["child factory", "child model", "child tool"], part),
        **dict.fromkeys(["grandchild factory", "grandchild model", "grandchild tool", "grandchild policy"], part),
    }


async def test_child_sees_nothing_when_nothing_is_inherited() -> None:
    users: list[Any] = []
    kid = agent(call("who"), "kid done", name="kid", tools=[Tool.from_callable(lambda: None, name="unused")])

    @kid.tool
    async def who() -> None:
        await asyncio.sleep(0)
        users.append(dict(current_request_context()))

    with request_context({"token": SECRET}):
        await agent(delegate("kid"), "done", subagents=[kid]).invoke("go")
    assert users == [{}]


async def test_childs_approval_handler_and_ancestors_policies_see_what_is_inherited() -> None:
    seen = Witness()

    def approve(request: ApprovalRequest, context: RunContext) -> bool:
        seen.note("handler")
        return True

    class Above:
        def evaluate(self, action: RunAction, context: RunContext) -> PolicyDecision:
            seen.seen[f"policy on {action.name}"] = dict(current_request_context())
            return PolicyDecision("allow", "fine", "above")

    kid = agent(call("_act"), "kid done", name="kid", policy=CapabilityPolicy({"act": "ask"}), approval_handler=approve)
    kid.tool(capabilities=["act"])(_act)
    with request_context({"a": 1, "b": 2}, inherit=["a"]):
        await agent(delegate("kid"), "done", subagents=[kid], policy=Above()).invoke("go")
    assert seen.seen == {"policy on kid": {"a": 1, "b": 2}, "policy on _act": {"a": 1}, "handler": {"a": 1}}


def _act() -> str:
    return "acted"


async def test_child_with_a_handler_of_its_own_sees_what_is_inherited() -> None:
    users: list[Any] = []

    class Own(Agent):
        async def handle_task(self, task: Task) -> Task:
            users.append(dict(current_request_context()))
            return task.complete("own")

    with request_context({"a": 1, "b": 2}, inherit=["a"]):
        await agent(delegate("own"), "done", subagents=[Own(name="own", verbosity=0)]).invoke("go")
    assert users == [{"a": 1}]


async def test_spawned_child_sees_what_its_parents_request_passes_on() -> None:
    gate, users = asyncio.Event(), []
    kid = agent(call("who"), "kid done", name="kid")

    @kid.tool
    def who() -> None:
        users.append(dict(current_request_context()))

    parent = agent(call("wait"), "done", subagents=[kid])

    @parent.tool
    async def wait() -> None:
        await gate.wait()

    with request_context({"a": 1, "b": 2}, inherit=["a"]):
        handle = parent.start_run("go")
    with request_context({"of": "another request"}, inherit=["of"]):
        child = await handle.spawn("kid", "look")
        assert dict(current_request_context()) == {"of": "another request"}
    await child.result()
    gate.set()
    await handle.result()
    assert users == [{"a": 1}]


async def test_probe_of_a_childs_tool_sees_what_is_inherited(tmp_path: Path) -> None:
    users: list[Any] = []

    def act() -> None:
        raise OSError("lost")

    def probe(action: RunAction) -> None:
        users.append(dict(current_request_context()))

    kid = agent(call("act"), name="kid", tools=[Tool.from_callable(act, probe=probe)])
    found = agent(delegate("kid"), subagents=[kid], durability=tmp_path / "runs.sqlite")
    with request_context({"a": 1, "b": 2}, inherit=["a"]), pytest.raises(UncertainExecutionError):
        await found.invoke("go")
    assert users == [{"a": 1}]


# ---------------------------------------------------------------------------------------------------- never stored


def texts(value: Any) -> str:
    return json.dumps(value, default=repr)


async def test_a_planted_secret_is_in_nothing_that_is_kept_or_told(tmp_path: Path) -> None:
    """Task, events, report, checkpoint, run store, conversation, trace and every byte of every file."""

    def act(text: str) -> str:
        token = current_request_context()["token"]
        assert token == SECRET
        return f"{text} with {len(token)} characters"

    kid = agent(call("act2"), "kid done", name="kid")

    @kid.tool
    def act2() -> str:
        return current_request_context()["tenant"]

    telemetry = LocalTraceTelemetry(path=tmp_path / "trace.jsonl")
    found = agent(
        call("act", text="acted"),
        delegate("kid"),
        "done",
        tools=[Tool.from_callable(act, sync_execution="thread", capabilities=["act"])],
        subagents=[kid],
        policy=CapabilityPolicy({"act": "ask"}),
        durability=tmp_path / "runs.sqlite",
        run_store=SQLiteRunStore(tmp_path / "store.sqlite"),
        storage=SQLiteStorage(tmp_path / "state.sqlite"),
        state=["conversation"],
        telemetry=telemetry,
        expose_tool_results=True,
    )
    task = infer("go", session_id="session-1")
    with request_context({"token": SECRET, "tenant": "north"}, inherit=["tenant"]):
        handle = found.start_run(task)
        paused = await handle.result()
        waiting = paused.task.metadata["interruption"]
        done = await found.resume_task(run_id(task), request_id=waiting["request_id"], approved=True)
    assert done.get_output() == "done"
    told = [texts([event.to_dict() async for event in handle.events()]), texts(done.to_dict())]
    told.append(texts(handle.report.to_dict()))
    told.append(texts([event.to_dict() for event in found.run_events(run_id(task))]))
    told.append(texts(found.durability.get(run_id(task)).data))
    told.append(texts((await found.describe_state(include_data=True)).to_dict()))
    files = [path.read_bytes() for path in tmp_path.iterdir()]
    assert len(files) >= 4
    assert b"19 characters" in b"".join(files)
    assert [text for text in told if SECRET in text] == []
    assert [data for data in files if SECRET.encode() in data] == []


async def test_context_of_a_run_carries_no_trace_of_the_request() -> None:
    contexts: list[Mapping[str, Any]] = []
    found = agent(call("_look"), "done")
    found.tool(action_builder=lambda arguments, context: _noted(contexts, context))(_look)
    with request_context({"token": SECRET}, inherit=["token"]):
        await found.invoke("go")
    assert contexts
    assert '"token"' not in texts(contexts)
    assert SECRET not in texts(contexts)


def _noted(contexts: list[Mapping[str, Any]], context: RunContext) -> RunAction:
    contexts.append(context.to_dict())
    return RunAction("tool.call", "_look", {"arguments": {}})


def _look() -> None:
    assert current_request_context()["token"] == SECRET


async def test_failure_texts_of_the_runtime_do_not_show_the_values() -> None:
    script_llm = script(call("look"))
    found = Agent(name="a", llm=script_llm, verbosity=0)

    @found.tool
    def look() -> None:
        raise RuntimeError(f"bad request: {current_request_context()}")

    with request_context({"token": SECRET}), pytest.raises(RuntimeError) as caught:
        await found.invoke("go")
    assert "bad request: <request context: token>" in str(caught.value)
    assert SECRET not in str(caught.value)
