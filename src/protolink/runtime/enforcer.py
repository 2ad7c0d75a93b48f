"""Counts the work of one run against its budget."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

from .budget import BudgetDecision, BudgetPolicy, BudgetPolicyLike, BudgetUsage, RunBudget, judge_budget
from .context import RunContext


class BudgetEnforcer:
    """Stateful counter over a ``RunBudget``. Each check projects one more piece of work and asks the policy.

    An allowed projection becomes ``usage``; a denied one leaves it as it was. Elapsed time counts from construction,
    read from ``clock`` in seconds. Every limit warns once. Checks return decisions and raise nothing.
    """

    def __init__(
        self,
        context_or_budget: RunContext | RunBudget | None = None,
        *,
        policy: BudgetPolicyLike | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.budget = _budget_of(context_or_budget)
        self.policy: BudgetPolicyLike = policy if policy is not None else BudgetPolicy()
        self.usage = BudgetUsage()
        self._clock = clock
        self._started = clock()
        self._warned: set[str] = set()

    @property
    def has_output_token_limit(self) -> bool:
        """Whether ``record_output_tokens`` can deny anything."""
        return self.budget.max_output_tokens is not None

    def check_step(self, step: int) -> BudgetDecision:
        """May step number ``step`` begin? The number replaces the counted one."""
        return self._commit(replace(self.usage, steps=step))

    def check_next_step(self) -> BudgetDecision:
        """May one more step begin?"""
        return self.check_step(self.usage.steps + 1)

    def check_llm_call(self, *, input_tokens: int = 0) -> BudgetDecision:
        """May one more model call with this many input tokens begin? Negative counts are zero."""
        usage = self.usage
        return self._commit(
            replace(
                usage,
                llm_calls=usage.llm_calls + 1,
                input_tokens=usage.input_tokens + max(0, input_tokens),
            )
        )

    def check_tool_call(self) -> BudgetDecision:
        """May one more tool call begin?"""
        return self._commit(replace(self.usage, tool_calls=self.usage.tool_calls + 1))

    def record_output_tokens(self, output_tokens: int | None) -> BudgetDecision:
        """Add the output of a model call. Negative counts are zero; None allows without asking the policy."""
        if output_tokens is None:
            return BudgetDecision.allow(self.usage)
        total = self.usage.output_tokens + max(0, output_tokens)
        return self._commit(replace(self.usage, output_tokens=total))

    def evaluate(self) -> BudgetDecision:
        """Judge the counters as they stand, with the time refreshed. ``usage`` stays as it is."""
        return self._judge(self._timed(self.usage))

    def _commit(self, projected: BudgetUsage) -> BudgetDecision:
        usage = self._timed(projected)
        decision = self._judge(usage)
        if decision.allowed:
            self.usage = usage
        return decision

    def _judge(self, usage: BudgetUsage) -> BudgetDecision:
        decision = judge_budget(self.policy, self.budget, usage, self._warned)
        if decision.effect == "warn" and decision.limit_name is not None:
            self._warned.add(decision.limit_name)
        return decision

    def _timed(self, usage: BudgetUsage) -> BudgetUsage:
        return replace(usage, runtime_seconds=max(0.0, self._clock() - self._started))


def _budget_of(source: RunContext | RunBudget | None) -> RunBudget:
    if source is None:
        return RunBudget()
    if isinstance(source, RunContext):
        return source.budget
    if isinstance(source, RunBudget):
        return source
    raise TypeError(f"BudgetEnforcer takes a RunContext, a RunBudget or None, not {type(source).__name__}")
