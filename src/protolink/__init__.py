"""protolink runs AI agents the way a bank runs payments.

Every public name is here, loaded when it is first used: importing protolink loads no optional package.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ._lazy import by_name, loader
from ._version import __version__

_HOMES = {
    "agents": (
        "Agent",
        "AnswerEvent",
        "PresentationEvent",
        "RunHandle",
        "RunResult",
        "SubagentHandle",
        "SubagentLimits",
        "current_request_context",
        "request_context",
    ),
    "approvals": ("ApprovalBroker", "ApprovalRecord", "ApprovalResolution", "ApprovalScope"),
    "client": ("AgentClient",),
    "discovery": ("Registry", "RegistryClient"),
    "errors": (
        "ActionDeniedError",
        "ActionPolicyError",
        "AdmissionError",
        "AgentNotFoundError",
        "ApprovalRequiredError",
        "BudgetExceededError",
        "CheckpointMismatchError",
        "DurableExecutionError",
        "InferParseError",
        "ProtolinkError",
        "RunBusyError",
        "RunInterrupted",
        "StoreCorruptError",
        "StoreUnavailableError",
        "StreamGapError",
        "SubagentLimitError",
        "TaskAlreadyRunningError",
        "TaskCancellationError",
        "TaskExecutionError",
        "TaskNotCancelableError",
        "TaskNotFoundError",
        "ToolCorrectionLimitError",
        "ToolFailedError",
        "ToolRejectedError",
        "TransportConnectionError",
        "TransportError",
        "TransportLimitError",
        "TransportProtocolError",
        "TransportRemoteError",
        "TransportTimeoutError",
        "UncertainExecutionError",
    ),
    "group": ("AgentGroup", "GroupLimits"),
    "journal": ("DurableStore", "InMemoryDurableStore", "RunCheckpoint", "RunManager", "SQLiteDurableStore"),
    "llms": ("LLM", "LLMActionResult", "create_llm"),
    "models": (
        "DEFAULT_REDACTION_POLICY",
        "AgentCapabilities",
        "AgentCard",
        "AgentInterface",
        "AgentSkill",
        "Artifact",
        "ConversationHistory",
        "LLMModelProfile",
        "Message",
        "Part",
        "RedactionPolicy",
        "RouteDecision",
        "Task",
        "TaskArtifactUpdateEvent",
        "TaskErrorEvent",
        "TaskLLMStreamEvent",
        "TaskProgressEvent",
        "TaskState",
        "TaskStatusUpdateEvent",
        "ToolCall",
        "ToolOutput",
    ),
    "runtime": (
        "ALL_RUN_REPORT_SECTIONS",
        "ActionAuthorization",
        "ActionAuthorizer",
        "ApprovalDecision",
        "ApprovalHandler",
        "ApprovalRequest",
        "BudgetDecision",
        "BudgetEnforcer",
        "BudgetPolicy",
        "BudgetUsage",
        "CancellationToken",
        "CapabilityPolicy",
        "ContextItem",
        "ContextManifest",
        "EventSink",
        "InMemoryEventSink",
        "Policy",
        "PolicyDecision",
        "PolicyEffect",
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
        "assert_budget_under",
        "assert_no_denied_actions",
        "assert_run_events",
        "assert_run_matches",
        "build_context_manifest",
        "collect_tool_evidence",
        "diff_run_reports",
        "normalize_run_report",
    ),
    "state": (
        "ConversationLimits",
        "HistoryCompactionRequest",
        "HistoryCompactionResult",
        "State",
        "StateOperationRequest",
        "StateOperationResult",
        "StoreState",
    ),
    "server": ("AgentServer",),
    "storage": ("RunReportRecord", "RunStore", "SQLiteRunStore", "TaskRecord"),
    "telemetry": ("LocalTraceTelemetry",),
    "tools": ("ProbeFinding", "Tool", "ToolExecution"),
    "transport": ("RetryPolicy", "RuntimeTransport", "Transport", "TransportConfig", "TransportLimits"),
}
_HOME_OF = by_name(_HOMES)

__all__ = ["__version__", *sorted(_HOME_OF)]

if TYPE_CHECKING:
    from .agents import *  # noqa: F403
    from .approvals import *  # noqa: F403
    from .client import *  # noqa: F403
    from .discovery import *  # noqa: F403
    from .errors import *  # noqa: F403
    from .group import *  # noqa: F403
    from .journal import *  # noqa: F403
    from .llms import *  # noqa: F403
    from .models import *  # noqa: F403
    from .runtime import *  # noqa: F403
    from .server import *  # noqa: F403
    from .state import *  # noqa: F403
    from .storage import *  # noqa: F403
    from .telemetry import *  # noqa: F403
    from .tools import *  # noqa: F403
    from .transport import *  # noqa: F403


__getattr__, __dir__ = loader(__name__, _HOME_OF, globals())
