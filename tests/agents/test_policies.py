"""Who may do what: the agent's policy, its ancestors', the context's permissions, and policies of the application."""

from __future__ import annotations

from typing import Any

import pytest
from agent_support import Mode, agent, call, codes, delegate, delegate_tool, infer, kinds, outcome, played, stream

from protolink import (
    ActionDeniedError,
    Agent,
    CapabilityPolicy,
    PolicyDecision,
    RunAction,
    RunContext,
    SubagentLimits,
    TaskState,
    Tool,
)
from protolink.journal import InMemoryDurableStore


class Acting:
    """A tool that notes when it ran."""

    def __init__(self) -> None:
        self.ran: list[str] = []

    def tool(self, name: str = "act", capability: str = "records.write") -> Tool:
        return Tool.from_callable(lambda: self.ran.append(name), name=name, capabilities=[capability])


class Custom:
    """A policy of the application's own: any object with an async ``evaluate``."""

    def __init__(self, effect: Any = "allow", error: BaseException | None = None, answer: Any = None) -> None:
        self.effect = effect
        self.error = error
        self.answer = answer
        self.seen: list[tuple[RunAction, RunContext]] = []

    async def evaluate(self, action: RunAction, context: RunContext) -> Any:
        self.seen.append((action, context))
        if self.error is not None:
            raise self.error
        return self.answer or PolicyDecision(self.effect, "because", "custom")


@pytest.mark.claim("POL-008", "POL-014", "INT-005", "INT-018")
async def test_denied_action_never_runs(mode: Mode) -> None:
    acting, task = Acting(), infer()
    found = mode.agent(call("act"), "never", tools=[acting.tool()], policy=CapabilityPolicy({"records.*": "deny"}))
    ran = await mode.run(found, task)
    assert acting.ran == []
    assert (task.state, codes(task)) == (TaskState.FAILED, ["action_denied"])
    if not mode.streamed:
        assert isinstance(ran.error, ActionDeniedError)
        assert ran.error.decision.matched_capabilities == ("records.write",)


@pytest.mark.claim("POL-011", "POL-008")
async def test_policy_of_the_application_sees_payload_and_context(mode: Mode) -> None:
    policy, task = Custom(), infer(context=RunContext(session_id="s", workspace_uri="file:///w"))

    def write(path: str, size: int = 1) -> str:
        return path

    await mode.run(mode.agent(call("write", path="a"), "done", tools=[write], policy=policy), task)
    assert task.get_output() == "done"
    [(action, context)] = policy.seen
    assert action.payload == {"arguments": {"path": "a", "size": 1}}
    assert (context.session_id, context.workspace_uri, context.run_id) == (
        "s",
        "file:///w",
        RunContext.from_task(task).run_id,
    )


@pytest.mark.claim("POL-011", "POL-014")
async def test_denial_by_the_application_s_policy_holds() -> None:
    acting = Acting()
    error = await outcome(agent(call("act"), tools=[acting.tool()], policy=Custom("deny")), infer())
    assert isinstance(error, ActionDeniedError)
    assert (str(error), error.decision.policy_name) == ("because", "custom")
    assert acting.ran == []


async def test_plain_function_may_evaluate_too() -> None:
    class Blocking:
        def evaluate(self, action: RunAction, context: RunContext) -> PolicyDecision:
            return PolicyDecision("deny", "blocking", "blocking")

    error = await outcome(agent(call("act"), tools=[Acting().tool()], policy=Blocking()), infer())
    assert isinstance(error, ActionDeniedError)


@pytest.mark.parametrize("durable", [False, True])
async def test_policy_that_raises_authorizes_nothing(durable: bool) -> None:
    acting, task = Acting(), infer()
    how = {"durability": InMemoryDurableStore()} if durable else {}
    found = agent(call("act"), "never", tools=[acting.tool()], policy=Custom(error=LookupError("down")), **how)
    error = await outcome(found, task)
    assert acting.ran == []
    if durable:
        assert (error, task.metadata["interruption"]["kind"]) == (None, "retry")
        assert task.metadata["interruption"]["request"]["code"] == "LookupError"
    else:
        assert isinstance(error, RuntimeError)
        assert isinstance(error.__cause__, LookupError)
        assert task.state is TaskState.FAILED


@pytest.mark.parametrize("answer", ["allow", 1, {"effect": "allow"}])
async def test_policy_that_returns_no_decision_authorizes_nothing(answer: Any) -> None:
    acting = Acting()
    error = await outcome(agent(call("act"), tools=[acting.tool()], policy=Custom(answer=answer)), infer())
    assert isinstance(error, RuntimeError)
    assert isinstance(error.__cause__, TypeError)
    assert acting.ran == []


@pytest.mark.claim("WRK-011", "INT-022")
@pytest.mark.parametrize("depth", [1, 2])
async def test_policy_of_every_ancestor_binds_the_child(depth: int) -> None:
    acting = Acting()
    below = agent(call("act"), "never", name="worker", tools=[acting.tool()])
    if depth == 2:
        below = agent(delegate("worker"), "never", name="middle", subagents=[below])
    policy = CapabilityPolicy({"records.write": "deny"})
    limits = SubagentLimits(max_depth=2)
    found = agent(delegate(below.name), "never", subagents=[below], policy=policy, subagent_limits=limits)
    task = infer()
    error = await outcome(found, task)
    assert isinstance(error, ActionDeniedError)
    assert error.action.name == "act"
    assert acting.ran == []
    assert task.state is TaskState.FAILED


async def test_child_cannot_allow_what_its_parent_denies_nor_the_other_way_round() -> None:
    for parent, child in (("deny", "allow"), ("allow", "deny")):
        acting = Acting()
        kid = agent(call("act"), name="kid", tools=[acting.tool()], policy=CapabilityPolicy({"records.write": child}))
        found = agent(delegate("kid"), subagents=[kid], policy=CapabilityPolicy({"records.write": parent}))
        assert isinstance(await outcome(found, infer()), ActionDeniedError)
        assert acting.ran == []


async def test_custom_ancestor_is_asked_about_the_child_s_actions() -> None:
    policy, acting = Custom(), Acting()
    kid = Agent(name="kid", tools=[acting.tool()], verbosity=0)
    found = agent(delegate_tool("kid", "act"), "done", subagents=[kid], policy=policy)
    assert await found.invoke("go") == "done"
    assert [(action.kind, action.name) for action, _ in policy.seen] == [("agent.call", "kid"), ("tool.call", "act")]
    assert acting.ran == ["act"]


async def test_delegation_itself_needs_permission() -> None:
    kid = agent("never", name="kid")
    found = agent(delegate("kid"), subagents=[kid], policy=CapabilityPolicy({"agent.delegate": "deny"}))
    error = await outcome(found, infer())
    assert isinstance(error, ActionDeniedError)
    assert error.action.kind == "agent.call"
    assert played(kid.llm) == 0


async def test_permissions_of_the_context_reach_the_children() -> None:
    acting = Acting()
    kid = agent(call("act"), name="kid", tools=[acting.tool()])
    found = agent(delegate("kid"), subagents=[kid])
    task = infer(context=RunContext(permissions={"records.write": "deny"}))
    assert isinstance(await outcome(found, task), ActionDeniedError)
    assert acting.ran == []


@pytest.mark.claim("CTX-021", "POL-010", "POL-004")
@pytest.mark.parametrize(
    ("configured", "permitted", "runs"),
    [("allow", "deny", False), ("deny", "allow", False), ("allow", "allow", True), ("allow", "ask", False)],
)
async def test_stricter_of_policy_and_permissions_counts(configured: str, permitted: str, runs: bool) -> None:
    acting = Acting()
    found = agent(call("act"), "done", tools=[acting.tool()], policy=CapabilityPolicy({"records.write": configured}))
    await outcome(found, infer(context=RunContext(permissions={"records.write": permitted})))
    assert bool(acting.ran) == runs


@pytest.mark.claim("CTX-021", "INT-008")
async def test_stricter_permissions_of_one_run_do_not_change_another() -> None:
    acting = Acting()
    found = agent(call("act"), "first", call("act"), tools=[acting.tool()])
    assert await found.invoke("go") == "first"
    with pytest.raises(ActionDeniedError):
        await found.invoke("go", context=RunContext(permissions={"records.*": False}))
    assert acting.ran == ["act"]


async def test_policy_may_be_changed_between_runs() -> None:
    acting = Acting()
    found = agent(call("act"), "first", call("act"), tools=[acting.tool()])
    assert await found.invoke("go") == "first"
    found.policy = CapabilityPolicy(default_effect="deny")
    with pytest.raises(ActionDeniedError):
        await found.invoke("go")


@pytest.mark.claim("EVT-040", "EVT-045")
async def test_decision_is_told_with_its_reason_and_rule() -> None:
    policy = CapabilityPolicy({"records.*": "deny"}, name="house rules")
    events = await stream(agent(call("act"), tools=[Acting().tool()], policy=policy), infer())
    decision = next(e for e in events if kinds([e]) == ["policy_decision"]).metadata["decision"]
    assert (decision["effect"], decision["policy_name"]) == ("deny", "house rules")
    assert decision["matched_capabilities"] == ["records.write"]
