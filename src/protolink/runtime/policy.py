"""May this action run? Rules by capability, and the contract of policies that judge more than capabilities.

Whatever is combined, the strictest wins: deny over require_approval over allow. So a context can narrow what the
agent's policy grants and never widen it.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field
from enum import Enum
from typing import Any, Protocol

from protolink.models.shape import mapping, table, texts

from ..models.value import dataclass
from .action import RunAction
from .context import RunContext
from .fields import text_or


class PolicyEffect(str, Enum):  # noqa: UP042 - a published base: StrEnum would change str() and format()
    """What a policy says."""

    ALLOW = "allow"
    DENY = "deny"
    REQUIRE_APPROVAL = "require_approval"


_STRICTNESS = {PolicyEffect.ALLOW: 0, PolicyEffect.REQUIRE_APPROVAL: 1, PolicyEffect.DENY: 2}
_SPELLINGS = {
    "allow": PolicyEffect.ALLOW,
    "allowed": PolicyEffect.ALLOW,
    "deny": PolicyEffect.DENY,
    "denied": PolicyEffect.DENY,
    "approval": PolicyEffect.REQUIRE_APPROVAL,
    "approve": PolicyEffect.REQUIRE_APPROVAL,
    "ask": PolicyEffect.REQUIRE_APPROVAL,
    "require_approval": PolicyEffect.REQUIRE_APPROVAL,
}
_EFFECT_KEYS = ("effect", "decision", "mode")
_NO_REASON = "No decision was recorded"


def coerce_effect(value: Any) -> PolicyEffect:
    """The effect that a rule value means: an effect, one of its spellings, a boolean, or a mapping that holds one.

    A mapping without effect, decision or mode is a scoped grant and allows. ValueError for everything else.
    """
    if isinstance(value, Mapping):
        key = next((key for key in _EFFECT_KEYS if key in value), None)
        return PolicyEffect.ALLOW if key is None else _plain_effect(value[key])
    return _plain_effect(value)


def _plain_effect(value: Any) -> PolicyEffect:
    if isinstance(value, PolicyEffect):
        return value
    if isinstance(value, bool):
        return PolicyEffect.ALLOW if value else PolicyEffect.DENY
    if isinstance(value, str):
        found = _SPELLINGS.get(value.strip().lower().replace("-", "_"))
        if found is not None:
            return found
    raise ValueError("a policy effect must be allow, deny or require_approval (or true, false)")


def strictest_effect(effects: Iterable[PolicyEffect]) -> PolicyEffect:
    """The strictest of the effects; allow when there is none."""
    return max(effects, key=_STRICTNESS.__getitem__, default=PolicyEffect.ALLOW)


@dataclass(frozen=True, slots=True)
class PolicyDecision:
    """What one policy said about one action. ``effect`` takes every value that ``coerce_effect`` understands.

    ``matched_capabilities`` are those responsible for the effect. ValueError for an unknown effect, TypeError
    for a reason, name or capability that is no text.
    """

    effect: PolicyEffect
    reason: str
    policy_name: str
    matched_capabilities: tuple[str, ...] = ()
    metadata: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if type(self.effect) is not PolicyEffect:
            object.__setattr__(self, "effect", coerce_effect(self.effect))
        if type(self.matched_capabilities) is not tuple:
            object.__setattr__(self, "matched_capabilities", tuple(self.matched_capabilities))
        if type(self.reason) is not str or type(self.policy_name) is not str or self.matched_capabilities:
            _check_texts(self)

    def to_dict(self) -> dict[str, Any]:
        """All fields, the effect as text and the capabilities as a list."""
        return {
            "effect": self.effect.value,
            "reason": self.reason,
            "policy_name": self.policy_name,
            "matched_capabilities": list(self.matched_capabilities),
            "metadata": dict(self.metadata),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> PolicyDecision:
        """Read ``to_dict()`` back. Without an effect it is a denial; only plain effects are read, no grants."""
        source = mapping(data, "PolicyDecision")
        effect = source.get("effect")
        return cls(
            effect=PolicyEffect.DENY if effect is None else _plain_effect(effect),
            reason=text_or(source, "reason", "PolicyDecision", lambda: _NO_REASON),
            policy_name=text_or(source, "policy_name", "PolicyDecision", lambda: "unknown"),
            matched_capabilities=tuple(texts(source, "matched_capabilities", "PolicyDecision")),
            metadata=table(source, "metadata", "PolicyDecision"),
        )


def _check_texts(decision: PolicyDecision) -> None:
    """A custom policy's mistake is told before anything runs: what is stored must be readable afterwards."""
    for label, value in (("reason", decision.reason), ("policy_name", decision.policy_name)):
        if value is not None and not isinstance(value, str):
            raise TypeError(f"PolicyDecision {label} must be text, not {type(value).__name__}")
    if not all(isinstance(name, str) for name in decision.matched_capabilities):
        raise TypeError("PolicyDecision matched_capabilities must be texts")


def strictest(decisions: Iterable[PolicyDecision]) -> PolicyDecision:
    """One decision for several policies: the strictest, whatever their order. ValueError when there is none.

    When several are equally strict, reason and name come from the first by name; their capabilities are united.
    """
    found = list(decisions)
    effect = strictest_effect(decision.effect for decision in found)
    leading = sorted((item for item in found if item.effect is effect), key=_precedence)
    if not leading:
        raise ValueError("strictest() needs at least one decision")
    first = leading[0]
    matched = sorted({name for item in leading for name in item.matched_capabilities})
    return (
        first
        if len(leading) == 1
        else PolicyDecision(effect, first.reason, first.policy_name, tuple(matched), first.metadata)
    )


def _precedence(decision: PolicyDecision) -> tuple[str, str, tuple[str, ...]]:
    return decision.policy_name, decision.reason, decision.matched_capabilities


class Policy(Protocol):
    """Judges a prepared action without running it. Any object with this method is a policy."""

    async def evaluate(self, action: RunAction, context: RunContext) -> PolicyDecision: ...


Rule = PolicyEffect | str | bool | Mapping[str, Any]


class CapabilityPolicy:
    """Rules by capability name: exact, then the longest wildcard such as ``records.*``, then ``*``, then the default.

    ValueError for effects, rule shapes or names that are not supported, TypeError for a key that is no text. Rules are
    copied at the top level; ``rules``, ``default_effect`` and ``name`` may be assigned, not while actions run.
    """

    def __init__(
        self,
        rules: Mapping[str, Rule] | None = None,
        *,
        default_effect: PolicyEffect | str = PolicyEffect.ALLOW,
        name: str = "capability_policy",
    ) -> None:
        if not isinstance(name, str) or not name.strip():
            raise ValueError("CapabilityPolicy name must be nonblank text")
        self.rules = _checked_rules(rules)
        self.default_effect = _plain_effect(default_effect)
        self.name = name

    #: The decision on actions without capabilities, which most are. They share it while the policy keeps its name.
    _unasked: PolicyDecision | None = None

    async def evaluate(self, action: RunAction, context: RunContext) -> PolicyDecision:
        """``decide``, in the form of the protocol."""
        return self.decide(action, context)

    def decide(self, action: RunAction, context: RunContext) -> PolicyDecision:
        """Judge at once: a canceled context is denied, an action without capabilities allowed.

        ``metadata["capabilities"]`` tells for each capability what policy and context said and what came of it.
        """
        if context.canceled:
            reason = "The run is canceled" + (f": {context.cancel_reason}" if context.cancel_reason else "")
            return PolicyDecision(PolicyEffect.DENY, reason, self.name)
        if not action.capabilities:
            found = self._unasked
            if found is None or found.policy_name != self.name:
                found = PolicyDecision(PolicyEffect.ALLOW, "The action requires no capabilities", self.name)
                self._unasked = found
            return found
        judged = {name: self._judge(name, context) for name in sorted(action.capabilities)}
        effect = strictest_effect(strictest_effect(pair) for pair in judged.values())
        matched = tuple(name for name, pair in judged.items() if strictest_effect(pair) is effect)
        return PolicyDecision(effect, _reason(effect, matched), self.name, matched, {"capabilities": _told(judged)})

    def _judge(self, capability: str, context: RunContext) -> tuple[PolicyEffect, ...]:
        """The policy's effect, followed by the context's when it has a rule for this capability."""
        own = _lookup(self.rules, capability)
        runtime = _plain_effect(self.default_effect) if own is None else own
        narrowed = _lookup(context.permissions, capability)
        return (runtime,) if narrowed is None else (runtime, narrowed)

    def to_dict(self) -> dict[str, Any]:
        """The configuration as JSON. TypeError for what is not declarative, ValueError for NaN and infinities."""
        return {
            "type": "capability",
            "rules": {key: _declarative(value, key) for key, value in _checked_rules(self.rules).items()},
            "default_effect": _plain_effect(self.default_effect).value,
            "name": self.name,
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> CapabilityPolicy:
        """Read ``to_dict()`` back. ValueError for any other policy type."""
        source = mapping(data, "CapabilityPolicy")
        if source.get("type") != "capability":
            raise ValueError("only policies of type 'capability' can be restored; reconnect a custom policy in code")
        rules = source.get("rules")
        if rules is not None and not isinstance(rules, Mapping):
            raise ValueError(f"CapabilityPolicy rules must be a mapping, not {type(rules).__name__}")
        return cls(
            {key: _declarative(value, str(key)) for key, value in (rules or {}).items()},
            default_effect=source.get("default_effect", PolicyEffect.ALLOW),
            name=source.get("name", "capability_policy"),
        )


def _checked_rules(rules: Mapping[str, Rule] | None) -> dict[str, Rule]:
    if rules is not None and not isinstance(rules, Mapping):
        raise ValueError(f"CapabilityPolicy rules must be a mapping, not {type(rules).__name__}")
    found = dict(rules or {})
    for key, value in found.items():
        if not isinstance(key, str):
            raise TypeError(f"a capability rule is named by text, not {type(key).__name__}")
        if not key.strip():
            raise ValueError("a capability rule needs a nonblank name")
        if "*" in key.removesuffix(".*") and key != "*":  # it would match nothing, and a denial would be none
            raise ValueError(f"capability rule {key!r}: '*' stands alone or ends a name, as in 'records.*'")
        coerce_effect(value)
    return found


def _lookup(rules: Mapping[str, Rule], capability: str) -> PolicyEffect | None:
    for pattern in _patterns(capability):
        if pattern in rules:
            return coerce_effect(rules[pattern])
    return None


def _patterns(capability: str) -> Iterator[str]:
    """The rule names that match a capability, the most specific first."""
    yield capability
    space = capability
    while "." in space:
        space = space.rpartition(".")[0]
        yield f"{space}.*"
    yield "*"


def _reason(effect: PolicyEffect, capabilities: tuple[str, ...]) -> str:
    names = ", ".join(capabilities)
    match effect:
        case PolicyEffect.ALLOW:
            return f"Allowed: {names}"
        case PolicyEffect.DENY:
            return f"Denied by rule: {names}"
        case PolicyEffect.REQUIRE_APPROVAL:
            return f"Approval required: {names}"


def _told(judged: Mapping[str, tuple[PolicyEffect, ...]]) -> dict[str, dict[str, str | None]]:
    return {
        name: {
            "effect": strictest_effect(pair).value,
            "policy": pair[0].value,
            "context": pair[1].value if len(pair) > 1 else None,
        }
        for name, pair in judged.items()
    }


def _declarative(value: Any, place: str) -> Any:
    """JSON values only: what could run code or cannot be written down has no place in stored configuration."""
    if isinstance(value, Enum):
        return _declarative(value.value, place)
    if value is None or isinstance(value, (str, bool, int)):
        return value
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError(f"policy rule '{place}' holds a number that is not finite")
        return value
    if isinstance(value, Mapping):
        if not all(isinstance(key, str) for key in value):
            raise TypeError(f"policy rule '{place}' has a key that is no text")
        return {key: _declarative(item, f"{place}.{key}") for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_declarative(item, place) for item in value]
    raise TypeError(f"policy rule '{place}' holds a {type(value).__name__}, which is not declarative")
