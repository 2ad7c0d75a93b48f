"""Random schedules: several workers on one store, with takeovers, clock jumps, store faults and answers at any time.

A schedule is fully determined by its seed. Tools and models stop at gates; between them the schedule opens a gate, lets
a worker take a step with what is stored, moves the clock, kills a worker or starts a new one. In the end a quiet worker
finishes the run, which has to be the run that nobody disturbed.
"""

from __future__ import annotations

import asyncio
import contextvars
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from tests.sim.scenes import LONG, SCENES, Scene

from protolink import RunInterruption
from protolink.errors import DurableExecutionError
from protolink.testing import Crash, FaultyStore, Outage, SimulatedCrash, Theft, UncertainAction
from protolink.testing.audit import differences, likeness
from protolink.testing.trial import Loop, Subject, Trial

FLOWS = (
    LONG,
    "one tool",
    "several turns",
    "streamed",
    "four calls, two to approve",
    "four calls side by side",
    "free calls side by side",
    "question that needs approval",
    "corrections",
    "misspoken and repeated",
    "paused two levels below",
    "worker tool",
    "two parts",
    "slices below",
    "provider away for long",
    "unknown outcome below",
)
WORKERS = 3
_me: contextvars.ContextVar[Worker | None] = contextvars.ContextVar("worker", default=None)


class Worker:
    """A process that may be at work on the run."""

    def __init__(self, trial: Trial, store: FaultyStore, scene: Scene) -> None:
        self.store = store
        self.agent = scene.make_agent(store)
        self.task: asyncio.Task[Any] | None = None
        self._trial = trial

    @property
    def idle(self) -> bool:
        return not self.store.dead and (self.task is None or self.task.done())

    def start(self) -> None:
        self.task = asyncio.create_task(self._step(), context=contextvars.copy_context())

    async def _step(self) -> None:
        _me.set(self)
        try:
            await self._trial.step(self.agent)
        except (DurableExecutionError, asyncio.CancelledError, SimulatedCrash):
            return  # busy, overtaken, out of reach, uncertain, dead: what comes next is read from the store

    def kill(self) -> None:
        self.store.kill()
        if self.task is not None:
            self.task.cancel()


class Race(Trial):
    """The trial of one schedule."""

    def __init__(self, scene: Scene, seed: int) -> None:
        self.random = random.Random(seed)
        self._scene = scene
        self._workers: list[Worker] = []
        self._gates: list[tuple[Worker | None, asyncio.Future[None]]] = []
        self.events: Counter[str] = Counter()
        world = scene.world
        subject = Subject(
            scene.make_agent,
            scene.make_task,
            scene.respond(world),
            self._reconcile_alone,
            world.effects,
            scene.streaming or self.random.random() < 0.3,
        )
        super().__init__(subject)

    def choose(self, pending: Sequence[RunInterruption]) -> RunInterruption:
        return self.random.choice(pending)

    async def run(self) -> Trial:
        self._scene.world.gate = self._gate
        try:
            self._workers = [self._new_worker() for _ in range(WORKERS)]
            for _ in range(self.random.randint(10, 70)):
                self._disturb()
                await _settle()
            for worker in self._workers:
                worker.kill()
            await _settle()
        finally:
            self._scene.world.gate = _open
        self.store = self.store.restart()
        return await super().run()

    def _new_worker(self) -> Worker:
        return Worker(self, self.store.beside(self._faults()), self._scene)

    def _faults(self) -> Iterator[Crash | Outage | Theft]:
        dice = self.random
        if dice.random() < 0.5:
            yield Crash(dice.randint(1, 14), dice.random() < 0.5)
        if dice.random() < 0.3:
            yield Outage(dice.randint(1, 10), dice.choice((1, 2, 25)))
        if dice.random() < 0.2:
            yield Theft(dice.randint(2, 10))

    def _disturb(self) -> None:
        """One random thing happens."""
        dice = self.random
        idle = [worker for worker in self._workers if worker.idle]
        deed = dice.choices(("open", "step", "tick", "lapse", "kill"), (8, 6, 1, 1, 1))[0]
        if deed == "open" and self._gates:
            _, gate = self._gates.pop(dice.randrange(len(self._gates)))
            if not gate.done():
                gate.set_result(None)
        elif deed == "step" and idle:
            dice.choice(idle).start()
        elif deed == "tick":
            self.store.clock.advance(dice.random() * 5)
        elif deed == "lapse":
            self.store.clock.advance(self.store.lease_seconds + 1)
        elif deed == "kill":
            dice.choice(self._workers).kill()
        self.events[deed] += 1
        self._bury()

    def _bury(self) -> None:
        """New workers for dead ones. What waits in a dead process waits for ever."""
        for index, worker in enumerate(self._workers):
            if worker.store.dead and (worker.task is None or worker.task.done()):
                self._workers[index] = self._new_worker()
        self._gates = [(who, gate) for who, gate in self._gates if who is None or not who.store.dead]

    async def _gate(self) -> None:
        me = _me.get()
        gate: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._gates.append((me, gate))
        await gate
        if me is not None and me.store.dead:
            raise asyncio.CancelledError

    def _reconcile_alone(self, action: UncertainAction) -> Any:
        """Whoever reconciles has made sure that no old worker is still at it."""
        me = _me.get()
        for worker in self._workers:
            if worker is not me:
                worker.kill()
        self._bury()
        return self._scene.world.reconcile(action)


async def _open() -> None:
    return


async def _settle() -> None:
    """Let everything run until it waits at a gate."""
    for _ in range(40):
        await asyncio.sleep(0)


@dataclass
class Totals:
    """What came of many schedules. ``problems``: by seed."""

    schedules: int = 0
    facts: int = 0
    drives: int = 0
    events: Counter[str] = field(default_factory=Counter)
    twice: int = 0
    lost: int = 0
    stuck: int = 0
    problems: dict[int, list[str]] = field(default_factory=dict)

    def __str__(self) -> str:
        return (
            f"{self.schedules} schedules, {self.drives} drives, {self.facts} facts; effects twice {self.twice}, "
            f"lost {self.lost}, stuck {self.stuck}, with other problems {len(self.problems)}"
        )


class Simulation:
    """Runs schedules by seed and counts. ``with Simulation() as simulation: simulation.run(seed)``."""

    def __init__(self) -> None:
        self.totals = Totals()
        self._loop = Loop()
        self._wanted: dict[str, tuple[Any, Counter[str]]] = {}
        self._scenes = {name: replace(SCENES[name]) for name in FLOWS}

    def __enter__(self) -> Simulation:
        self._loop.__enter__()
        return self

    def __exit__(self, *raised: object) -> None:
        self._loop.__exit__(*raised)

    def run(self, seed: int) -> list[str]:
        """The problems of one schedule; none when all is well."""
        scene = self._scenes[FLOWS[seed % len(FLOWS)]]
        wanted, effects = self._undisturbed(scene)
        race = Race(scene, seed)
        self._loop.run(race.run())
        return self._count(seed, race, wanted, effects)

    def _undisturbed(self, scene: Scene) -> tuple[Any, Counter[str]]:
        if scene.name not in self._wanted:
            world = scene.world
            respond = scene.respond(world)
            quiet = Trial(Subject(scene.make_agent, scene.make_task, respond, world.reconcile, world.effects))
            self._loop.run(quiet.run())
            assert quiet.stored is not None, quiet.problems
            assert quiet.problems == []
            self._wanted[scene.name] = likeness(quiet.stored), world.effects.counts()
        return self._wanted[scene.name]

    def _count(self, seed: int, race: Race, wanted: Any, effects: Counter[str]) -> list[str]:
        totals, done = self.totals, self._scenes[FLOWS[seed % len(FLOWS)]].world.effects.counts()
        twice = sorted((done - effects).elements())
        lost = sorted((effects - done).elements())
        stuck = race.stored is None or race.stored.outcome is None
        problems = [*race.problems, *(f"done again: {name}" for name in twice), *(f"lost: {name}" for name in lost)]
        if race.stored is not None:
            problems += [f"not as undisturbed: {item}" for item in differences(wanted, likeness(race.stored))]
            totals.facts += race.stored.n
            totals.drives += race.stored.epoch
        totals.schedules += 1
        totals.events += race.events
        totals.twice += bool(twice)
        totals.lost += bool(lost)
        totals.stuck += stuck
        if problems:
            totals.problems[seed] = problems
        return problems
