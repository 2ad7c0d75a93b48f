"""What the base package offers by itself: its names, and every way of running work without an optional package."""

from __future__ import annotations

import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import protolink

SOURCE = Path(protolink.__file__).parents[1]

#: Everything outside the standard library that no part of this needs.
OPTIONAL = (
    "anthropic google.genai grpc httpx httpx2 jinja2 mcp openai opentelemetry psycopg rich sse_starlette starlette "
    "typer uvicorn websockets yaml requests aiohttp"
)
#: What the two statements list, one after the other.
FIRST = """
    RunContext RunBudget CancellationToken CapabilityPolicy PolicyDecision ApprovalRequest RunEvent RunReport
    RunReportDiffConfig diff_run_reports
"""
SECOND = "Task ContextManifest BudgetPolicy BudgetEnforcer RunAction Artifact ApprovalDecision EventSink"

PROGRAM = '''
import asyncio, sys

class Refuse:
    """An environment in which nothing optional is installed."""
    def find_spec(self, name, path=None, target=None):
        if any(name == item or name.startswith(item + ".") for item in sys.argv[2].split()):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Refuse())
sys.path.insert(0, sys.argv[1])
from protolink import (
    Agent, AgentGroup, ApprovalBroker, ApprovalDecision, ApprovalScope, CapabilityPolicy, GroupLimits,
    RunBudget, RunContext, RunInterrupted, RunManager, Task, Tool,
)
from protolink.llms import MockLLM
from protolink.storage import SQLiteStorage
from protolink.tools import ask_user_tool

def act(): return "acted"

def call(tool, **args): return {"type": "tool_call", "tool": tool, "args": args}

def agent(*turns, **options):
    tools = [Tool.from_callable(act, capabilities=["act"]), ask_user_tool()]
    return Agent(name="a", llm=MockLLM(sequential_responses=list(turns)), tools=tools, verbosity=0, **options)

async def live(folder):
    broker = ApprovalBroker(storage=SQLiteStorage(folder + "/app.db", namespace="approvals"), timeout_seconds=60)
    asking = agent(call("act"), "done", policy=CapabilityPolicy({"act": "require_approval"}), approval_handler=broker)
    async with AgentGroup([asking], limits=GroupLimits(max_concurrent_runs=1)) as group:
        handle = group.run("a", Task.create_infer(prompt="go", budget=RunBudget(max_llm_calls=5)))
        scope = ApprovalScope({handle.context.run_id})
        async for record in broker.events(scope):
            decision = ApprovalDecision(True, record.request.request_id)
            broker.resolve(decision, scope=scope, fingerprint=record.fingerprint)
            break
        result = await handle.result()
    return result.output, [found.outcome for found in result.tool_evidence]

async def durable(folder):
    def made(*turns):
        return agent(*turns, durability=folder + "/runs.db")
    try:
        await made(call("ask_user", question="Which?")).invoke("go", context=RunContext(run_id="r"))
    except RunInterrupted as pause:
        request = pause.interruption.request_id
    answer = await made("thanks").resume("r", request_id=request, answer="CSV")
    return answer, RunManager(made()).inspect("r")["status"]

async def children():
    kid = Agent(name="kid", llm=MockLLM(sequential_responses=["kid"]), verbosity=0)
    ask = {"type": "agent_call", "agent": "kid", "action": "infer", "prompt": "do it"}
    return await agent(ask, "done", subagents=[kid], subagent_limits=None).invoke("go")

print(asyncio.run(live(sys.argv[3])), asyncio.run(durable(sys.argv[3])), asyncio.run(children()))
'''


@pytest.mark.claim("INT-023")
def test_execution_needs_no_optional_package(tmp_path: Path) -> None:
    """Budgets, policies, approvals, groups, pauses, questions and children, with everything optional missing."""
    command = [sys.executable, "-c", PROGRAM, str(SOURCE), OPTIONAL, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "('done', ['completed']) ('thanks', 'completed') done"


@pytest.mark.claim("INT-002", "INT-003")
@pytest.mark.parametrize("name", [*FIRST.split(), *SECOND.split()])
def test_runtime_primitive_is_importable_from_the_top(name: str) -> None:
    found = getattr(importlib.import_module("protolink"), name)
    assert callable(found)
    assert found.__name__ == name
    assert name in protolink.__all__
