"""LLM: a model as applications construct and extend it.

An adapter says its model's words: ``call`` and ``call_stream`` for text, ``call_action`` and ``call_action_stream``
where the model has tool calls of its own. ``turn`` picks among them. Runs call ``begin_turn``: for all but models that
need not be waited for, that is ``turn``.
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeVar, overload

from .._lazy import Later
from ..models import ConversationHistory, LLMModelProfile
from ..models.turn import ModelTurn
from .json_actions import ActionParseError, parse_action
from .port import LLMPort
from .prompt import system_prompt
from .turn import LLMActionResult, to_turn

if TYPE_CHECKING:
    from ..models import Part
    from ..runtime import RunContext
    from . import infer as _infer
else:
    _infer = Later(".infer", __package__)

Emit = Callable[[str], None]
T = TypeVar("T")

_TOOL_CALLING = (None, "auto", "native", "json")


class LLM(ABC):
    """A language model.

    ``model_params`` go to the provider as they are. ``reasoning`` is its effort level, "none" for its default.
    ``tool_calling``: ``native``, ``json``, or ``auto`` / None for the best that the adapter has.
    """

    model_type: ClassVar[str] = "api"
    """Where the model runs: ``api``, ``server`` or ``local``."""

    provider: str = "custom"

    def __init__(
        self,
        model: str,
        model_params: Mapping[str, Any] | None = None,
        *,
        reasoning: str = "none",
        tool_calling: str | None = None,
    ) -> None:
        if not isinstance(model, str) or not model.strip():
            raise ValueError("model must be the nonblank name of a model")
        if model_params is not None and not isinstance(model_params, Mapping):
            raise TypeError("model_params must be a mapping or None")
        if tool_calling not in _TOOL_CALLING:
            raise ValueError(f"tool_calling must be auto, native, json or None, not {tool_calling!r}")
        self.model = model
        self.model_params: dict[str, Any] = dict(model_params or {})
        self.reasoning = reasoning
        self.tool_calling = tool_calling
        self.history = ConversationHistory()
        self.metrics_enabled = True
        self._profile = LLMModelProfile()
        self._max_tool_corrections = 2
        self._max_parse_failures = 3

    # ------------------------------------------------------------------------------------------ what adapters write

    @abstractmethod
    async def call(self, history: ConversationHistory) -> str:
        """The model's whole reply to the conversation."""

    @abstractmethod
    def call_stream(self, history: ConversationHistory) -> AsyncIterator[str]:
        """The reply in fragments, as they come."""

    @abstractmethod
    def validate_connection(self) -> bool:
        """True when the model can be reached now. May do IO; the loop never calls it."""

    async def call_action(
        self,
        history: ConversationHistory,
        *,
        tools: Mapping[str, Any],
        agent_callback_available: bool = False,
        agent_cards: Sequence[Any] | None = None,
    ) -> LLMActionResult | ModelTurn:
        """The next action by the model's own tool calls; overriding it makes ``native`` the default.

        ``tools`` maps names to objects with name, description, input_schema and capabilities. ``native`` has their
        declarations in the providers' shapes, and the way back from calls.
        """
        raise NotImplementedError(f"{type(self).__name__} has no native tool calls; use tool_calling='json'")

    async def call_action_stream(
        self,
        history: ConversationHistory,
        *,
        tools: Mapping[str, Any],
        agent_callback_available: bool = False,
        agent_cards: Sequence[Any] | None = None,
        chunk_callback: Emit | None = None,
    ) -> LLMActionResult | ModelTurn:
        """``call_action`` that hands text to ``chunk_callback`` (a plain function) as it comes."""
        raise NotImplementedError(f"{type(self).__name__} does not stream native tool calls")

    def resolve_tool_calling(self) -> Literal["native", "json"]:
        """How this model is asked: ``native`` only when the adapter can, whatever was wished for."""
        if self.tool_calling == "json" or not _overrides(self, "call_action"):
            return "json"
        return "native"

    # ------------------------------------------------------------------------------------------ one turn

    async def turn(
        self,
        history: ConversationHistory,
        *,
        tools: Mapping[str, Any] | None = None,
        agent_cards: Sequence[Any] = (),
        emit: Emit | None = None,
    ) -> ModelTurn:
        """Ask the model once, in its own way. With ``emit`` it streams, if it can.

        Raises ActionParseError for a reply that is no action, and whatever the adapter raises.
        """
        if emit is not None and self._profile.supports_streaming is False:
            emit = None
        if self.resolve_tool_calling() == "json":
            return parse_action(await self._text(history, emit))
        return to_turn(await self._native(history, tools or {}, agent_cards, emit))

    def begin_turn(
        self,
        history: ConversationHistory,
        *,
        tools: Mapping[str, Any] | None = None,
        agent_cards: Sequence[Any] = (),
        emit: Emit | None = None,
    ) -> ModelTurn | Coroutine[Any, Any, ModelTurn]:
        """``turn``, as runs ask for it: its coroutine, or the ModelTurn itself of a model that need not be awaited.

        Such a model must not block: nothing interrupts it, neither a cancellation nor the runtime budget. It raises
        what ``turn`` raises.
        """
        return self.turn(history, tools=tools, agent_cards=agent_cards, emit=emit)

    async def _text(self, history: ConversationHistory, emit: Emit | None) -> str:
        if emit is None:
            text: Any = await _settled(self.call(history))
        else:
            text = "".join([piece async for piece in _told(self.call_stream(history), emit)])
        if not isinstance(text, str):
            raise TypeError(f"{type(self).__name__}.call returned {type(text).__name__}; it must return text")
        return text

    async def _native(
        self, history: ConversationHistory, tools: Mapping[str, Any], cards: Sequence[Any], emit: Emit | None
    ) -> LLMActionResult | ModelTurn:
        peers: dict[str, Any] = {"agent_callback_available": bool(cards), "agent_cards": list(cards)}
        if emit is not None and _overrides(self, "call_action_stream"):
            return await self.call_action_stream(history, tools=tools, chunk_callback=emit, **peers)
        return await self.call_action(history, tools=tools, **peers)

    # ------------------------------------------------------------------------------------------ limits and metrics

    @property
    def max_tool_corrections(self) -> int:
        """Refused proposals that the model may correct in one loop, 0 to 10."""
        return self._max_tool_corrections

    @max_tool_corrections.setter
    def max_tool_corrections(self, value: int) -> None:
        self._max_tool_corrections = _bounded("max_tool_corrections", value, 0, 10)

    @property
    def max_parse_failures(self) -> int:
        """Replies in a row that may be no action before the loop fails, 1 to 10."""
        return self._max_parse_failures

    @max_parse_failures.setter
    def max_parse_failures(self, value: int) -> None:
        self._max_parse_failures = _bounded("max_parse_failures", value, 1, 10)

    def configure_metrics(
        self,
        profile: LLMModelProfile | Mapping[str, Any] | None = None,
        *,
        context_window: int | None = None,
        input_cost_per_million: float | None = None,
        output_cost_per_million: float | None = None,
        currency: str | None = None,
        enabled: bool = True,
    ) -> LLM:
        """Say what is known about the model; keywords win over the profile. Returns the model itself.

        Without a profile the keywords change what was known before. Currency is USD unless one is given.
        ``enabled=False`` leaves costs out of the metrics.
        """
        given = {
            "context_window": context_window,
            "input_cost_per_million": input_cost_per_million,
            "output_cost_per_million": output_cost_per_million,
            "currency": currency,
        }
        base = _profile_fields(self._profile if profile is None else profile)
        self._profile = LLMModelProfile.from_dict(base | {key: item for key, item in given.items() if item is not None})
        self.metrics_enabled = enabled
        return self

    @property
    def metrics_profile(self) -> LLMModelProfile:
        """What is known about the model, provider and model name included."""
        return self._profile.resolved(provider=self.provider, model=self.model)

    @property
    def constructor_options(self) -> dict[str, Any]:
        """Further arguments of the constructor that made this model, secrets among them."""
        return {}

    # ------------------------------------------------------------------------------------------ conversation

    def use_history(self, history: ConversationHistory) -> LLM:
        """Go on with this history; ``chat`` appends to it. Returns the model itself."""
        if not isinstance(history, ConversationHistory):
            raise TypeError(f"use_history needs a ConversationHistory, not {type(history).__name__}")
        self.history = history
        return self

    def set_system_prompt(self, text: str | None) -> None:
        """Replace the system prompt of ``history``."""
        self.history.set_system(text)

    def compact_history(self, keep: int = 20) -> ConversationHistory:
        """Forget all but the system prompt and the newest ``keep`` messages."""
        return self.history.truncate(keep)

    def build_system_prompt(
        self,
        instructions: str = "",
        *,
        agent_name: str = "",
        description: str = "",
        tools: Iterable[Any] = (),
        agent_cards: Iterable[Any] = (),
        override: bool = False,
    ) -> str:
        """What the model is told before a run: its role, the instructions and, for JSON models, the action language.

        ``override`` leaves the instructions alone.
        """
        if override:
            return instructions
        mode = self.resolve_tool_calling()
        return system_prompt(mode, instructions, agent_name, description, tuple(tools), tuple(agent_cards))

    @overload
    def chat(self, text: str, *, streaming: Literal[False] = False) -> Awaitable[str]: ...
    @overload
    def chat(self, text: str, *, streaming: Literal[True]) -> AsyncIterator[str]: ...
    @overload
    def chat(self, text: str, *, streaming: bool) -> Awaitable[str] | AsyncIterator[str]: ...

    def chat(self, text: str, *, streaming: bool = False) -> Awaitable[str] | AsyncIterator[str]:
        """Talk without tools: ``await llm.chat(...)``, or ``async for piece in llm.chat(..., streaming=True)``.

        Both messages enter ``history`` when the reply is complete. An answer given as a ``final`` action is unwrapped
        (not in the pieces of a stream).
        """
        return self._chat_stream(text) if streaming else self._chat(text)

    async def _chat(self, text: str) -> str:
        return self._remember(text, await self._text(self.history.copy().add_user(text), None))

    async def _chat_stream(self, text: str) -> AsyncIterator[str]:
        pieces = []
        async for piece in self.call_stream(self.history.copy().add_user(text)):
            pieces.append(piece)
            yield piece
        self._remember(text, "".join(pieces))

    def _remember(self, text: str, reply: str) -> str:
        said = _unwrapped(reply)
        self.history.add_user(text).add_assistant(said)
        return said

    # ------------------------------------------------------------------------------------------ the loop

    async def infer(
        self,
        *,
        query: str,
        tools: Mapping[str, Any],
        agent_callback: Callable[..., Awaitable[Any]] | None = None,
        agent_cards: Sequence[Any] | None = None,
        streaming: bool = False,
        event_callback: Callable[[dict[str, Any]], Awaitable[None]] | None = None,
        expose_tool_results: bool = False,
        action_authorizer: Any = None,
        cancellation_token: Any = None,
        run_context: RunContext | None = None,
        budget_policy: Any = None,
        budget_enforcer: Any = None,
    ) -> Part:
        """Run the inference loop outside an agent. Returns a part of type ``infer_output`` with the final text.

        ``tools`` maps names to tools. ``agent_callback(agent, action, payload)`` returns what one of ``agent_cards``
        answered. ``event_callback`` is awaited with the loop's events, dicts with ``type`` and ``step``.
        ``action_authorizer`` supplies policy and approval handler; ``budget_enforcer`` is shared with the caller, else
        ``run_context.budget`` counts for this call alone. Raises the typed errors of budgets, policies, corrections and
        parse failures; asyncio.CancelledError when the token is canceled.
        """
        port = LLMPort(self, agent_name="llm", tools=list(tools.values()), cards=agent_cards or ())
        return await _infer.infer(
            self,
            model=port,
            query=query,
            tools=tools,
            agent_callback=agent_callback,
            agent_cards=agent_cards,
            streaming=streaming,
            event_callback=event_callback,
            expose_tool_results=expose_tool_results,
            action_authorizer=action_authorizer,
            cancellation_token=cancellation_token,
            run_context=run_context,
            budget_policy=budget_policy,
            budget_enforcer=budget_enforcer,
        )


def _overrides(llm: LLM, name: str) -> bool:
    """True when the adapter, or this one object, has its own version of a method of LLM."""
    return getattr(type(llm), name) is not getattr(LLM, name) or name in llm.__dict__


async def _settled(value: Awaitable[T] | T) -> T:
    """The value, awaited where that is needed: adapters of blocking libraries may have a plain ``call``."""
    return await value if inspect.isawaitable(value) else value


async def _told(pieces: AsyncIterator[str], emit: Emit) -> AsyncIterator[str]:
    async for piece in pieces:
        emit(piece)
        yield piece


def _unwrapped(reply: str) -> str:
    try:
        turn = parse_action(reply)
    except ActionParseError:  # plain text, which is what chat is for
        return reply
    return reply if turn.calls else turn.text


def _profile_fields(profile: LLMModelProfile | Mapping[str, Any]) -> dict[str, Any]:
    if isinstance(profile, LLMModelProfile):
        return profile.to_dict()
    if isinstance(profile, Mapping):
        return dict(profile)
    raise TypeError(f"a metrics profile is an LLMModelProfile or a mapping, not {type(profile).__name__}")


def _bounded(name: str, value: Any, low: int, high: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name} must be an int, not {type(value).__name__}")
    if not low <= value <= high:
        raise ValueError(f"{name} must be from {low} to {high}, not {value}")
    return value
