"""``python -m tests.sim [N] [FIRST]``: N schedules (100,000 by default) with the seeds from FIRST (0) on."""

from __future__ import annotations

import sys
import time

from tests.sim.schedules import FLOWS, Simulation

EVERY = 1000


def main(count: int = 100_000, first: int = 0) -> int:
    """Print progress, each failing seed and the totals. Returns 1 when anything was wrong."""
    began = time.monotonic()
    with Simulation() as simulation:
        for number in range(count):
            seed = first + number
            problems = simulation.run(seed)
            if problems:
                print(f"seed {seed} ({FLOWS[seed % len(FLOWS)]}):", *problems[:5], sep="\n  ", flush=True)
            if (number + 1) % EVERY == 0:
                print(f"{time.monotonic() - began:8.0f} s  {simulation.totals}", flush=True)
    print(f"{time.monotonic() - began:8.0f} s  {simulation.totals}")
    return 1 if simulation.totals.problems else 0


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
