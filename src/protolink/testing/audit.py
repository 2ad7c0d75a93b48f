"""What must hold of any stored run, read from its facts alone."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from typing import Any

from ..engine import facts as f
from ..engine.evolve import evolve, start
from ..engine.facts import Record
from ..engine.ledger import LIMITS
from ..engine.project import Event, opening, project
from ..engine.state import Action, Run, status
from ..models.json import dumps

_ID = re.compile(r"\b[a-z]+_\d{14}_[0-9a-f]{16}\b")
#: Output tokens are not here: those of a refused reply are taken out of the usage again.
_COUNTERS = ("steps", "llm_calls", "tool_calls", "input_tokens")


def audit(records: Sequence[Record]) -> list[str]:
    """The rules that this journal breaks, each as a sentence; empty when it is sound."""
    return Audit(records).problems


class Audit:
    """One reading of a journal: the ``problems``, the ``events`` that it tells of, and the ``run`` at its end."""

    def __init__(self, records: Sequence[Record]) -> None:
        self.problems: list[str] = []
        self.run = start(records[0])
        self.events: list[Event] = opening(self.run, records[0])
        self._charged: Counter[str] = Counter()
        self._warned: Counter[str] = Counter()
        self._approvals: Counter[str] = Counter()
        self._started: set[str] = set()
        for number, record in enumerate(records[1:], 1):
            if record.n != number:
                self._say(record, f"it is numbered {record.n}, and {number} is its place")
            before = self._counters()
            self._before(record)
            self.events += project(self.run, record)
            evolve(self.run, record)
            self._after(record, before)
        self._compare_charges()

    def _say(self, record: Record, problem: str) -> None:
        self.problems.append(f"fact {record.n} ({type(record.fact).__name__}): {problem}")

    def _counters(self) -> dict[str, int]:
        return {name: getattr(self.run.ledger, name) for name in _COUNTERS}

    def _before(self, record: Record) -> None:
        match record.fact:
            case f.ToolStarted(action=key):
                self._tool_starts(record, self.run.actions[key])
            case f.ModelStarted() as fact:
                self._model_starts(record, fact)
            case f.FrameOpened() as fact:
                self._nothing_unknown(record)
                spec = self.run.parts[fact.part] if fact.part is not None else fact.spec
                self._charged["steps"] += spec is not None and spec.call is not None
            case f.Asked(kind="input"):
                self._charged["tool_calls"] += 1
            case f.BudgetWarned(decision=decision):
                name = str(decision.get("limit_name"))
                self._warned[name] += 1
                if self._warned[name] > 1:
                    self._say(record, f"a second warning for {name}")
            case f.RerunAllowed(action=key):
                self._started.discard(key)
            case _:
                pass

    def _tool_starts(self, record: Record, action: Action) -> None:
        self._nothing_unknown(record)
        self._charged["tool_calls"] += 1
        if action.state != "authorized":
            self._say(record, f"'{action.call.tool}' is {action.state}, not authorized")
        if action.id in self._started and not action.read_only:
            self._say(record, f"'{action.call.tool}' was started before")
        self._started.add(action.id)
        if action.decision is not None and action.decision.effect.value == "require_approval":
            self._approved(record, action)

    def _approved(self, record: Record, action: Action) -> None:
        answer = self.run.responses.get(action.request or "", {})
        if answer.get("response") is not True or self.run.asked_by.get(action.request or "") != action.id:
            self._say(record, f"'{action.call.tool}' needs an approval of its own and has none")
        self._approvals[action.request or ""] += 1
        if self._approvals[action.request or ""] > 1 and not action.read_only:
            self._say(record, f"the approval {action.request} is used twice")

    def _model_starts(self, record: Record, fact: f.ModelStarted) -> None:
        self._nothing_unknown(record)
        self._charged["llm_calls"] += 1
        self._charged["steps"] += fact.attempt == 0
        if self.run.frames[fact.frame].unsettled:
            self._say(record, "the model goes on before all calls of its last turn have a receipt")

    def _nothing_unknown(self, record: Record) -> None:
        if self.run.uncertain:
            self._say(record, "something starts although an effect is unknown")
        if self.run.cancel is not None:
            self._say(record, "something starts although the run is canceled")
        if self.run.outcome is not None:
            self._say(record, "something starts although the run has ended")

    def _after(self, record: Record, before: dict[str, int]) -> None:
        now = self._counters()
        for name in _COUNTERS:
            if now[name] < before[name]:
                self._say(record, f"the budget shrinks: {name} goes from {before[name]} to {now[name]}")
        if isinstance(record.fact, (f.ToolStarted, f.ModelStarted)):
            self._within_limits(record, now)

    def _within_limits(self, record: Record, now: dict[str, int]) -> None:
        for name in LIMITS:
            limit, used = getattr(self.run.ledger.budget, name), now.get(name.removeprefix("max_"))
            if limit is not None and used is not None and used > limit:
                self._say(record, f"{name} is {limit} and {used} are used")

    def _compare_charges(self) -> None:
        for name in ("steps", "llm_calls", "tool_calls"):
            charged, wanted = getattr(self.run.ledger, name), self._charged[name]
            if charged != wanted:
                self.problems.append(f"{charged} {name} are charged, and the stored intents are {wanted}")


def masked(text: str) -> str:
    """The text without ids that are random in each run."""
    return _ID.sub("<id>", text)


def likeness(run: Run) -> dict[str, Any]:
    """What two runs of the same work have in common, whatever happened on the way."""
    frames = [
        {
            "agent": frame.spec.agent,
            "outcome": frame.outcome,
            "history": [[m.role, masked(str(m.content)), m.tool_name] for m in frame.history],
        }
        for frame in run.frames.values()
    ]
    return {
        "state": run.task.state.value,
        "status": status(run),
        "output": masked(dumps(run.output)),
        "error": (run.error or {}).get("code"),
        "frames": sorted(frames, key=dumps),
    }


def portrait(run: Run) -> dict[str, Any]:
    """Everything that a run's next decision depends on, to compare a live state with its fold."""
    return {
        "status": status(run),
        "task": run.task.state.value,
        "usage": run.ledger.usage(run.ledger.since or 0.0).to_dict(),
        "warned": sorted(run.ledger.warned),
        "actions": {
            key: [a.state, a.result, a.error, a.rejection, a.approved, a.request, a.reconciled, a.stale, a.turn]
            for key, a in run.actions.items()
        },
        "requests": {key: [r.kind, r.frame, r.action, r.fingerprint, r.expires] for key, r in run.requests.items()},
        "responses": run.responses,
        "uncertain": sorted(run.uncertain),
        "frames": {
            key: [
                *(fr.open, fr.outcome, fr.model, fr.turn, fr.attempt, fr.unsettled, fr.corrections, fr.misspeaks),
                *(fr.failures, fr.retries, fr.slice_turns, fr.waiting, fr.answer, list(fr.recent), list(fr.actions)),
                [[m.role, m.content, m.tool_name, m.tool_call_id, m.tool_calls] for m in fr.history],
            ]
            for key, fr in run.frames.items()
        },
        "next": [run.n, run.next_part, run.children, run.epoch, run.phase],
        "cancel": None if run.cancel is None else run.cancel.reason,
    }


def differences(one: Any, other: Any, path: str = "") -> list[str]:
    """Where two JSON-like values differ, at most five places."""
    if isinstance(one, dict) and isinstance(other, dict):
        keys = [*one, *(key for key in other if key not in one)]
        found = [item for key in keys for item in differences(one.get(key), other.get(key), f"{path}.{key}")]
    elif isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)) and len(one) == len(other):
        pairs = enumerate(zip(one, other, strict=True))
        found = [item for index, (a, b) in pairs for item in differences(a, b, f"{path}[{index}]")]
    else:
        found = [] if one == other else [f"{path.lstrip('.')}: {_short(one)} is now {_short(other)}"]
    return found[:5]


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 160 else f"{text[:157]}..."
