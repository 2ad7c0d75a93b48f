"""What ``crash_everywhere`` finds in agents that are not safe, and that it finds nothing in one that is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from protolink import Agent, CapabilityPolicy, Task
from protolink.llms import MockLLM
from protolink.testing import EffectLog, FaultyStore, ScriptedModel, UncertainAction, crash_everywhere
from protolink.tools import Tool

PAY = {"type": "tool_call", "tool": "pay", "args": {"order": "1"}}
effects = EffectLog()


def pay(order: str) -> dict[str, str]:
    """Pay an order."""
    result: dict[str, str] = effects.do(f"pay {order}", {"paid": order})
    return result


def look(action: UncertainAction) -> Any:
    order = action.arguments["order"]
    return effects.result_of(f"pay {order}") if effects.has(f"pay {order}") else pay(order)


def go() -> Task:
    return Task.create_infer(prompt="go")


def agent(model: Callable[[], Any], **options: Any) -> Callable[[FaultyStore], Agent]:
    def make(store: FaultyStore) -> Agent:
        tool = Tool.from_callable(pay, capabilities=["pay"], **options)
        policy = CapabilityPolicy({"pay": "require_approval"})
        return Agent(name="a", llm=model(), tools=[tool], policy=policy, durability=store, clock=store.clock)

    return make


def scripted() -> ScriptedModel:
    return ScriptedModel([PAY, "done"])


def test_safe_agent_has_no_findings() -> None:
    report = crash_everywhere(agent(scripted), go, effects=effects, reconcile=look)
    report.assert_ok()
    assert (report.outcome, report.effects, report.runs) == ("completed", {"pay 1": 1}, 1 + 2 * report.commits)
    assert report.commits > 5


def test_pairs_of_crashes_are_more_runs() -> None:
    report = crash_everywhere(agent(scripted), go, effects=effects, reconcile=look, doubles=True)
    report.assert_ok()
    assert report.runs > 1 + 4 * report.commits


def test_effect_done_twice_is_found() -> None:
    """The tool declares that it changes nothing, which is not true."""
    report = crash_everywhere(agent(scripted, read_only=True), go, effects=effects, reconcile=look)
    assert any("was done again" in finding.problem for finding in report.findings)
    with pytest.raises(AssertionError, match="was done again"):
        report.assert_ok()


def test_lost_effect_is_found() -> None:
    """Whoever reconciles says that it was done and never looked."""
    report = crash_everywhere(agent(scripted), go, effects=effects, reconcile=lambda action: {"paid": "1"})
    assert any("'pay 1' is lost" in finding.problem for finding in report.findings)


def test_other_history_is_found() -> None:
    """Whoever reconciles brings another result."""

    def differently(action: UncertainAction) -> Any:
        return look(action) and "somehow"

    report = crash_everywhere(agent(scripted), go, effects=effects, reconcile=differently)
    assert any("history" in finding.problem for finding in report.findings)


def test_model_that_counts_its_calls_is_found() -> None:
    """A script by call says its second line where the first was asked for again."""
    report = crash_everywhere(
        agent(lambda: MockLLM(sequential_responses=[PAY, "done"])), go, effects=effects, reconcile=look
    )
    assert report.findings


def test_run_that_never_ends_is_found() -> None:
    def down() -> ScriptedModel:
        return ScriptedModel([ConnectionError("down for ever")])

    report = crash_everywhere(agent(down), go, effects=effects, reconcile=look)
    assert "stuck" in report.findings[0].problem


def test_cut_off_action_needs_a_look() -> None:
    report = crash_everywhere(agent(scripted), go, effects=effects)
    assert any("pass reconcile=" in finding.problem for finding in report.findings)


def test_refusal_is_an_outcome_like_any_other() -> None:
    report = crash_everywhere(agent(scripted), go, effects=effects, reconcile=look, respond=lambda asked: False)
    report.assert_ok()
    assert (report.outcome, report.effects) == ("failed", {})


async def test_needs_a_loop_of_its_own() -> None:
    with pytest.raises(RuntimeError, match="plain function"):
        crash_everywhere(agent(scripted), go)
