"""What an AgentServer needs of an agent. ``protolink.Agent`` has it; so may anything else that does tasks."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any, Protocol

from ..models import AgentCard, Task
from ..runtime import TaskCancellationRequest


class Served(Protocol):
    """Called in the loop in which the server was started."""

    @property
    def card(self) -> AgentCard: ...

    async def run_task(self, task: Task, /) -> Task:
        """Do the task and return it. What it raises after it has ended the task is told by the task itself."""

    def handle_task_streaming(self, task: Task, /) -> AsyncGenerator[Any, None]:
        """Do the task and yield events (with ``to_dict()``); a final status comes last. Closing early cancels it."""

    async def cancel_task(self, task_id: TaskCancellationRequest, /) -> Task:
        """Cancel a running task and return it. TaskNotFoundError, TaskNotCancelableError."""
