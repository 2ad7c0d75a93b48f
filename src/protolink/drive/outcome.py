"""What a performer brings back: facts, and the exception that they describe."""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from ..engine.facts import Fact
from ..models.value import value


@value
class Outcome:
    """``error`` is the original exception, kept for callers in this process; ``interrupt`` ends the drive."""

    facts: tuple[Fact, ...] = ()
    error: BaseException | None = None
    interrupt: BaseException | None = None


#: A performer that can answer at once does; otherwise it returns a coroutine that the driver runs as a task.
Performed = Outcome | Coroutine[Any, Any, Outcome]


def one(fact: Fact, error: BaseException | None = None) -> Outcome:
    return Outcome((fact,), error)
