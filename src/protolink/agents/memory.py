"""What an agent remembers between runs: read when a run starts, written when it completes, managed in between."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from ..errors import StoreCorruptError, StoreUnavailableError
from ..llms import LLM
from ..models import ConversationHistory
from ..models.redaction.foreign import foreign_text
from ..state import (
    HistoryCompactionRequest,
    HistoryCompactionResult,
    State,
    StateOperationRequest,
    StateOperationResult,
    StoreState,
    turns,
)
from ..state.conversations import Conversations
from ..state.state import CONVERSATION
from ..state.turns import Message
from ..storage import Storage

if TYPE_CHECKING:
    from ..engine.state import Frame, Run

T = TypeVar("T")
R = TypeVar("R", StateOperationRequest, HistoryCompactionRequest)


class Memory:
    """One agent's state in its storage. The storage is used in threads, so that a slow one does not hold up the loop.

    StoreUnavailableError when it cannot be used now, StoreCorruptError when it holds something else.
    """

    def __init__(self, agent: str, storage: Storage, state: State) -> None:
        self.state = state
        self._agent = agent
        self._storage = storage
        limits = state.conversation
        self._conversations = None if limits is None else Conversations(storage, agent, limits)

    # ------------------------------------------------------------------------------------------------ for runs

    async def recall(self, session_id: str | None) -> list[Message] | None:
        """What was said in the session, as a run starts with it; None when this agent or this run remembers nothing."""
        kept = self._conversations
        if kept is None or session_id is None:
            return None
        found = await self._use(lambda: kept.messages(session_id))
        said = turns.spoken(found.get(session_id, []))
        try:
            ConversationHistory.from_list(said)
        except (ValueError, TypeError) as error:
            raise StoreCorruptError(f"Session '{session_id}' holds what is no message: {error}") from error
        return said

    async def remember(self, run: Run) -> None:
        """Store the turn of a run that completes. Harmless again: a run's turn is stored once."""
        kept, session_id = self._conversations, run.root.context.get("session_id")
        messages = turn_of(run, self._agent)
        if kept is not None and session_id is not None and messages:
            await self._use(lambda: kept.add(session_id, messages))

    # ------------------------------------------------------------------------------------------------ operations

    async def describe(self, request: StateOperationRequest) -> StateOperationResult:
        """How much is remembered. What cannot be read is told in the result."""
        kept = self._conversations
        if kept is None or not _means_conversation(request):
            return self._result("describe", request, StoreState(CONVERSATION, enabled=kept is not None))
        try:
            found = await self._use(lambda: kept.messages(request.session_id))
        except (StoreCorruptError, StoreUnavailableError) as error:
            return self._result("describe", request, StoreState(CONVERSATION, exists=True, error=str(error)))
        return self._result("describe", request, self._described(found, request.include_data))

    async def reset(self, request: StateOperationRequest) -> StateOperationResult:
        """Forget one session, or all of this agent's. What other agents remember stays."""
        return await self._changed("reset", request, lambda messages: [])

    async def compact(self, request: StateOperationRequest) -> StateOperationResult:
        """Keep the dialogue and drop the rest, as far as the request wants it."""

        def rule(messages: list[Message]) -> list[Message]:
            return turns.compacted(messages, keep_turns=request.keep_turns, keep_work=request.keep_work)

        return await self._changed("compact", request, rule)

    async def compact_history(self, request: HistoryCompactionRequest, llm: LLM | None) -> HistoryCompactionResult:
        """ValueError when there is no such history: a model of the agent's own, or conversations."""
        kept = self._conversations
        if request.session_id is None:
            if llm is None:
                raise ValueError(f"Agent '{self._agent}' has no model of its own whose chat could be compacted")
            before = _spoken(llm)
            llm.compact_history(request.keep)
            return HistoryCompactionResult(None, before, _spoken(llm))
        if kept is None:
            raise ValueError(f"Agent '{self._agent}' remembers no conversations; give it state=['{CONVERSATION}']")
        session = request.session_id
        counts = await self._use(lambda: kept.replace(session, lambda found: turns.newest(found, request.keep)))
        return HistoryCompactionResult(session, *counts)

    # ------------------------------------------------------------------------------------------------ inside

    async def _changed(
        self, operation: str, request: StateOperationRequest, rule: Callable[[list[Message]], list[Message]]
    ) -> StateOperationResult:
        kept = self._conversations
        if kept is None or not _means_conversation(request):
            return self._result(operation, request, StoreState(CONVERSATION, enabled=kept is not None))
        before, after = await self._use(lambda: kept.replace(request.session_id, rule))
        found = self._described(await self._use(lambda: kept.messages(request.session_id)), request.include_data)
        changed = {"reset": "cleared", "compact": "compacted"}[operation]
        store = StoreState(
            CONVERSATION,
            exists=found.exists,
            item_count=found.item_count,
            message_count=found.message_count,
            cleared=operation == "reset" and before > 0,
            compacted=operation == "compact" and after < before,
            data=found.data,
            metadata={**found.metadata, "messages_before": before, "messages_after": after},
        )
        return self._result(operation, request, store, **({changed: (CONVERSATION,)} if after < before else {}))

    def _described(self, found: dict[str, list[Message]], include_data: bool) -> StoreState:
        assert self.state.conversation is not None
        return StoreState(
            CONVERSATION,
            exists=bool(found),
            item_count=len(found),
            message_count=sum(map(len, found.values())),
            data=found if include_data else None,
            metadata={
                "turns": sum(len(turns.turns(messages)) for messages in found.values()),
                "tokens": sum(map(turns.tokens, found.values())),
                "limits": self.state.conversation.to_dict(),
            },
        )

    def _result(
        self, operation: str, request: StateOperationRequest, store: StoreState, **changed: tuple[str, ...]
    ) -> StateOperationResult:
        meant = _means_conversation(request)
        return StateOperationResult(
            operation,
            request.session_id,
            stores=(store,) if meant else (),
            missing=tuple(name for name in request.modules if name not in self.state.modules),
            errors=(store.error,) if store.error is not None else (),
            metadata={"agent": self._agent},
            **changed,
        )

    async def _use(self, work: Callable[[], T]) -> T:
        try:
            return await asyncio.to_thread(work)
        except StoreCorruptError:
            raise
        except Exception as error:  # the storage's, which may be anybody's
            where = getattr(self._storage, "db_path", type(self._storage).__name__)
            why = foreign_text(str(error))
            text = f"The conversations of agent '{self._agent}' cannot be used: {type(error).__name__}: {why}"
            raise StoreUnavailableError(text, store=str(where)) from error


def state_request(given: Any, fields: Mapping[str, Any]) -> StateOperationRequest:
    """The request that was given, or one of these fields. TypeError for both at once, and for unknown fields."""
    return _request(StateOperationRequest, given, fields)


def compaction_request(given: Any, fields: Mapping[str, Any]) -> HistoryCompactionRequest:
    """The same for histories."""
    return _request(HistoryCompactionRequest, given, fields)


def _request(cls: type[R], given: Any, fields: Mapping[str, Any]) -> R:
    if given is None:
        return cls(**fields)
    if fields:
        raise TypeError(f"give a {cls.__name__} or its fields, not both")
    if isinstance(given, Mapping):
        return cls.from_dict(given)
    if not isinstance(given, cls):
        raise TypeError(f"give a {cls.__name__}, a mapping or fields by name, not {type(given).__name__}")
    return given


def turn_of(run: Run, agent: str) -> list[Message]:
    """What a run adds to its conversation: the prompts of its parts, the work on them, and the answers."""
    found: list[Message] = []
    known = run.recalled
    for frame in sorted(filter(_spoke, run.frames.values()), key=lambda frame: frame.part or 0):
        own = [message.to_dict() for message in frame.history.messages_raw()[known:]]
        known += len(own)
        last = len(own) - 1
        for index, message in enumerate(own):
            part = turns.PROMPT if index == 0 else turns.ANSWER if index == last else turns.WORK
            found.append(turns.marked(message, part, agent=agent, run_id=run.id, turn=run.salt))
    return found


def _spoke(frame: Frame) -> bool:
    return frame.part is not None and frame.spec.call is None and frame.outcome == "completed"


def _spoken(llm: LLM) -> int:
    return len(llm.history) - (llm.history.system_prompt is not None)


def _means_conversation(request: StateOperationRequest) -> bool:
    return not request.modules or CONVERSATION in request.modules
