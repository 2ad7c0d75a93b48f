"""ConversationHistory: what a model has been told, growing by one message at a time.

A run of a thousand turns asks the same questions in every turn: how many tokens, what came last, what if the system
prompt were another. So sums and positions are kept while messages are added, and copies share the list of messages.
Sharing is safe because the list only grows: the history that made it (its *owner*) appends in place, every copy looks
at no more than its own ``_count`` first messages, and a copy that wants to write takes a list of its own first.
Messages themselves are shared as well: they are replaced, never edited.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field, fields
from itertools import islice
from typing import Any

from .ids import new_id, utc_now
from .json import plain
from .shape import items, mapping, optional_text, required_text, table
from .tokens import estimate_tokens
from .value import dataclass

_WHAT = "history message"


@dataclass(slots=True)
class HistoryMessage:
    """One message to or from a model. Do not edit it: histories share it.

    ``id`` and ``created_at`` are None until the message is first written out. ``tool_calls`` is a list of JSON objects
    as the adapter made them; ``tool_name`` and ``tool_call_id`` are set on a tool's answer.
    """

    role: str
    content: Any
    name: str | None = None
    metadata: dict[str, Any] = field(default_factory=dict)
    id: str | None = None
    created_at: str | None = None
    tool_calls: list[Any] | None = None
    tool_name: str | None = None
    tool_call_id: str | None = None

    def to_message(self) -> dict[str, Any]:
        """``{"role", "content"}``, and ``"name"`` when there is one."""
        short = {"role": self.role, "content": self.content}
        if self.name is not None:
            short["name"] = self.name
        return short

    def to_dict(self) -> dict[str, Any]:
        """Every field as JSON. Gives the message its id and time if it has none."""
        self.id = self.id or new_id("msg")
        self.created_at = self.created_at or utc_now()
        return {item.name: plain(getattr(self, item.name)) for item in fields(self)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> HistoryMessage:
        """Read ``to_dict()`` or ``to_message()`` back. ValueError names what is missing or malformed."""
        found = mapping(data, _WHAT)
        return cls(
            role=required_text(found, "role", _WHAT),
            content=found.get("content", ""),
            name=optional_text(found, "name", _WHAT),
            metadata=table(found, "metadata", _WHAT),
            id=optional_text(found, "id", _WHAT),
            created_at=optional_text(found, "created_at", _WHAT),
            tool_calls=items(found, "tool_calls", _WHAT) or None,
            tool_name=optional_text(found, "tool_name", _WHAT),
            tool_call_id=optional_text(found, "tool_call_id", _WHAT),
        )


class ConversationHistory:
    """A system prompt, which may be absent, and the messages after it. Methods that add return the history.

    Positions count the system prompt, as iteration does.
    """

    __slots__ = (
        "_count",
        "_items",
        "_owner",
        "_system",
        "_system_tokens",
        "_tokens",
        "_user_count",
        "_users",
    )

    def __init__(self, system_prompt: str | None = None) -> None:
        self._system: HistoryMessage | None = None
        self._clear()
        self.set_system(system_prompt)

    def _clear(self) -> None:
        self._items: list[HistoryMessage] = []
        self._users: list[int] = []
        self._count = self._user_count = self._tokens = 0
        self._system_tokens = 0  # of system messages after the prompt
        self._owner = True

    def __len__(self) -> int:
        return self._count + (self._system is not None)

    def __iter__(self) -> Iterator[HistoryMessage]:
        if self._system is not None:
            yield self._system
        yield from islice(self._items, self._count)

    def __repr__(self) -> str:
        return f"ConversationHistory({len(self)} messages, {self._tokens} tokens)"

    @property
    def messages(self) -> list[dict[str, Any]]:
        """All messages as new ``{"role", "content"[, "name"]}``."""
        return [message.to_message() for message in self]

    def messages_raw(self) -> list[HistoryMessage]:
        """All messages in a new list."""
        return list(self)

    @property
    def system_prompt(self) -> str | None:
        """The text of the leading system message."""
        return None if self._system is None else self._system.content

    @property
    def tokens(self) -> int:
        """Estimated tokens of all messages that are not of role system."""
        return self._tokens

    @property
    def system_tokens(self) -> int:
        """Estimated tokens of all messages of role system."""
        prompt = 0 if self._system is None else estimate_tokens(self._system.content)
        return prompt + self._system_tokens

    @property
    def later_system_tokens(self) -> int:
        """``system_tokens`` without the system prompt's."""
        return self._system_tokens

    def last(self, role: str) -> HistoryMessage | None:
        """The newest message of a role."""
        if role == "user":
            return self._items[self._users[self._user_count - 1]] if self._user_count else None
        later = islice(reversed(self._items), len(self._items) - self._count, None)
        return next((item for item in later if item.role == role), self._system if role == "system" else None)

    def newest_user(self, content: Any) -> int | None:
        """The position of the newest user message with this content; None when there is none."""
        for place in range(self._user_count - 1, -1, -1):
            index = self._users[place]
            if self._items[index].content == content:
                return index + (self._system is not None)
        return None

    def add_system(self, content: Any, **metadata: Any) -> ConversationHistory:
        """Append a system message; in an empty history it becomes the system prompt."""
        return self._append(HistoryMessage("system", content, metadata=metadata))

    def add_user(self, content: Any, **metadata: Any) -> ConversationHistory:
        """Append what the user says."""
        return self._push(HistoryMessage("user", content, None, metadata))

    def add_assistant(
        self, content: Any, *, tool_calls: list[Any] | None = None, **metadata: Any
    ) -> ConversationHistory:
        """Append what the model said, with the tool calls of a native turn."""
        return self._push(HistoryMessage("assistant", content, None, metadata, None, None, tool_calls))

    def add_tool(self, content: Any, tool_name: str, *, tool_call_id: str | None = None) -> ConversationHistory:
        """Append a tool's answer; ``tool_call_id`` is the provider's."""
        return self._push(HistoryMessage("tool", content, None, {}, None, None, None, tool_name, tool_call_id))

    def add_raw(self, message: Mapping[str, Any]) -> ConversationHistory:
        """Append a message given as a mapping; ``role`` must be there."""
        return self._append(HistoryMessage.from_dict(message))

    def set_system(self, text: str | None) -> ConversationHistory:
        """Replace the system prompt; None or empty text removes it."""
        self._system = HistoryMessage("system", text) if text else None
        return self

    def reset_to_system(self) -> ConversationHistory:
        """Forget everything but the system prompt."""
        self._clear()
        return self

    def truncate(self, count: int) -> ConversationHistory:
        """Keep the system prompt and the newest ``count`` messages after it."""
        if isinstance(count, bool) or not isinstance(count, int) or count < 0:
            raise ValueError("truncate needs a number of messages, 0 or more")
        if count < self._count:
            kept = self._items[self._count - count : self._count]
            self._clear()
            for message in kept:
                self._push(message)
        return self

    def replace(self, messages: Iterable[HistoryMessage | Mapping[str, Any]]) -> ConversationHistory:
        """Become exactly these messages; a leading system message is the system prompt. On an error nothing changes."""
        found = [item if isinstance(item, HistoryMessage) else HistoryMessage.from_dict(item) for item in messages]
        prompt = found.pop(0) if found and found[0].role == "system" else None
        fresh = ConversationHistory()
        for message in found:
            fresh._push(message)
        self._take(fresh)
        self._system, self._owner = prompt, True
        return self

    def copy(self) -> ConversationHistory:
        """An independent history with the same messages, in constant time."""
        twin = ConversationHistory.__new__(ConversationHistory)
        twin._system, twin._owner = self._system, False
        twin._take(self)
        return twin

    def with_system(self, prompt: str | HistoryMessage | None) -> ConversationHistory:
        """An independent copy with another system prompt, in constant time.

        A prompt that stays the same for many copies may be given as the message that they are to share.
        """
        twin = self.copy()
        if isinstance(prompt, HistoryMessage):
            twin._system = prompt
            return twin
        return twin.set_system(prompt)

    def to_list(self) -> list[dict[str, Any]]:
        """All messages with every field, as JSON."""
        return [message.to_dict() for message in self]

    @classmethod
    def from_list(cls, messages: Iterable[Mapping[str, Any]]) -> ConversationHistory:
        """Read ``to_list()`` back. ValueError names what is missing or malformed."""
        return cls().replace(messages)

    def _append(self, message: HistoryMessage) -> ConversationHistory:
        if message.role == "system" and not len(self):
            estimate_tokens(message.content)  # refuses what could not be counted later
            self._system = message
            return self
        return self._push(message)

    def _push(self, message: HistoryMessage) -> ConversationHistory:
        tokens = estimate_tokens(message.content)  # first: it may refuse, and then nothing has changed
        if not self._owner:
            self._items, self._users = self._items[: self._count], self._users[: self._user_count]
            self._owner = True
        if message.role == "system":
            self._system_tokens += tokens
        else:
            self._tokens += tokens
        if message.role == "user":
            self._users.append(self._count)
            self._user_count += 1
        self._items.append(message)
        self._count += 1
        return self

    def _take(self, other: ConversationHistory) -> None:
        self._items, self._users = other._items, other._users
        self._count, self._user_count = other._count, other._user_count
        self._tokens, self._system_tokens = other._tokens, other._system_tokens
