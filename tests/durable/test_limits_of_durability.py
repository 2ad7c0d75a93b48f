"""What a stored run does not and cannot do."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from protolink import Agent, BudgetUsage, DurableExecutionError, Message, RunBudget, RunInterrupted, RunReport, Task
from protolink.errors import ToolRejectedError
from protolink.llms import MockLLM
from protolink.tools import ask_user_tool

DONE: list[str] = []


@pytest.fixture(autouse=True)
def _clean() -> None:
    DONE.clear()


@pytest.mark.claim("DUR-100")
async def test_cancellation_does_not_undo_a_committed_effect(tmp_path: Path) -> None:
    committed, gate = asyncio.Event(), asyncio.Event()

    async def send() -> str:
        """Commit, then wait."""
        DONE.append("sent")
        committed.set()
        await gate.wait()
        return "sent"

    agent = Agent(name="a", tools=[send], durability=tmp_path / "runs.sqlite", verbosity=0)
    task = Task.create_tool_call(tool_name="send")
    running = asyncio.create_task(agent.run_task(task))
    await committed.wait()
    canceling = asyncio.create_task(agent.cancel_task(task.id))
    with pytest.raises(DurableExecutionError):
        await running  # in mid-effect: canceled, and the effect is unknown
    await canceling
    assert DONE == ["sent"]
    assert task.state.value == "canceled"


@pytest.mark.claim("DUR-099")
async def test_what_a_model_object_remembers_is_not_stored(tmp_path: Path) -> None:
    class Counting(MockLLM):
        asked = 0

        async def call(self, history: object) -> str:
            self.asked += 1
            if self.asked == 1:
                return '{"type": "tool_call", "tool": "ask_user", "args": {"question": "Which?"}}'
            return f'{{"type": "final", "content": "asked {self.asked} times"}}'

    def agent() -> Agent:
        tools = [ask_user_tool()]
        return Agent(name="a", llm=Counting(), tools=tools, durability=tmp_path / "runs.sqlite", verbosity=0)

    first = agent()
    with pytest.raises(RunInterrupted) as caught:
        await first.invoke("go")
    second = agent()
    second.llm.asked = 6  # type: ignore[union-attr]
    waiting = caught.value.interruption
    assert await second.resume(caught.value.run_id, request_id=waiting.request_id, answer="CSV") == "asked 7 times"


@pytest.mark.claim("STR-017")
async def test_an_exported_report_or_conversation_makes_no_run_resumable(tmp_path: Path) -> None:
    live = Agent(name="a", llm=MockLLM(default_response="x"), verbosity=0)
    result = await live.start_run("go").result()
    exported = RunReport.from_dict(result.report.to_dict())
    durable = Agent(name="a", llm=MockLLM(default_response="x"), durability=tmp_path / "runs.sqlite", verbosity=0)
    assert exported.context is not None
    with pytest.raises(DurableExecutionError, match="no run"):
        await durable.resume(exported.context.run_id)


@pytest.mark.claim("REJ-028")
async def test_a_resume_brings_back_history_corrections_and_usage(tmp_path: Path) -> None:
    def pick(name: str) -> str:
        """Pick."""
        if name == "typo":
            raise ToolRejectedError("no such name; nothing changed")
        return name

    seen: list[int] = []

    def agent() -> Agent:
        def decide(history: object, prompt: str) -> object:
            said = [message["content"] for message in history.messages if message["role"] == "tool"]  # type: ignore[attr-defined]
            seen.append(len(said))
            if not said:
                return {"type": "tool_call", "tool": "pick", "args": {"name": "typo"}}
            if len(said) == 1:
                return {"type": "tool_call", "tool": "ask_user", "args": {"question": "Which?"}}
            return f"{'no such name' in said[0]}"

        llm = MockLLM(response_callback=decide)
        llm.max_tool_corrections = 1
        tools = [pick, ask_user_tool()]
        return Agent(name="a", llm=llm, tools=tools, durability=tmp_path / "runs.sqlite", verbosity=0)

    with pytest.raises(RunInterrupted) as caught:
        await agent().invoke("go", budget=RunBudget(max_llm_calls=3))
    waiting, again = caught.value.interruption, agent()
    assert again.durability.get(caught.value.run_id).data["loops"]["part:0"]["tool_corrections"] == 1
    answer = await again.resume(caught.value.run_id, request_id=waiting.request_id, answer="x")
    assert (answer, seen) == ("True", [0, 1, 2])
    usage = BudgetUsage.from_dict(again.durability.get(caught.value.run_id).data["usage"])
    assert (usage.llm_calls, usage.tool_calls, usage.steps) == (3, 2, 3)


@pytest.mark.parametrize("broken", [Message(role=5), Message(id=5), Message(timestamp=5)])  # type: ignore[arg-type]
async def test_a_task_that_could_not_be_read_again_takes_no_run_id(tmp_path: Path, broken: Message) -> None:
    agent = Agent(name="a", tools=[ask_user_tool()], durability=tmp_path / "runs.sqlite", verbosity=0)
    task = Task.create_tool_call(tool_name="ask_user", args={"question": "Which?"})
    task.messages.insert(0, broken)
    with pytest.raises(ValueError, match="must be text"):
        await agent.run_task(task)
    assert agent.durability.list() == []
