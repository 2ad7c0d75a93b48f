"""The tool by which an agent asks a person.

It has no effect to execute: the run puts the question, waits (or parks) and takes the answer as the result.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from ..._lazy import Later
from ...drive.ports import AnswerTimedOut, InvalidArguments
from ...runtime import RunAction, RunContext, UserInputRequest
from ..hinted import HintedArguments
from ..signature import is_async, read_signature
from ..tool import Probe

if TYPE_CHECKING:
    from . import question
else:
    question = Later(".question", __package__)

InputHandler = Callable[[UserInputRequest], Awaitable[str | None]]

_CAPABILITY = "user.interact"


def ask_user_tool(
    handler: InputHandler | None = None, *, timeout_seconds: float = 300.0, max_answer_chars: int = 16384
) -> AskUserTool:
    """A tool ``ask_user(question, options=None)`` with the capability ``user.interact``.

    ``handler(request)`` is async, asks the connected person and returns text, or None for no answer. Only live runs
    use it; a durable run stores the question and waits. ``timeout_seconds`` bounds the handler, ``max_answer_chars``
    the answer.

    TypeError for a handler that is not async, ValueError for a limit that is not positive.
    """
    return AskUserTool(handler, timeout_seconds=timeout_seconds, max_answer_chars=max_answer_chars)


class AskUserTool:
    """See ``ask_user_tool``. Results are ``{"request_id", "status", "answer"}``; answered, declined or timed_out."""

    name = "ask_user"
    description = "Ask the person you work for one question and wait for the answer; options are suggestions."
    capabilities = (_CAPABILITY,)
    read_only = False
    idempotent = False
    probe: Probe | None = None
    asks_user: ClassVar[Literal[True]] = True

    def __init__(self, handler: InputHandler | None, *, timeout_seconds: float, max_answer_chars: int) -> None:
        if handler is not None and not is_async(handler):
            raise TypeError("ask_user_tool: the handler must be an async function, so that it does not block the agent")
        if isinstance(timeout_seconds, bool) or not isinstance(timeout_seconds, (int, float)):
            raise TypeError("ask_user_tool: timeout_seconds must be a number")
        if not (timeout_seconds > 0 and math.isfinite(timeout_seconds)):
            raise ValueError("ask_user_tool: timeout_seconds must be positive and finite")
        if isinstance(max_answer_chars, bool) or not isinstance(max_answer_chars, int):
            raise TypeError("ask_user_tool: max_answer_chars must be an integer")
        if max_answer_chars < 1:
            raise ValueError("ask_user_tool: max_answer_chars must be positive")
        self.handler = handler
        self.timeout_seconds = float(timeout_seconds)
        self.max_answer_chars = max_answer_chars
        self.tags: list[str] = []
        self._arguments = HintedArguments(self.name, read_signature(question.question))
        self.input_schema: dict[str, Any] = self._arguments.schema
        self.input_schema["properties"]["options"]["anyOf"][0]["uniqueItems"] = True
        self.output_schema = _OUTPUT

    async def __call__(self, /, **arguments: Any) -> Any:
        """Always RuntimeError: a question belongs to a run."""
        raise RuntimeError("'ask_user' puts its question through a run; call it through an agent")

    def validate_args(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """``{"question", "options"}``, checked. Raises InvalidArguments (ValueError)."""
        values = self._arguments.read(arguments)
        options = values["options"]
        if options is not None and len(set(options)) != len(options):
            raise InvalidArguments("tool args.options must be distinct")
        return values

    def prepare(self, arguments: Mapping[str, Any], context: RunContext) -> RunAction:
        """The action that asks. Raises InvalidArguments."""
        return RunAction(
            kind="tool.call",
            name=self.name,
            payload={"arguments": self.validate_args(arguments)},
            capabilities=frozenset(self.capabilities),
            description=self.description,
        )

    def question(self, action: RunAction, request_id: str, task_id: str, run_id: str) -> UserInputRequest:
        """The question that a prepared action puts."""
        arguments = self.validate_args(action.payload.get("arguments"))  # type: ignore[arg-type]
        return UserInputRequest(
            request_id=request_id,
            question=arguments["question"],
            options=tuple(arguments["options"] or ()),
            run_id=run_id,
            task_id=task_id,
            action_id=action.action_id,
        )

    def body(self, request: UserInputRequest) -> dict[str, Any]:
        """What a store keeps of a waiting question: the request, and how long the answer may be."""
        return request.to_dict() | {"max_answer_chars": self.max_answer_chars}

    def accept(self, answer: Any) -> str | None:
        """The answer as it is, None for a declined question. ValueError when it is no text, blank or too long."""
        if answer is None:
            return None
        if not isinstance(answer, str):
            raise ValueError(f"an answer must be text, or None to decline; got {type(answer).__name__}")
        if not answer.strip():
            raise ValueError("an answer must not be blank; None declines the question")
        if len(answer) > self.max_answer_chars:
            raise ValueError(f"an answer may have {self.max_answer_chars} characters; this one has {len(answer)}")
        return answer

    def ask(self, request: UserInputRequest) -> Awaitable[str | None] | None:
        """Ask the connected person; None when there is no handler. The answer is checked.

        The awaitable raises AnswerTimedOut after ``timeout_seconds``, ValueError for an answer that ``accept`` refuses,
        and what the handler raises.
        """
        return None if self.handler is None else self._ask(self.handler, request)

    async def _ask(self, handler: InputHandler, request: UserInputRequest) -> str | None:
        limit = asyncio.timeout(self.timeout_seconds)
        try:
            async with limit:
                answer = await handler(request)
        except TimeoutError:
            if limit.expired():
                raise AnswerTimedOut(f"no answer within {self.timeout_seconds:g} seconds") from None
            raise
        return self.accept(answer)


_OUTPUT: dict[str, Any] = {
    "type": "object",
    "title": "ask_userOutput",
    "properties": {
        "request_id": {"type": "string"},
        "status": {"type": "string", "enum": ["answered", "declined", "timed_out"]},
        "answer": {"anyOf": [{"type": "string"}, {"type": "null"}]},
    },
    "required": ["request_id", "status", "answer"],
    "additionalProperties": False,
}
