"""Preparing a delegation: the call of another agent becomes an action of kind ``agent.call`` that opens a child frame.

A worker tool is the same with the target fixed by the application; it is resolved here, before policy sees anything.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ..engine import facts as f
from ..engine.facts import Proposal, Spec
from ..engine.state import Action, Frame
from ..models.ids import new_id
from ..models.turn import AGENT_CALL, Call
from ..runtime import RunAction
from .identity import duplicate, identified, is_repeat, repeat_key
from .outcome import Outcome, one
from .ports import AgentPort, InvalidArguments

if TYPE_CHECKING:
    from .driver import Driver

DELEGATE = frozenset({"agent.delegate"})


def prepare_delegation(
    driver: Driver, frame: Frame, action: Action, agent: AgentPort, worker: tuple[str, str | None] | None
) -> Outcome:
    """Check the request against the child it names, and describe what it would open."""
    try:
        wanted = request_of(action.call, worker)
        child = _child(agent, wanted)
        body = _checked(child, wanted, driver.context(frame))
    except InvalidArguments as error:
        return one(f.Refused(action.id, error.code, str(error)), error)
    key = repeat_key(Call("", AGENT_CALL, wanted))
    if is_repeat(frame, action, key):
        return one(duplicate(action))
    made = RunAction(kind="agent.call", name=child.name, payload=body, capabilities=DELEGATE)
    if child.handles_itself:
        return one(f.Prepared(action.id, identified(made, action), "peer", None, key))
    opens = action.opens or _opens(driver, frame, action, child, body)
    return one(f.Prepared(action.id, identified(made, action), "child", opens, key))


def request_of(call: Call, worker: tuple[str, str | None] | None) -> dict[str, Any]:
    """``{"agent", "action", ...}`` of a delegation, a worker tool's included. Raises InvalidArguments."""
    if worker is None:
        return dict(call.args)
    agent, tool = worker
    if tool is not None:
        return {"agent": agent, "action": "tool_call", "tool": tool, "args": call.args}
    if set(call.args) != {"task"}:
        raise InvalidArguments(f"'{call.tool}' takes exactly one argument, 'task'")
    return {"agent": agent, "action": "infer", "prompt": call.args["task"]}


def _child(agent: AgentPort, wanted: dict[str, Any]) -> AgentPort:
    name = wanted.get("agent")
    child = agent.children.get(name) if isinstance(name, str) else None
    if child is None:
        known = ", ".join(sorted(agent.children)) or "none"
        raise InvalidArguments(f"There is no agent '{name}'. Known agents: {known}", "unknown_agent")
    return child


def _checked(child: AgentPort, wanted: dict[str, Any], context: Any) -> dict[str, Any]:
    """The delegation as policy sees it, with arguments that the child's tool accepts."""
    if wanted.get("action") == "infer":
        prompt = wanted.get("prompt")
        if not isinstance(prompt, str) or not prompt.strip():
            raise InvalidArguments("The task for the agent must be nonblank text")
        return {"type": AGENT_CALL, "agent": child.name, "action": "infer", "prompt": prompt}
    if wanted.get("action") != "tool_call":
        raise InvalidArguments("The action of an agent_call must be 'infer' or 'tool_call'")
    name, args = wanted.get("tool"), wanted.get("args") or {}
    tool = child.tool(name) if isinstance(name, str) else None
    if tool is None or not isinstance(name, str):
        known = ", ".join(sorted(child.tool_names())) or "none"
        raise InvalidArguments(
            f"Agent '{child.name}' has no tool '{name}'. Known tools: {known}", "unknown_delegated_tool"
        )
    if not isinstance(args, dict):
        raise InvalidArguments("The args of an agent_call must be an object")
    validate = getattr(tool, "validate_args", None)
    if validate is not None:
        validate(args)
    return {"type": AGENT_CALL, "agent": child.name, "action": "tool_call", "tool": name, "args": args}


def _opens(driver: Driver, frame: Frame, action: Action, child: AgentPort, body: dict[str, Any]) -> Spec:
    run_id = new_id("run")
    context = driver.context(frame).child(run_id=run_id, agent_name=child.name)
    context.session_id = new_id("session")
    more: dict[str, Any] = {"run_id": run_id, "task_id": new_id("task"), "context": context.to_dict()}
    if body["action"] == "tool_call":
        proposal = Proposal(new_id("action"), Call("", body["tool"], body["args"]))
        return child.spec(run_id, call=proposal, **more)
    return child.spec(run_id, prompt=body["prompt"], **more)
