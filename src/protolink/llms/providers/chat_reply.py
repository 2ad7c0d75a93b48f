"""The reply of a chat completion, put together from one message or from many fragments.

Servers that speak this protocol differ in what they leave out, so every field is looked at before it is believed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from ...models.json import dumps
from ...models.turn import Call, ModelTurn
from ...models.value import dataclass
from ..json_actions import ActionParseError, parse_action
from ..native import native_call


@dataclass(slots=True)
class _Call:
    """A tool call as far as it has come. ``arguments`` is JSON text, or the object that some servers send."""

    index: int | None
    id: str = ""
    name: str = ""
    arguments: str | Mapping[str, Any] = ""

    def written(self) -> str:
        return f"{self.name} {self.arguments if isinstance(self.arguments, str) else dumps(dict(self.arguments))}"


class ChatReply:
    """What has come of a reply. ``usage`` has ``prompt_tokens`` and ``completion_tokens`` once the server told them.

    ``finish_reason`` stays None until the reply is complete.
    """

    def __init__(self) -> None:
        self.finish_reason: str | None = None
        self.usage: dict[str, Any] | None = None
        self._pieces: list[str] = []
        self._calls: list[_Call] = []

    @property
    def text(self) -> str:
        return "".join(self._pieces)

    def take(self, answer: Any) -> str | None:
        """Add a completion or a chunk of one. Returns its text; None when it is neither."""
        choices = _get(answer, "choices")
        if not isinstance(choices, list):
            return None
        self._count(_get(answer, "usage"))
        return "".join(self._choice(item) for item in choices[:1])

    def json_turn(self) -> ModelTurn:
        """The turn of a reply in the JSON action language. Raises ActionParseError."""
        try:
            turn = parse_action(self.text)
        except ActionParseError as error:
            raise self._misspoken(error, self.text) from error
        return replace(turn, usage=self.usage, finish_reason=self.finish_reason)

    def native_turn(self) -> ModelTurn:
        """The turn of a reply in text and tool calls. Raises ActionParseError when one of the calls cannot be read."""
        try:
            calls = self._read_calls()
        except ActionParseError as error:
            written = "\n".join(filter(None, [self.text, *(call.written() for call in self._calls)]))
            raise self._misspoken(error, written) from error
        return ModelTurn(self.text, calls, self.usage, self.finish_reason)

    def _misspoken(self, error: ActionParseError, raw: str) -> ActionParseError:
        cut = " (the reply reached its token limit and was cut; be shorter)" if self.finish_reason == "length" else ""
        return ActionParseError(f"{error}{cut}", raw=raw, usage=self.usage)

    def _read_calls(self) -> tuple[Call, ...]:
        calls: list[Call] = []
        for item in self._calls:
            if not item.name:
                raise ActionParseError("a tool call names no function")
            # An id given twice would leave the answers without a call of their own; the engine makes one for "".
            known = any(call.id == item.id for call in calls)
            calls.append(native_call("" if known else item.id, item.name, item.arguments))
        return tuple(calls)

    def _count(self, usage: Any) -> None:
        counts = {key: _get(usage, key) for key in ("prompt_tokens", "completion_tokens")}
        found = {key: value for key, value in counts.items() if type(value) is int}
        if found:
            self.usage = found

    def _choice(self, choice: Any) -> str:
        reason = _get(choice, "finish_reason")
        if isinstance(reason, str) and reason:
            self.finish_reason = reason
        said = _get(choice, "message") or _get(choice, "delta")
        calls = _get(said, "tool_calls")
        for position, call in enumerate(calls if isinstance(calls, list) else ()):
            self._fragment(call, position if _get(choice, "message") else None)
        text = _string(_get(said, "content")) or _string(_get(said, "refusal"))
        if text:
            self._pieces.append(text)
        return text

    def _fragment(self, part: Any, position: int | None) -> None:
        index = _get(part, "index")
        call = self._call(index if type(index) is int else position, _string(_get(part, "id")))
        function = _get(part, "function")
        call.name = call.name or _string(_get(function, "name"))
        arguments = _get(function, "arguments")
        if isinstance(arguments, Mapping):
            call.arguments = arguments
        elif isinstance(arguments, str) and isinstance(call.arguments, str):
            call.arguments += arguments

    def _call(self, index: int | None, id: str) -> _Call:
        """The call that a fragment belongs to. A new id begins one: some servers give no index, or one to all."""
        same = [call for call in self._calls if index is None or call.index == index]
        if same and (not id or same[-1].id in ("", id)):
            same[-1].id = same[-1].id or id
            return same[-1]
        self._calls.append(_Call(index, id))
        return self._calls[-1]


def _get(item: Any, name: str) -> Any:
    """A field of one of the package's objects, or of the plain object that it makes of a foreign shape."""
    return item.get(name) if isinstance(item, Mapping) else getattr(item, name, None)


def _string(value: Any) -> str:
    return value if isinstance(value, str) else ""
