"""The events of a run, cut down to what tells its story."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from protolink import RunEvent

Row = tuple[int, str, str, str]

_TELLING = (
    "task.status",
    "llm.call.completed",
    "action.completed",
    "action.failed",
    "approval.required",
    "approval.decided",
    "user_input.requested",
    "user_input.answered",
)


def timeline(events: Sequence[RunEvent]) -> list[Row]:
    """Rows of process, time, event and summary; the process is counted from 1."""
    return [(process, event.timestamp[11:23], event.type, _summary(event)) for process, event in _told(events)]


def processes(events: Sequence[RunEvent]) -> int:
    """How many processes worked on the run."""
    return max(process for process, _ in _numbered(events))


def _told(events: Sequence[RunEvent]) -> Iterator[tuple[int, RunEvent]]:
    ended = {event.action_id for event in events if event.type == "action.completed"}
    effect = {event.action_id for event in events if event.type == "approval.required"}
    for process, event in _numbered(events):
        # The start of a tool is worth a row only where its end is not beside it.
        starts = event.type == "action.started" and (event.action_id in effect or event.action_id not in ended)
        if event.type in _TELLING or starts:
            yield process, event


def _numbered(events: Sequence[RunEvent]) -> Iterator[tuple[int, RunEvent]]:
    """A process ends when the run pauses, and when the operator has settled an action.

    The one that was killed left no last event: its successor found what it had left.
    """
    process, open_ = 0, False
    unknown: set[str | None] = set()
    for event in events:
        found = _uncertain(event)
        if found or not open_:
            process += 1
        yield process, event
        unknown.update(found)
        settled = event.type == "action.completed" and event.action_id in unknown
        open_ = not (settled or (event.type == "task.status" and event.final))


def _uncertain(event: RunEvent) -> list[str]:
    """The actions whose outcome this event says is not known."""
    found: list[str] = event.payload.get("metadata", {}).get("uncertain", [])
    return found if event.type == "task.status" else []


def _summary(event: RunEvent) -> str:
    if _uncertain(event):
        return "Stopped: the outcome of a started action is not known"
    if event.type == "user_input.requested":
        return str(event.payload["request"]["question"])
    if event.type == "user_input.answered":
        return str(event.payload["result"]["answer"])
    return event.summary or ""
