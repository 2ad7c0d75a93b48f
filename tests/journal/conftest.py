"""A clock that is set by hand, a run of one tool call in two commits, and the stores it goes into."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from protolink.engine import facts as f
from protolink.engine.facts import Proposal, Record, Spec
from protolink.journal import InMemoryDurableStore, SQLiteDurableStore
from protolink.models import Message, Task
from protolink.models.turn import Call
from protolink.runtime import PolicyDecision, RunAction, RunContext


class HandClock:
    """Wall clock and steady clock, moved only by the test."""

    def __init__(self) -> None:
        self.wall = 1_800_000_000.0
        self.steady = 1_000.0

    def __call__(self) -> float:
        return self.wall

    def monotonic(self) -> float:
        return self.steady

    def advance(self, seconds: float) -> None:
        self.wall += seconds
        self.steady += seconds


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


class OneCall:
    """A run that calls the tool ``write`` once: ``intent`` up to its start, ``receipt`` to the end of the run."""

    def __init__(self, run_id: str = "run-1", result: Any = "written") -> None:
        call = Call("call-1", "write", {"text": "hello"})
        action = RunAction(
            "tool", "write", {"arguments": call.args}, action_id="a-1", created_at="2026-11-30T00:00:00Z"
        )
        spec = Spec("r", call=Proposal("a-1", call), provider="none")
        task = Task.create(Message.user("write hello"))
        started = f.RunStarted(
            run_id, "assistant", task.to_dict(), (spec,), RunContext(run_id=run_id).to_dict(), {"": "digest"}, True, "s"
        )
        allowed = PolicyDecision("allow", "allowed here", "test")
        self.intent = [
            Record(0, 1, 1.0, started),
            Record(1, 2, 1.0, f.FrameOpened(part=0)),
            Record(2, 2, 1.0, f.Prepared("a-1", action, key="k")),
            Record(3, 3, 1.0, f.Decided("a-1", allowed)),
            Record(4, 4, 1.0, f.ToolStarted("a-1")),
        ]
        self.receipt = [
            Record(5, 5, 2.0, f.ToolReturned("a-1", result)),
            Record(6, 6, 2.0, f.FrameClosed("r", "completed")),
            Record(7, 7, 2.0, f.RunFinished("completed")),
        ]


@pytest.fixture
def one_call() -> Callable[..., OneCall]:
    return OneCall


@pytest.fixture(params=["sqlite", "memory"])
def new_store(request: pytest.FixtureRequest, tmp_path: Path, clock: HandClock) -> Iterator[Callable[[], Any]]:
    """Opens one and the same store each time it is called; for memory that is one object."""
    opened: list[Any] = []

    def open_again() -> Any:
        if request.param == "sqlite":
            path = tmp_path / "runs.sqlite"
            opened.append(SQLiteDurableStore(path, lease_seconds=60, clock=clock, monotonic=clock.monotonic))
        elif not opened:
            opened.append(InMemoryDurableStore(lease_seconds=60, clock=clock, monotonic=clock.monotonic))
        return opened[-1]

    yield open_again
    for store in opened:
        store.close()


@pytest.fixture
def store(new_store: Callable[[], Any]) -> Any:
    return new_store()
