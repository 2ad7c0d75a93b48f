"""Stored messages and how they are made fewer: pure functions on lists of message dicts.

A *turn* is what one run added. Its prompts and answers are the dialogue; what lies between them, tool calls and their
results, is *work*. Turns are cut as a whole and work is dropped as a whole, so that no call is left without its answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import groupby
from typing import Any

from ..models.tokens import estimate_tokens
from .limits import ConversationLimits

Message = dict[str, Any]
Turn = list[Message]

#: Roles that a message plays in its turn.
PROMPT, WORK, ANSWER = "prompt", "work", "answer"

#: What a model is told again. The rest of a stored message is about where it came from.
_SPOKEN = ("role", "content", "name", "tool_calls", "tool_name", "tool_call_id")


def marked(message: Mapping[str, Any], part: str, **origin: str) -> Message:
    """A message of a conversation as it is stored. ``origin``: its ``agent``, ``run_id`` and ``turn``."""
    own = {**(message.get("metadata") or {}), **origin, "part": part}
    return {**{key: item for key, item in message.items() if item is not None}, "metadata": own}


def spoken(messages: Iterable[Message]) -> list[Message]:
    """The messages as a history takes them over."""
    return [{key: item[key] for key in _SPOKEN if item.get(key) is not None} for item in messages]


def belongs(message: Message, agent: str) -> bool:
    """True for what this agent said or heard. What an application put there itself is everybody's."""
    return (message.get("metadata") or {}).get("agent") in (None, agent)


def turn_id(message: Message) -> str | None:
    """What the messages of one turn have in common. Not the run's id: live runs may have the same one again."""
    found: str | None = (message.get("metadata") or {}).get("turn")
    return found


def turns(messages: Iterable[Message]) -> list[Turn]:
    """The messages by turn, in order. Where an application put them, a turn begins at each user message."""
    found: list[Turn] = []
    for known, group in groupby(messages, turn_id):
        if known is not None:
            found.append(list(group))
            continue
        for index, message in enumerate(group):
            if index == 0 or message["role"] == "user":
                found.append([])
            found[-1].append(message)
    return found


def dialogue(turn: Turn) -> Turn:
    """The turn without its work."""
    return [message for message in turn if (message.get("metadata") or {}).get("part") != WORK]


def tokens(turn: Iterable[Message]) -> int:
    """Estimated tokens of the messages."""
    return sum(estimate_tokens(item.get("content")) + estimate_tokens(item.get("tool_calls")) for item in turn)


def bounded(messages: list[Message], limits: ConversationLimits) -> list[Message]:
    """Within the limits: the work of older turns goes first, then older turns, last the work of the newest one."""
    found = turns(messages)
    sizes = [(len(turn), tokens(turn)) for turn in found]
    count, size = sum(n for n, _ in sizes), sum(n for _, n in sizes)
    for index in range(len(found) - 1):
        if _fits(count, size, limits):
            break
        found[index] = dialogue(found[index])
        fewer = len(found[index]), tokens(found[index])
        count, size = count - sizes[index][0] + fewer[0], size - sizes[index][1] + fewer[1]
        sizes[index] = fewer
    while len(found) > 1 and not _fits(count, size, limits):
        found.pop(0)
        gone = sizes.pop(0)
        count, size = count - gone[0], size - gone[1]
    if found and not _fits(count, size, limits):
        found = [dialogue(found[0])]
    return [message for turn in found for message in turn]


def _fits(count: int, size: int, limits: ConversationLimits) -> bool:
    most, largest = limits.max_messages, limits.max_tokens
    return (most is None or count <= most) and (largest is None or size <= largest)


def compacted(messages: list[Message], *, keep_turns: int | None, keep_work: int) -> list[Message]:
    """The newest ``keep_turns`` turns (None: all), the work of all but the newest ``keep_work`` dropped."""
    found = turns(messages)
    kept = found if keep_turns is None else found[max(0, len(found) - keep_turns) :]
    whole = len(kept) - keep_work
    return [message for index, turn in enumerate(kept) for message in (turn if index >= whole else dialogue(turn))]


def newest(messages: list[Message], most: int) -> list[Message]:
    """The newest turns that have no more than ``most`` messages together."""
    kept: list[Turn] = []
    count = 0
    for turn in reversed(turns(messages)):
        count += len(turn)
        if count > most:
            break
        kept.insert(0, turn)
    return [message for turn in kept for message in turn]
