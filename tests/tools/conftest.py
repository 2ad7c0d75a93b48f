"""What a tool is given while it runs."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from protolink.runtime import ActionAuthorization, BudgetUsage, CancellationToken, PolicyDecision, RunAction, RunContext
from protolink.tools import ToolExecution


@pytest.fixture
def execution_of() -> Callable[..., ToolExecution]:
    """Makes the execution of an action that policy allowed."""

    def make(action: RunAction, token: CancellationToken | None = None) -> ToolExecution:
        allowed = ActionAuthorization(
            action=action, policy_decision=PolicyDecision(effect="allow", reason="test", policy_name="test")
        )
        return ToolExecution(
            authorization=allowed,
            context=RunContext(run_id="run"),
            budget=BudgetUsage(),
            cancellation=token or CancellationToken(),
            task_id="task",
        )

    return make
