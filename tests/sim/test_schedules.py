"""A sample of random schedules. ``make sim`` runs many more; a seed that fails there fails here in the same way."""

from __future__ import annotations

from collections.abc import Callable

from tests.sim.schedules import Simulation

SAMPLE = 300

#: Seeds beyond the sample that found a fault once.
FOUND = (59357,)


def test_random_schedules_change_nothing(simulated: Callable[[int], None]) -> None:
    with Simulation() as simulation:
        for seed in range(SAMPLE):
            simulation.run(seed)
    totals = simulation.totals
    simulated(totals.schedules)
    assert totals.problems == {}
    assert (totals.schedules, totals.twice, totals.lost, totals.stuck) == (SAMPLE, 0, 0, 0)
    assert totals.drives > 2 * SAMPLE, "the schedules hardly disturbed anything"


def test_schedules_that_found_a_fault_find_it_no_more() -> None:
    with Simulation() as simulation:
        assert {seed: simulation.run(seed) for seed in FOUND} == {seed: [] for seed in FOUND}


def test_a_seed_gives_the_same_schedule() -> None:
    with Simulation() as simulation:
        simulation.run(32)
        first = (simulation.totals.facts, simulation.totals.drives, dict(simulation.totals.events))
    with Simulation() as simulation:
        simulation.run(32)
        again = (simulation.totals.facts, simulation.totals.drives, dict(simulation.totals.events))
    assert first == again
