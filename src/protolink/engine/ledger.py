"""The budget of a run tree: what is spent, and whether the next piece of work still fits.

Charged by ``evolve`` when work starts; nothing is ever given back. Children draw on the same ledger, so several at once
cannot overshoot together. Time is active time: it runs while somebody drives the run and stands still while it is
parked.
"""

from __future__ import annotations

from dataclasses import field
from typing import Any

from ..models.value import dataclass, value
from ..runtime import BudgetDecision, BudgetPolicy, BudgetPolicyLike, BudgetUsage, RunBudget, judge_budget

LIMITS = (
    "max_steps",
    "max_llm_calls",
    "max_tool_calls",
    "max_runtime_seconds",
    "max_input_tokens",
    "max_output_tokens",
)
COUNTERS = ("steps", "llm_calls", "tool_calls", "input_tokens", "output_tokens")


@value
class Price:
    """What a piece of work would add."""

    steps: int = 0
    llm_calls: int = 0
    tool_calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0


NOTHING = Price()


@dataclass(slots=True)
class Ledger:
    budget: RunBudget
    steps: int = 0
    llm_calls: int = 0
    tool_calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    children: int = 0
    active: float = 0.0
    since: float | None = None
    working: int = 0
    warned: set[str] = field(default_factory=set)
    limited: bool = False
    _counts: tuple[tuple[str, int], ...] = ()

    def __post_init__(self) -> None:
        self.limited = any(getattr(self.budget, name) is not None for name in LIMITS)
        limits = [(name, getattr(self.budget, f"max_{name}")) for name in COUNTERS]
        self._counts = tuple((name, limit) for name, limit in limits if limit is not None)

    def start_clock(self, now: float) -> None:
        """A run on this budget begins to work. Time in which several do so counts once."""
        self.working += 1
        if self.since is None:
            self.since = now

    def stop_clock(self, now: float) -> None:
        """A run on this budget rests. The clock stands still when the last of them does."""
        self.working = max(0, self.working - 1)
        if self.since is not None and not self.working:
            self.active += max(0.0, now - self.since)
            self.since = None

    def seconds(self, now: float) -> float:
        return self.active + (max(0.0, now - self.since) if self.since is not None else 0.0)

    def deadline(self, now: float) -> float | None:
        """When the runtime will be used up, on the same clock as ``now``; None without such a limit."""
        limit = self.budget.max_runtime_seconds
        return None if limit is None else now + limit - self.seconds(now)

    def usage(self, now: float, extra: Price = NOTHING) -> BudgetUsage:
        """Usage so far, plus what ``extra`` would add."""
        return BudgetUsage(
            self.steps + extra.steps,
            self.llm_calls + extra.llm_calls,
            self.tool_calls + extra.tool_calls,
            self.input_tokens + extra.input_tokens,
            self.output_tokens + extra.output_tokens,
            self.seconds(now),
        )

    def judge(self, policy: BudgetPolicyLike, now: float, extra: Price) -> BudgetDecision:
        """The policy's word on spending ``extra``. Limits that warned already do not warn again."""
        usage = self.usage(now, extra)
        try:
            return judge_budget(policy, self.budget, usage, self.warned)
        except Exception as error:  # the application's policy failed: nothing is spent on its word
            message = f"The budget policy failed: {type(error).__name__}: {error}"
            return BudgetDecision(effect="deny", message=message, usage=usage, metadata={"policy_failed": True})

    def far_from_limits(self, policy: BudgetPolicyLike, now: float, extra: Price) -> bool:
        """Spares the built-in policy the question that it would answer with a plain allow, which is the usual case."""
        if type(policy) is not BudgetPolicy or not 0 < policy.warning_ratio <= 1:
            return False
        share = policy.warning_ratio
        for name, limit in self._counts:
            if not 0 <= getattr(self, name) + getattr(extra, name) < limit * share:
                return False
        seconds = self.budget.max_runtime_seconds
        return seconds is None or self.seconds(now) < seconds * share

    def bounds_replies(self, policy: BudgetPolicyLike) -> bool:
        """True when a reply may be too much although its call was permitted: only its output and its time are news."""
        if type(policy) is not BudgetPolicy:
            return self.limited
        return self.budget.max_output_tokens is not None or self.budget.max_runtime_seconds is not None

    def restore(self, usage: dict[str, Any]) -> None:
        """Take over counters that were corrected by hand."""
        found = BudgetUsage.from_dict(usage)
        self.steps, self.llm_calls, self.tool_calls = found.steps, found.llm_calls, found.tool_calls
        self.input_tokens, self.output_tokens = found.input_tokens, found.output_tokens
        self.active = found.runtime_seconds
