"""Limits of a run, what it has used, and the comparison of the two.

Nothing here counts: counting is the enforcer's work, or the engine's ledger's. ``BudgetPolicy`` is stateless, so "one
warning for each limit" is told to it from outside, by the names of the limits that have warned already.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import field, fields
from typing import Any, Literal, Protocol

from protolink.models.ids import utc_now
from protolink.models.shape import mapping, optional_text, table

from ..models.value import dataclass
from .fields import number, number_or_zero, text_or

BudgetDecisionEffect = Literal["allow", "warn", "deny", "compact", "truncate", "require_approval"]

# The order decides which limit is named when several are exceeded at once.
LIMITS: tuple[tuple[str, str], ...] = (
    ("max_steps", "steps"),
    ("max_llm_calls", "llm_calls"),
    ("max_tool_calls", "tool_calls"),
    ("max_runtime_seconds", "runtime_seconds"),
    ("max_input_tokens", "input_tokens"),
    ("max_output_tokens", "output_tokens"),
)


@dataclass(slots=True)
class RunBudget:
    """The limits of one run; None means unlimited. Values are compared literally, negative ones too."""

    max_steps: int | None = None
    max_llm_calls: int | None = None
    max_tool_calls: int | None = None
    max_runtime_seconds: float | None = None
    max_input_tokens: int | None = None
    max_output_tokens: int | None = None
    metadata: dict[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """All fields; ``metadata`` copied at the top level."""
        return {name: getattr(self, name) for name, _ in LIMITS} | {"metadata": dict(self.metadata)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any] | None) -> RunBudget:
        """Read a mapping or None. Unknown members are kept in ``metadata``.

        TypeError or ValueError for a limit that is no finite number.
        """
        if data is None:
            return cls()
        source = mapping(data, "RunBudget")
        known = {name for name, _ in LIMITS} | {"metadata"}
        unknown = {key: value for key, value in source.items() if key not in known}
        return cls(
            max_steps=number(source, "max_steps", "RunBudget", int),
            max_llm_calls=number(source, "max_llm_calls", "RunBudget", int),
            max_tool_calls=number(source, "max_tool_calls", "RunBudget", int),
            max_runtime_seconds=number(source, "max_runtime_seconds", "RunBudget", float),
            max_input_tokens=number(source, "max_input_tokens", "RunBudget", int),
            max_output_tokens=number(source, "max_output_tokens", "RunBudget", int),
            metadata=unknown | table(source, "metadata", "RunBudget"),
        )


@dataclass(frozen=True, slots=True)
class BudgetUsage:
    """What a run has used so far. Tokens are sums over all calls; ``runtime_seconds`` is elapsed time."""

    steps: int = 0
    llm_calls: int = 0
    tool_calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    runtime_seconds: float = 0.0
    metadata: dict[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """All fields; ``metadata`` copied at the top level."""
        found = {item.name: getattr(self, item.name) for item in fields(self)}
        return found | {"metadata": dict(self.metadata)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any] | None) -> BudgetUsage:
        """Read a mapping or None. A count that is malformed or negative becomes zero."""
        if data is None:
            return cls()
        source = mapping(data, "BudgetUsage")
        return cls(
            steps=number_or_zero(source, "steps", int),
            llm_calls=number_or_zero(source, "llm_calls", int),
            tool_calls=number_or_zero(source, "tool_calls", int),
            input_tokens=number_or_zero(source, "input_tokens", int),
            output_tokens=number_or_zero(source, "output_tokens", int),
            runtime_seconds=number_or_zero(source, "runtime_seconds", float),
            metadata=table(source, "metadata", "BudgetUsage"),
        )


@dataclass(frozen=True, slots=True)
class BudgetDecision:
    """What a budget policy says about a usage. ``limit_name`` is the RunBudget field that decided.

    ``observed`` is the current or projected value; ``usage`` the whole snapshot that was judged.
    """

    effect: BudgetDecisionEffect = "allow"
    limit_name: str | None = None
    observed: int | float | None = None
    limit: int | float | None = None
    message: str | None = None
    usage: BudgetUsage | None = None
    metadata: dict[str, Any] = field(default_factory=dict)
    timestamp: str = field(default_factory=utc_now)

    @property
    def allowed(self) -> bool:
        """True for "allow" and "warn" only; the other effects need an application that carries them out."""
        return self.effect in ("allow", "warn")

    def to_dict(self) -> dict[str, Any]:
        """All fields, ``usage`` as a nested mapping or None."""
        found = {item.name: getattr(self, item.name) for item in fields(self)}
        usage = self.usage.to_dict() if self.usage is not None else None
        return found | {"usage": usage, "metadata": dict(self.metadata)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> BudgetDecision:
        """Read ``to_dict()`` back. A missing effect is a denial; ValueError for an unknown one."""
        source = mapping(data, "BudgetDecision")
        usage = source.get("usage")
        return cls(
            effect=_effect(optional_text(source, "effect", "BudgetDecision")),
            limit_name=optional_text(source, "limit_name", "BudgetDecision"),
            observed=number(source, "observed", "BudgetDecision", _int_or_float),
            limit=number(source, "limit", "BudgetDecision", _int_or_float),
            message=optional_text(source, "message", "BudgetDecision"),
            usage=BudgetUsage.from_dict(usage) if usage is not None else None,
            metadata=table(source, "metadata", "BudgetDecision"),
            timestamp=text_or(source, "timestamp", "BudgetDecision", utc_now),
        )

    @classmethod
    def allow(cls, usage: BudgetUsage) -> BudgetDecision:
        """The standard decision that lets the work go on."""
        return cls(usage=usage)


class BudgetPolicyLike(Protocol):
    """Any object with ``evaluate(budget, usage)`` can judge a budget. It must not count anything itself."""

    def evaluate(self, budget: RunBudget, usage: BudgetUsage) -> BudgetDecision: ...


class BudgetPolicy:
    """Compares usage with the limits: above a limit is denied, equal is allowed, near is a warning.

    ``warning_ratio`` is the fraction of a positive limit from which on it warns; 0 disables warnings. Negative values
    and NaN raise ValueError.
    """

    def __init__(self, *, warning_ratio: float = 0.8) -> None:
        if not warning_ratio >= 0:
            raise ValueError("BudgetPolicy warning_ratio must be zero or positive")
        self.warning_ratio = warning_ratio

    def evaluate(self, budget: RunBudget, usage: BudgetUsage, *, warned: Collection[str] = ()) -> BudgetDecision:
        """The first denial, else the first warning of a limit that is not in ``warned``, else allow."""
        warning: _Reading | None = None
        for reading in _readings(budget, usage):
            if reading[1] > reading[2]:
                return _decision("deny", reading, usage)
            if warning is None and reading[0] not in warned and self._is_near(reading):
                warning = reading
        return _decision("warn", warning, usage) if warning is not None else BudgetDecision.allow(usage)

    def near_limits(self, budget: RunBudget, usage: BudgetUsage) -> tuple[str, ...]:
        """Names of all limits that warn or are exceeded at this usage, whether they have warned before or not."""
        return tuple(reading[0] for reading in _readings(budget, usage) if self._is_near(reading))

    def _is_near(self, reading: _Reading) -> bool:
        _, observed, limit = reading
        return self.warning_ratio > 0 and limit > 0 and observed >= limit * self.warning_ratio


def judge_budget(
    policy: BudgetPolicyLike, budget: RunBudget, usage: BudgetUsage, warned: Collection[str] = ()
) -> BudgetDecision:
    """Ask any budget policy, keeping limits silent that are in ``warned``. TypeError when it returns no decision.

    The built-in comparison gets ``warned``, because the warning of one limit must not hide that of the next. A policy
    of the application does not know it: a repeated warning of its is turned into an allow.
    """
    if getattr(policy.evaluate, "__func__", None) is BudgetPolicy.evaluate and isinstance(policy, BudgetPolicy):
        return policy.evaluate(budget, usage, warned=warned)
    decision = policy.evaluate(budget, usage)
    if not isinstance(decision, BudgetDecision):
        raise TypeError(f"{type(policy).__name__}.evaluate must return a BudgetDecision, not {type(decision).__name__}")
    if decision.effect == "warn" and decision.limit_name in warned:
        return BudgetDecision.allow(usage)
    return decision


_Reading = tuple[str, int | float, int | float]  # limit name, observed, limit


def _readings(budget: RunBudget, usage: BudgetUsage) -> Iterator[_Reading]:
    for limit_name, counter in LIMITS:
        limit = getattr(budget, limit_name)
        if limit is not None:
            yield limit_name, getattr(usage, counter), limit


def _decision(effect: Literal["warn", "deny"], reading: _Reading, usage: BudgetUsage) -> BudgetDecision:
    name, observed, limit = reading
    if effect == "deny":
        message = f"Run budget exceeded: {name} {_shown(observed)} > {_shown(limit)}"
    else:
        message = f"Run budget nearly used up: {name} {_shown(observed)} of {_shown(limit)}"
    return BudgetDecision(effect, name, observed, limit, message, usage)


def _shown(value: int | float) -> int | float:
    return round(value, 3) if isinstance(value, float) else value


def _effect(value: str | None) -> BudgetDecisionEffect:
    match value:
        case None:
            return "deny"
        case "allow" | "warn" | "deny" | "compact" | "truncate" | "require_approval":
            return value
        case _:
            raise ValueError("BudgetDecision 'effect' is not a known effect")


def _int_or_float(value: Any) -> float:
    return value if isinstance(value, int) else float(value)
