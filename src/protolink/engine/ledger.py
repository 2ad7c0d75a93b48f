"""The budget of a run tree: what is spent, and whether the next piece of work still fits.

Charged by ``evolve`` when work starts; nothing is ever given back. Children draw on the same ledger, so several at once
cannot overshoot together. Time is active time: it runs while somebody drives the run and stands still while it is
parked.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ..models.value import value
from ..runtime import BudgetDecision, BudgetPolicy, BudgetPolicyLike, BudgetUsage, RunBudget, judge_budget

LIMITS = (
    "max_steps",
    "max_llm_calls",
    "max_tool_calls",
    "max_runtime_seconds",
    "max_input_tokens",
    "max_output_tokens",
)


@value
class Price:
    """What a piece of work would add."""

    steps: int = 0
    llm_calls: int = 0
    tool_calls: int = 0
    input_tokens: int = 0


NOTHING = Price()


@dataclass(slots=True)
class Ledger:
    budget: RunBudget
    steps: int = 0
    llm_calls: int = 0
    tool_calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    active: float = 0.0
    since: float | None = None
    warned: set[str] = field(default_factory=set)
    limited: bool = False

    def __post_init__(self) -> None:
        self.limited = any(getattr(self.budget, name) is not None for name in LIMITS)

    def start_clock(self, now: float) -> None:
        if self.since is None:
            self.since = now

    def stop_clock(self, now: float) -> None:
        if self.since is not None:
            self.active += max(0.0, now - self.since)
            self.since = None

    def seconds(self, now: float) -> float:
        return self.active + (max(0.0, now - self.since) if self.since is not None else 0.0)

    def deadline(self, now: float) -> float | None:
        """When the runtime will be used up, on the same clock as ``now``; None without such a limit."""
        limit = self.budget.max_runtime_seconds
        return None if limit is None else now + limit - self.seconds(now)

    def charge(self, price: Price) -> None:
        self.steps += price.steps
        self.llm_calls += price.llm_calls
        self.tool_calls += price.tool_calls
        self.input_tokens += price.input_tokens

    def usage(self, now: float, extra: Price = NOTHING, output_tokens: int = 0) -> BudgetUsage:
        """Usage so far, plus what ``extra`` would add."""
        return BudgetUsage(
            steps=self.steps + extra.steps,
            llm_calls=self.llm_calls + extra.llm_calls,
            tool_calls=self.tool_calls + extra.tool_calls,
            input_tokens=self.input_tokens + extra.input_tokens,
            output_tokens=self.output_tokens + output_tokens,
            runtime_seconds=self.seconds(now),
        )

    def judge(
        self, policy: BudgetPolicyLike, now: float, extra: Price, output_tokens: int = 0
    ) -> BudgetDecision | None:
        """The policy's word on spending ``extra``; None when every limit is far away, which is the usual case.

        Limits that warned already do not warn again.
        """
        if self._far_from_limits(policy, now, extra, output_tokens):
            return None
        usage = self.usage(now, extra, output_tokens)
        try:
            return judge_budget(policy, self.budget, usage, self.warned)
        except Exception as error:  # the application's policy failed: nothing is spent on its word
            message = f"The budget policy failed: {type(error).__name__}: {error}"
            return BudgetDecision(effect="deny", message=message, usage=usage, metadata={"policy_failed": True})

    def _far_from_limits(self, policy: BudgetPolicyLike, now: float, extra: Price, output_tokens: int) -> bool:
        """Spares the built-in policy the question that it would answer with a plain allow."""
        if type(policy) is not BudgetPolicy or not 0 < policy.warning_ratio <= 1:
            return False
        share = policy.warning_ratio
        for used, limit in (
            (self.steps + extra.steps, self.budget.max_steps),
            (self.llm_calls + extra.llm_calls, self.budget.max_llm_calls),
            (self.tool_calls + extra.tool_calls, self.budget.max_tool_calls),
            (self.input_tokens + extra.input_tokens, self.budget.max_input_tokens),
            (self.output_tokens + output_tokens, self.budget.max_output_tokens),
        ):
            if limit is not None and not 0 <= used < limit * share:
                return False
        seconds = self.budget.max_runtime_seconds
        return seconds is None or self.seconds(now) < seconds * share

    def restore(self, usage: dict[str, Any]) -> None:
        """Take over counters that were corrected by hand."""
        found = BudgetUsage.from_dict(usage)
        self.steps, self.llm_calls, self.tool_calls = found.steps, found.llm_calls, found.tool_calls
        self.input_tokens, self.output_tokens = found.input_tokens, found.output_tokens
        self.active = found.runtime_seconds
