"""The contracts of a run: context, limits, actions, policy, approval, cancellation, events and pauses.

They say what is true of a run and leave its execution to the layers above.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._lazy import by_name, loader

_HOMES = {
    "action": (
        "RunAction",
        "contract_differences",
    ),
    "approval": (
        "ActionAuthorization",
        "ApprovalDecision",
        "ApprovalHandler",
        "ApprovalHandlerLike",
        "ApprovalRequest",
    ),
    "assertions": (
        "assert_budget_under",
        "assert_no_denied_actions",
        "assert_run_events",
    ),
    "authorizer": ("ActionAuthorizer",),
    "budget": (
        "BudgetDecision",
        "BudgetDecisionEffect",
        "BudgetPolicy",
        "BudgetPolicyLike",
        "BudgetUsage",
        "RunBudget",
        "judge_budget",
    ),
    "cancel": (
        "CancellationToken",
        "TaskCancellationRequest",
    ),
    "context": ("RunContext",),
    "enforcer": ("BudgetEnforcer",),
    "events": ("RunEvent",),
    "evidence": (
        "ToolEvidence",
        "collect_tool_evidence",
    ),
    "finding": ("ProbeFinding",),
    "handoff": ("RunHandoff",),
    "interruption": (
        "InterruptionKind",
        "RunInterruption",
    ),
    "manifest": (
        "ContextItem",
        "ContextManifest",
        "build_context_manifest",
    ),
    "policy": (
        "CapabilityPolicy",
        "Policy",
        "PolicyDecision",
        "PolicyEffect",
        "strictest",
    ),
    "recorder": ("RunRecorder",),
    "replay": ("RunReplay",),
    "report": ("RunReport",),
    "sinks": (
        "EventSink",
        "InMemoryEventSink",
    ),
    "user_input": (
        "UserInputRequest",
        "UserInputResult",
        "UserInputStatus",
    ),
    "report_diff": (
        "ALL_RUN_REPORT_SECTIONS",
        "RunReportDiff",
        "RunReportDiffConfig",
        "RunReportDifference",
        "RunReportDifferenceKind",
        "RunReportSection",
        "RunReportSource",
        "RunReportTolerance",
        "assert_run_matches",
        "diff_run_reports",
        "normalize_run_report",
    ),
}

__all__ = [
    "ALL_RUN_REPORT_SECTIONS",
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
    "ProbeFinding",
    "RunAction",
    "RunBudget",
    "RunContext",
    "RunEvent",
    "RunHandoff",
    "RunInterruption",
    "RunRecorder",
    "RunReplay",
    "RunReport",
    "RunReportDiff",
    "RunReportDiffConfig",
    "RunReportDifference",
    "RunReportDifferenceKind",
    "RunReportSection",
    "RunReportSource",
    "RunReportTolerance",
    "TaskCancellationRequest",
    "ToolEvidence",
    "UserInputRequest",
    "UserInputResult",
    "UserInputStatus",
    "assert_budget_under",
    "assert_no_denied_actions",
    "assert_run_events",
    "assert_run_matches",
    "build_context_manifest",
    "collect_tool_evidence",
    "contract_differences",
    "diff_run_reports",
    "judge_budget",
    "normalize_run_report",
    "strictest",
]

if TYPE_CHECKING:
    from .action import RunAction, contract_differences
    from .approval import ActionAuthorization, ApprovalDecision, ApprovalHandler, ApprovalHandlerLike, ApprovalRequest
    from .assertions import assert_budget_under, assert_no_denied_actions, assert_run_events
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
    from .evidence import ToolEvidence, collect_tool_evidence
    from .finding import ProbeFinding
    from .handoff import RunHandoff
    from .interruption import InterruptionKind, RunInterruption
    from .manifest import ContextItem, ContextManifest, build_context_manifest
    from .policy import CapabilityPolicy, Policy, PolicyDecision, PolicyEffect, strictest
    from .recorder import RunRecorder
    from .replay import RunReplay
    from .report import RunReport
    from .report_diff import (
        ALL_RUN_REPORT_SECTIONS,
        RunReportDiff,
        RunReportDiffConfig,
        RunReportDifference,
        RunReportDifferenceKind,
        RunReportSection,
        RunReportSource,
        RunReportTolerance,
        assert_run_matches,
        diff_run_reports,
        normalize_run_report,
    )
    from .sinks import EventSink, InMemoryEventSink
    from .user_input import UserInputRequest, UserInputResult, UserInputStatus

__getattr__, __dir__ = loader(__name__, by_name(_HOMES), globals())
