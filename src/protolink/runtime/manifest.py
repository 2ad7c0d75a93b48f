"""What is about to enter a model, in estimated tokens, section by section.

The estimate is made before every model call, so it must not read the whole conversation again: the history keeps its
own sums, and only the declarations of tools and peers are counted here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field, fields
from typing import TYPE_CHECKING, Any

from protolink.models import estimate_tokens
from protolink.models.ids import utc_now
from protolink.models.shape import items, mapping, optional_text, table

from ..models.value import dataclass
from .context import RunContext
from .fields import number, number_or_zero, text_or

if TYPE_CHECKING:
    from protolink.models import ConversationHistory, LLMModelProfile, RedactionPolicy


@dataclass(frozen=True, slots=True)
class ContextItem:
    """One section of a model's input. ``kind`` is open; the builder writes system, tool_prompt, history and user."""

    kind: str
    name: str
    tokens: int
    metadata: dict[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """All fields."""
        return {"kind": self.kind, "name": self.name, "tokens": self.tokens, "metadata": dict(self.metadata)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> ContextItem:
        """Read ``to_dict()`` back. Missing names get fallbacks; a count that is none, or negative, becomes zero."""
        source = mapping(data, "ContextItem")
        return cls(
            kind=text_or(source, "kind", "ContextItem", lambda: "context"),
            name=text_or(source, "name", "ContextItem", lambda: "unnamed"),
            tokens=number_or_zero(source, "tokens", int),
            metadata=table(source, "metadata", "ContextItem"),
        )


@dataclass(frozen=True, slots=True)
class ContextManifest:
    """Estimated input of one model call. It states ``context_window`` and decides nothing about overflow.

    ``tool_prompt_tokens`` are declarations of tools and delegation targets; ``total_estimated_tokens`` is the sum that
    the input-token limit is checked against.
    """

    run_id: str | None = None
    session_id: str | None = None
    agent_name: str | None = None
    provider: str | None = None
    model: str | None = None
    system_tokens: int = 0
    history_tokens: int = 0
    tool_prompt_tokens: int = 0
    user_tokens: int = 0
    context_items: tuple[ContextItem, ...] = ()
    total_estimated_tokens: int = 0
    context_window: int | None = None
    estimated: bool = True
    metadata: dict[str, Any] = field(default_factory=dict)
    created_at: str = field(default_factory=utc_now)

    def __post_init__(self) -> None:
        object.__setattr__(self, "context_items", tuple(self.context_items))

    def to_dict(self, *, redaction_policy: RedactionPolicy | None = None) -> dict[str, Any]:
        """All fields, items as mappings; masked when a redaction policy is given."""
        found = {item.name: getattr(self, item.name) for item in fields(self)}
        found |= {
            "context_items": [item.to_dict() for item in self.context_items],
            "metadata": dict(self.metadata),
        }
        return found if redaction_policy is None else dict(redaction_policy.redact(found))

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> ContextManifest:
        """Read ``to_dict()`` back. Counts are clamped at zero, a missing time is generated.

        ValueError for other members of the wrong shape.
        """
        source = mapping(data, "ContextManifest")
        return cls(
            run_id=optional_text(source, "run_id", "ContextManifest"),
            session_id=optional_text(source, "session_id", "ContextManifest"),
            agent_name=optional_text(source, "agent_name", "ContextManifest"),
            provider=optional_text(source, "provider", "ContextManifest"),
            model=optional_text(source, "model", "ContextManifest"),
            system_tokens=number_or_zero(source, "system_tokens", int),
            history_tokens=number_or_zero(source, "history_tokens", int),
            tool_prompt_tokens=number_or_zero(source, "tool_prompt_tokens", int),
            user_tokens=number_or_zero(source, "user_tokens", int),
            context_items=tuple(map(ContextItem.from_dict, items(source, "context_items", "ContextManifest"))),
            total_estimated_tokens=number_or_zero(source, "total_estimated_tokens", int),
            context_window=_window(source),
            estimated=source.get("estimated") is not False,
            metadata=table(source, "metadata", "ContextManifest"),
            created_at=text_or(source, "created_at", "ContextManifest", utc_now),
        )


def build_context_manifest(
    *,
    history: ConversationHistory,
    query: str,
    run_context: RunContext | None = None,
    agent_name: str | None = None,
    provider: str | None = None,
    model: str | None = None,
    profile: LLMModelProfile | None = None,
    tools: dict[str, Any] | None = None,
    agent_cards: list[Any] | None = None,
) -> ContextManifest:
    """The manifest of the next model call. ``history`` is read, not changed.

    The newest user message equal to ``query`` counts as the user section, not as history. Tool declarations stand in
    the system prompt too, so their tokens are taken off the system section, which never falls below zero.
    """
    chain = run_context.agent_chain if run_context is not None else []
    sections = _sections(history, query, tools or {}, agent_cards or [])
    system, affordances, past, user = (item.tokens for item in sections)
    return ContextManifest(
        run_id=run_context.run_id if run_context is not None else None,
        session_id=run_context.session_id if run_context is not None else None,
        agent_name=agent_name or (chain[-1] if chain else None),
        provider=provider,
        model=model,
        system_tokens=system,
        history_tokens=past,
        tool_prompt_tokens=affordances,
        user_tokens=user,
        context_items=sections,
        total_estimated_tokens=system + affordances + past + user,
        context_window=profile.context_window if profile is not None else None,
    )


def _sections(
    history: ConversationHistory, query: str, tools: Mapping[str, Any], cards: Sequence[Any]
) -> tuple[ContextItem, ...]:
    user = estimate_tokens(query)
    affordances = declaration_tokens(tools, cards)
    repeated = history.newest_user(query) is not None
    past = history.tokens - (user if repeated else 0)
    system = max(0, history.system_tokens - affordances)
    messages = len(history) - (history.system_prompt is not None) - repeated
    return (
        ContextItem("system", "system_prompt", system),
        ContextItem("tool_prompt", "declarations", affordances, {"tools": len(tools), "agents": len(cards)}),
        ContextItem("history", "conversation", past, {"messages": messages}),
        ContextItem("user", "query", user),
    )


def declaration_tokens(tools: Mapping[str, Any], agent_cards: Sequence[Any]) -> int:
    """Estimated tokens of what a model is told about tools and delegation targets; 0 without any."""
    declared = [_declaration(name, tool) for name, tool in tools.items()] + list(agent_cards)
    return estimate_tokens(declared) if declared else 0


def _declaration(name: str, tool: Any) -> dict[str, Any]:
    facts = {key: _member(tool, key) for key in ("description", "input_schema")}
    return {"name": name, **facts, "capabilities": sorted(_member(tool, "capabilities") or ())}


def _member(tool: Any, key: str) -> Any:
    return tool.get(key) if isinstance(tool, Mapping) else getattr(tool, key, None)


def _window(source: Mapping[str, Any]) -> int | None:
    """A window that cannot be read is unknown: nothing is decided by it."""
    try:
        return number(source, "context_window", "ContextManifest", int)
    except (ValueError, TypeError):
        return None
