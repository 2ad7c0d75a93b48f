"""A run told by hand: facts in, commands and events out. No driver, no clock, no IO."""

from __future__ import annotations

from typing import Any

from protolink import PolicyDecision, RunAction, Task
from protolink.engine import facts as f
from protolink.engine.commands import Command, Stage
from protolink.engine.decide import decide
from protolink.engine.evolve import evolve, start
from protolink.engine.facts import Fact, Record
from protolink.engine.project import opening, project
from protolink.engine.state import Run
from protolink.llms import Call

START = 1_700_000_000.0
MADE = "2023-11-14T22:13:20+00:00"


class Told:
    """One run. ``tell`` takes facts over as a driver does; ``records`` is the journal that they make."""

    def __init__(self, *parts: f.Spec, durable: bool = False, budget: dict[str, Any] | None = None) -> None:
        self.time = START
        task = Task.create_infer(prompt="go")
        context = {"run_id": "run-1", "budget": budget or {}}
        started = f.RunStarted(
            run_id="run-1",
            agent="root",
            task=task.to_dict(),
            parts=parts or (loop("part:0"),),
            context=context,
            configuration={},
            durable=durable,
            salt="00000000-0000-4000-8000",
            children={},
        )
        first = Record(0, 1, self.time, started)
        self.run: Run = start(first)
        self.events: list[Any] = opening(self.run, first)
        self.run.seq += len(self.events)
        self.records = [first]

    def tell(self, *facts: Fact) -> Told:
        for fact in facts:
            record = Record(self.run.n, self.run.seq, self.time, fact)
            events = project(self.run, record)
            self.run.seq += len(events)
            self.events += events
            evolve(self.run, record)
            self.records.append(record)
        return self

    def shown(self, fact: Fact) -> list[Any]:
        """The events of a fact, without taking it over."""
        return project(self.run, Record(self.run.n, self.run.seq, self.time, fact))

    def wants(self) -> list[Command]:
        return list(decide(self.run, self.time))

    def facts(self) -> list[Fact]:
        """What ``decide`` would record now."""
        return [command.fact for command in self.wants() if isinstance(command, Stage)]

    def settle(self) -> Told:
        """Record everything that ``decide`` records, until it wants something done."""
        while facts := self.facts():
            self.tell(*facts)
        return self


def loop(frame: str, **options: Any) -> f.Spec:
    return f.Spec(frame, prompt="go", provider="mock", model="mock", **options)


def direct(frame: str, tool: str = "act", action: str = "a") -> f.Spec:
    return f.Spec(frame, call=f.Proposal(action, Call("", tool, {})))


def child(frame: str, **options: Any) -> f.Spec:
    return loop(frame, agent=frame, run_id=frame, task_id=f"task-{frame}", context={"run_id": frame}, **options)


def composed(frame: str = "part:0", turn: int = 0, attempt: int = 0, tokens: int = 1) -> f.Composed:
    return f.Composed(frame, turn, attempt, (tokens, 0, 0, 0))


def asked_model(frame: str = "part:0", turn: int = 0, attempt: int = 0) -> list[Fact]:
    return [composed(frame, turn, attempt), f.ModelStarted(frame, turn, attempt, 1)]


def calls(*actions: str, frame: str = "part:0", tool: str = "act") -> f.ModelReplied:
    """A turn of calls whose action ids are these."""
    return f.ModelReplied(frame, "", tuple(f.Proposal(a, Call(a, tool, {"a": a})) for a in actions))


def prepared(action: str, route: str = "tool", **more: Any) -> f.Prepared:
    made = RunAction(kind="tool.call", name="act", payload={"arguments": {}}, action_id=action, created_at=MADE)
    return f.Prepared(action, made, route, key=f"act {action}", **more)


def decided(action: str, effect: str = "allow") -> f.Decided:
    request = f"request-{action}" if effect == "require_approval" else None
    return f.Decided(action, PolicyDecision(effect, effect, "test"), request, MADE)


def allowed(*actions: str) -> list[Fact]:
    return [*(prepared(a) for a in actions), *(decided(a) for a in actions)]


def turn_of(*actions: str, **options: Any) -> Told:
    """A run whose model has just asked for these actions."""
    return Told(loop("part:0", **options)).settle().tell(*asked_model(), calls(*actions))
