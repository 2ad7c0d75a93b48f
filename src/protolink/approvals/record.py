"""What a broker tells of one approval, and who may see it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal, cast, get_args

from ..models.json import plain
from ..models.shape import mapping, required_text
from ..models.value import dataclass
from ..runtime import ApprovalDecision, ApprovalRequest
from ..runtime.fields import number

ApprovalStatus = Literal["pending", "approved", "denied", "canceled", "expired", "uncertain"]
ResolutionStatus = Literal["approved", "denied", "duplicate", "already_resolved", "stale", "expired", "unknown"]

_STATUSES = get_args(ApprovalStatus)


@dataclass(frozen=True, slots=True)
class ApprovalScope:
    """The runs whose approvals a caller may see and decide. An empty scope sees nothing.

    The application makes it from what it knows of the caller, never from what the caller sends.
    """

    run_ids: frozenset[str]

    def __post_init__(self) -> None:
        given: Any = self.run_ids
        # A bare text would fall apart into letters.
        if isinstance(given, str) or not isinstance(given, Iterable):
            raise TypeError("ApprovalScope takes an iterable of run ids, such as {run_id}")
        found = frozenset(given)
        if not all(isinstance(run_id, str) and run_id.strip() for run_id in found):
            raise ValueError("ApprovalScope run ids must be nonblank text")
        object.__setattr__(self, "run_ids", found)


@dataclass(frozen=True, slots=True)
class ApprovalRecord:
    """One approval as it stands. ``status``: pending, approved, denied, canceled, expired or uncertain.

    ``fingerprint`` is that of the request's action as it was displayed. ``expires_at``: Unix seconds.
    ``effect_state`` is always "unknown": an approval does not tell whether its action had an effect.
    """

    request: ApprovalRequest
    fingerprint: str
    status: ApprovalStatus
    expires_at: float | None = None
    decision: ApprovalDecision | None = None
    effect_state: str = "unknown"

    def to_dict(self) -> dict[str, Any]:
        """All fields as detached JSON. Not redacted. TypeError when the action has no JSON form."""
        found: dict[str, Any] = plain(
            {
                "request": self.request.to_dict(),
                "fingerprint": self.fingerprint,
                "status": self.status,
                "expires_at": self.expires_at,
                "decision": None if self.decision is None else self.decision.to_dict(),
                "effect_state": self.effect_state,
            }
        )
        return found

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> ApprovalRecord:
        """Read ``to_dict()`` back, detached from it. ValueError or TypeError for what is none."""
        source = plain(dict(mapping(data, "ApprovalRecord")))
        status = required_text(source, "status", "ApprovalRecord")
        if status not in _STATUSES:
            raise ValueError(f"ApprovalRecord member 'status' must be one of {', '.join(_STATUSES)}")
        if source.get("request") is None:
            raise ValueError("ApprovalRecord needs 'request'")
        decision = source.get("decision")
        return cls(
            request=ApprovalRequest.from_dict(source["request"]),
            fingerprint=required_text(source, "fingerprint", "ApprovalRecord"),
            status=cast(ApprovalStatus, status),
            expires_at=number(source, "expires_at", "ApprovalRecord", float),
            decision=None if decision is None else ApprovalDecision.from_dict(decision),
        )


@dataclass(frozen=True, slots=True)
class ApprovalResolution:
    """What became of one call of ``resolve``. Only ``approved`` and ``denied`` settled the request by this call.

    ``duplicate``: the same decision was made before. ``already_resolved``: something else was. ``stale``: the decision
    is for another action than the one that waits. ``unknown``: there is no such request, or not for this caller.
    """

    request_id: str
    status: ResolutionStatus
