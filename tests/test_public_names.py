"""The public names, written down: whoever adds, renames or drops one changes this list with it."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import protolink

SOURCE = Path(protolink.__file__).parents[1]

#: Every public package with its names; those of ``journal`` are public where protolink itself lists them.
NAMES = {
    package: names.split()
    for package, names in {
        "protolink": """
            __version__ ActionAuthorization ActionAuthorizer ActionDeniedError ActionPolicyError AdmissionError Agent
            AgentCapabilities AgentCard AgentClient AgentGroup AgentInterface AgentNotFoundError AgentServer
            AgentSkill ALL_RUN_REPORT_SECTIONS AnswerEvent ApprovalBroker ApprovalDecision ApprovalHandler
            ApprovalRecord ApprovalRequest ApprovalRequiredError ApprovalResolution ApprovalScope Artifact
            assert_budget_under assert_no_denied_actions assert_run_events assert_run_matches BudgetDecision
            BudgetEnforcer BudgetExceededError BudgetPolicy BudgetUsage build_context_manifest CancellationToken
            CapabilityPolicy CheckpointMismatchError collect_tool_evidence ContextItem ContextManifest
            ConversationHistory ConversationLimits create_llm current_request_context DEFAULT_REDACTION_POLICY
            diff_run_reports DurableExecutionError DurableStore EventSink GroupLimits HistoryCompactionRequest
            HistoryCompactionResult InferParseError InMemoryDurableStore InMemoryEventSink LLM LLMActionResult
            LLMModelProfile LocalTraceTelemetry Message normalize_run_report Part Policy PolicyDecision PolicyEffect
            PresentationEvent ProbeFinding ProtolinkError RedactionPolicy Registry RegistryClient request_context
            RetryPolicy RouteDecision RunAction RunBudget RunBusyError RunCheckpoint RunContext RunEvent RunHandle
            RunHandoff RunInterrupted RunInterruption RunManager RunRecorder RunReplay RunReport RunReportDiff
            RunReportDiffConfig RunReportDifference RunReportDifferenceKind RunReportRecord RunReportSection
            RunReportSource RunReportTolerance RunResult RunStore RuntimeTransport SQLiteDurableStore SQLiteRunStore
            State StateOperationRequest StateOperationResult StoreCorruptError StoreState StoreUnavailableError
            StreamGapError SubagentHandle SubagentLimitError SubagentLimits Task TaskAlreadyRunningError
            TaskArtifactUpdateEvent TaskCancellationError TaskCancellationRequest TaskErrorEvent TaskExecutionError
            TaskLLMStreamEvent TaskNotCancelableError TaskNotFoundError TaskProgressEvent TaskRecord TaskState
            TaskStatusUpdateEvent Tool ToolCall ToolCorrectionLimitError ToolEvidence ToolExecution ToolFailedError
            ToolOutput ToolRejectedError Transport TransportConfig TransportConnectionError TransportError
            TransportLimitError TransportLimits TransportProtocolError TransportRemoteError TransportTimeoutError
            UncertainExecutionError UserInputRequest UserInputResult
        """,
        "protolink.agents": """
            Agent AnswerEvent PresentationEvent RunHandle RunResult SubagentHandle SubagentLimits WorkerTool
            current_request_context request_context
        """,
        "protolink.approvals": """
            ApprovalBroker ApprovalRecord ApprovalResolution ApprovalScope ApprovalSubscription
        """,
        "protolink.cli": """
            main
        """,
        "protolink.client": """
            AgentClient AgentPeer SyncAgentClient
        """,
        "protolink.discovery": """
            Registry RegistryClient RegistryEntry
        """,
        "protolink.group": """
            AgentGroup GroupLimits
        """,
        "protolink.llms": """
            ActionParseError Call ConversationHistory LLM LLMActionResult LLMModelProfile LLMProvider MockLLM ModelTurn
            OpenAICompatibleLLM ProviderRefused ProviderUnavailable create_llm
        """,
        "protolink.models": """
            AGENT_ROLES AgentCapabilities AgentCard AgentInterface AgentSkill Artifact ConversationHistory
            DEFAULT_REDACTION_POLICY DEFAULT_SENSITIVE_KEYS HistoryMessage LLMModelProfile Message Part RedactionPolicy
            RouteDecision Task TaskArtifactUpdateEvent TaskErrorEvent TaskEvent TaskLLMStreamEvent TaskProgressEvent
            TaskState TaskStatusUpdateEvent ToolCall ToolOutput estimate_tokens new_id task_event_from_dict utc_now
        """,
        "protolink.runtime": """
            ALL_RUN_REPORT_SECTIONS ActionAuthorization ActionAuthorizer ApprovalDecision ApprovalHandler
            ApprovalHandlerLike ApprovalRequest BudgetDecision BudgetDecisionEffect BudgetEnforcer BudgetPolicy
            BudgetPolicyLike BudgetUsage CancellationToken CapabilityPolicy ContextItem ContextManifest EventSink
            InMemoryEventSink InterruptionKind Policy PolicyDecision PolicyEffect ProbeFinding RunAction RunBudget
            RunContext RunEvent RunHandoff RunInterruption RunRecorder RunReplay RunReport RunReportDiff
            RunReportDiffConfig RunReportDifference RunReportDifferenceKind RunReportSection RunReportSource
            RunReportTolerance
            TaskCancellationRequest ToolEvidence UserInputRequest UserInputResult UserInputStatus assert_budget_under
            assert_no_denied_actions assert_run_events assert_run_matches build_context_manifest collect_tool_evidence
            contract_differences diff_run_reports judge_budget normalize_run_report strictest
        """,
        "protolink.server": """
            AgentServer Served
        """,
        "protolink.storage": """
            InMemoryStorage RunReportRecord RunStore SQLiteRunStore SQLiteStorage Storage TaskRecord
        """,
        "protolink.telemetry": """
            LocalTraceRecorder LocalTraceTelemetry MultiTelemetry Telemetry TelemetryFeed
        """,
        "protolink.testing": """
            Crash CrashReport Effect EffectLog FakeClock FaultyStore Finding Outage ScriptedModel SimulatedCrash Theft
            UncertainAction crash_everywhere store_conformance
        """,
        "protolink.tools": """
            BaseTool PreparedTool ProbeFinding Tool ToolExecution as_tool ask_user_tool
        """,
        "protolink.tools.builtins": """
            AskUserTool ask_user_tool
        """,
        "protolink.tools.prepared": """
            PreparedTool ToolExecution
        """,
        "protolink.transport": """
            RequestSpec RetryPolicy RouteCall Routes RuntimeTransport Transport TransportCapabilities TransportConfig
            TransportLimits TransportMetrics WireTransport transport_for transport_name
        """,
    }.items()
}

#: What only an extra or a first use may load.
LATER = (
    "anthropic",
    "google.genai",
    "grpc",
    "httpx2",
    "jinja2",
    "jsonschema",
    "mcp",
    "openai",
    "opentelemetry",
    "psycopg",
    "pydantic",
    "rfc8785",
    "rich",
    "sse_starlette",
    "starlette",
    "typer",
    "uvicorn",
    "websockets",
    "yaml",
)
#: What the runtime itself stands on.
NEEDED = {"jsonschema", "pydantic", "rfc8785"}


def loaded_by(code: str) -> set[str]:
    """The modules that a new process has after running ``code``."""
    program = f"import sys; sys.path.insert(0, sys.argv[1])\n{code}\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program, str(SOURCE)], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


@pytest.mark.parametrize("package", NAMES)
class TestNames:
    def test_public_names_are_these(self, package: str) -> None:
        assert sorted(importlib.import_module(package).__all__) == sorted(NAMES[package])

    def test_no_name_is_listed_twice(self, package: str) -> None:
        listed = importlib.import_module(package).__all__
        assert len(listed) == len(set(listed))

    def test_each_name_leads_to_something(self, package: str) -> None:
        module = importlib.import_module(package)
        assert [name for name in NAMES[package] if getattr(module, name, None) is None] == []


def test_names_of_the_top_level_are_those_of_their_packages() -> None:
    homes = [importlib.import_module(f"protolink.{name}") for name in ("journal", "errors", "state")]
    homes += [importlib.import_module(package) for package in NAMES if package != "protolink"]
    strangers = [
        name
        for name in NAMES["protolink"]
        if name != "__version__" and not any(getattr(home, name, None) is getattr(protolink, name) for home in homes)
    ]
    assert strangers == []


def test_dir_shows_every_public_name() -> None:
    assert set(protolink.__all__) <= set(dir(protolink))


def test_unknown_name_is_an_attribute_error_that_names_it() -> None:
    with pytest.raises(AttributeError, match="'protolink' has no attribute 'Agnet'"):
        _ = protolink.Agnet


def test_importing_protolink_loads_nothing_but_its_loader() -> None:
    found = loaded_by("import protolink")
    assert {name for name in found if name.startswith("protolink")} == {
        "protolink",
        "protolink._lazy",
        "protolink._version",
    }
    assert found.isdisjoint(LATER)


def test_using_every_top_level_name_loads_no_optional_package() -> None:
    found = loaded_by("import protolink\nfor name in protolink.__all__: getattr(protolink, name)")
    assert "protolink.agents" in found
    assert found.isdisjoint(set(LATER) - NEEDED)
