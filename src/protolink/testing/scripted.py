"""ScriptedModel: a model that knows its lines by their place in the conversation.

A script that counts its own calls gives another line when a call is repeated after a crash. Here the line is found by
the conversation that the model is shown: the third reply is the third line, whoever asks for it and however often.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ..llms import MockLLM
from ..models import ConversationHistory

Line = Any
Script = Sequence[Line]


class ScriptedModel(MockLLM):
    """Plays a script to one agent.

    ``script``: the replies of a conversation in order; or a mapping of words to such lists, where the list is played
    whose words stand in the first message of the user. A line is a ModelTurn, an action (dict with a ``type``), text (a
    final answer, or the text of an action), an exception, which is raised each time, or a function of the history that
    returns a line or awaits one.

    ``native`` plays turns as a provider's own tool calls; only then may one turn have several. ``LookupError`` for a
    conversation that goes on behind the end of its script, or fits none.
    """

    provider = "scripted"

    def __init__(
        self,
        script: Script | Mapping[str, Script],
        *,
        native: bool = False,
        model: str = "scripted",
        model_params: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(
            model,
            model_params,
            response_callback=self._line,
            tool_calling="native" if native else "json",
        )
        self._scripts = dict(script) if isinstance(script, Mapping) else {"": list(script)}

    async def _line(self, history: ConversationHistory, system_prompt: str) -> Any:
        script, position = self._script(history), replies(history)
        if position >= len(script):
            raise LookupError(f"the script has {len(script)} lines; reply {position + 1} was asked for")
        line = script[position]
        return await _played(line, history) if inspect.isroutine(line) else line

    def _script(self, history: ConversationHistory) -> Script:
        said = next((str(message.content) for message in history if message.role == "user"), "")
        for words, script in self._scripts.items():
            if words in said:
                return script
        raise LookupError(f"no script fits the message {said!r}; there are scripts for {sorted(self._scripts)}")


def replies(history: ConversationHistory) -> int:
    """How many replies the model has given in this conversation, those that were no action included."""
    return sum(message.role == "assistant" for message in history)


async def _played(line: Callable[[ConversationHistory], Any], history: ConversationHistory) -> Any:
    found = line(history)
    return await found if inspect.isawaitable(found) else found
