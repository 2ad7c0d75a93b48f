"""``admit``: the budget's gate, at the end of ``decide``.

Everything wanted in one pass is priced together, so children that start at once cannot overshoot together. What a limit
refuses becomes a BudgetDenied; what comes near one is preceded by one BudgetWarned for that limit and run tree. A
refusal is recorded only when nothing of its frame runs or was admitted before it, and no tool anywhere in the tree: the
tools that the budget still permits begin first, and what has begun keeps its result.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..runtime import BudgetDecision
from . import facts as f
from .commands import Ask, Authorize, CallModel, Command, Compose, Invoke, Prepare, Stage
from .ledger import NOTHING, Price
from .state import DEFAULT_STEPS, Frame, Run

_FREE = frozenset({Prepare, Authorize, Ask})
_STEP = Price(steps=1)
_TOOL = Price(tool_calls=1)


def admit(run: Run, wanted: Sequence[Command], now: float) -> Sequence[Command]:
    """The commands that the budget permits now, with the warnings and refusals that it has to record first."""
    if type(wanted[0]) in _FREE and (len(wanted) == 1 or _FREE.issuperset(map(type, wanted))):
        return wanted
    admitted: list[Command] = []
    spent, tools, opened = NOTHING, False, 0
    busy: set[str] = set()
    for command in wanted:
        cost = _cost(run, command)
        if cost is None:
            admitted.append(command)
            continue
        frame, price = cost
        total = _sum(spent, price)
        child = _child(run, command)
        verdict = _judge(run, frame, command, total, now, child, opened)
        if verdict is None:
            spent = total
            opened += child is not None
            busy.add(frame.id if frame else "")
            tools = tools or type(command) is Invoke
            admitted.append(command)
        elif type(verdict) is f.BudgetWarned:
            return [Stage(verdict)]
        elif frame is None or not (tools or frame.id in busy or _running(run, frame)):
            admitted.append(Stage(verdict))
    return admitted


def judge_reply(run: Run, frame: Frame, now: float) -> f.BudgetWarned | f.BudgetDenied | None:
    """What a model's reply turned out to cost: its output and its time are known only now."""
    if run.policy is None or not run.ledger.bounds_replies(run.policy):
        return None
    if run.ledger.far_from_limits(run.policy, now, NOTHING):
        return None
    return _verdict(frame.id, run.ledger.judge(run.policy, now, NOTHING))


def _cost(run: Run, command: Command) -> tuple[Frame | None, Price] | None:
    """What a command would spend, and the frame that a refusal would end (None before a part has one)."""
    kind = type(command)
    if kind in _FREE:
        return None
    if kind is Compose:
        return run.frames[command.frame], _STEP if command.attempt == 0 else NOTHING  # type: ignore[union-attr]
    if kind is CallModel:
        price = Price(int(command.attempt == 0), 1, 0, command.tokens)  # type: ignore[union-attr]
        return run.frames[command.frame], price  # type: ignore[union-attr]
    if kind is Invoke:
        action = run.actions[command.action]  # type: ignore[union-attr]
        return run.frames[action.frame], NOTHING if action.route in ("peer", "handler") else _TOOL
    return _cost_of_fact(run, command.fact)  # type: ignore[union-attr]


def _cost_of_fact(run: Run, fact: f.Fact) -> tuple[Frame | None, Price] | None:
    match fact:
        case f.Asked(kind="input"):
            return run.frames[fact.frame], _TOOL
        case f.FrameOpened():
            spec = run.parts[fact.part] if fact.part is not None else fact.spec
            price = _STEP if spec is not None and spec.call is not None else NOTHING
            return (run.frames[run.actions[fact.parent].frame] if fact.parent else None), price
        case _:
            return None


def _judge(
    run: Run, frame: Frame | None, command: Command, price: Price, now: float, child: str | None, opened: int
) -> f.BudgetWarned | f.BudgetDenied | None:
    name = frame.id if frame else ""
    over = None
    if type(command) is Compose and frame is not None:
        over = _too_many_turns(run, frame, command, now)
    elif child is not None:
        over = _too_many_children(run, child, opened)
    if over is not None:
        return f.BudgetDenied(name, over)
    ledger = run.ledger
    if not ledger.limited or run.policy is None or ledger.far_from_limits(run.policy, now, price):
        return None
    return _verdict(name, ledger.judge(run.policy, now, price))


def _verdict(frame: str, decision: BudgetDecision) -> f.BudgetWarned | f.BudgetDenied | None:
    if not decision.allowed:
        return f.BudgetDenied(frame, decision.to_dict())
    if decision.effect == "warn" and decision.limit_name is not None:
        return f.BudgetWarned(frame, decision.to_dict())
    return None


def _too_many_turns(run: Run, frame: Frame, command: Compose, now: float) -> dict[str, Any] | None:
    """The default bound of an inference loop, where no ``max_steps`` is set."""
    if run.ledger.budget.max_steps is not None or command.attempt or frame.turn < DEFAULT_STEPS:
        return None
    return BudgetDecision(
        effect="deny",
        limit_name="max_steps",
        observed=frame.turn + 1,
        limit=DEFAULT_STEPS,
        message=f"Maximum inference steps ({DEFAULT_STEPS}) exceeded",
        usage=run.ledger.usage(now),
        metadata={"default": True},
    ).to_dict()


def _child(run: Run, command: Command) -> str | None:
    """The path of the child that the command would start, if it would."""
    if type(command) is Invoke:
        action = run.actions[command.action]
        if action.route == "handler" and action.prepared is not None:
            return f"{run.frames[action.frame].spec.agent}/{action.prepared.name}".removeprefix("/")
    elif type(command) is Stage and type(command.fact) is f.FrameOpened and command.fact.spec is not None:
        return command.fact.spec.agent
    return None


def _too_many_children(run: Run, child: str, opened: int) -> dict[str, Any] | None:
    found = _child_limit(run, child, opened)
    if found is None:
        return None
    name, limit, observed, message = found
    return BudgetDecision(
        effect="deny", limit_name=name, observed=observed, limit=limit, message=message, metadata={"subagents": True}
    ).to_dict()


def _child_limit(run: Run, child: str, opened: int) -> tuple[str, int, int, str] | None:
    """``opened``: children admitted in the same pass. Too many at once wait for others of their turn to end; when no
    other of it runs, nobody else will make room for certain, so the call fails at once (see ``admit``).
    """
    above = run.limits.get("above", 0)
    depth = above + child.count("/") + 1
    most, deepest, at_once = (run.limits.get(name) for name in ("max_children", "max_depth", "max_concurrency"))
    children = run.children + opened + 1
    if deepest is not None and depth > deepest:
        return "max_depth", deepest, depth, f"Subagent nesting depth exceeded: {depth} > {deepest}"
    if most is not None and children > most:
        return "max_children", most, children, f"Subagent count exceeded: {children} > {most}"
    active = above + sum(_active_children(run, frame) for frame in run.open.values()) + opened + 1
    if at_once is not None and active > at_once:
        return "max_concurrency", at_once, active, f"Too many subagents at once: {active} > {at_once}"
    return None


def _active_children(run: Run, frame: Frame) -> int:
    """How many children are at work by this frame: itself, if it is one, and those that it called with own handlers."""
    handled = sum(
        run.actions[key].route == "handler" and run.actions[key].state == "executing" for key in frame.actions
    )
    return handled + (frame.parent is not None and not run.waits(frame))


def _running(run: Run, frame: Frame) -> bool:
    return any(run.actions[key].state in ("executing", "delegated") for key in frame.actions)


def _sum(a: Price, b: Price) -> Price:
    if a is NOTHING:
        return b
    return Price(
        a.steps + b.steps, a.llm_calls + b.llm_calls, a.tool_calls + b.tool_calls, a.input_tokens + b.input_tokens
    )
