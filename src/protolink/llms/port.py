"""LLMPort: an LLM bound to one agent's prompt, tools and peers, as the driver calls it.

What does not change during a run is built and counted once; a turn costs the same at the thousandth message as at the
first.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from time import perf_counter
from typing import TYPE_CHECKING, Any

from ..drive.ports import Misspoken, Reply
from ..models import ConversationHistory, HistoryMessage, LLMModelProfile, estimate_tokens
from ..models.json import encode
from ..models.printable import printable
from ..models.turn import AGENT_CALL, ModelTurn
from ..runtime import ContextItem, ContextManifest, RunContext
from ..runtime.manifest import declaration_tokens
from .json_actions import ActionParseError

if TYPE_CHECKING:
    from .base import LLM

_INPUT_KEYS = ("input_tokens", "prompt_tokens")
_OUTPUT_KEYS = ("output_tokens", "completion_tokens")


class LLMPort:
    """Implements ``drive.ports.ModelPort``.

    ``tools`` have name, description, input_schema and capabilities; ``cards`` name and description. ``override``: the
    system prompt is exactly ``system_prompt``, without role and action language.
    """

    def __init__(
        self,
        llm: LLM,
        *,
        system_prompt: str = "",
        override: bool = False,
        agent_name: str,
        tools: Sequence[Any] = (),
        cards: Sequence[Any] = (),
        description: str = "",
    ) -> None:
        profile = llm.metrics_profile
        self.provider = llm.provider
        self.model = llm.model
        self.context_window = profile.context_window
        self.max_tool_corrections = llm.max_tool_corrections
        self.max_parse_failures = llm.max_parse_failures
        self.system_prompt = llm.build_system_prompt(
            system_prompt,
            agent_name=agent_name,
            description=description,
            tools=tools,
            agent_cards=cards,
            override=override,
        )
        self._prompt = HistoryMessage("system", self.system_prompt) if self.system_prompt else None
        self._llm = llm
        self._agent_name = agent_name
        self._tools = {tool.name: tool for tool in tools}
        self._cards = tuple(cards)
        self._native = llm.resolve_tool_calling() == "native"
        self._prices = profile if llm.metrics_enabled and _priced(profile) else None
        self._tool_tokens = declaration_tokens(self._tools, [_shown(card) for card in cards])
        inside = 0 if self._native else self._tool_tokens  # the prompt of a JSON model tells of the tools, too
        self._prompt_tokens = estimate_tokens(self.system_prompt) - inside
        self._declared = {"tools": len(self._tools), "agents": len(self._cards)}

    def sections(self, history: ConversationHistory, query: Any) -> tuple[int, int, int, int]:
        """Tokens of the next call: system, tool prompt, history, user; as ``manifest`` counts them."""
        user = estimate_tokens(query)
        repeated = history.newest_user(query) is not None
        return self._system_tokens(history), self._tool_tokens, history.tokens - (user if repeated else 0), user

    def manifest(self, history: ConversationHistory, query: str, context: RunContext) -> ContextManifest:
        """The estimated input of the next call, in four sections, as ``build_context_manifest`` counts it.

        Native declarations travel beside the system prompt, so there they are not taken off its section.
        """
        system, tools, past, user = self.sections(history, query)
        repeated = history.newest_user(query) is not None
        messages = len(history) - (history.system_prompt is not None) - repeated
        return ContextManifest(
            run_id=context.run_id,
            session_id=context.session_id,
            agent_name=self._agent_name,
            provider=self.provider,
            model=self.model,
            system_tokens=system,
            history_tokens=past,
            tool_prompt_tokens=tools,
            user_tokens=user,
            context_items=(
                ContextItem("system", "system_prompt", system),
                ContextItem("tool_prompt", "declarations", tools, dict(self._declared)),
                ContextItem("history", "conversation", past, {"messages": messages}),
                ContextItem("user", "query", user),
            ),
            total_estimated_tokens=system + tools + past + user,
            context_window=self.context_window,
        )

    def reply(
        self, history: ConversationHistory, emit: Callable[[str], None] | None
    ) -> Reply | Coroutine[Any, Any, Reply]:
        """Ask the model once; see ``ModelPort.reply``."""
        started = perf_counter()
        shown = history.with_system(self._prompt)
        try:
            turn = self._llm.begin_turn(shown, tools=self._tools, agent_cards=self._cards, emit=_cleaned(emit))
            if isinstance(turn, ModelTurn):
                return self._reply(turn, _call_tokens(turn), history, started)
        except ActionParseError as error:
            raise self._misspoken(error, history, started) from error
        if not inspect.isawaitable(turn):
            raise self._no_turn("begin_turn", turn)
        return self._reply_later(turn, history, started)

    async def _reply_later(self, turn: Awaitable[ModelTurn], history: ConversationHistory, started: float) -> Reply:
        try:
            found = await turn
            if not isinstance(found, ModelTurn):
                raise self._no_turn("turn", found)
            calls = _call_tokens(found)
        except ActionParseError as error:
            raise self._misspoken(error, history, started) from error
        return self._reply(found, calls, history, started)

    def _no_turn(self, method: str, found: Any) -> TypeError:
        return TypeError(f"{type(self._llm).__name__}.{method} gave a {type(found).__name__}; it must give a ModelTurn")

    def _misspoken(self, error: ActionParseError, history: ConversationHistory, started: float) -> Misspoken:
        spoken = ModelTurn("", raw=error.raw, usage=error.usage)
        return Misspoken(printable(str(error)), self._reply(spoken, 0, history, started))

    def _reply(self, turn: ModelTurn, calls: int, history: ConversationHistory, started: float) -> Reply:
        usage = turn.usage
        taken = _count(usage, _INPUT_KEYS) if usage else None
        given = _count(usage, _OUTPUT_KEYS) if usage else None
        estimated = taken is None or given is None
        if taken is None:
            taken = self._system_tokens(history) + self._tool_tokens + history.tokens
        if given is None:  # the size of what came, where that is known
            given = estimate_tokens(turn.text) + calls if turn.raw is None else estimate_tokens(turn.raw)
        raw = None if turn.raw is None or turn.raw == turn.text else printable(turn.raw)
        latency_ms = (perf_counter() - started) * 1000
        metrics = {} if self._prices is None else {"cost": _cost(self._prices, taken, given, estimated)}
        return Reply(printable(turn.text), turn.calls, raw, taken, given, estimated, self._native, latency_ms, metrics)

    def _system_tokens(self, history: ConversationHistory) -> int:
        """Tokens of the system section: our prompt in place of the history's own, and later system messages."""
        return max(0, self._prompt_tokens + history.later_system_tokens)


def _call_tokens(turn: ModelTurn) -> int:
    """Estimated size of the calls, by the JSON actions that would say the same.

    Arguments that are no JSON can neither be shown nor stored: the model is told, as of any call it got wrong.
    """
    tokens = 0
    for call in turn.calls:
        kind = AGENT_CALL if call.tool == AGENT_CALL else "tool_call"
        try:
            tokens += estimate_tokens({"type": kind, "tool": call.tool, "args": call.args})
            if not call.id.isascii():
                encode(call.id)
        except TypeError as error:
            raw = turn.raw or turn.text
            raise ActionParseError(f"the call of {call.tool} is no JSON: {error}", raw=raw, usage=turn.usage) from error
    return tokens


def _cleaned(emit: Callable[[str], None] | None) -> Callable[[str], None] | None:
    return None if emit is None else lambda text: emit(printable(text))


def _shown(card: Any) -> dict[str, Any]:
    """What models are told of a peer."""
    return {"name": card.name, "description": card.description}


def _count(usage: Mapping[str, Any], keys: tuple[str, str]) -> int | None:
    """The provider's number under either name. What is no count is as good as missing."""
    for key in keys:
        value = usage.get(key)
        if type(value) is int and value >= 0:
            return value
    return None


def _priced(profile: LLMModelProfile) -> bool:
    return profile.input_cost_per_million is not None or profile.output_cost_per_million is not None


def _cost(profile: LLMModelProfile, taken: int, given: int, estimated: bool) -> dict[str, Any]:
    """``{input_cost, output_cost, total_cost, currency, estimated}``; a side without a price is None."""
    sides = [
        None if price is None else tokens * price / 1_000_000
        for tokens, price in ((taken, profile.input_cost_per_million), (given, profile.output_cost_per_million))
    ]
    return {
        "input_cost": sides[0],
        "output_cost": sides[1],
        "total_cost": sum(side for side in sides if side is not None),
        "currency": profile.currency,
        "estimated": estimated,
    }
