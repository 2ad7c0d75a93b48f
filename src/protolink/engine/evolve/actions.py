"""What facts about one action do, from its preparation to its receipt."""

from __future__ import annotations

from ...models import Artifact
from ...runtime import PolicyEffect, contract_differences
from .. import facts as f
from ..state import Run
from .settle import current, deny, executing, fail, never_done, not_done, reject, rejection, settle, succeed


def prepared(run: Run, fact: f.Prepared, at: float) -> None:
    action = current(run, fact.action)
    if action is None or action.state != "proposed":
        return
    if action.prepared is not None:
        action.changed = contract_differences(action.prepared, fact.prepared) or None
    if action.changed:
        paths = ", ".join(action.changed)
        fault = {"code": "prepared_action_changed", "message": f"'{fact.prepared.name}' is not what it was: {paths}"}
        fail(run, action, {**fault, "action_id": action.id, "paths": action.changed})
        return
    action.prepared = action.prepared or fact.prepared
    action.route, action.opens, action.question = fact.route, fact.opens, action.question or fact.question
    action.key, action.read_only, action.idempotent = fact.key, fact.read_only, fact.idempotent
    action.expires = action.expires or fact.expires
    action.state = "prepared"


def refused(run: Run, fact: f.Refused, at: float) -> bool:
    action = current(run, fact.action)
    if action is None or action.state != "proposed":
        return False
    action.counted = fact.counts
    if fact.ends:
        frame = run.frames[action.frame]
        frame.fault = frame.fault or {"code": fact.code, "message": fact.message, "action_id": action.id}
    reject(run, action, rejection(fact), counts=fact.counts)
    return True


def preparation_failed(run: Run, fact: f.PreparationFailed, at: float) -> None:
    action = current(run, fact.action)
    if action is None or action.state not in ("proposed", "prepared", "asked"):
        return
    action.state = "proposed"
    frame = run.frames[action.frame]
    frame.down = {"code": fact.code, "message": fact.message, "transient": False, "action_id": action.id}


def decided(run: Run, fact: f.Decided, at: float) -> bool:
    action = current(run, fact.action)
    if action is None or action.state != "prepared":
        return False
    action.decision = fact.decision
    effect = fact.decision.effect
    if effect is PolicyEffect.DENY:
        deny(run, action, fact.decision.reason)
        return True
    if effect is PolicyEffect.ALLOW or action.approved is not None:
        action.state = "authorized"
    else:
        action.request, action.request_at, action.state = fact.request, fact.created_at, "asking"
        action.expires = fact.expires if fact.expires is not None else action.expires
    return False


def tool_started(run: Run, fact: f.ToolStarted, at: float) -> bool:
    action = run.actions[fact.action]
    action.state, action.started_at = "executing", at
    run.frames[action.frame].recent.append(action.key)
    if action.route == "handler":
        run.ledger.children += 1
    elif action.route != "peer":
        run.ledger.tool_calls += 1
    return True


def tool_returned(run: Run, fact: f.ToolReturned, at: float) -> bool:
    action = executing(run, fact.action)
    if action is None:
        return False
    succeed(run, action, fact.result)
    return True


def tool_rejected(run: Run, fact: f.ToolRejected, at: float) -> bool:
    action = executing(run, fact.action)
    if action is None:
        return False
    reject(run, action, rejection(fact), counts=True)
    return True


def tool_failed(run: Run, fact: f.ToolFailed, at: float) -> bool:
    action = executing(run, fact.action)
    if action is None:
        return False
    if fact.code == "canceled" and (run.cancel is not None or run.abandoned(run.frames[action.frame])):
        action.error = {"code": "canceled", "message": fact.message}
        settle(run, action, "canceled")
    else:
        name = action.prepared.name if action.prepared else action.call.tool
        fail(run, action, {"code": fact.code, "message": fact.message, "tool": name, "action_id": action.id})
    return True


def effect_unknown(run: Run, fact: f.EffectUnknown, at: float) -> bool:
    action = executing(run, fact.action)
    if action is None:
        return False
    action.state = "uncertain"
    action.error = {"code": fact.code, "message": fact.message}
    run.uncertain.add(action.id)
    return True


def reconciled(run: Run, fact: f.Reconciled, at: float) -> bool:
    action = run.actions[fact.action]
    run.uncertain.discard(action.id)
    action.reconciled, action.error = True, None
    if fact.unchanged is None:
        succeed(run, action, fact.result)
        return True
    action.counted = False  # it was not the model's fault
    never_done(run.frames[action.frame], action)
    reject(run, action, rejection(not_done(fact)), counts=False)
    return True


def rerun_allowed(run: Run, fact: f.RerunAllowed, at: float) -> None:
    action = run.actions[fact.action]
    run.uncertain.discard(action.id)
    action.state, action.error = "proposed", None


def emitted(run: Run, fact: f.Emitted, at: float) -> bool:
    """Progress changes nothing."""
    return True


def relayed(run: Run, fact: f.Relayed, at: float) -> bool:
    """What a peer produced is its caller's too."""
    kind = str(fact.event["type"])
    if kind == "task.artifact":
        scope = run.scope(run.frames[run.actions[fact.action].frame])
        scope.task.add_artifact(Artifact.from_dict(fact.event["payload"]["artifact"]))
    return kind.startswith("action.")
