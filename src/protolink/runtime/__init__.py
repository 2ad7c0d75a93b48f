"""The contracts of a run: context, limits, actions, policy, approval, cancellation, events and pauses.

They say what is true of a run and leave its execution to the layers above.
"""

from __future__ import annotations

from .action import RunAction, contract_differences
from .approval import ActionAuthorization, ApprovalDecision, ApprovalHandler, ApprovalHandlerLike, ApprovalRequest
from .authorizer import ActionAuthorizer
from .budget import (
    BudgetDecision,
    BudgetDecisionEffect,
    BudgetPolicy,
    BudgetPolicyLike,
    BudgetUsage,
    RunBudget,
    judge_budget,
)
from .cancel import CancellationToken, TaskCancellationRequest
from .context import RunContext
from .enforcer import BudgetEnforcer
from .events import RunEvent
from .handoff import RunHandoff
from .interruption import InterruptionKind, RunInterruption
from .manifest import ContextItem, ContextManifest, build_context_manifest
from .policy import CapabilityPolicy, Policy, PolicyDecision, PolicyEffect, strictest
from .sinks import EventSink, InMemoryEventSink
from .user_input import UserInputRequest, UserInputResult, UserInputStatus

__all__ = [
    "ActionAuthorization",
    "ActionAuthorizer",
    "ApprovalDecision",
    "ApprovalHandler",
    "ApprovalHandlerLike",
    "ApprovalRequest",
    "BudgetDecision",
    "BudgetDecisionEffect",
    "BudgetEnforcer",
    "BudgetPolicy",
    "BudgetPolicyLike",
    "BudgetUsage",
    "CancellationToken",
    "CapabilityPolicy",
    "ContextItem",
    "ContextManifest",
    "EventSink",
    "InMemoryEventSink",
    "InterruptionKind",
    "Policy",
    "PolicyDecision",
    "PolicyEffect",
    "RunAction",
    "RunBudget",
    "RunContext",
    "RunEvent",
    "RunHandoff",
    "RunInterruption",
    "TaskCancellationRequest",
    "UserInputRequest",
    "UserInputResult",
    "UserInputStatus",
    "build_context_manifest",
    "contract_differences",
    "judge_budget",
    "strictest",
]
