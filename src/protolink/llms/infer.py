"""``LLM.infer``: the inference loop outside an agent. A run of one frame on the same driver that agents use."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ..drive.clock import SystemClock
from ..drive.driver import Driver
from ..drive.ending import failure
from ..drive.execution import ToolExecution
from ..drive.journal import KeepNothing
from ..drive.ports import InvalidArguments
from ..engine import facts as f
from ..engine.evolve import start
from ..engine.facts import Proposal, Record, Spec
from ..engine.ledger import Ledger
from ..engine.project import Event
from ..engine.state import Run
from ..models import Part, Task, TaskLLMStreamEvent
from ..models.ids import new_uuid
from ..models.turn import AGENT_CALL
from ..runtime import (
    ActionAuthorizer,
    BudgetEnforcer,
    BudgetPolicy,
    CancellationToken,
    CapabilityPolicy,
    PolicyDecision,
    RunAction,
    RunContext,
    RunEvent,
)

if TYPE_CHECKING:
    from .base import LLM

EventCallback = Callable[[dict[str, Any]], Awaitable[None]]
AgentCallback = Callable[..., Awaitable[Any]]


class Peers:
    """Delegations of a loop without children: the caller's callback carries them out."""

    name = AGENT_CALL
    read_only = False
    idempotent = False
    probe = None
    asks_user: Any = False

    def __init__(self, callback: AgentCallback, cards: Sequence[Any]) -> None:
        self._callback = callback
        self._names = frozenset(card.name for card in cards)

    def prepare(self, arguments: Mapping[str, Any], context: RunContext) -> RunAction:
        name = arguments.get("agent")
        if not isinstance(name, str) or (self._names and name not in self._names):
            known = ", ".join(sorted(self._names)) or "none"
            raise InvalidArguments(f"There is no agent '{name}'. Known agents: {known}", "unknown_agent")
        payload = {"type": AGENT_CALL, **arguments}
        return RunAction(kind="agent.call", name=name, payload=payload, capabilities=frozenset({"agent.delegate"}))

    async def call(self, execution: ToolExecution, tell: Callable[[RunEvent], None]) -> Any:
        payload = dict(execution.authorization.action.payload)
        return await self._callback(payload["agent"], payload.get("action"), payload)


class Loop:
    """The one agent of such a run; implements ``drive.ports.AgentPort``."""

    name = "llm"
    path = ""
    handles_itself = False
    children: Mapping[str, Any] = {}

    def __init__(
        self, llm: LLM, model: Any, tools: Mapping[str, Any], peers: Peers | None, gate: ActionAuthorizer
    ) -> None:
        self.model = model
        self.peers: Any = peers
        self.policy = self
        self.approver = gate.approval_handler
        self._policy = gate.policy
        self._tools = tools

    def judge(self, action: RunAction, context: RunContext) -> PolicyDecision | Awaitable[PolicyDecision]:
        if type(self._policy) is CapabilityPolicy:
            return self._policy.decide(action, context)
        return self._policy.evaluate(action, context)

    def tool(self, name: str) -> Any:
        return self._tools.get(name)

    def tool_names(self) -> Sequence[str]:
        return list(self._tools)

    def worker(self, name: str) -> None:
        return None

    def spec(self, frame: str, *, prompt: Any = None, call: Proposal | None = None, **more: Any) -> Spec:
        return Spec(
            frame,
            prompt=prompt,
            corrections=self.model.max_tool_corrections,
            misspeaks=self.model.max_parse_failures,
            provider=self.model.provider,
            model=self.model.model,
            **more,
        )


async def infer(
    llm: LLM,
    *,
    model: Any,
    query: str,
    tools: Mapping[str, Any],
    agent_callback: AgentCallback | None,
    agent_cards: Sequence[Any] | None,
    streaming: bool,
    event_callback: EventCallback | None,
    expose_tool_results: bool,
    action_authorizer: ActionAuthorizer | None,
    cancellation_token: CancellationToken | None,
    run_context: RunContext | None,
    budget_policy: Any,
    budget_enforcer: BudgetEnforcer | None,
) -> Part:
    """See ``LLM.infer``. ``model`` is the LLM's port, with prompt and declarations bound."""
    if not isinstance(query, str) or not query.strip():
        raise ValueError("query must be nonblank text")
    context = run_context or RunContext()
    if context.canceled:
        raise asyncio.CancelledError(context.cancel_reason or "the run was canceled")
    peers = Peers(agent_callback, agent_cards or ()) if agent_callback is not None else None
    loop = Loop(llm, model, tools, peers, action_authorizer or ActionAuthorizer())
    task = Task.create_infer(prompt=query)
    first = _first(context, loop.spec("part:0", prompt=query, expose=expose_tool_results))
    run = start(first, task)
    _share_budget(run, budget_policy, budget_enforcer)
    events: asyncio.Queue[Event | None] = asyncio.Queue()
    driver = Driver(
        run,
        KeepNothing(),
        {"": loop},
        context=context,
        clock=SystemClock(),
        token=cancellation_token,
        sinks=[events.put_nowait] if event_callback is not None else (),
        streaming=streaming,
    )
    driver.log.begin(first, [])
    await _watched(driver, events, event_callback)
    if budget_enforcer is not None:
        budget_enforcer.usage = run.ledger.usage(run.ledger.since or 0.0)
    if run.outcome == "canceled":
        raise asyncio.CancelledError(run.cancel.reason if run.cancel else None)
    if run.outcome != "completed":
        raise failure(run, task, driver.errors)
    return Part.infer_output(content=run.output)


def _first(context: RunContext, spec: Spec) -> Record:
    salt = new_uuid()[:23]
    agent = context.agent_chain[-1] if context.agent_chain else "llm"
    fact = f.RunStarted(context.run_id, agent, {}, (spec,), context.to_dict(), {}, False, salt)
    return Record(0, 1, SystemClock().now(), fact)


def _share_budget(run: Run, policy: Any, enforcer: BudgetEnforcer | None) -> None:
    """A caller's enforcer counts on; its limits and policy are the loop's."""
    run.policy = policy or (enforcer.policy if enforcer is not None else BudgetPolicy())
    if enforcer is not None:
        since = run.ledger.since
        run.ledger = Ledger(enforcer.budget)
        run.ledger.restore(enforcer.usage.to_dict())
        run.ledger.since = since


async def _watched(driver: Driver, events: asyncio.Queue[Event | None], callback: EventCallback | None) -> None:
    """Drive, and hand each event of the loop to the callback in order. An error of the callback is the caller's."""
    if callback is None:
        await driver.drive()
        return
    pump = asyncio.ensure_future(_pump(events, callback))
    try:
        await driver.drive()
    finally:
        events.put_nowait(None)
        await pump


async def _pump(events: asyncio.Queue[Event | None], callback: EventCallback) -> None:
    while (event := await events.get()) is not None:
        if isinstance(event, TaskLLMStreamEvent):
            told = {"type": event.llm_event_type, "step": event.step, **event.metadata}
            await callback(told if event.content is None else {**told, "content": event.content})
