"""What an application's policies and builders give and no journal can hold: refused before anything begins."""

from __future__ import annotations

import math
from typing import Any

import pytest

from protolink import (
    Agent,
    Artifact,
    DurableExecutionError,
    Part,
    PolicyDecision,
    RunAction,
    RunInterrupted,
    RunManager,
)
from protolink.agents.pointing import PointingJournal
from protolink.tools import Tool


class Said:
    """A policy of an application that gives one decision."""

    def __init__(self, decision: PolicyDecision) -> None:
        self.decision = decision

    def evaluate(self, action: Any, context: Any) -> PolicyDecision:
        return self.decision


def _decisions() -> dict[str, PolicyDecision]:
    return {
        "half a character": PolicyDecision("require_approval", "caf\udce9", "house"),
        "no number": PolicyDecision("require_approval", "why", "house", metadata={"risk": math.nan}),
        "an object": PolicyDecision("allow", "why", "house", metadata={"rule": object()}),
    }


@pytest.mark.parametrize("what", _decisions())
async def test_a_decision_that_cannot_be_stored_decides_nothing_and_the_run_waits(what: str, tmp_path: Any) -> None:
    done: list[str] = []

    def publish(text: str) -> str:
        """Publish."""
        done.append(text)
        return text

    def agent(policy: Any) -> Agent:
        store = str(tmp_path / "runs.sqlite")
        return Agent(name="a", tools=[publish], durability=store, policy=policy)

    with pytest.raises(RunInterrupted) as pause:
        await agent(Said(_decisions()[what])).call_tool("publish", text="hello")
    assert (pause.value.interruption.kind, done) == ("retry", [])
    assert "the policy's decision is no JSON" in str(pause.value.__cause__)
    fixed = agent(Said(PolicyDecision("allow", "why", "house")))
    assert await fixed.resume(pause.value.run_id) == "hello"
    assert done == ["hello"]


@pytest.mark.parametrize("described", ["half a character", "a preview without a readable id"])
async def test_an_action_that_cannot_be_stored_or_read_again_is_not_begun(described: str, tmp_path: Any) -> None:
    done: list[str] = []

    def publish(text: str) -> str:
        """Publish."""
        done.append(text)
        return text

    def build(arguments: Any, context: Any) -> RunAction:
        payload = {"arguments": arguments}
        if described == "half a character":
            return RunAction("tool.call", "publish", payload, description="caf\udce9")
        wrong: Any = 5
        preview = Artifact(parts=[Part.text("draft")], kind="preview", action_id=wrong)
        return RunAction("tool.call", "publish", payload, artifacts=(preview,))

    tool = Tool.from_callable(publish, action_builder=build)
    agent = Agent(name="a", tools=[tool], durability=str(tmp_path / "runs.sqlite"))
    with pytest.raises(RunInterrupted) as pause:
        await agent.call_tool("publish", text="hello")
    assert (pause.value.interruption.kind, done) == ("retry", [])
    assert RunManager(agent).inspect(pause.value.run_id)["status"] == "input-required"


async def test_whatever_else_cannot_be_stored_is_told_by_a_typed_error_before_its_effect(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []

    def publish(text: str) -> str:
        """Publish."""
        done.append(text)
        return text

    def refuse(journal: PointingJournal, records: Any, status: str) -> None:
        raise TypeError("$.fields: object has no JSON form")

    agent = Agent(name="a", tools=[publish], durability=str(tmp_path / "runs.sqlite"))
    with monkeypatch.context() as patch:
        patch.setattr(PointingJournal, "append", refuse)
        with pytest.raises(DurableExecutionError, match="what happened cannot be stored") as refused:
            await agent.call_tool("publish", text="hello")
    assert isinstance(refused.value.__cause__, TypeError)
    assert done == []
