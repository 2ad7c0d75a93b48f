"""Preparing a delegation: the call of another agent becomes an action of kind ``agent.call`` that opens a child frame.

A worker tool is the same with the target fixed by the application; it is resolved here, before policy sees anything.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

from ..engine import facts as f
from ..engine.facts import Proposal, Spec
from ..engine.state import Action, Frame
from ..models.ids import new_id
from ..models.turn import AGENT_CALL, Call
from ..runtime import RunAction
from ..runtime.fields import detached
from .identity import duplicate, identified, is_repeat, repeat_key
from .outcome import Brought, because
from .ports import AgentPort, InvalidArguments

if TYPE_CHECKING:
    from .driver import Driver

DELEGATE = frozenset({"agent.delegate"})


def prepare_delegation(
    driver: Driver, frame: Frame, action: Action, agent: AgentPort, worker: tuple[str, str | None] | None
) -> Brought:
    """Check the request against the child it names, and describe what it would open."""
    try:
        wanted = request_of(action.call, worker)
        child = _child(agent, wanted)
        body = _checked(child, wanted)
    except InvalidArguments as error:
        return because(error, f.Refused(action.id, error.code, str(error)))
    key = repeat_key(Call("", AGENT_CALL, wanted))
    if is_repeat(frame, action, key):
        return duplicate(action)
    made = RunAction(kind="agent.call", name=child.name, payload=body, capabilities=DELEGATE)
    if child.handles_itself:
        return f.Prepared(action.id, identified(made, action), "handler", None, key)
    opens = action.opens or _opens(driver, frame, action, child, body)
    return f.Prepared(action.id, identified(made, action), "child", opens, key)


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


def _checked(child: AgentPort, wanted: dict[str, Any]) -> dict[str, Any]:
    """The delegation as policy sees it, with arguments that the child's tool accepts."""
    own = [name for name in child.tool_names() if child.tool(name) is not None]  # without the workers of its own
    body = delegation(child.name, wanted, own)
    if body["action"] == "tool_call":
        validate = getattr(child.tool(body["tool"]), "validate_args", None)
        if validate is not None:
            validate(body["args"])
    return body


def delegation(name: str, wanted: Mapping[str, Any], tools: Collection[str]) -> dict[str, Any]:
    """What is asked of the agent ``name``, which offers ``tools``. InvalidArguments for what cannot be asked."""
    if wanted.get("action") == "infer":
        prompt = wanted.get("prompt")
        if not isinstance(prompt, str) or not prompt.strip():
            raise InvalidArguments("The task for the agent must be nonblank text")
        return {"type": AGENT_CALL, "agent": name, "action": "infer", "prompt": prompt}
    if wanted.get("action") != "tool_call":
        raise InvalidArguments("The action of an agent_call must be 'infer' or 'tool_call'")
    tool, args = wanted.get("tool"), wanted.get("args") or {}
    if not isinstance(tool, str) or tool not in tools:
        known = ", ".join(sorted(tools)) or "none"
        raise InvalidArguments(f"Agent '{name}' has no tool '{tool}'. Known tools: {known}", "unknown_delegated_tool")
    if not isinstance(args, dict):
        raise InvalidArguments("The args of an agent_call must be an object")
    return {"type": AGENT_CALL, "agent": name, "action": "tool_call", "tool": tool, "args": args}


def _opens(driver: Driver, frame: Frame, action: Action, child: AgentPort, body: dict[str, Any]) -> Spec:
    run_id = new_id("run")
    context = driver.context(frame).child(run_id=run_id, agent_name=child.name)
    context.session_id = new_id("session")
    more: dict[str, Any] = {"run_id": run_id, "task_id": new_id("task"), "context": detached(context.to_dict())}
    if body["action"] == "tool_call":
        proposal = Proposal(new_id("action"), Call("", body["tool"], body["args"]))
        return child.spec(run_id, call=proposal, **more)
    return child.spec(run_id, prompt=body["prompt"], **more)
