"""The policies over one agent of the tree: its own and those of every agent above it. The strictest wins."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Sequence
from typing import Any

from ..runtime import CapabilityPolicy, PolicyDecision, RunAction, RunContext, strictest


class PolicyChain:
    """Implements ``drive.ports.PolicyPort``. With built-in policies alone it answers at once."""

    def __init__(self, policies: Sequence[Any]) -> None:
        self._policies = tuple(policies)
        self._direct = all(getattr(type(p), "evaluate", None) is CapabilityPolicy.evaluate for p in policies)

    def judge(self, action: RunAction, context: RunContext) -> PolicyDecision | Awaitable[PolicyDecision]:
        if not self._direct:
            return self._judge_later(action, context)
        if len(self._policies) == 1:
            found: PolicyDecision = self._policies[0].decide(action, context)
            return found
        return strictest(policy.decide(action, context) for policy in self._policies)

    async def _judge_later(self, action: RunAction, context: RunContext) -> PolicyDecision:
        decisions = []
        for policy in self._policies:
            found = policy.evaluate(action, context)
            decision = await found if inspect.isawaitable(found) else found
            if not isinstance(decision, PolicyDecision):
                name = type(policy).__name__
                raise TypeError(f"{name}.evaluate must return a PolicyDecision, not {type(decision).__name__}")
            decisions.append(decision)
        return strictest(decisions) if len(decisions) > 1 else decisions[0]
