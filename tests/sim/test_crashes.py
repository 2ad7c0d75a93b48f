"""Every process death, before and after each commit of every scene; and in pairs for the hardest one."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.sim.checks import stolen
from tests.sim.scenes import LONG, SCENES, TREE

from protolink.engine import facts as f
from protolink.testing.trial import Loop, Subject, Trial


@pytest.mark.claim("DUR-067", "DUR-070", "DUR-075")
@pytest.mark.parametrize("name", [name for name in SCENES if name not in (LONG, TREE)])
def test_any_single_crash_changes_nothing(name: str, simulated: Callable[[int], None]) -> None:
    scene = SCENES[name]
    report = scene.crash_everywhere()
    simulated(report.runs)
    assert scene.problems(report) == []
    assert report.runs == 1 + 2 * report.commits


@pytest.mark.parametrize("name", [LONG, TREE])
def test_any_two_crashes_change_nothing(name: str, simulated: Callable[[int], None]) -> None:
    scene = SCENES[name]
    report = scene.crash_everywhere(doubles=True)
    simulated(report.runs)
    assert scene.problems(report) == []
    assert report.runs > 1 + 4 * report.commits


def test_the_tree_has_all_that_it_is_named_for() -> None:
    scene = SCENES[TREE]
    world = scene.world
    trial = Trial(Subject(scene.make_agent, scene.make_task, scene.respond(world), world.reconcile, world.effects))
    with Loop() as loop:
        loop.run(trial.run())
    assert trial.problems == []
    facts = [record.fact for record in trial.records()]
    asked = [fact.kind for fact in facts if isinstance(fact, f.Asked)]
    assert sorted(asked) == ["approval", "approval", "yield"]
    refused = [fact.phase for fact in facts if isinstance(fact, f.Refused)]
    assert refused == ["preparation"]
    assert sum(isinstance(fact, f.ToolRejected) for fact in facts) == 1
    opened = [fact.spec.agent for fact in facts if isinstance(fact, f.FrameOpened) and fact.spec is not None]
    assert opened == ["kid", "kid/grand"]


@pytest.mark.parametrize("name", ["one tool", "four calls side by side", LONG])
def test_any_stolen_lease_changes_nothing(name: str) -> None:
    assert stolen(name) == []
