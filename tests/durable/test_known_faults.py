"""Faults that durable agents are known for, one by one: what happens here instead.

What other tests show already is not shown again:

- an answered request answered once more, later: test_responses (test_a_response_to_a_completed_run_tells_response_and_outcome)
- kills between a call and its commit: test_crash_table, and tests/sim/test_crashes for each commit of every scene
- two owners, late writers: test_store_trouble (test_a_second_active_worker_is_busy, test_a_former_owner_cannot_commit_...),
  tests/journal/test_processes (test_of_two_processes_one_gets_each_run)
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
    SubagentLimits,
    Task,
)
from protolink.engine import facts as f
from protolink.journal import SQLiteDurableStore
from protolink.llms import Call, MockLLM, ModelTurn
from protolink.testing import FaultyStore
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
    assert stored.data["responses"][pause.interruption.request_id]["approved"] is True
    assert await approving(inferred, CALL).resume(pause.run_id) == "done"
    assert inferred.effects == ["hello"]
    assert inferred.observed() == [{"published": "hello"}]


# ---------------------------------------------------------------------------------------------------- 3, 4: several calls


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


# ---------------------------------------------------------------------------------------------------- 5: kills at random

KILLER = '''
"""python killer.py FOLDER TRIALS: each trial is a forked process that is killed at a random function call."""
import asyncio, json, os, random, signal, sys, threading
from pathlib import Path
from protolink import Agent, RunContext, UncertainExecutionError
from protolink.llms import MockLLM
from protolink.journal import SQLiteDurableStore

folder, trials = Path(sys.argv[1]), int(sys.argv[2])


def agent(number):
    def publish(text: str) -> str:
        with open(folder / f"world-{number}", "a") as file:
            file.write("published\\n")
        return "published"

    def play(history, prompt):
        said = sum(message["role"] == "assistant" for message in history.messages)
        return "done" if said else {"type": "tool_call", "tool": "publish", "args": {"text": "hello"}}

    return Agent(name="helper", llm=MockLLM(response_callback=play), tools=[publish], verbosity=0,
                 durability=SQLiteDurableStore(folder / f"runs-{number}.sqlite", synchronous="NORMAL"))


def counted(left):
    """Kills this process at that many calls of Python functions, whatever the thread."""
    def step(frame, event, argument):
        nonlocal left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
    threading.setprofile(step)
    sys.setprofile(step)


def start(number, left):
    made = agent(number)
    counted(left)
    asyncio.run(made.invoke("go", context=RunContext(run_id="run-1")))


def resume(number):
    made = agent(number)
    if made.durability.get("run-1") is None:
        return
    try:
        answer = asyncio.run(made.resume("run-1"))
        assert answer == "done", answer
    except UncertainExecutionError:
        (folder / f"uncertain-{number}").touch()


def forked(work, *arguments):
    child = os.fork()
    if child == 0:
        code = 1
        try:
            work(*arguments)
            code = 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


chance = random.Random(7)
found = {"killed": 0, "failed": 0, "twice": 0, "lost": 0, "once": 0, "none": 0, "uncertain": 0}
for number in range(trials):
    found["killed"] += forked(start, number, chance.randrange(1, 12000)) == -signal.SIGKILL
    found["failed"] += forked(resume, number) != 0
    world = folder / f"world-{number}"
    effects = len(world.read_text().splitlines()) if world.exists() else 0
    begun, uncertain = (folder / f"runs-{number}.sqlite").exists(), (folder / f"uncertain-{number}").exists()
    found["uncertain"] += uncertain
    found["twice"] += effects > 1
    found["once"] += effects == 1
    found["none"] += effects == 0
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
    assert (found["twice"], found["failed"]) == (0, 0), done.stderr
    assert found["once"] + found["none"] == 200
    assert found["killed"] > 100, "the kills hardly disturbed anything"
    assert found["uncertain"] > 0, "no kill came between an effect and its receipt"
