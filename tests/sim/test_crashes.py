"""Every process death, before and after each commit of every scene; and in pairs for the hardest one."""

from __future__ import annotations

import pytest
from tests.sim.checks import stolen
from tests.sim.scenes import LONG, SCENES


@pytest.mark.claim("DUR-067", "DUR-070", "DUR-075")
@pytest.mark.parametrize("name", [name for name in SCENES if name != LONG])
def test_any_single_crash_changes_nothing(name: str) -> None:
    scene = SCENES[name]
    report = scene.crash_everywhere()
    assert scene.problems(report) == []
    assert report.runs == 1 + 2 * report.commits


def test_any_two_crashes_change_nothing() -> None:
    scene = SCENES[LONG]
    report = scene.crash_everywhere(doubles=True)
    print(f"{report.runs} runs of {report.commits} commits")
    assert scene.problems(report) == []
    assert report.runs > 1 + 4 * report.commits


@pytest.mark.parametrize("name", ["one tool", "four calls side by side", LONG])
def test_any_stolen_lease_changes_nothing(name: str) -> None:
    assert stolen(name) == []
