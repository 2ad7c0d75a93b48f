"""What a tool is given while it runs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from ..models.value import dataclass
from ..runtime import ActionAuthorization, BudgetUsage, CancellationToken, RunContext, RunEvent


@dataclass(frozen=True, slots=True)
class ToolExecution:
    """One authorized execution of one prepared action.

    ``authorization.action`` is the exact action that was judged; ``idempotency_key`` is the same for every attempt of
    it and fits the idempotency headers of outside services. ``budget`` is the run's usage when the tool started.
    """

    authorization: ActionAuthorization
    context: RunContext
    budget: BudgetUsage
    cancellation: CancellationToken
    task_id: str
    deadline: float | None = None
    clock: Callable[[], float] | None = None
    emitter: Callable[[str, dict[str, Any]], Awaitable[RunEvent]] | None = None

    @property
    def idempotency_key(self) -> str:
        """Stable key of this action, the same after a restart."""
        return self.authorization.action.action_id

    @property
    def remaining_seconds(self) -> float | None:
        """Seconds of runtime budget that are left, or None without such a limit. A running tool is never cut by it."""
        if self.deadline is None or self.clock is None:
            return None
        return max(0.0, self.deadline - self.clock())

    def check(self) -> None:
        """Stop here if the run was canceled (CancelledError) or has used up its runtime (TimeoutError)."""
        self.cancellation.raise_if_cancelled()
        if self.remaining_seconds == 0.0:
            raise TimeoutError("the run's runtime budget is used up")

    async def emit(self, type: str, **payload: Any) -> RunEvent:
        """Tell observers about progress. The event carries run, task and action ids."""
        if self.emitter is None:
            action = self.authorization.action
            return RunEvent(
                type=type,
                run_id=self.context.run_id,
                task_id=self.task_id,
                action_id=action.action_id,
                payload=payload,
            )
        return await self.emitter(type, payload)
