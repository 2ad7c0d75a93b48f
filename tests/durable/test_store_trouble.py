"""The store is away, full, locked, read-only or damaged during a run: nothing is lost, nothing is repeated."""

from __future__ import annotations

import asyncio
import copy
import os
import sqlite3
import threading
from collections.abc import Callable
from typing import Any

import pytest

from protolink import Agent, RunBusyError, RunContext, RunInterrupted, RunManager, Task, UncertainExecutionError
from protolink.errors import DurableExecutionError, StoreCorruptError, StoreUnavailableError
from protolink.journal import SQLiteDurableStore
from protolink.llms import MockLLM
from protolink.tools import Tool, ask_user_tool

CALL = ("publish", {"text": "hello"})
QUESTION = ("ask_user", {"question": "Which format?"})


class Outage:
    """A store in front of another one that fails while ``away`` is set, or for the next ``failures`` writes."""

    def __init__(self, store: Any) -> None:
        self.store = store
        self.away = False
        self.failures = 0
        self.refused = 0

    def _check(self) -> None:
        if self.away or self.failures:
            self.failures = max(0, self.failures - 1)
            self.refused += 1
            raise OSError("the database of password=hunter2 does not answer")

    def get(self, run_id: str) -> Any:
        return self.store.get(run_id)

    def acquire(self, run_id: str, agent_name: str, initial: dict[str, Any]) -> Any:
        self._check()
        return self.store.acquire(run_id, agent_name, initial)

    def save(self, run_id: str, token: str, status: str, data: dict[str, Any]) -> None:
        self._check()
        self.store.save(run_id, token, status, data)

    def release(self, run_id: str, token: str) -> None:
        self.store.release(run_id, token)


def breaking(scene: Any, outage: Outage, failures: int | None = None, **traits: Any) -> Tool:
    """The tool whose store goes away right after its effect."""

    def publish(text: str) -> dict[str, str]:
        """Publish a text."""
        scene.effects.append(text)
        if failures is None:
            outage.away = True
        else:
            outage.failures = failures
        return {"published": text}

    return Tool.from_callable(publish, **traits)


async def test_a_store_that_comes_back_loses_nothing(scene: Any, tape: Any, clock: Any) -> None:
    outage = Outage(tape)
    agent = scene.agent([breaking(scene, outage, 5)], CALL, durability=outage, clock=clock)
    assert await scene.begin(agent) == scene.result({"published": "hello"})
    assert (outage.refused, scene.effects) == (5, ["hello"])
    assert tape.get("run-1").status == "completed"


async def test_nothing_new_starts_while_the_store_is_away(inferred: Any, tape: Any, clock: Any) -> None:
    outage = Outage(tape)
    agent = inferred.agent([breaking(inferred, outage)], CALL, durability=outage, clock=clock, store_patience=10)
    with pytest.raises(StoreUnavailableError) as caught:
        await inferred.begin(agent)
    assert len(inferred.scripts[-1].seen) == 1  # the model was not shown a result that is not stored
    assert outage.refused > 3
    assert "hunter2" not in str(caught.value)
    assert isinstance(caught.value.__cause__, OSError)
    assert caught.value.store == "Outage"


async def test_an_effect_does_not_start_when_its_intent_cannot_be_stored(inferred: Any, tape: Any, clock: Any) -> None:
    outage = Outage(tape)
    agent = inferred.agent([inferred.publish()], CALL, durability=outage, clock=clock)
    script = inferred.scripts[-1]

    def answer(history: Any, prompt: str) -> Any:
        outage.away = True
        return script(history, prompt)

    agent.llm.response_callback = answer
    with pytest.raises(StoreUnavailableError):
        await inferred.begin(agent)
    assert inferred.effects == []
    outage.away = False
    assert await inferred.agent([inferred.publish()], durability=outage).resume("run-1") == "done"
    assert inferred.effects == ["hello"]


async def test_a_receipt_is_kept_and_written_by_the_next_resume_in_the_process(
    scene: Any, tape: Any, clock: Any, states_of: Any
) -> None:
    outage = Outage(tape)
    agent = scene.agent([breaking(scene, outage)], CALL, durability=outage, clock=clock)
    with pytest.raises(StoreUnavailableError):
        await scene.begin(agent)
    assert states_of(tape.get("run-1")) == ["executing"]
    outage.away = False
    again = scene.agent([breaking(scene, outage)], durability=outage)
    assert await again.resume("run-1") == scene.result({"published": "hello"})
    assert scene.effects == ["hello"]
    assert states_of(tape.get("run-1")) == ["succeeded"]


async def test_reader_whose_store_went_away_finds_what_it_missed_behind_its_cursor(
    inferred: Any, tape: Any, clock: Any
) -> None:
    """What was not stored was not shown, and the handle's own last event takes no number away from it."""
    outage = Outage(tape)
    agent = inferred.agent([breaking(inferred, outage)], CALL, durability=outage, clock=clock)
    handle = agent.start_run("go", context=RunContext(run_id="run-1"))
    events = [event async for event in handle.events()]
    result = await handle.result()
    assert result.error is not None
    assert (result.status, result.error["code"]) == ("failed", "StoreUnavailableError")
    assert (events[-1].type, events[-1].final, events[-1].sequence) == ("task.status", True, None)
    cursor = events[-2].sequence
    outage.away = False
    again = inferred.agent([breaking(inferred, outage)], durability=outage)
    assert await again.resume("run-1") == "done"
    missed = again.run_events("run-1", after=cursor)
    assert missed[0].sequence == cursor + 1
    assert [event.type for event in missed].count("action.completed") == 1
    known = {event.event_id for event in events}
    assert not known & {event.event_id for event in missed}


async def test_without_the_process_the_action_is_uncertain(scene: Any, tape: Any, clock: Any) -> None:
    outage = Outage(tape)
    agent = scene.agent([breaking(scene, outage)], CALL, durability=outage, clock=clock)
    with pytest.raises(StoreUnavailableError):
        await scene.begin(agent)
    elsewhere = scene.agent([breaking(scene, outage)], durability=tape.after(len(tape.saves)))
    with pytest.raises(UncertainExecutionError):
        await elsewhere.resume("run-1")
    assert scene.effects == ["hello"]


async def test_a_kept_receipt_belongs_to_its_own_store(scene: Any, tape: Any, clock: Any) -> None:
    outage = Outage(tape)
    with pytest.raises(StoreUnavailableError):
        await scene.begin(scene.agent([breaking(scene, outage)], CALL, durability=outage, clock=clock))
    outage.away = False
    await scene.agent([breaking(scene, outage)], durability=outage).resume("run-1")
    # Later runs of the same id in other stores are not given what was kept.
    other = copy.deepcopy(tape.after(1))
    found = await scene.begin(scene.agent([scene.publish()], durability=other))
    assert found == scene.result({"published": "hello"})


async def test_an_unavailable_store_refuses_before_anything_starts(scene: Any, tape: Any) -> None:
    outage = Outage(tape)
    outage.away = True
    with pytest.raises(StoreUnavailableError):
        await scene.begin(scene.agent([scene.publish()], CALL, durability=outage))
    assert scene.effects == []
    outage.away = False
    assert await scene.begin(scene.agent([scene.publish()], durability=outage)) == scene.result({"published": "hello"})


# ---------------------------------------------------------------------------------------------------- ownership


@pytest.mark.claim("STR-005", "STR-004", "STR-015")
async def test_a_second_active_worker_is_busy(scene: Any) -> None:
    refused: list[Any] = []

    async def publish(text: str) -> str:
        """Publish a text while another worker tries the same run."""
        with pytest.raises(RunBusyError) as caught:
            await scene.agent([Tool.from_callable(publish)]).resume("run-1")
        refused.append(caught.value)
        return text

    assert await scene.begin(scene.agent([Tool.from_callable(publish)], CALL)) == scene.result("hello")
    assert len(refused) == 1
    assert refused[0].until is not None


@pytest.mark.claim("STR-007", "STR-009", "STR-010", "STR-004")
async def test_a_former_owner_cannot_commit_and_its_effect_is_not_repeated(
    scene: Any, later: Callable[..., Any], states_of: Any
) -> None:
    found: list[Any] = []

    async def publish(text: str) -> str:
        """Publish a text, so slowly that the lease runs out and another worker takes the run."""
        scene.effects.append(text)
        replacement = scene.agent([Tool.from_callable(publish)], durability=later(301))
        with pytest.raises(UncertainExecutionError) as caught:
            await replacement.resume("run-1")
        found.append(caught.value)
        return text

    agent = scene.agent([Tool.from_callable(publish)], CALL)
    with pytest.raises(RunBusyError):
        await scene.begin(agent)
    assert scene.effects == ["hello"]
    stored = agent.durability.get("run-1")
    assert (stored.status, states_of(stored)) == ("uncertain", ["uncertain"])
    agent.reconcile("run-1", found[0].action_id, result="found")
    assert await scene.agent([Tool.from_callable(publish)]).resume("run-1") == scene.result("found")


@pytest.mark.claim("STR-008")
async def test_writes_of_a_run_renew_its_lease(inferred: Any, tmp_path: Any) -> None:
    from_start = [0.0]
    store = SQLiteDurableStore(tmp_path / "own.sqlite", lease_seconds=60, clock=lambda: 1e9 + from_start[0])
    ends: list[float] = []

    def publish(text: str) -> str:
        """Note until when the run is owned, then let most of the lease pass."""
        connection = sqlite3.connect(tmp_path / "own.sqlite")
        ends.append(connection.execute("SELECT lease_expires FROM protolink_runs").fetchone()[0] - 1e9)
        connection.close()
        from_start[0] += 50
        return text

    calls = [("publish", {"text": text}) for text in ("one", "two", "three")]
    agent = inferred.agent([Tool.from_callable(publish)], *calls, durability=store)
    assert await inferred.begin(agent) == "done"
    assert ends == [60, 110, 160]


# ---------------------------------------------------------------------------------------------------- the file


async def paused(scene: Any) -> RunInterrupted:
    found: RunInterrupted = await scene.pause(scene.agent([ask_user_tool(), scene.publish()], QUESTION))
    return found


def closed(agent: Any) -> None:
    agent.durability.close()


async def test_a_locked_file_is_waited_for(direct: Any, tmp_path: Any) -> None:
    store = SQLiteDurableStore(direct.path, busy_seconds=0.01)
    other = sqlite3.connect(direct.path, isolation_level=None)

    def publish(text: str) -> str:
        """Publish a text, and let another program lock the file until it was refused once."""
        direct.effects.append(text)
        other.execute("BEGIN IMMEDIATE")
        return text

    class Unlocking:
        """A clock whose first wait ends with the lock given up."""

        def __init__(self, inner: Any) -> None:
            self.inner, self.waits = inner, 0

        def now(self) -> float:
            return self.inner.now()

        def call_at(self, when: float, callback: Any) -> Any:
            return self.inner.call_at(when, callback)

        async def sleep_until(self, when: float) -> None:
            self.waits += 1
            if other.in_transaction:
                other.execute("ROLLBACK")
            await self.inner.sleep_until(when)

    from protolink.drive.clock import SystemClock

    clock = Unlocking(SystemClock())
    agent = direct.agent([Tool.from_callable(publish)], CALL, durability=store, clock=clock)
    assert await direct.begin(agent) == "hello"
    assert clock.waits >= 1
    assert direct.effects == ["hello"]
    other.close()


async def test_a_full_file_keeps_the_receipt_until_there_is_room(direct: Any, states_of: Any) -> None:
    agent = direct.agent([], CALL, store_patience=0)
    store = agent.durability

    def publish(text: str) -> str:
        """Publish more than the file may hold."""
        direct.effects.append(text)
        store._database.write(lambda connection: connection.execute("PRAGMA max_page_count=1").fetchone())
        return text * 20_000

    agent.add_tool(Tool.from_callable(publish))
    with pytest.raises(StoreUnavailableError, match="full"):
        await direct.begin(agent)
    assert states_of(store.get("run-1")) == ["executing"]
    store._database.write(lambda connection: connection.execute("PRAGMA max_page_count=1073741823").fetchone())
    assert await agent.resume("run-1") == "hello" * 20_000
    assert direct.effects == ["hello"]


async def test_a_read_only_store_shows_and_refuses(direct: Any) -> None:
    pause = await paused(direct)
    reader = SQLiteDurableStore(direct.path, read_only=True)
    agent = direct.agent([ask_user_tool(), direct.publish()], durability=reader)
    assert reader.get("run-1").data["interruption"]["request_id"] == pause.interruption.request_id
    assert agent.run_events("run-1")
    with pytest.raises(DurableExecutionError, match="read"):
        await agent.resume("run-1", request_id=pause.interruption.request_id, answer="CSV")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write every file")
async def test_a_file_without_write_permission_names_the_store(direct: Any) -> None:
    pause = await paused(direct)
    direct.path.chmod(0o400)
    agent = direct.agent([ask_user_tool(), direct.publish()])
    with pytest.raises(StoreUnavailableError, match=r"runs\.sqlite"):
        await agent.resume("run-1", request_id=pause.interruption.request_id, answer="CSV")


async def test_a_truncated_file_is_corrupt_and_nothing_runs(scene: Any) -> None:
    agent = scene.agent([scene.publish()], CALL)
    await scene.begin(agent)
    closed(agent)
    size = scene.path.stat().st_size
    with scene.path.open("r+b") as file:
        file.truncate(size // 2)
    with pytest.raises(StoreCorruptError):
        await scene.agent([scene.publish()]).resume("run-1")
    assert scene.effects == ["hello"]


def test_a_foreign_file_is_refused_and_left_alone(direct: Any) -> None:
    connection = sqlite3.connect(direct.path)
    connection.execute("CREATE TABLE customers (name TEXT)")
    connection.commit()
    connection.close()
    before = direct.path.read_bytes()
    with pytest.raises(StoreCorruptError):
        direct.agent([], CALL)
    assert direct.path.read_bytes() == before


async def test_a_damaged_run_names_itself_and_leaves_the_others_usable(scene: Any) -> None:
    agent = scene.agent([scene.publish(), ask_user_tool()], CALL)
    await scene.begin(agent, run_id="run-1")
    scene.calls = [QUESTION]
    agent = scene.agent([scene.publish(), ask_user_tool()])
    pause = await scene.pause(agent, run_id="run-2")
    closed(agent)
    connection = sqlite3.connect(scene.path)
    number = connection.execute("SELECT number FROM protolink_runs WHERE run_id = 'run-1'").fetchone()[0]
    connection.execute("UPDATE protolink_facts SET body = x'00' WHERE place >> 32 = ?", (number,))
    connection.commit()
    connection.close()
    again = scene.agent([scene.publish(), ask_user_tool()])
    with pytest.raises(StoreCorruptError) as caught:
        await again.resume("run-1")
    assert caught.value.run_id == "run-1"
    second, first = RunManager(again).list()
    assert ("error" in second, first["run_id"], first["error"]) == (False, "run-1", str(caught.value))
    await again.resume("run-2", request_id=pause.interruption.request_id, answer="CSV")
    assert again.durability.get("run-2").status == "completed"


@pytest.mark.claim("STR-022", "DUR-058")
async def test_a_run_of_a_newer_schema_is_refused_with_both_versions(scene: Any) -> None:
    agent = scene.agent([ask_user_tool()], QUESTION)
    pause = await scene.pause(agent)
    closed(agent)
    connection = sqlite3.connect(scene.path)
    connection.execute("UPDATE protolink_runs SET schema = 99")
    connection.commit()
    connection.close()
    again = scene.agent([ask_user_tool()])
    with pytest.raises(DurableExecutionError, match=r"(?s)99.*1"):
        await again.resume("run-1", request_id=pause.interruption.request_id, answer="CSV")


@pytest.mark.claim("STR-013")
async def test_a_copy_of_the_file_is_another_store(direct: Any, tmp_path: Any) -> None:
    """Nothing but the file joins two workers: nobody tells a copy what became of the original."""
    pause = await paused(direct)
    closed(direct.agent([]))
    source, target = sqlite3.connect(direct.path), sqlite3.connect(tmp_path / "copy.sqlite")
    source.backup(target)
    source.close()
    target.close()
    response = {"request_id": pause.interruption.request_id, "answer": "CSV"}
    tools = [ask_user_tool(), direct.publish()]
    await direct.agent(tools).resume("run-1", **response)
    elsewhere = direct.agent(tools, durability=str(tmp_path / "copy.sqlite"))
    assert elsewhere.durability.get("run-1").status == "input-required"


async def test_an_edited_view_that_equals_the_stored_one_changes_nothing(inferred: Any) -> None:
    await inferred.pause(inferred.agent([ask_user_tool()], QUESTION))
    store = inferred.agent([ask_user_tool()]).durability
    before = store.get("run-1")
    token, _ = store.acquire("run-1", "helper", {})
    store.save("run-1", token, before.status, {key: v for key, v in before.data.items() if key != "facts"})
    store.release("run-1", token)
    assert store.get("run-1") == before


async def test_child_that_began_while_the_store_was_away_is_found_by_its_own_run_id(tape: Any, clock: Any) -> None:
    outage = Outage(tape)

    def delegate(history: Any, prompt: str) -> Any:
        if len(history) > 2:
            return "done"
        outage.away = True  # the reply, and the child that it begins, cannot be stored
        return {"type": "agent_call", "agent": "kid", "action": "infer", "prompt": "help"}

    kid = Agent(name="kid", description="helps", llm=MockLLM(default_response="helped"))
    lead = Agent(name="lead", llm=MockLLM(response_callback=delegate), subagents=[kid], durability=outage, clock=clock)
    task = Task.create_infer(prompt="go", context=RunContext(run_id="run-1"))
    with pytest.raises(StoreUnavailableError):
        await lead.run_task(task)
    outage.away = False
    again = await lead.resume_task("run-1")
    assert again.state.value == "completed"
    [child] = again.metadata["subagent_runs"]
    assert outage.get(child["run_id"]).data["root_run_id"] == "run-1"


async def test_a_caller_that_is_canceled_while_its_run_is_claimed_gives_it_back(tmp_path: Any) -> None:
    store = SQLiteDurableStore(tmp_path / "runs.sqlite")
    agent = Agent(name="editor", llm=MockLLM(), durability=store)
    gate, begun = threading.Event(), threading.Event()

    def hold(db: sqlite3.Connection) -> None:
        begun.set()
        gate.wait()

    holding = store._database.submit(hold)
    assert begun.wait(10)
    claiming = asyncio.ensure_future(agent.execution.runs.create("run-1"))
    await asyncio.sleep(0)
    claiming.cancel()
    gate.set()
    await holding
    with pytest.raises(asyncio.CancelledError):
        await claiming
    assert store.get("run-1") is not None
    assert store.owned_until("run-1") is None
    store.close()
