"""A person's yes or no to one prepared action, and the proof that the action may run."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import field
from typing import TYPE_CHECKING, Any, Protocol

from protolink.models.ids import new_id, utc_now
from protolink.models.shape import mapping, optional_text, required_text, table

from ..models.value import dataclass, moment
from .action import RunAction
from .context import RunContext
from .fields import flag, text_or, unless_blank
from .policy import PolicyDecision

if TYPE_CHECKING:
    from protolink.models import RedactionPolicy


@dataclass(frozen=True, slots=True)
class ApprovalRequest:
    """A checkpoint: this action needs a person. The answer must carry ``request_id``."""

    action: RunAction
    policy_decision: PolicyDecision
    run_id: str
    request_id: str = field(default_factory=lambda: new_id("approval"))
    created_at: str = moment()
    metadata: dict[str, Any] = field(default_factory=dict)

    def to_dict(self, *, redaction_policy: RedactionPolicy | None = None) -> dict[str, Any]:
        """All fields, action and decision nested; masked when a redaction policy is given."""
        found: dict[str, Any] = {
            "action": self.action.to_dict(),
            "policy_decision": self.policy_decision.to_dict(),
            "run_id": self.run_id,
            "request_id": self.request_id,
            "created_at": self.created_at,
            "metadata": dict(self.metadata),
        }
        return found if redaction_policy is None else dict(redaction_policy.redact(found))

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> ApprovalRequest:
        """Read ``to_dict()`` back. A missing decision is a denial; a missing action or run id is a ValueError."""
        source = mapping(data, "ApprovalRequest")
        if source.get("action") is None:
            raise ValueError("ApprovalRequest needs 'action'")
        return cls(
            action=RunAction.from_dict(source["action"]),
            policy_decision=PolicyDecision.from_dict(table(source, "policy_decision", "ApprovalRequest")),
            run_id=required_text(source, "run_id", "ApprovalRequest"),
            request_id=text_or(source, "request_id", "ApprovalRequest", lambda: new_id("approval")),
            created_at=text_or(source, "created_at", "ApprovalRequest", utc_now),
            metadata=table(source, "metadata", "ApprovalRequest"),
        )


@dataclass(frozen=True, slots=True)
class ApprovalDecision:
    """The answer to one checkpoint. Only ``approved is True`` lets the action run. A blank ``reason`` is none."""

    approved: bool
    request_id: str
    reason: str | None = None
    decided_by: str | None = None
    metadata: dict[str, Any] = field(default_factory=dict)
    decided_at: str = moment()

    def __post_init__(self) -> None:
        object.__setattr__(self, "reason", unless_blank(self.reason))

    def to_dict(self) -> dict[str, Any]:
        """All fields."""
        return {
            "approved": self.approved,
            "request_id": self.request_id,
            "reason": self.reason,
            "decided_by": self.decided_by,
            "metadata": dict(self.metadata),
            "decided_at": self.decided_at,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> ApprovalDecision:
        """Read ``to_dict()`` back. Missing: not approved, request id "". TypeError unless ``approved`` is a boolean."""
        source = mapping(data, "ApprovalDecision")
        return cls(
            approved=flag(source, "approved", "ApprovalDecision"),
            request_id=text_or(source, "request_id", "ApprovalDecision", str),
            reason=optional_text(source, "reason", "ApprovalDecision"),
            decided_by=optional_text(source, "decided_by", "ApprovalDecision"),
            metadata=table(source, "metadata", "ApprovalDecision"),
            decided_at=text_or(source, "decided_at", "ApprovalDecision", utc_now),
        )


class ApprovalHandler(Protocol):
    """Asks a person. A boolean is taken for the answer to the request at hand."""

    async def __call__(self, request: ApprovalRequest, context: RunContext) -> ApprovalDecision | bool: ...


ApprovalResult = ApprovalDecision | bool
ApprovalHandlerLike = Callable[[ApprovalRequest, RunContext], ApprovalResult | Awaitable[ApprovalResult]]


@dataclass(frozen=True, slots=True)
class ActionAuthorization:
    """Proof that an action may run: policy allowed it, or an approver granted its checkpoint."""

    action: RunAction
    policy_decision: PolicyDecision
    approval_request: ApprovalRequest | None = None
    approval_decision: ApprovalDecision | None = None
    authorized_at: str = moment()

    def to_dict(self) -> dict[str, Any]:
        """All fields, records nested; absent ones None."""
        request, decision = self.approval_request, self.approval_decision
        return {
            "action": self.action.to_dict(),
            "policy_decision": self.policy_decision.to_dict(),
            "approval_request": request.to_dict() if request is not None else None,
            "approval_decision": decision.to_dict() if decision is not None else None,
            "authorized_at": self.authorized_at,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> ActionAuthorization:
        """Read ``to_dict()`` back. ValueError without an action."""
        source = mapping(data, "ActionAuthorization")
        if source.get("action") is None:
            raise ValueError("ActionAuthorization needs 'action'")
        request, decision = source.get("approval_request"), source.get("approval_decision")
        return cls(
            action=RunAction.from_dict(source["action"]),
            policy_decision=PolicyDecision.from_dict(table(source, "policy_decision", "ActionAuthorization")),
            approval_request=None if request is None else ApprovalRequest.from_dict(request),
            approval_decision=None if decision is None else ApprovalDecision.from_dict(decision),
            authorized_at=text_or(source, "authorized_at", "ActionAuthorization", utc_now),
        )
