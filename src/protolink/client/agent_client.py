"""AgentClient: giving work to agents at other addresses."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from typing import Any, TypeVar

from ..errors import TransportProtocolError
from ..models import AgentCard, Message, Task
from ..runtime import TaskCancellationRequest
from ..state import HistoryCompactionRequest, HistoryCompactionResult, StateOperationRequest, StateOperationResult
from ..transport import RequestSpec, Transport, transport_for
from ..transport.config import checked_timeout
from ..transport.request import (
    AGENT_CARD,
    CANCEL_TASK,
    COMPACT_HISTORY,
    COMPACT_STATE,
    DESCRIBE_STATE,
    RESET_STATE,
    SUBMIT_TASK,
)
from .peer import AgentPeer, Finder
from .sync import SyncAgentClient

T = TypeVar("T")

_ANSWERING_ROLES = frozenset({"agent", "assistant"})


class AgentClient:
    """``transport``: a Transport or its name; ``url`` is only needed by transports that know one server.

    ``timeout``: seconds for an answer, None to wait for ever; in a stream it holds for the first event, and the
    transport's ``stream_idle_timeout`` for the others. A task is sent once, whatever the transport's RetryPolicy says;
    its id is the idempotency key, so asking again with the same task returns the same answer. Raises TransportError
    where the exchange fails, and the server's own error where it has a class here (TaskNotFoundError,
    TaskNotCancelableError, TaskAlreadyRunningError, RunBusyError).
    """

    def __init__(self, transport: Transport | str, url: str | None = None, timeout: float | None = 300.0) -> None:
        self._transport = transport_for(transport, url)
        self.timeout = checked_timeout("AgentClient timeout", timeout)
        self._sync = SyncAgentClient(self)

    @property
    def transport(self) -> Transport:
        return self._transport

    @property
    def sync(self) -> SyncAgentClient:
        """The same methods for callers without an event loop."""
        return self._sync

    async def send_task(self, url: str, task: Task, *, protocol: str = "auto") -> Task:
        """Have a task done; returns it as the agent ended it, failed and canceled ones included."""
        _check(task, protocol)
        found = await self._transport.send(
            SUBMIT_TASK, url, task, idempotency_key=task.id, timeout=self.timeout
        )  # fmt: skip
        done = _read_task(found, task.id)
        if done.state.value in ("submitted", "working"):
            text = f"The agent at {url} answered before the end: the task is {done.state.value}"
            raise TransportProtocolError(text, url=url, outcome_unknown=True)
        return done

    async def send_task_streaming(self, url: str, task: Task) -> AsyncGenerator[dict[str, Any], None]:
        """Have a task done; yields its events as JSON objects. The last one has ``metadata["task"]``, the ended task.

        Closing the iterator early cancels the task. NotImplementedError where the transport does not stream.
        """
        _check(task, "auto")
        events = self._transport.subscribe(url, task, idempotency_key=task.id, timeout=self.timeout)
        async with aclosing(events):
            async for event in events:
                yield event

    async def cancel_task(
        self,
        url: str,
        task_id: str,
        *,
        reason: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        protocol: str = "auto",
    ) -> Task:
        """Cancel a task that the agent is running, by ``POST /tasks/cancel``; returns it. ValueError for a blank id."""
        _check_protocol(protocol)
        request = TaskCancellationRequest(task_id, reason, dict(metadata or {}))
        found = await self._transport.send(
            CANCEL_TASK, url, request, idempotency_key=task_id, timeout=self.timeout
        )  # fmt: skip
        return _read_task(found, task_id)

    async def send_message(self, url: str, message: Message | str, *, protocol: str = "auto") -> Message:
        """Send one message and return the agent's reply to it.

        TaskExecutionError when the task failed or was canceled, RuntimeError when the agent answered without a message
        (an answer that is an artifact is in ``send_task``).
        """
        done = (await self.send_task(url, Task.create(message), protocol=protocol)).raise_for_status()
        if done.messages and done.messages[-1].role in _ANSWERING_ROLES:
            return done.messages[-1]
        raise RuntimeError(f"The agent at {url} answered without a message; the task ended {done.state.value}")

    async def send_infer_task(
        self,
        query: str,
        url: str,
        *,
        user: str | None = None,
        output_schema: Mapping[str, Any] | None = None,
        metadata: Mapping[str, Any] | None = None,
        protocol: str = "auto",
    ) -> Task:
        """Ask the agent's model; returns the task."""
        task = Task.create_infer(prompt=query, user=user, output_schema=output_schema, metadata=metadata)
        return await self.send_task(url, task, protocol=protocol)

    async def describe_state(
        self, url: str, request: StateOperationRequest | None = None, **which: Any
    ) -> StateOperationResult:
        """How much the agent remembers. ``which``: the fields of a StateOperationRequest, in place of one."""
        return await self._state(DESCRIBE_STATE, url, request, which)

    async def reset_state(
        self, url: str, request: StateOperationRequest | None = None, **which: Any
    ) -> StateOperationResult:
        """Have the agent forget one session (``session_id=...``), or everything."""
        return await self._state(RESET_STATE, url, request, which)

    async def compact_state(
        self, url: str, request: StateOperationRequest | None = None, **which: Any
    ) -> StateOperationResult:
        """Have the agent drop old tool work, and with ``keep_turns=N`` the turns before the newest N."""
        return await self._state(COMPACT_STATE, url, request, which)

    async def compact_history(
        self, url: str, request: HistoryCompactionRequest | None = None, **which: Any
    ) -> HistoryCompactionResult:
        """Have the agent keep the newest messages of a session, or of its own model's chat."""
        body = (request or HistoryCompactionRequest.from_dict(which)).to_dict()
        found = await self._transport.send(COMPACT_HISTORY, url, body, timeout=self.timeout)
        return _read(HistoryCompactionResult.from_dict, found, url)

    async def _state(
        self, spec: RequestSpec, url: str, request: StateOperationRequest | None, which: dict[str, Any]
    ) -> StateOperationResult:
        body = (request or StateOperationRequest.from_dict(which)).to_dict()
        return _read(
            StateOperationResult.from_dict, await self._transport.send(spec, url, body, timeout=self.timeout), url
        )

    def peer(self, target: str | AgentCard, *, registry: Finder | None = None) -> AgentPeer:
        """An agent to work with: by address, by card, or by name with a ``registry`` that knows it."""
        return AgentPeer(lambda url: self, target, registry)

    async def get_agent_card(self, url: str) -> AgentCard:
        """How the agent introduces itself."""
        return _read(AgentCard.from_dict, await self._transport.send(AGENT_CARD, url, timeout=self.timeout), url)


def _check(task: Any, protocol: str) -> None:
    if not isinstance(task, Task):
        raise TypeError(f"AgentClient sends a Task, not {type(task).__name__}; Task.create() makes one")
    _check_protocol(protocol)


def _check_protocol(protocol: str) -> None:
    if protocol == "a2a":
        raise NotImplementedError("A2A is not available in this version; use protocol='auto'")
    if protocol not in ("auto", "native"):
        raise ValueError("protocol must be 'auto', 'native' or 'a2a'")


def _read(read: Callable[[Any], T], found: Any, url: str) -> T:
    try:
        return read(found)
    except (ValueError, TypeError) as error:
        raise TransportProtocolError(f"The answer of {url} cannot be read: {error}", url=url) from None


def _read_task(found: Any, task_id: str) -> Task:
    """TransportProtocolError for an answer that is no task, or another one: by then it is not known what was done."""
    try:
        task = Task.from_dict(found)
    except (ValueError, TypeError) as error:
        raise TransportProtocolError(f"The answer is no task: {error}", outcome_unknown=True) from None
    if task.id != task_id:
        raise TransportProtocolError("The answer is another task than the one sent", outcome_unknown=True)
    return task
