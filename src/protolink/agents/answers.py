"""The answer of a run as a person reads it while it is being written."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Literal

from ..models import Task
from ..models.json import dumps
from ..models.value import dataclass
from ..runtime import RunEvent
from ..runtime.fields import text_in
from .final_text import FinalText
from .window import is_fragment

AnswerKind = Literal["delta", "replace", "completed", "discarded"]

#: What shows that the text so far was no answer, or is written once more.
_VOID = frozenset({"llm_parse_error", "llm_retry", "llm_error"})


@dataclass(frozen=True, slots=True)
class AnswerEvent:
    """``delta``: append ``text``. ``replace``: show ``text`` in place of everything. ``completed``: the final text.

    ``discarded``: there is no answer; take back what was shown. The last one is ``completed``, exactly once, or
    ``discarded``. ``sequence`` is that of the run's event behind it, ``step`` the model's turn.
    """

    kind: AnswerKind
    text: str
    sequence: int
    run_id: str
    agent_name: str | None
    step: int | None = None


class AnswerTrail:
    """Follows the events of one run, which is that of the root agent; what its children write is no answer.

    ``native``: whether the model's text is the answer itself; None when that is not known before it speaks.
    """

    def __init__(self, run_id: str, native: bool | None) -> None:
        self._run_id = run_id
        self._native = native
        self._shown: list[str] = []
        self._reader = _reader(native)

    def add(self, event: RunEvent) -> Iterator[AnswerEvent]:
        if event.run_id != self._run_id:
            return
        kind = text_in(event.payload, "llm_event_type")
        if is_fragment(event):
            text = self._reader.feed(str(event.payload.get("content") or ""))
            if text:
                self._shown.append(text)
                yield self._event("delta", text, event)
        elif kind == "llm_call_started":
            yield from self._replace("", event)
            self._reader = _reader(self._native)
        elif kind in _VOID or (kind == "llm_action" and _action(event) != "final"):
            yield from self._replace("", event)
        elif kind == "llm_final":
            yield from self._replace(as_text(event.payload.get("content")), event)

    def end(self, task: Task, last: RunEvent) -> AnswerEvent:
        """The last event of all, from the task as it ended."""
        if task.state.value != "completed":
            return self._event("discarded", "", last)
        return self._event("completed", as_text(task.get_output()), last)

    def _replace(self, text: str, event: RunEvent) -> Iterator[AnswerEvent]:
        if "".join(self._shown) != text:
            self._shown = [text] if text else []
            yield self._event("replace", text, event)

    def _event(self, kind: AnswerKind, text: str, event: RunEvent) -> AnswerEvent:
        return AnswerEvent(kind, text, event.sequence or 0, self._run_id, event.agent_name, event.step)


class _Plain:
    """A native model's text is the answer."""

    def feed(self, piece: str) -> str:
        return piece


class _Guess:
    """A reply that begins like JSON is an action. In any other, what follows a brace may be one and stays hidden."""

    def __init__(self) -> None:
        self._action: FinalText | None = None
        self._begun = False
        self._hidden = False

    def feed(self, piece: str) -> str:
        if not self._begun:
            start = piece.lstrip()[:1]
            self._begun = bool(start)
            self._action = FinalText() if start in ("{", "`") else None
        if self._action is not None:
            return self._action.feed(piece)
        if self._hidden:
            return ""
        shown, brace, _ = piece.partition("{")
        self._hidden = bool(brace)
        return shown


def _reader(native: bool | None) -> FinalText | _Plain | _Guess:
    if native is None:
        return _Guess()
    return _Plain() if native else FinalText()


def _action(event: RunEvent) -> Any:
    metadata = event.payload.get("metadata")
    action = event.payload.get("action")
    return metadata.get("action", action) if isinstance(metadata, dict) else action


def as_text(value: Any) -> str:
    """An answer to show: text as it is, other values as JSON."""
    if value is None:
        return ""
    return value if isinstance(value, str) else dumps(value)
