"""Errors on their way from one side to the other: a code, a text and a number of HTTP.

A server makes a Fault of every exception, a client an exception of every Fault. What a client should act upon keeps its
class; the rest becomes TransportRemoteError. Texts of foreign exceptions stay where they are: they may be private.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..errors import (
    AgentNotFoundError,
    ProtolinkError,
    RunBusyError,
    TaskAlreadyRunningError,
    TaskNotCancelableError,
    TaskNotFoundError,
    TransportError,
    TransportLimitError,
    TransportRemoteError,
)
from ..models.redaction.foreign import foreign_text

_LONGEST_TEXT = 2000
_LONGEST_NAME = 100

#: Codes of faults that no exception stands for, and their numbers.
STATUS = {
    "bad_request": 400,
    "unauthenticated": 401,
    "not_found": 404,
    "method_not_allowed": 405,
    "idempotency_conflict": 409,
    "too_large": 413,
    "internal": 500,
    "response_too_large": 500,
    "streaming_unsupported": 501,
    "interrupted": 503,
    "overloaded": 503,
    "unavailable": 503,
}

_TYPED: dict[str, tuple[type[ProtolinkError], int]] = {
    "task_not_found": (TaskNotFoundError, 404),
    "task_not_cancelable": (TaskNotCancelableError, 409),
    "task_already_running": (TaskAlreadyRunningError, 409),
    "run_busy": (RunBusyError, 409),
    "agent_not_found": (AgentNotFoundError, 404),
}
_LIMITS = frozenset(("too_large", "response_too_large"))
#: The server says that it has not begun.
_NOT_BEGUN = frozenset(("overloaded", "unavailable", "streaming_unsupported"))


class Fault(Exception):
    """One error as both sides know it. Handlers raise it where no class of ``errors`` says what is wrong."""

    def __init__(self, code: str, message: str, *, status: int | None = None, type: str | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.status = status if status is not None else STATUS.get(code, 500)
        self.type = type

    def to_dict(self) -> dict[str, Any]:
        """``{"code", "message", "type", "status"}``; ``type`` is the class of the exception, where there was one."""
        return {"code": self.code, "message": self.message, "type": self.type, "status": self.status}

    @classmethod
    def from_dict(cls, data: Any, status: int | None = None) -> Fault:
        """Read what a server sent, however odd: a fault must not hide behind the way it is told."""
        found: Mapping[str, Any] = data if isinstance(data, Mapping) else {}
        code, message, type_, number = (found.get(key) for key in ("code", "message", "type", "status"))
        if isinstance(number, bool) or not isinstance(number, int) or not 400 <= number <= 599:
            number = status
        return cls(
            code[:_LONGEST_NAME] if isinstance(code, str) and code else "internal",
            _masked(message) if isinstance(message, str) and message else "The other side gave no reason",
            status=number,
            type=type_[:_LONGEST_NAME] if isinstance(type_, str) else None,
        )


def bad_request(message: str) -> Fault:
    """The caller's fault: nothing was done."""
    return Fault("bad_request", message)


def fault_of(error: Exception) -> Fault:
    """What a client is told of an exception."""
    if isinstance(error, Fault):
        return error
    name = type(error).__name__
    for code, (kind, status) in _TYPED.items():
        if isinstance(error, kind):
            return Fault(code, _text(error), status=status, type=name)
    if isinstance(error, ProtolinkError):
        return Fault("internal", _text(error), type=name)
    return Fault("internal", f"The agent's own code failed ({name}); its log tells why", type=name)


def error_of(fault: Fault, *, url: str | None, request_id: str | None) -> ProtolinkError:
    """What a client raises. An error with a class of its own has the TransportRemoteError as its cause."""
    facts: dict[str, Any] = {"url": url, "request_id": request_id, "status_code": fault.status}
    unknown = fault.status >= 500 and fault.code not in _NOT_BEGUN
    if fault.code in _LIMITS:
        return TransportLimitError(fault.message, outcome_unknown=unknown, **facts)
    remote: TransportError = TransportRemoteError(
        fault.message,
        code=fault.code,
        retryable=fault.code in ("overloaded", "unavailable") or fault.status in (429, 502, 504),
        outcome_unknown=unknown,
        **facts,
    )
    typed = _TYPED.get(fault.code)
    if typed is None:
        return remote
    error = typed[0](fault.message)
    error.__cause__ = remote
    return error


def _text(error: Exception) -> str:
    return _masked(str(error)) or type(error).__name__


def _masked(text: str) -> str:
    """Without recognisable secrets, and not too long. Cut twice: a secret at the first cut is not in the text."""
    return foreign_text(text[: 2 * _LONGEST_TEXT])[:_LONGEST_TEXT]
