"""Faults that durable agents are known for, one by one: what happens here instead.

What other tests show already is not shown again:

- an answered request answered once more, later: test_responses
  (test_a_response_to_a_completed_run_tells_response_and_outcome)
- kills between a call and its commit: test_crash_table, and tests/sim/test_crashes for each commit of every scene
- two owners, late writers: test_store_trouble (test_a_second_active_worker_is_busy,
  test_a_former_owner_cannot_commit_...), tests/journal/test_processes (test_of_two_processes_one_gets_each_run)
- a result that comes in spite of a cancellation, live: tests/agents/test_cancellation
- a child that pauses again and again: tests/agents/test_children_pauses (test_grandchild_may_pause_again_and_again_...)
- limits over pauses, waiting that does not count: test_checkpointed (test_usage_goes_on_over_a_resume,
  test_only_active_time_counts, test_active_time_before_a_pause_counts_again_after_it)
- a locked database at the moment of the receipt: test_store_trouble (test_a_store_that_comes_back_loses_nothing,
  test_a_receipt_is_kept_and_written_by_the_next_resume_in_the_process, test_a_locked_file_is_waited_for)
- a changed schema of a tool: test_configuration (test_a_changed_contract_is_refused_with_the_name_of_the_part)
"""

from __future__ import annotations

import asyncio
import itertools
import json
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from protolink import (
    ActionDeniedError,
    Agent,
    ApprovalRequiredError,
    BudgetExceededError,
    CapabilityPolicy,
    DurableExecutionError,
    RunBudget,
    RunBusyError,
    RunContext,
    RunInterrupted,
    StoreUnavailableError,
    SubagentLimits,
    Task,
    UncertainExecutionError,
)
from protolink.engine import facts as f
from protolink.journal import SQLiteDurableStore
from protolink.llms import MockLLM
from protolink.testing import Crash, FaultyStore, Outage, SimulatedCrash
from protolink.tools import Tool, ask_user_tool

CALL = ("publish", {"text": "hello"})
ASKING = CapabilityPolicy({"content.publish": "require_approval"})


def approving(scene: Any, *calls: Any, **how: Any) -> Agent:
    """The application anew: publishing needs approval."""
    found: Agent = scene.agent([scene.publish()], *calls, policy=ASKING, **how)
    return found


def approval(interruption: Any) -> dict[str, Any]:
    return {"request_id": interruption.request_id, "approved": True}


# ---------------------------------------------------------------------------------------------------- 1, 2: approvals


async def test_of_two_answers_to_one_stored_approval_one_has_an_effect(scene: Any) -> None:
    pause = await scene.pause(approving(scene, CALL))
    both = [approving(scene).resume(pause.run_id, **approval(pause.interruption)) for _ in range(2)]
    found = await asyncio.gather(*both, return_exceptions=True)
    assert scene.effects == ["hello"]
    [late] = [item for item in found if isinstance(item, Exception)]
    # Whoever comes while the first is at work is told so, whoever comes after it is told the outcome.
    assert isinstance(late, DurableExecutionError)
    assert isinstance(late, RunBusyError) or late.recorded["outcome"] == "completed"
    with pytest.raises(DurableExecutionError) as caught:
        await approving(scene).resume(pause.run_id, **approval(pause.interruption))
    assert (caught.value.recorded["response"], caught.value.recorded["outcome"]) == (True, "completed")
    assert scene.effects == ["hello"]


async def test_an_approved_effect_survives_a_provider_that_fails_after_it(inferred: Any) -> None:
    def down(scene: Any) -> Any:
        agent = approving(scene, CALL)
        play = agent.llm.response_callback

        def answer(history: Any, prompt: str) -> Any:
            return PermissionError("the key was revoked") if scene.effects else play(history, prompt)

        agent.llm.response_callback = answer
        return agent

    pause = await inferred.pause(down(inferred))
    with pytest.raises(RunInterrupted) as caught:
        await down(inferred).resume(pause.run_id, **approval(pause.interruption))
    assert caught.value.interruption.kind == "retry"
    stored = down(inferred).durability.get(pause.run_id)
    assert stored.data["responses"][pause.interruption.request_id]["response"] is True
    assert await approving(inferred, CALL).resume(pause.run_id) == "done"
    assert inferred.effects == ["hello"]
    assert inferred.observed() == [{"published": "hello"}]


# ---------------------------------------------------------------------------------------------------- 3, 4: turns


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))), ids=str)
async def test_three_requests_of_a_turn_are_answered_in_any_order_after_a_restart(
    native: Any, order: tuple[int, ...]
) -> None:
    calls = [("publish", {"text": text}) for text in "abc"]
    pause = await native.pause(approving(native, calls))
    ids = [item.request_id for item in pause.interruptions]
    assert len(set(ids)) == 3
    assert native.effects == []
    result: Any = None
    for count, number in enumerate(order, 1):
        agent = approving(native)
        waiting = [item["request_id"] for item in agent.durability.get(pause.run_id).data["interruptions"]]
        assert waiting == [item for item in ids if item not in {ids[n] for n in order[: count - 1]}]
        task = await agent.resume_task(pause.run_id, request_id=ids[number], approved=True)
        result = task.get_output() if task.state.value == "completed" else None
        assert sorted(native.effects) == sorted("abc"[n] for n in order[:count])
    assert result == "done"
    assert native.observed() == [{"published": text} for text in "abc"]


@pytest.mark.parametrize("gated", [0, 1, 2])
async def test_free_calls_finish_beside_a_gated_one_and_history_keeps_their_order(native: Any, gated: int) -> None:
    def note(text: str) -> dict[str, str]:
        """Note a text."""
        native.effects.append(text)
        return {"noted": text}

    def agent(*calls: Any) -> Any:
        return native.agent([native.publish(), Tool.from_callable(note)], *calls, policy=ASKING)

    calls = [("publish" if n == gated else "note", {"text": str(n)}) for n in range(3)]
    pause = await native.pause(agent(calls))
    assert native.effects == [str(n) for n in range(3) if n != gated]
    assert len(pause.interruptions) == 1
    assert await agent().resume(pause.run_id, **approval(pause.interruption)) == "done"
    assert sorted(native.effects) == ["0", "1", "2"]
    expected = [{"published" if n == gated else "noted": str(n)} for n in range(3)]
    assert native.observed() == expected


# ---------------------------------------------------------------------------------------------------- 5: kills

KILLER = '''
"""python killer.py FOLDER TRIALS: each trial is a forked process that is killed at a random function call."""
import asyncio, importlib, json, os, random, signal, sys, threading
from pathlib import Path
from protolink import Agent, DurableExecutionError, RunContext, UncertainExecutionError
from protolink.llms import MockLLM
from protolink.journal import SQLiteDurableStore

folder, trials = Path(sys.argv[1]), int(sys.argv[2])


def agent(number, after_effect=0):
    def publish(text: str) -> str:
        with open(folder / f"world-{number}", "a") as file:
            file.write("published\\n")
        counted(after_effect)
        return "published"

    def play(history, prompt):
        said = sum(message["role"] == "assistant" for message in history.messages)
        return "done" if said else {"type": "tool_call", "tool": "publish", "args": {"text": "hello"}}

    return Agent(name="helper", llm=MockLLM(response_callback=play), tools=[publish], verbosity=0,
                 durability=SQLiteDurableStore(folder / f"runs-{number}.sqlite", synchronous="NORMAL"))


def counted(left):
    """Kills this process after that many calls and returns of functions, whatever the thread; 0 never."""
    def step(frame, event, argument):
        nonlocal left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
    if left:
        threading.setprofile(step)
        sys.setprofile(step)


def invoke(made):
    return asyncio.run(made.invoke("go", context=RunContext(run_id="run-1")))


def start(number, left, after_effect):
    made = agent(number, after_effect)
    counted(left)
    invoke(made)


def resume(number):
    made = agent(number)
    try:
        answer = asyncio.run(made.resume("run-1"))
    except UncertainExecutionError:
        return (folder / f"uncertain-{number}").touch()
    except DurableExecutionError as error:
        if "never started" not in str(error) and "no run" not in str(error):
            raise
        answer = invoke(made)
    assert answer == "done", answer


def warm():
    """Modules that are loaded when they are used are loaded once, before the forks."""
    start("warm", 0, 0)
    (folder / "modules").write_text("\\n".join(sys.modules))


def forked(work, *arguments):
    child = os.fork()
    if child == 0:
        code = 1
        try:
            work(*arguments)
            code = 0
        except BaseException as error:
            print(type(error).__name__, error, file=sys.stderr)
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


forked(warm)
for name in (folder / "modules").read_text().split():
    if name != "__main__":
        importlib.import_module(name)

chance = random.Random(7)
found = dict.fromkeys(("killed", "failed", "never", "once", "more", "uncertain", "lost"), 0)
for number in range(trials):
    # Anywhere in the run, or between the effect and what is stored after it.
    left, after = (chance.randrange(1, 12000), 0) if number % 2 else (0, chance.randrange(1, 1500))
    found["killed"] += forked(start, number, left, after) == -signal.SIGKILL
    found["failed"] += forked(resume, number) != 0
    world = folder / f"world-{number}"
    effects = len(world.read_text().splitlines()) if world.exists() else 0
    uncertain = (folder / f"uncertain-{number}").exists()
    found["uncertain"] += uncertain
    found["lost"] += not effects and not uncertain
    found[("never", "once", "more")[min(effects, 2)]] += 1
print(json.dumps(found))
'''


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="a dead owner is proven on Linux only")
@pytest.mark.claim("DUR-067", "DUR-075")
def test_two_hundred_kills_at_random_never_repeat_an_effect(tmp_path: Path) -> None:
    (tmp_path / "killer.py").write_text(KILLER)
    command = [sys.executable, str(tmp_path / "killer.py"), str(tmp_path), "200"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    print(found)
    # Where the effect did not happen, the action is uncertain: it may have begun.
    assert (found["more"], found["lost"], found["failed"]) == (0, 0, 0), done.stderr
    assert found["killed"] > 100, "the kills hardly disturbed anything"
    assert found["uncertain"] > 0, "no kill came between an effect and its receipt"


# ---------------------------------------------------------------------------------------------------- 6: many at once


def test_sixteen_threads_commit_at_once_and_nothing_is_dropped(tmp_path: Path) -> None:
    path, begin, ended = tmp_path / "runs.sqlite", threading.Barrier(16), []

    def note(text: str) -> str:
        """Note a text."""
        return text

    def work(number: int) -> None:
        lines = [{"type": "tool_call", "tool": "note", "args": {"text": f"{number}.{n}"}} for n in range(4)]
        agent = Agent(name="helper", llm=MockLLM(sequential_responses=[*lines, "done"]), tools=[note], durability=path)
        begin.wait()
        ended.append(asyncio.run(agent.invoke("go", context=RunContext(run_id=f"run-{number}"))))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert ended == ["done"] * 16
    store = SQLiteDurableStore(path, read_only=True)
    for number in range(16):
        found = store.get(f"run-{number}")
        assert found is not None
        assert [entry["result"] for entry in found.data["actions"].values()] == [f"{number}.{n}" for n in range(4)]
        assert found.status == "completed"


# ---------------------------------------------------------------------------------------------------- 7: cancellation


class Speaker(MockLLM):
    """Speaks two pieces, then never goes on."""

    def __init__(self) -> None:
        super().__init__()
        self.spoken = asyncio.Event()

    async def call_stream(self, history: Any) -> Any:
        yield "The an"
        yield "swer is"
        self.spoken.set()
        await asyncio.Event().wait()


async def test_text_that_was_streamed_before_a_cancellation_is_kept_in_the_last_fact() -> None:
    store, model = FaultyStore(), Speaker()
    agent = Agent(name="helper", llm=model, durability=store, clock=store.clock)
    task = Task.create_infer(prompt="go")

    async def read() -> None:
        async for _ in agent.handle_task_streaming(task):
            pass

    reading = asyncio.create_task(read())
    await model.spoken.wait()
    await agent.cancel_task(task.id, "enough")
    await reading
    run_id = RunContext.from_task(task).run_id
    facts = [record.fact for record in store.disk.records(run_id)]
    [ended] = [fact for fact in facts if isinstance(fact, f.ModelFailed)]
    assert (ended.code, ended.partial) == ("canceled", "The answer is")
    stored = store.get(run_id)
    assert stored is not None
    assert stored.status == "canceled"
    # No half message stands where a provider would take it for a whole one.
    [loop] = stored.data["loops"].values()
    assert [message["role"] for message in loop["history"]][-1] == "user"


async def test_the_receipt_of_a_tool_that_just_returned_is_stored_in_spite_of_a_cancellation(scene: Any) -> None:
    async def publish(text: str) -> str:
        """Publish a text; the run is canceled meanwhile."""
        asyncio.get_running_loop().create_task(agent.cancel_task(agent.active_task_ids[0], "too late"))
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            scene.effects.append(text)
        return text

    agent = scene.agent([Tool.from_callable(publish)], CALL)
    with pytest.raises(Exception, match="too late"):
        await scene.begin(agent)
    stored = agent.durability.get("run-1")
    [entry] = stored.data["actions"].values()
    assert (entry["state"], entry["result"], stored.status) == ("succeeded", "hello", "canceled")
    assert scene.effects == ["hello"]


# ---------------------------------------------------------------------------------------------------- 8: children


async def test_the_same_work_delegated_twice_in_a_turn_is_done_twice_each_under_its_own_call(native: Any) -> None:
    child_turns = [("ask_user", {"question": "Which?"}), "child done"]

    def agent() -> Any:
        child = Agent(name="child", tools=[ask_user_tool()], llm=native.model(*child_turns))
        work = {"agent": "child", "action": "infer", "prompt": "the same"}
        return native.agent([], [("agent_call", work), ("agent_call", work)], subagents=[child])

    pause = await native.pause(agent())
    first, second = pause.interruptions
    assert len({first.run_id, second.run_id, pause.run_id}) == 3
    assert first.request_id != second.request_id
    answers = {}
    for asked, answer in ((second, "two"), (first, "one")):
        task = await agent().resume_task(pause.run_id, request_id=asked.request_id, answer=answer)
        answers[asked.run_id] = answer
    assert task.state.value == "completed"
    store = agent().durability
    for run_id, answer in answers.items():
        [entry] = store.get(run_id).data["actions"].values()
        assert entry["result"]["answer"] == answer


# ---------------------------------------------------------------------------------------------------- 9: budgets


@pytest.mark.parametrize("parallel", [True, False])
async def test_five_calls_are_five_for_four_children_that_want_two_each(native: Any, parallel: bool) -> None:
    store = FaultyStore()

    def agent() -> Any:
        kids = [
            Agent(
                name=f"kid{n}",
                tools=[native.publish()],
                llm=native.model([("publish", {"text": f"{n}a"})], [("publish", {"text": f"{n}b"})], "kid done"),
            )
            for n in range(4)
        ]
        work = [("agent_call", {"agent": kid.name, "action": "infer", "prompt": "go"}) for kid in kids]
        how = {"parallel_tool_calls": parallel, "durability": store, "clock": store.clock}
        return native.agent([], work, subagents=kids, **how)

    with pytest.raises(BudgetExceededError) as caught:
        await native.begin(agent(), budget=RunBudget(max_tool_calls=5))
    assert caught.value.decision.limit_name == "max_tool_calls"
    assert len(native.effects) == 5
    facts = [record.fact for record in store.disk.records("run-1")]
    # The sixth is denied before its intent, and all five results are kept.
    assert sum(isinstance(fact, f.ToolStarted) for fact in facts) == 5
    kept = [fact.result["published"] for fact in facts if isinstance(fact, f.ToolReturned)]
    assert sorted(kept) == sorted(native.effects)
    stored = store.get("run-1")
    assert stored is not None
    assert (stored.status, stored.data["usage"]["tool_calls"]) == ("failed", 5)


# ---------------------------------------------------------------------------------------------------- 11: retention


async def test_a_deleted_runs_id_starts_from_nothing(scene: Any) -> None:
    pause = await scene.pause(approving(scene, CALL))
    old = approval(pause.interruption)
    store = approving(scene).durability
    with pytest.raises(DurableExecutionError):
        store.delete("run-1")
    await approving(scene).resume("run-1", **old)
    assert store.delete("run-1")
    with pytest.raises(DurableExecutionError):
        await approving(scene).resume("run-1")
    again = await scene.pause(approving(scene))
    assert again.interruption.request_id != old["request_id"]
    assert scene.effects == ["hello"]
    with pytest.raises(DurableExecutionError):
        await approving(scene).resume("run-1", **old)
    assert scene.effects == ["hello"]
    assert await approving(scene).resume("run-1", **approval(again.interruption)) == scene.result(
        {"published": "hello"}
    )
    assert scene.effects == ["hello", "hello"]


async def test_a_receipt_in_hand_answers_no_other_run_of_its_id(direct: Any) -> None:
    def agent(store: Any) -> Any:
        return direct.agent([direct.publish()], CALL, durability=store, clock=store.clock, store_patience=0)

    mine = FaultyStore([Outage(3)])
    with pytest.raises(StoreUnavailableError):
        await direct.begin(agent(mine))
    # Another process takes the run over, ends it and deletes it; a new run of that id is cut off at the same place.
    other = mine.beside()
    with pytest.raises(UncertainExecutionError) as caught:
        await agent(other).resume("run-1")
    agent(other).reconcile("run-1", caught.value.action_id, result="looked up")
    await agent(other).resume("run-1")
    assert other.delete("run-1")
    dying = mine.beside([Crash(3)])
    with pytest.raises(SimulatedCrash):
        await direct.begin(agent(dying))
    dying.restart()
    with pytest.raises(UncertainExecutionError) as again:
        await agent(mine).resume("run-1")
    assert again.value.action_id != caught.value.action_id
    assert direct.effects == ["hello", "hello"]


async def test_deleting_and_pruning_take_finished_trees_with_their_children(inferred: Any) -> None:
    def agent() -> Any:
        child = Agent(name="child", tools=[ask_user_tool()], llm=inferred.model(("ask_user", {"question": "?"}), "ok"))
        work = ("agent_call", {"agent": "child", "action": "infer", "prompt": "go"})
        return inferred.agent([], work, subagents=[child])

    runs = []
    for number in range(3):
        pause = await inferred.pause(agent(), run_id=f"run-{number}")
        runs.append((pause.run_id, pause.interruption.run_id, pause.interruption.request_id))
    for root, _, request in runs[:2]:
        await agent().resume(root, request_id=request, answer="yes")
    store = agent().durability
    assert store.delete(runs[0][0])
    assert store.prune(before=4e9) == 1
    left = [[store.get(run_id) is not None for run_id in run[:2]] for run in runs]
    assert left == [[False, False], [False, False], [True, True]]
    assert [found.run_id for found in store.list()] == ["run-2"]
    assert await agent().resume("run-2", request_id=runs[2][2], answer="yes") == "done"


# ---------------------------------------------------------------------------------------------------- 14: nobody to ask


@pytest.mark.parametrize(("rule", "error"), [("deny", ActionDeniedError), ("require_approval", ApprovalRequiredError)])
@pytest.mark.parametrize("whose", ["parent", "child"])
async def test_a_spawned_child_with_nobody_to_ask_is_refused(
    native: Any, rule: str, error: type[Exception], whose: str
) -> None:
    policies = {"parent": CapabilityPolicy(), "child": CapabilityPolicy(), whose: CapabilityPolicy({"content.*": rule})}
    gate = asyncio.Event()

    async def wait(history: Any, prompt: str) -> str:
        await gate.wait()
        return "parent done"

    child = Agent(name="child", llm=native.model([CALL], "never"), tools=[native.publish()], policy=policies["child"])
    parent = Agent(
        name="parent",
        llm=MockLLM(response_callback=wait),
        subagents=[child],
        subagent_limits=SubagentLimits(background=True),
        policy=policies["parent"],
    )
    handle = parent.start_run("go")
    spawned = await handle.spawn("child", "do it")
    task = await asyncio.wait_for(spawned.result(), 30)
    gate.set()
    result = await handle.result()
    assert (task.state.value, native.effects) == ("failed", [])
    [blocker] = task.metadata["blockers"]
    assert blocker["code"] == {"deny": "action_denied", "require_approval": "approval_required"}[rule]
    assert result.output == "parent done"
