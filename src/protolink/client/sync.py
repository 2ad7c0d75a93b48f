"""``client.sync``: the async methods for callers without an event loop."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

from ..drive.loop_thread import LOOP
from ..models import AgentCard, Message, Task

if TYPE_CHECKING:
    from ..state import HistoryCompactionResult, StateOperationResult
    from .agent_client import AgentClient

T = TypeVar("T")


class SyncAgentClient:
    """Blocking twins of a client's methods, with the same arguments and errors. RuntimeError inside a running loop.

    They can cancel what runs in other threads, event loops and processes; a call that blocks its own thread cannot be
    ended by a later call of that thread.
    """

    def __init__(self, client: AgentClient) -> None:
        self._client = client

    def send_task(self, url: str, task: Task, **options: Any) -> Task:
        return _run("send_task", lambda: self._client.send_task(url, task, **options))

    def cancel_task(self, url: str, task_id: str, **options: Any) -> Task:
        return _run("cancel_task", lambda: self._client.cancel_task(url, task_id, **options))

    def send_message(self, url: str, message: Message | str, **options: Any) -> Message:
        return _run("send_message", lambda: self._client.send_message(url, message, **options))

    def send_infer_task(self, query: str, url: str, **options: Any) -> Task:
        return _run("send_infer_task", lambda: self._client.send_infer_task(query, url, **options))

    def describe_state(self, url: str, *args: Any, **which: Any) -> StateOperationResult:
        return _run("describe_state", lambda: self._client.describe_state(url, *args, **which))

    def reset_state(self, url: str, *args: Any, **which: Any) -> StateOperationResult:
        return _run("reset_state", lambda: self._client.reset_state(url, *args, **which))

    def compact_state(self, url: str, *args: Any, **which: Any) -> StateOperationResult:
        return _run("compact_state", lambda: self._client.compact_state(url, *args, **which))

    def compact_history(self, url: str, *args: Any, **which: Any) -> HistoryCompactionResult:
        return _run("compact_history", lambda: self._client.compact_history(url, *args, **which))

    def get_agent_card(self, url: str) -> AgentCard:
        return _run("get_agent_card", lambda: self._client.get_agent_card(url))


def _run(name: str, make: Callable[[], Coroutine[Any, Any, T]]) -> T:
    return LOOP.run(name, make, owner="client")
