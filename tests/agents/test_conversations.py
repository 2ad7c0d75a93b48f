"""``state=["conversation"]``: what an agent remembers of a session, from one run to the next."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from agent_support import FakeClock, Gate, Mode, agent, call, delegate, infer, only, run_id, stream, turn

from protolink import (
    Agent,
    ConversationLimits,
    DurableExecutionError,
    HistoryCompactionRequest,
    Message,
    Part,
    RunBudget,
    RunContext,
    RunInterrupted,
    State,
    StateOperationRequest,
    StoreCorruptError,
    StoreUnavailableError,
    Task,
    TaskState,
    Tool,
)
from protolink.agents.agent import DEFAULT_SESSION
from protolink.journal import InMemoryDurableStore
from protolink.llms import MockLLM
from protolink.models import ConversationHistory
from protolink.storage import InMemoryStorage, SQLiteStorage, Storage
from protolink.testing import EffectLog, FaultyStore, ScriptedModel, crash_everywhere
from protolink.tools import ask_user_tool

Said = list[tuple[str, Any]]


class Listener:
    """A model that notes what it is told, the system prompt left out, and answers from a list."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.told: list[Said] = []

    def __call__(self, history: ConversationHistory, system_prompt: str) -> Any:
        self.told.append(spoken(history))
        return self.answers.pop(0) if self.answers else f"answer {len(self.told)}"

    def model(self, native: bool = False) -> MockLLM:
        return MockLLM(response_callback=self, **({"tool_calling": "native"} if native else {}))


def spoken(history: ConversationHistory) -> Said:
    return [(message.role, message.content) for message in history if message.role != "system"]


def remembering(*answers: Any, listener: Listener | None = None, **how: Any) -> tuple[Agent, Listener]:
    found = listener or Listener(*answers)
    how.setdefault("state", ["conversation"])
    how.setdefault("name", "agent")
    return Agent(llm=found.model(), verbosity=0, **how), found


async def stored(found: Agent, session_id: str | None = "s") -> Said:
    """What the agent has stored of a session."""
    result = await found.describe_state(session_id=session_id, include_data=True)
    data = result.stores[0].data or {}
    return [(item["role"], item["content"]) for messages in data.values() for item in messages]


class Untouched(Storage):
    """A storage that nothing may use."""

    def load(self) -> Any:
        raise AssertionError("loaded")

    def save(self, data: Any) -> None:
        raise AssertionError("saved")

    def delete(self) -> None:
        raise AssertionError("deleted")


class Failing(InMemoryStorage):
    """A storage that is away as often as it is told, its parts included."""

    def __init__(self, *, loads: int = 0, changes: int = 0) -> None:
        super().__init__()
        self.left = {"loads": loads, "changes": changes}

    def load(self) -> Any:
        self.fail("loads")
        return super().load()

    def change(self, change: Callable[[Any], Any]) -> Any:
        self.fail("changes")
        return super().change(change)

    def fail(self, what: str) -> None:
        if self.left[what]:
            self.left[what] -= 1
            raise sqlite3.OperationalError("database is locked")


# ---------------------------------------------------------------------------------------------------- remembering


async def test_run_goes_on_with_what_its_session_said(mode: Mode) -> None:
    listener = Listener()
    found = mode.agent(llm_factory=lambda: listener.model(mode.native), state=["conversation"])
    for prompt, session in (("one", "s"), ("two", "s"), ("other", "t"), ("three", "s")):
        assert (await mode.run(found, infer(prompt, session_id=session))).task.state is TaskState.COMPLETED
    assert listener.told == [
        [("user", "one")],
        [("user", "one"), ("assistant", "answer 1"), ("user", "two")],
        [("user", "other")],
        [("user", "one"), ("assistant", "answer 1"), ("user", "two"), ("assistant", "answer 2"), ("user", "three")],
    ]


async def test_without_state_every_run_starts_anew_and_the_storage_is_not_used() -> None:
    found, listener = remembering(state=None, storage=Untouched())
    await found.invoke("one", session_id="s")
    await found.invoke("two", session_id="s")
    assert listener.told == [[("user", "one")], [("user", "two")]]


async def test_conversation_goes_on_in_another_process(tmp_path: Path) -> None:
    path = tmp_path / "state.sqlite"
    first, _ = remembering(storage=SQLiteStorage(path))
    await first.invoke("one", session_id="s")
    second, listener = remembering(storage=SQLiteStorage(path))
    await second.invoke("two", session_id="s")
    assert listener.told == [[("user", "one"), ("assistant", "answer 1"), ("user", "two")]]


async def test_in_memory_storages_are_not_shared_by_accident() -> None:
    first, _ = remembering()
    second, listener = remembering()
    await first.invoke("one", session_id="s")
    await second.invoke("two", session_id="s")
    assert listener.told == [[("user", "two")]]


async def test_agents_of_one_storage_have_conversations_of_their_own() -> None:
    storage = InMemoryStorage()
    first, _ = remembering(name="first", storage=storage)
    second, listener = remembering(name="second", storage=storage)
    await first.invoke("one", session_id="s")
    await second.invoke("two", session_id="s")
    assert listener.told == [[("user", "two")]]
    assert await stored(first) == [("user", "one"), ("assistant", "answer 1")]


async def test_invoke_without_a_session_uses_the_constant_one() -> None:
    found, listener = remembering()
    await found.invoke("one")
    await found.invoke("two")
    assert len(listener.told[1]) == 3
    assert await stored(found, DEFAULT_SESSION) == [
        ("user", "one"), ("assistant", "answer 1"), ("user", "two"), ("assistant", "answer 2")
    ]  # fmt: skip


async def test_task_without_a_session_is_part_of_no_conversation() -> None:
    found, listener = remembering(storage=Untouched())
    await found.run_task(infer("one"))
    await found.run_task(infer("two"))
    assert listener.told == [[("user", "one")], [("user", "two")]]


async def test_two_live_runs_with_one_run_id_are_two_turns() -> None:
    found, _ = remembering()
    for prompt in ("one", "two"):
        await found.invoke(prompt, context=RunContext(run_id="same", session_id="s"))
    assert [content for _, content in await stored(found)] == ["one", "answer 1", "two", "answer 2"]


async def test_tool_calls_and_their_results_are_remembered(mode: Mode) -> None:
    listener = Listener(turn(("look", {})) if mode.native else call("look"), "seen", "again")
    tools = [Tool.from_callable(lambda: {"id": 7}, name="look")]
    found = mode.agent(llm_factory=lambda: listener.model(mode.native), state=["conversation"], tools=tools)
    await mode.run(found, infer("one", session_id="s"))
    await mode.run(found, infer("two", session_id="s"))
    assert [role for role, _ in listener.told[-1]] == ["user", "assistant", "tool", "assistant", "user"]
    assert '"id":7' in listener.told[-1][2][1]


async def test_native_calls_keep_their_ids() -> None:
    histories: list[list[Any]] = []

    def reply(history: ConversationHistory, system_prompt: str) -> Any:
        histories.append(history.messages_raw())
        return [turn(("look", {})), "seen", "again"][len(histories) - 1]

    llm = MockLLM(response_callback=reply, tool_calling="native")
    found = Agent(name="a", llm=llm, verbosity=0, state=["conversation"])
    found.tool(name="look")(lambda: 1)
    await found.invoke("one", session_id="s")
    await found.invoke("two", session_id="s")
    [asked] = [message for message in histories[-1] if message.tool_calls]
    [told] = [message for message in histories[-1] if message.role == "tool"]
    assert asked.tool_calls[0]["id"] == told.tool_call_id
    assert told.tool_name == "look"


async def test_system_prompt_is_not_stored() -> None:
    storage = InMemoryStorage()
    found, _ = remembering(storage=storage, system_prompt="Be kind.")
    await found.invoke("one", session_id="s")
    assert [message["role"] for message in storage.part("s").load()] == ["user", "assistant"]
    assert "Be kind." not in str(storage.part("s").load())


async def test_stored_messages_tell_where_they_come_from() -> None:
    storage, task = InMemoryStorage(), infer("one", session_id="s")
    found, _ = remembering(storage=storage)
    await found.run_task(task)
    prompt, answer = storage.part("s").load()
    assert (prompt["metadata"]["run_id"], prompt["metadata"]["agent"]) == (run_id(task), "agent")
    assert (prompt["metadata"]["part"], answer["metadata"]["part"]) == ("prompt", "answer")
    assert prompt["metadata"]["turn"] == answer["metadata"]["turn"]
    assert prompt["created_at"]
    assert prompt["id"] != answer["id"]


async def test_later_parts_of_a_task_see_the_earlier_ones_and_all_are_one_turn() -> None:
    found, listener = remembering(tools=[Tool.from_callable(lambda: 1, name="one")])
    await found.invoke("before", session_id="s")
    parts = [Part.infer(prompt="first"), Part.tool_call(tool_name="one", args={}), Part.infer(prompt="second")]
    task = Task(messages=[Message(role="user", parts=parts)])
    RunContext(session_id="s").attach_to_task(task)
    await found.run_task(task)
    assert [content for _, content in listener.told[-1]] == ["before", "answer 1", "first", "answer 2", "second"]
    assert [content for _, content in await stored(found)] == [
        "before", "answer 1", "first", "answer 2", "second", "answer 3"
    ]  # fmt: skip
    described = await found.describe_state(session_id="s", include_data=True)
    assert described.stores[0].metadata["turns"] == 2
    parts_played = [message["metadata"]["part"] for message in described.stores[0].data["s"]]
    assert parts_played == ["prompt", "answer"] * 3


async def test_tasks_for_tools_alone_do_not_touch_the_storage() -> None:
    found, _ = remembering(storage=Untouched(), tools=[Tool.from_callable(lambda: 1, name="one")])
    assert await found.call_tool("one") == 1
    assert await found.invoke("x", "tool_call", "one", {}, "s") == 1


async def test_remembered_tokens_count_in_the_manifest_and_the_budget() -> None:
    found, _ = remembering()
    await found.invoke("one", session_id="s")
    events = await stream(found, infer("two", session_id="s"))
    manifest = only(events, "context_prepared").metadata["manifest"]
    assert manifest["history_tokens"] == 3
    assert manifest["user_tokens"] == 1
    task = infer("three", session_id="s", budget=RunBudget(max_input_tokens=1))
    with pytest.raises(RuntimeError, match="budget"):
        await found.run_task(task)


async def test_whoever_sees_the_end_of_a_run_can_count_on_its_memory(mode: Mode) -> None:
    found = mode.agent("done", state=["conversation"])
    async for event in found.handle_task_streaming(infer("one", session_id="s")):
        said = await stored(found)
        assert said == ([("user", "one"), ("assistant", "done")] if said else [])
        last = event
    assert said != []
    assert last.final


# ---------------------------------------------------------------------------------------------------- not remembered


@pytest.mark.parametrize("end", ["tool fails", "canceled", "over budget", "model fails"])
async def test_run_that_does_not_complete_is_not_remembered(end: str) -> None:
    gate = Gate()

    async def fail() -> None:
        raise OSError("broken")

    answers = {"tool fails": call("fail"), "canceled": call("wait"), "over budget": call("fail"), "model fails": ""}
    found, _ = remembering(*[answers[end]] * 3, tools=[fail, Tool.from_callable(gate.wait, name="wait")])
    budget = RunBudget(max_tool_calls=0) if end == "over budget" else None
    task = infer("one", session_id="s", budget=budget)
    running = asyncio.ensure_future(found.run_task(task))
    if end == "canceled":
        await gate.reached.wait()
        await found.cancel_task(task.id)
    await asyncio.wait([running])
    running.exception()
    assert task.state in (TaskState.FAILED, TaskState.CANCELED)
    assert await stored(found) == []


async def test_child_has_a_conversation_of_its_own_that_is_not_kept() -> None:
    storage = InMemoryStorage()
    kid, heard = remembering(name="kid", storage=storage)
    parent, listener = remembering("zero", delegate("kid", "sub"), name="parent", storage=storage, subagents=[kid])
    await kid.invoke("kid's own", session_id="s")
    for prompt in ("one", "two", "three"):
        await parent.invoke(prompt, session_id="s")
    assert heard.told[1] == [("user", "sub")]
    assert [role for role, _ in listener.told[-1]] == [
        "user", "assistant", "user", "assistant", "tool", "assistant", "user"
    ]  # fmt: skip
    assert await stored(kid) == [("user", "kid's own"), ("assistant", "answer 1")]
    assert storage.parts() == ["s"]


async def test_spawned_child_is_not_remembered() -> None:
    kid, _ = remembering(name="kid", storage=Untouched())
    gate = Gate()
    parent = agent(call("wait"), "done", subagents=[kid], tools=[Tool.from_callable(gate.wait, name="wait")])
    handle = parent.start_run("go", session_id="s")
    await gate.reached.wait()
    child = await handle.spawn("kid", "sub")
    assert (await child.result()).get_output() == "answer 1"
    gate.opened.set()
    await handle.result()


# ---------------------------------------------------------------------------------------------------- at once


async def test_runs_of_one_session_at_once_lose_no_turn(tmp_path: Path) -> None:
    gate = asyncio.Event()
    started: list[str] = []

    async def wait(name: str) -> str:
        started.append(name)
        await gate.wait()
        return name

    def reply(history: ConversationHistory, system_prompt: str) -> Any:
        last = spoken(history)[-1]
        return call("wait", name=last[1]) if last[0] == "user" else f"answer {len(spoken(history))}"

    llm = MockLLM(response_callback=reply)
    how = {"storage": SQLiteStorage(tmp_path / "state.sqlite"), "state": ["conversation"], "tools": [wait]}
    found = Agent(name="a", llm=llm, verbosity=0, **how)
    running = [asyncio.ensure_future(found.invoke(f"p{index}", session_id="s")) for index in range(8)]
    while len(started) < 8:
        await asyncio.sleep(0.001)
    gate.set()
    assert await asyncio.gather(*running) == ["answer 3"] * 8
    said = await stored(found)
    assert sorted(content for role, content in said if role == "user") == [f"p{index}" for index in range(8)]
    assert [role for role, _ in said] == ["user", "assistant", "tool", "assistant"] * 8


# ---------------------------------------------------------------------------------------------------- durable runs


def asking(listener: Listener, store: Any, storage: Storage, **how: Any) -> Agent:
    return remembering(listener=listener, tools=[ask_user_tool()], durability=store, storage=storage, **how)[0]


async def test_resumed_run_goes_on_with_the_conversation_of_its_start() -> None:
    store, storage = InMemoryDurableStore(), InMemoryStorage()
    listener = Listener("zero", call("ask_user", question="Which?"), "between", "the end", "after")
    found = asking(listener, store, storage)
    await found.invoke("first", session_id="s")
    with pytest.raises(RunInterrupted) as pause:
        await found.invoke("asking", session_id="s")
    await found.invoke("meanwhile", session_id="s")
    again = asking(listener, store, storage)
    request = pause.value.interruption.request_id
    assert await again.resume(pause.value.run_id, request_id=request, answer="CSV") == "the end"
    assert [content for role, content in listener.told[3] if role == "user"] == ["first", "asking"]
    await again.invoke("last", session_id="s")
    assert [content for role, content in listener.told[4] if role != "tool" and "ask_user" not in content] == [
        "first", "zero", "meanwhile", "between", "asking", "the end", "last"
    ]  # fmt: skip


async def test_resume_reads_nothing_from_the_storage() -> None:
    store, storage = InMemoryDurableStore(), InMemoryStorage()
    listener = Listener("zero", call("ask_user", question="Which?"), "the end")
    found = asking(listener, store, storage)
    await found.invoke("first", session_id="s")
    with pytest.raises(RunInterrupted) as pause:
        await found.invoke("asking", session_id="s")
    await found.reset_state()
    request = pause.value.interruption.request_id
    await found.resume(pause.value.run_id, request_id=request, answer="CSV")
    assert [content for role, content in listener.told[2] if role == "user"] == ["first", "asking"]
    assert [content for role, content in await stored(found) if role == "user"] == ["asking"]


async def test_stored_run_that_has_ended_is_not_remembered_a_second_time() -> None:
    store, storage, task = InMemoryDurableStore(), InMemoryStorage(), infer("one", session_id="s")
    found = asking(Listener(), store, storage)
    await found.run_task(task)
    await found.reset_state(session_id="s")
    assert await found.resume(run_id(task)) == "answer 1"
    await found.run_task(task)
    assert await stored(found) == []


async def test_remembered_sessions_do_not_make_a_run_resumable() -> None:
    found, _ = remembering()
    task = infer("one", session_id="s")
    await found.run_task(task)
    with pytest.raises(DurableExecutionError, match="no durability"):
        await found.resume(run_id(task))


def act_once(effects: EffectLog) -> str:
    return str(effects.result_of("act") if effects.has("act") else effects.do("act", "acted"))


@pytest.mark.parametrize("doubles", [False, True])
def test_a_crash_at_any_commit_leaves_the_turn_stored_once(doubles: bool) -> None:
    storages: list[InMemoryStorage] = []
    effects = EffectLog()

    def task() -> Task:
        storages.append(InMemoryStorage())
        return infer("one", session_id="s")

    def build(store: FaultyStore) -> Agent:
        def act() -> str:
            return str(effects.do("act", "acted"))

        return Agent(
            name="agent",
            llm=ScriptedModel([call("act"), "done"]),
            tools=[Tool.from_callable(act)],
            durability=store,
            clock=store.clock,
            storage=storages[-1],
            state=["conversation"],
            verbosity=0,
        )

    report = crash_everywhere(build, task, effects=effects, reconcile=lambda action: act_once(effects), doubles=doubles)
    report.assert_ok()
    assert report.outcome == "completed"
    assert len(storages) == report.runs > 5
    for storage in storages:
        assert [message["role"] for message in storage.part("s").load()] == ["user", "assistant", "tool", "assistant"]


# ---------------------------------------------------------------------------------------------------- trouble


async def test_storage_that_is_away_at_the_start_stops_the_run_before_it_begins() -> None:
    found, listener = remembering(storage=Failing(loads=1))
    task = infer("one", session_id="s")
    with pytest.raises(StoreUnavailableError, match="agent 'agent' cannot be used: OperationalError: database is lock"):
        await found.run_task(task)
    assert (listener.told, task.state) == ([], TaskState.SUBMITTED)
    assert await found.invoke("two", session_id="s") == "answer 1"


async def test_secrets_in_the_texts_of_a_storages_errors_are_masked() -> None:
    class Remote(InMemoryStorage):
        def load(self) -> Any:
            raise ConnectionError("no answer from redis://app:hunter2secret@cache:6379, key sk-abcdefghijklmnop1234")

    with pytest.raises(StoreUnavailableError, match="no answer from") as caught:
        await remembering(storage=Remote())[0].invoke("one", session_id="s")
    assert "hunter2secret" not in str(caught.value)
    assert "sk-abcdefghijklmnop1234" not in str(caught.value)


async def test_storage_that_is_away_for_a_moment_at_the_end_is_waited_for(mode: Mode) -> None:
    clock, storage = FakeClock(), Failing(changes=3)
    found = mode.agent("done", state=["conversation"], storage=storage, clock=clock)
    ran = await mode.run(found, infer("one", session_id="s"))
    assert ran.task.state is TaskState.COMPLETED
    assert len(clock.slept) == 3
    assert "state_error" not in ran.task.metadata
    assert [content for _, content in await stored(found)] == ["one", "done"]


async def test_live_run_ends_without_when_the_storage_stays_away(caplog: pytest.LogCaptureFixture) -> None:
    found = agent("done", state=["conversation"], storage=Failing(changes=9), store_patience=0.0)
    task = infer("one", session_id="s")
    with caplog.at_level(logging.ERROR, "protolink.state"):
        await found.run_task(task)
    assert task.get_output() == "done"
    assert task.metadata["state_error"]["code"] == "StoreUnavailableError"
    assert "is not remembered" in caplog.text


@pytest.mark.parametrize("where", ["same process", "next process"])
async def test_durable_run_stays_unfinished_until_its_turn_is_stored(where: str) -> None:
    store, storage, ran = InMemoryDurableStore(), Failing(changes=1), []

    def build(*answers: Any) -> Agent:
        tools = [Tool.from_callable(lambda: ran.append(1), name="act")]
        how: dict[str, Any] = {"durability": store, "store_patience": 0.0, "state": ["conversation"]}
        return agent(*answers, storage=storage, tools=tools, **how)

    found, task = build(call("act"), "done"), infer("one", session_id="s")
    with pytest.raises(StoreUnavailableError):
        await found.run_task(task)
    assert store.get(run_id(task)).status != "completed"
    assert await stored(found) == []
    again = found if where == "same process" else build("done")
    assert await again.resume(run_id(task)) == "done"
    assert ran == [1]
    assert [role for role, _ in await stored(again)] == ["user", "assistant", "tool", "assistant"]
    assert store.get(run_id(task)).status == "completed"


async def test_receipts_survive_a_session_that_somebody_spoils_meanwhile() -> None:
    """The tool's receipt comes in one batch with the end of the run, which cannot be stored."""
    store, storage, ran = InMemoryDurableStore(), InMemoryStorage(), []

    def act() -> str:
        ran.append(1)
        storage.part("s").save({"not": "mine"})
        return "acted"

    found, _ = remembering(
        tools=[act], durability=store, storage=storage, store_patience=0.0, listener=Listener("said")
    )
    parts = [Part.infer(prompt="one"), Part.tool_call(tool_name="act", args={})]
    task = Task(messages=[Message(role="user", parts=parts)])
    RunContext(session_id="s").attach_to_task(task)
    with pytest.raises(StoreUnavailableError, match="does not hold messages"):
        await found.run_task(task)
    storage.part("s").delete()
    await found.resume(run_id(task))
    assert (ran, store.get(run_id(task)).status) == ([1], "completed")
    assert await stored(found) == [("user", "one"), ("assistant", "said")]


async def test_live_run_ends_at_once_when_somebody_has_spoiled_its_session() -> None:
    storage = InMemoryStorage()

    def act() -> None:
        storage.part("s").save({"not": "mine"})

    found, _ = remembering(call("act"), "done", tools=[act], storage=storage)
    task = infer("one", session_id="s")
    await found.run_task(task)
    assert (task.get_output(), task.metadata["state_error"]["code"]) == ("done", "StoreCorruptError")


@pytest.mark.parametrize("value", [{"not": "mine"}, [{"role": "user", "content": "x", "tool_calls": "bad"}]])
async def test_storage_of_somebody_else_is_refused_and_left_alone(value: Any) -> None:
    storage = InMemoryStorage()
    storage.part("s").save(value)
    found, listener = remembering(storage=storage)
    with pytest.raises(StoreCorruptError):
        await found.invoke("one", session_id="s")
    assert (storage.part("s").load(), listener.told) == (value, [])


async def test_caller_that_is_canceled_while_the_turn_is_stored_has_it_stored() -> None:
    class Slow(InMemoryStorage):
        def change(self, change: Callable[[Any], Any]) -> Any:
            loop.call_soon_threadsafe(running.cancel)
            return super().change(change)

    loop = asyncio.get_running_loop()
    found, _ = remembering(storage=Slow())
    task = infer("one", session_id="s")
    running = asyncio.ensure_future(found.run_task(task))
    await asyncio.wait([running])
    assert task.state is TaskState.COMPLETED
    assert [content for _, content in await stored(found)] == ["one", "answer 1"]


# ---------------------------------------------------------------------------------------------------- operations


async def filled(**how: Any) -> Agent:
    """Two sessions: three turns with tool work in one, a plain turn in the other."""
    answers = [call("look"), "a1", call("look"), "a2", call("look"), "a3", "b1"]
    found, _ = remembering(*answers, tools=[Tool.from_callable(lambda: 1, name="look", read_only=True)], **how)
    for prompt, session in (("p1", "s"), ("p2", "s"), ("p3", "s"), ("q1", "t")):
        await found.invoke(prompt, session_id=session)
    return found


async def test_description_counts_sessions_messages_turns_and_tokens() -> None:
    found = await filled()
    result = await found.describe_state()
    [store] = result.stores
    assert (result.operation, result.session_id, store.name) == ("describe", None, "conversation")
    assert (store.enabled, store.exists, store.item_count, store.message_count) == (True, True, 2, 14)
    assert (store.metadata["turns"], store.data) == (4, None)
    assert store.metadata["tokens"] > 14
    assert store.metadata["limits"]["max_messages"] == 200
    one = (await found.describe_state(session_id="t", include_data=True)).stores[0]
    assert (one.item_count, one.message_count, list(one.data)) == (1, 2, ["t"])


async def test_unknown_session_is_described_as_empty() -> None:
    [store] = (await (await filled()).describe_state(session_id="nobody's")).stores
    assert (store.exists, store.item_count, store.message_count, store.enabled) == (False, 0, 0, True)


async def test_reset_forgets_one_session() -> None:
    found = await filled()
    result = await found.reset_state(session_id="s")
    assert (result.operation, result.cleared, result.stores[0].cleared) == ("reset", ("conversation",), True)
    assert (result.stores[0].message_count, result.stores[0].metadata["messages_before"]) == (0, 12)
    assert await stored(found, "s") == []
    assert [content for _, content in await stored(found, "t")] == ["q1", "b1"]
    assert (await found.reset_state(session_id="s")).cleared == ()


async def test_reset_without_a_session_forgets_this_agent_and_no_other() -> None:
    storage = InMemoryStorage()
    found = await filled(storage=storage)
    other, _ = remembering(name="other", storage=storage)
    await other.invoke("x", session_id="s")
    await found.reset_state()
    assert await stored(found, None) == []
    assert [content for _, content in await stored(other, "s")] == ["x", "answer 1"]


async def test_compaction_drops_the_work_of_older_turns() -> None:
    found = await filled()
    result = await found.compact_state(session_id="s")
    assert (result.operation, result.compacted, result.stores[0].compacted) == ("compact", ("conversation",), True)
    assert [role for role, _ in await stored(found, "s")] == [
        "user", "assistant", "user", "assistant", "user", "assistant", "tool", "assistant"
    ]  # fmt: skip
    assert (await found.compact_state(session_id="s")).compacted == ()


async def test_compaction_can_drop_older_turns_in_all_sessions() -> None:
    found = await filled()
    await found.compact_state(keep_turns=1, keep_work=0)
    assert [content for _, content in await stored(found, "s")] == ["p3", "a3"]
    assert [content for _, content in await stored(found, "t")] == ["q1", "b1"]


async def test_history_of_a_session_is_cut_to_its_newest_messages() -> None:
    found = await filled()
    result = await found.compact_history(keep=5, session_id="s")
    assert (result.messages_before, result.messages_after, result.removed) == (12, 4, 8)
    assert [content for role, content in await stored(found, "s") if role == "user"] == ["p3"]


async def test_history_of_the_models_own_chat_is_cut_without_a_session() -> None:
    found = agent("unused")
    assert found.llm is not None
    found.llm.set_system_prompt("system")
    for index in range(5):
        found.llm.history.add_user(f"u{index}")
    result = await found.compact_history(HistoryCompactionRequest(keep=2))
    assert (result.session_id, result.messages_before, result.messages_after) == (None, 5, 2)
    assert found.llm.history.messages == [
        {"role": "system", "content": "system"}, {"role": "user", "content": "u3"}, {"role": "user", "content": "u4"}
    ]  # fmt: skip


async def test_histories_that_do_not_exist_are_a_value_error() -> None:
    with pytest.raises(ValueError, match="no model of its own"):
        await Agent(name="a").compact_history()
    with pytest.raises(ValueError, match="remembers no conversations"):
        await agent("x").compact_history(session_id="s")


@pytest.mark.parametrize("form", ["fields", "request", "mapping"])
async def test_operations_take_a_request_in_every_form(form: str) -> None:
    found = await filled()
    request = StateOperationRequest("t", ("conversation",), True)
    result = {
        "fields": lambda: found.describe_state(session_id="t", modules=["conversation"], include_data=True),
        "request": lambda: found.describe_state(request),
        "mapping": lambda: found.describe_state(request.to_dict()),
    }[form]
    described = await result()
    assert list(described.stores[0].data) == ["t"]
    assert described.session_id == "t"


async def test_bad_requests_are_refused_before_anything_happens() -> None:
    found, _ = remembering(storage=Untouched())
    for refused in (
        found.reset_state(StateOperationRequest("s"), session_id="s"),
        found.reset_state("s"),  # type: ignore[arg-type]
        found.reset_state(sessions="s"),
    ):
        with pytest.raises(TypeError):
            await refused
    with pytest.raises(ValueError, match="session_id"):
        await found.reset_state(session_id="")


async def test_modules_that_the_agent_does_not_keep_are_named() -> None:
    result = await (await filled()).reset_state(modules=["flow", "conversation"], session_id="t")
    assert (result.missing, result.cleared) == (("flow",), ("conversation",))
    nothing = await (await filled()).reset_state(modules=["flow"])
    assert (nothing.missing, nothing.cleared, nothing.stores) == (("flow",), (), ())


async def test_agent_without_state_says_so() -> None:
    found, _ = remembering(state=None, storage=Untouched())
    for operation in (found.describe_state, found.reset_state, found.compact_state):
        result = await operation(modules=["conversation"])
        assert (result.stores[0].enabled, result.missing, result.cleared) == (False, ("conversation",), ())
    assert (await found.describe_state()).missing == ()


async def test_description_tells_what_cannot_be_read_and_changes_raise() -> None:
    storage = InMemoryStorage()
    storage.part("s").save({"not": "mine"})
    found, _ = remembering(storage=storage)
    described = await found.describe_state()
    assert described.errors == (described.stores[0].error,)
    assert "namespace of its own" in described.errors[0]
    with pytest.raises(StoreCorruptError):
        await found.reset_state()
    with pytest.raises(StoreUnavailableError):
        await remembering(storage=Failing(changes=1))[0].reset_state(session_id="s")
    assert storage.part("s").load() == {"not": "mine"}


# ---------------------------------------------------------------------------------------------------- configuration


@pytest.mark.parametrize("storage", ["storage.db", {}, object(), InMemoryDurableStore()])
def test_what_is_no_storage_is_a_type_error(storage: Any) -> None:
    with pytest.raises(TypeError, match="storage must be a Storage"):
        Agent(name="a", storage=storage)


def test_construction_uses_no_storage() -> None:
    assert remembering(storage=Untouched())[0].state.modules == ("conversation",)


@pytest.mark.parametrize("limits", [ConversationLimits(), ConversationLimits(7, None, 3)])
def test_state_and_sqlite_storage_are_written_down_and_come_back(limits: ConversationLimits, tmp_path: Path) -> None:
    storage = SQLiteStorage(tmp_path / "state.sqlite", table_name="memory", namespace="agent")
    source = Agent(name="a", storage=storage, state=State(limits))
    loaded = Agent.from_dict(source.to_dict())
    assert loaded.to_dict() == source.to_dict()
    assert (loaded.state, loaded.storage.namespace) == (State(limits), "agent")
    loaded.storage.save({"s": []})
    assert storage.load() == {"s": []}


def test_default_storage_needs_no_description() -> None:
    data = Agent(name="a", state=["conversation"]).to_dict()
    assert "storage" not in data
    assert Agent.from_dict(data).state.modules == ("conversation",)
    assert Agent(name="a").to_dict().keys().isdisjoint({"storage", "state"})


@pytest.mark.parametrize("storage", [InMemoryStorage(), Untouched()])
def test_other_storages_have_to_be_given_again(storage: Storage) -> None:
    data = Agent(name="a", storage=storage, state=["conversation"]).to_dict()
    with pytest.raises(ValueError, match=r"storage \(storage=\.\.\.\)"):
        Agent.from_dict(data)
    assert Agent.from_dict(data, storage=storage).storage is storage


@pytest.mark.parametrize(
    "members",
    [
        {"state": ["conversation"]},
        {"state": {"memory": {}}},
        {"state": {"conversation": {"max_messages": 0}}},
        {"state": {"conversation": 5}},
        {"storage": "state.sqlite"},
        {"storage": {"type": "redis"}},
        {"storage": {"type": "sqlite", "namespace": "x"}},
        {"storage": {"type": "sqlite", "path": "x"}},
    ],
)
def test_malformed_configurations_are_refused_before_a_file_is_made(
    members: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ValueError):
        Agent.from_dict({"card": {"name": "a", "description": "b", "url": "runtime://a"}, **members})
    assert list(tmp_path.iterdir()) == []
