"""Cancellation: the signal inside one process, and the request that crosses the wire."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping
from dataclasses import field
from typing import Any

from protolink.models.ids import utc_now
from protolink.models.shape import mapping, optional_text, table

from ..models.value import dataclass


class CancellationToken:
    """A signal that work should stop. Safe to use from any thread; never serialized.

    Only the first request counts: it fixes reason and time. ``is_cancelled`` tells whether somebody has asked.
    """

    def __init__(self) -> None:
        self.is_cancelled = False  # a plain attribute, because it is asked before every step of a run
        self._lock = threading.Lock()
        self._reason: str | None = None
        self._canceled_at: str | None = None

    @property
    def reason(self) -> str | None:
        """The reason of the first request."""
        with self._lock:
            return self._reason

    @property
    def canceled_at(self) -> str | None:
        """UTC time of the first request."""
        with self._lock:
            return self._canceled_at

    def cancel(self, reason: str | None = None) -> bool:
        """Ask for the stop. True for the first request, False for later ones, which change nothing."""
        with self._lock:
            if self.is_cancelled:
                return False
            self._reason = reason
            self._canceled_at = utc_now()
            self.is_cancelled = True
            return True

    def raise_if_cancelled(self) -> None:
        """Raise ``asyncio.CancelledError`` with the reason once somebody has asked."""
        if self.is_cancelled:
            raise asyncio.CancelledError(self.reason or "Task was canceled")


@dataclass(frozen=True, slots=True)
class TaskCancellationRequest:
    """The control message that cancels a running task. On the wire the reason lives in ``metadata``.

    ValueError for a blank id and for a reason that is no text. ``metadata`` is copied; ``reason`` is added to it unless
    that key is there already.
    """

    id: str
    reason: str | None = None
    metadata: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not isinstance(self.id, str) or not self.id.strip():
            raise ValueError("TaskCancellationRequest needs a nonblank task id")
        if self.reason is not None and not isinstance(self.reason, str):
            raise ValueError(f"TaskCancellationRequest reason must be text, not {type(self.reason).__name__}")
        metadata = dict(mapping(self.metadata, "TaskCancellationRequest metadata"))
        if self.reason is not None:
            metadata.setdefault("reason", self.reason)
        object.__setattr__(self, "metadata", metadata)

    def to_dict(self) -> dict[str, Any]:
        """``{"id", "metadata"}``."""
        return {"id": self.id, "metadata": dict(self.metadata)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> TaskCancellationRequest:
        """Read a request; the id may be under ``task_id``. A top-level reason replaces the one in ``metadata``.

        ValueError without a usable id.
        """
        source = mapping(data, "TaskCancellationRequest")
        metadata = table(source, "metadata", "TaskCancellationRequest")
        reason = optional_text(source, "reason", "TaskCancellationRequest")
        if reason is not None:
            metadata["reason"] = reason
        task_id: Any = source.get("id") or source.get("task_id")
        return cls(id=task_id, reason=optional_text(metadata, "reason", "TaskCancellationRequest"), metadata=metadata)
