"""What the exit codes mean. Scripts depend on them, so they stay as they are."""

from __future__ import annotations

OK = 0
FAILED = 1
USAGE = 2
WAITS = 3
UNCERTAIN = 4

#: The line that every help text ends with.
LEGEND = (
    "Exit codes: 0 done; 1 the operation failed, or the run ended failed or canceled; 2 wrong usage, or a package is "
    "missing; 3 the run waits (for a person, its next slice or its provider); 4 an effect of the run is uncertain. "
    "Only resume gives 3 and 4 for the state of the run; cancel gives 4 when an uncertain effect forbids it."
)


def of_status(status: str) -> int:
    """The exit code for the status in which a command left a run."""
    match status:
        case "completed":
            return OK
        case "uncertain":
            return UNCERTAIN
        case "failed" | "canceled":
            return FAILED
        case _:
            return WAITS
