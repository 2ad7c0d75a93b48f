"""Which parts of a task are work for an agent."""

from __future__ import annotations

from collections.abc import Iterator

from ..drive.ports import AgentPort
from ..engine.facts import Proposal, Spec
from ..models import Message, Part, Task, ToolCall, new_id
from ..models.json import dumps
from ..models.turn import Call

WORK = frozenset({"infer", "tool_call"})


def work_parts(task: Task) -> list[Part]:
    """The executable parts of the newest message, unless an agent wrote that one."""
    message = task.messages[-1] if task.messages else None
    if message is None or message.role in ("agent", "assistant"):
        return []
    return [part for part in _parts(message) if part.type in WORK]


def _parts(message: Message) -> Iterator[Part]:
    yield from message.parts


def specs(task: Task, node: AgentPort) -> tuple[Spec, ...]:
    """How each of those parts starts, in order."""
    return tuple(_spec(part, index, node) for index, part in enumerate(work_parts(task)))


def _spec(part: Part, index: int, node: AgentPort) -> Spec:
    frame = f"part:{index}"
    if part.type == "tool_call":
        call: ToolCall = part.as_tool_call()
        proposal = Proposal(new_id("action"), Call(call.call_id or "", call.tool_name, dict(call.args or {})))
        return node.spec(frame, call=proposal)
    content = part.content if isinstance(part.content, dict) else {"prompt": part.content}
    return node.spec(
        frame,
        prompt=_prompt(content.get("prompt"), content.get("user")),
        output_schema=content.get("output_schema"),
        metadata=content.get("metadata") or {},
    )


def _prompt(*texts: object) -> str:
    return "\n\n".join(text if isinstance(text, str) else dumps(text) for text in texts if text is not None)
