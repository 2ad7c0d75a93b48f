"""Events of a model's turn."""

from __future__ import annotations

from typing import Any

from ...models.turn import AGENT_CALL
from ...runtime import ContextItem, ContextManifest
from .. import facts as f
from ..ledger import Price
from ..state import TRANSIENT_ATTEMPTS, Frame, Run
from .story import Story


def composed(run: Run, fact: f.Composed, story: Story, at: float) -> None:
    frame = run.open.get(fact.frame)
    if frame is None:
        return
    if fact.attempt == 0:
        story.tell(frame, "llm_step", {})
    manifest = manifest_of(run, frame, fact, story.at)
    window = fact.window
    used = manifest["total_estimated_tokens"]
    context = {
        "used_tokens": used,
        "window_tokens": window,
        "used_percent": round(100 * used / window, 2) if window else None,
        "available_tokens": window - used if window else None,
        "estimated": True,
    }
    about = {"provider": frame.spec.provider, "model": frame.spec.model}
    story.tell(frame, "context_prepared", {"manifest": manifest})
    story.tell(frame, "llm_context", {"manifest": manifest, "context": context, **about})


def manifest_of(run: Run, frame: Frame, fact: f.Composed, at: str) -> dict[str, Any]:
    scope = run.scope(frame)
    system, tools, history, user = fact.tokens
    names = ("system", "tool_prompt", "history", "user")
    return ContextManifest(
        run_id=scope.run_id,
        session_id=scope.context.get("session_id"),
        agent_name=scope.agent,
        provider=frame.spec.provider,
        model=frame.spec.model,
        system_tokens=system,
        tool_prompt_tokens=tools,
        history_tokens=history,
        user_tokens=user,
        context_items=tuple(ContextItem(n, n, t) for n, t in zip(names, fact.tokens, strict=True)),
        total_estimated_tokens=sum(fact.tokens),
        context_window=fact.window,
        created_at=at,
    ).to_dict()


def model_started(run: Run, fact: f.ModelStarted, story: Story, at: float) -> None:
    frame = run.frames[fact.frame]
    payload = {
        "attempt": fact.attempt + 1,
        "provider": frame.spec.provider,
        "model": frame.spec.model,
        "streaming": fact.streaming,
        "input_tokens": fact.tokens,
    }
    story.tell(frame, "llm_call_started", payload)


def model_replied(run: Run, fact: f.ModelReplied, story: Story, at: float) -> None:
    frame = run.open.get(fact.frame)
    if frame is None:
        return
    call_ended(run, frame, fact, story)
    for proposal in fact.calls:
        call = proposal.call
        kind = AGENT_CALL if call.tool == AGENT_CALL else "tool_call"
        body = call.args if kind == AGENT_CALL else {"tool": call.tool, "args": call.args}
        payload = {"action": kind, "payload": {"type": kind, **body}, "action_id": proposal.action}
        story.tell(frame, "llm_action", payload)
    if not fact.calls:
        story.tell(frame, "llm_action", {"action": "final", "payload": {"type": "final", "content": fact.text}})


def model_misspoke(run: Run, fact: f.ModelMisspoke, story: Story, at: float) -> None:
    frame = run.open.get(fact.frame)
    if frame is None:
        return
    call_ended(run, frame, fact, story)
    failures = frame.misspeaks + 1
    recoverable = failures < frame.spec.misspeaks
    payload = {
        "message": fact.error,
        "parse_failures": failures,
        "retry_count": failures,
        "recoverable": recoverable,
    }
    story.tell(frame, "llm_parse_error", payload)


def call_ended(run: Run, frame: Frame, fact: f.ModelReplied | f.ModelMisspoke, story: Story) -> None:
    used, window = sum(frame.tokens), frame.window
    usage = {
        "input_tokens": fact.input_tokens,
        "output_tokens": fact.output_tokens,
        "total_tokens": fact.input_tokens + fact.output_tokens,
        "estimated": fact.metrics.get("estimated", True),
        "source": "estimate" if fact.metrics.get("estimated", True) else "provider",
        "details": {},
    }
    metrics = {
        "step": frame.turn + 1,
        "provider": frame.spec.provider,
        "model": frame.spec.model,
        "latency_ms": fact.latency_ms,
        "usage": usage,
        "context": {
            "used_tokens": used,
            "window_tokens": window,
            "used_percent": round(100 * used / window, 2) if window else None,
            "available_tokens": window - used if window else None,
            "estimated": True,
        },
        "cost": fact.metrics.get("cost"),
        "streaming": fact.metrics.get("streaming", False),
        "native": fact.native,
    }
    attempts = frame.attempt + 1
    shape = {"streaming": metrics["streaming"], "native": fact.native}
    usage_now = run.ledger.usage(0.0, Price(output_tokens=fact.output_tokens)).to_dict()
    story.tell(frame, "llm_call_metrics", metrics)
    completed = {"latency_ms": fact.latency_ms, "attempts": attempts, **shape, "metrics": metrics, "budget": usage_now}
    story.tell(frame, "llm_call_completed", completed)
    detail = {"attempts": attempts, "retry_attempts": attempts - 1, "metrics": metrics}
    story.tell(frame, "llm_response", {**shape, "metadata": detail, "metrics": metrics})


def model_failed(run: Run, fact: f.ModelFailed, story: Story, at: float) -> None:
    frame = run.open.get(fact.frame)
    if frame is None or fact.code == "canceled":
        return
    attempt = frame.attempt + 1
    if fact.transient:
        recoverable = frame.failures + 1 < TRANSIENT_ATTEMPTS
        detail = {"attempt": attempt, "error_type": fact.code, "message": fact.message}
        payload = {"reason": "transient_error", "recoverable": recoverable, "payload": detail, **detail}
        story.tell(frame, "llm_retry", payload)
    else:
        story.tell(frame, "llm_error", {"message": fact.message, "code": fact.code, "recoverable": run.durable})
