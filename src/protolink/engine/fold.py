"""``fold``: a run from its records, ready to go on."""

from __future__ import annotations

from collections.abc import Iterable

from . import facts as f
from .evolve import evolve, start
from .facts import Record
from .project import opening, project
from .state import Run

#: Numbers that an ended drive may have given to fragments that nobody stored.
UNSTORED = 1 << 20


def fold(records: Iterable[Record]) -> Run:
    """The run that these records tell of. ValueError when they do not begin with RunStarted.

    Event numbers go on above everything that was shown: behind the last record of a parked run, and with a wide gap
    when the last drive was cut off, whose unstored fragments had numbers too.
    """
    found = list(records)
    if not found or not isinstance(found[0].fact, f.RunStarted):
        raise ValueError("a journal begins with RunStarted")
    run = start(found[0])
    for record in found[1:-1]:
        evolve(run, record)
    last = found[-1]
    if len(found) == 1:
        run.seq = last.seq + len(opening(run, last))
    else:
        run.seq = last.seq + len(project(run, last))
        evolve(run, last)
    if run.phase == "active":
        run.seq += UNSTORED
    return run
