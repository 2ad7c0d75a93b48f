"""``crash_everywhere``: prove that an agent's work survives the death of its process at any moment."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from ..agents import Agent
from ..models import Task
from .audit import differences, likeness
from .effects import EffectLog
from .faulty import Crash, FaultyStore
from .trial import Loop, Reconcile, Respond, Subject, Trial, unexpected, yes

_COUNTERS = ("steps", "llm_calls", "tool_calls")
_SHOWN = 20


@dataclass(frozen=True, slots=True)
class Finding:
    """``crashes``: where the processes died, one after the other; empty for the undisturbed run."""

    crashes: tuple[Crash, ...]
    problem: str

    def __str__(self) -> str:
        places = [f"{'after' if crash.after else 'before'} commit {crash.commit}" for crash in self.crashes]
        return f"{', then '.join(places) or 'undisturbed'}: {self.problem}"


@dataclass
class CrashReport:
    """``runs``: how many were made; ``commits``: how many the undisturbed one had; ``effects``: what it did."""

    runs: int = 0
    commits: int = 0
    effects: dict[str, int] = field(default_factory=dict)
    outcome: str = ""
    findings: list[Finding] = field(default_factory=list)

    def assert_ok(self) -> None:
        """AssertionError with a list of the findings, when there are any."""
        if not self.findings:
            return
        shown = [f"  {finding}" for finding in self.findings[:_SHOWN]]
        more = [f"  ... and {len(self.findings) - _SHOWN} more"] if len(self.findings) > _SHOWN else []
        head = f"{len(self.findings)} findings in {self.runs} runs of {self.commits} commits:"
        raise AssertionError("\n".join([head, *shown, *more]))


def crash_everywhere(
    make_agent: Callable[[FaultyStore], Agent],
    make_task: Callable[[], Task],
    *,
    respond: Respond = yes,
    effects: EffectLog | None = None,
    reconcile: Reconcile = unexpected,
    doubles: bool = False,
    streaming: bool = False,
    compare: bool = True,
) -> CrashReport:
    """Run the work once undisturbed, then once for each commit with a crash before it and one with a crash after it.

    ``make_agent(store)`` builds the agent as a new process would, with ``durability=store, clock=store.clock``; nothing
    in it may remember earlier runs (see ScriptedModel). ``make_task()`` is called once for each run, at its start: also
    the place to reset the world that the tools act on. Tools report what they do to ``effects``.

    ``respond(interruption)`` answers approvals (True, False) and questions (text, None); a mapping has the arguments of
    ``resume``, and a function is called with ``(agent, run_id)`` instead. The default says yes. Slices and retries are
    resumed. ``reconcile(action)`` looks up what became of a cut-off action, finishes it if it was not done, and returns
    its result, or a ProbeFinding such as ``ProbeFinding.absent()``. ``doubles`` also tries pairs of crashes, those left
    out that leave behind what another pair does. ``compare=False`` is for work whose outcome may depend on crashes, as
    when repeated calls use up the budget: then only the rules are checked that hold of any run.

    Reported: effects done twice, lost, or begun without a stored intent; approvals used twice or missing; budgets that
    shrank, overshot or do not equal the stored intents; outcomes and conversations that differ from the undisturbed
    run; runs that do not end; events shown that the journal does not tell of. RuntimeError inside a running event loop.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        pass
    else:
        raise RuntimeError("crash_everywhere() runs event loops of its own; call it from a plain function")
    subject = Subject(make_agent, make_task, respond, reconcile, effects or EffectLog(), streaming)
    with Loop() as loop:
        return _Series(subject, loop, compare).run(doubles)


class _Series:
    """The runs of one report."""

    def __init__(self, subject: Subject, loop: Loop, compare: bool) -> None:
        self._subject = subject
        self._loop = loop
        self._compare = compare
        self._report = CrashReport()
        self._likeness: dict[str, Any] = {}
        self._usage: dict[str, int] = {}

    def run(self, doubles: bool) -> CrashReport:
        first = self._try(())
        self._report.commits = first.store.commits
        self._report.effects = dict(self._subject.effects.counts())
        final = first.stored
        if final is None or final.outcome is None:
            return self._report  # a run that does not end undisturbed tells nothing about crashes
        self._report.outcome = final.outcome
        self._likeness = likeness(final)
        self._usage = {name: getattr(final.ledger, name) for name in _COUNTERS}
        for crash in _crashes(first.store.commits):
            second = self._try((crash,))
            if doubles and len(second.processes) > 1 and _tells_more(first, 0, crash):
                self._second_crashes(crash, second)
        return self._report

    def _second_crashes(self, crash: Crash, trial: Trial) -> None:
        offset = trial.processes[0].commits
        for again in _crashes(trial.processes[1].commits):
            if _tells_more(trial, offset, again):
                self._try((crash, again))

    def _try(self, crashes: tuple[Crash, ...]) -> Trial:
        trial = Trial(self._subject, [[crash] for crash in crashes])
        self._loop.run(trial.run())
        self._report.runs += 1
        problems = trial.problems + (self._compared(trial) if crashes and self._compare else [])
        self._report.findings += [Finding(crashes, problem) for problem in problems]
        return trial

    def _compared(self, trial: Trial) -> list[str]:
        done, wanted = self._subject.effects.counts(), self._report.effects
        names = sorted(done.keys() | wanted.keys())
        found = [f"the effect '{name}' is lost" for name in names if done[name] < wanted.get(name, 0)]
        found += [f"the effect '{name}' was done again" for name in names if done[name] > wanted.get(name, 0)]
        if trial.stored:
            final = trial.stored
            found += [f"not as undisturbed: {item}" for item in differences(self._likeness, likeness(final))]
            for name, least in self._usage.items():
                used = getattr(final.ledger, name)
                if used < least:
                    found.append(f"the budget shrank: {used} {name} are charged, undisturbed {least}")
        return found


def _tells_more(trial: Trial, offset: int, crash: Crash) -> bool:
    """False when this crash leaves behind what another one in the series leaves behind, too.

    A change of ownership alone leaves the same facts; and before a commit all is as after the one before it, unless
    something was done to the world in between.
    """
    place = offset + crash.commit - 1
    if not trial.store.disk.commits[place]:
        return False
    return crash.after or any(effect.commits == place for effect in trial.effects)


def _crashes(commits: int) -> Iterator[Crash]:
    for number in range(1, commits + 1):
        yield Crash(number)
        yield Crash(number, after=True)
