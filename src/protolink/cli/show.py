"""Stored runs as text for people. Everything shown is redacted already."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from .output import visible
from .why import Explanation

Shown = Mapping[str, Any]

_COLORS = {
    "completed": "green",
    "failed": "red",
    "canceled": "yellow",
    "uncertain": "bold red",
    "input-required": "bold yellow",
    "working": "cyan",
}
_DIFF = {"+": "green", "-": "red", "@": "cyan"}
_SEVERITY = {"warning": "yellow", "error": "red"}


def runs(console: Console, found: Sequence[Shown]) -> None:
    """One line a run."""
    if not found:
        console.print("(none)")
        return
    table = _table("RUN", "AGENT", "STATUS", "WAITS FOR")
    for run in found:
        table.add_row(_plain(run["run_id"]), _plain(run["agent_name"]), _status(run), _plain(_open_point(run)))
    console.print(table)


def rows(console: Console, found: Sequence[Shown], *fields: str) -> None:
    """One line a record, by its fields."""
    if not found:
        console.print("(none)")
        return
    table = _table(*(name.upper().replace("_", " ") for name in fields))
    for record in found:
        # Times are shown to the second.
        table.add_row(*(_plain(str(record[name] or "")[: 19 if name.endswith("_at") else None]) for name in fields))
    console.print(table)


def run(console: Console, found: Shown) -> None:
    """One run: where it stands, what it used, what it asks and what is uncertain."""
    console.print(Text.assemble("Run    ", (visible(found["run_id"]), "bold"), " of ", visible(found["agent_name"])))
    console.print(Text.assemble("Status ", _status(found)))
    usage = found["usage"] or {}
    counted = ("llm_calls", "model calls"), ("tool_calls", "tool calls"), ("steps", "steps")
    console.print("Usage  " + ", ".join(f"{usage.get(key, 0)} {words}" for key, words in counted))
    for waiting in found["interruptions"]:
        console.print()
        _request(console, waiting)
    for action in found["uncertain_actions"]:
        console.print()
        name = visible(action["name"])
        console.print(Text(f"Uncertain: '{name}' was started and left no receipt. It is not repeated.", "bold red"))
        _fields(console, action, "run_id", "action_id", "state")


def task(console: Console, found: Shown) -> None:
    """What a task has brought so far: its last words, or why it failed."""
    error = (found.get("metadata") or {}).get("error")
    if error:
        console.print(Text(f"Error  {visible(str(error))}", "red"))
    for artifact in found.get("artifacts") or []:
        for part in artifact.get("parts") or []:
            if artifact.get("kind") == "result" and part.get("content") is not None:
                console.print(Text(f"Output {visible(_text(part['content']))}"))


def events(console: Console, found: Sequence[Shown]) -> None:
    """One line an event, by its number."""
    if not found:
        console.print("(none)")
        return
    table = _table("N", "TIME (UTC)", "EVENT", "AGENT", "SUMMARY")
    for event in found:
        style = _SEVERITY.get(event["severity"], "")
        cells = (str(event["sequence"]), event["timestamp"][11:23], event["type"], event["agent_name"] or "")
        table.add_row(*map(_plain, cells), Text(visible(event["summary"] or ""), style))
    console.print(table)


def explanation(console: Console, found: Explanation) -> None:
    """The paragraph, and the command alone on its line so that it can be copied."""
    console.print(visible(found.paragraph))
    console.print()
    console.print(Text(f"  {visible(found.command)}", "bold"), soft_wrap=True)


def _request(console: Console, waiting: Shown) -> None:
    request = waiting["request"]
    match waiting["kind"]:
        case "approval":
            action = request["action"]
            console.print(Text(f"Asks for approval of '{visible(action['name'])}'", "bold yellow"))
            if action.get("description"):
                console.print(f"  {visible(action['description'])}")
            console.print(f"  arguments     {visible(_text(action['payload'].get('arguments', {})))}")
            for preview in action.get("artifacts") or []:
                _preview(console, preview)
        case "input":
            console.print(Text(f"Asks: {visible(request['question'])}", "bold yellow"))
            if request.get("options"):
                console.print(f"  options       {visible(', '.join(request['options']))}")
        case "retry":
            console.print(Text(f"Will try again: {visible(str(request.get('message')))}", "bold yellow"))
        case _:
            console.print(Text("Has ended a work slice; resume grants the next one", "bold yellow"))
    _fields(console, waiting, "request_id", "fingerprint")


def _preview(console: Console, artifact: Shown) -> None:
    console.print(f"  preview       {visible(artifact.get('name') or artifact['kind'])}")
    for part in artifact.get("parts") or []:
        for line in visible(_text(part.get("content"))).splitlines():
            style = _DIFF.get(line[:1], "") if artifact.get("media_type") == "text/x-diff" else ""
            console.print(Text(f"    {line}", style), soft_wrap=True)


def _fields(console: Console, source: Shown, *names: str) -> None:
    for name in names:
        console.print(f"  {name:<13} {visible(str(source[name]))}", soft_wrap=True)


def _open_point(run: Shown) -> str:
    if run["uncertain_actions"]:
        return f"reconcile '{run['uncertain_actions'][0]['name']}'"
    waiting = run["interruption"]
    if waiting is None:
        return ""
    match waiting["kind"]:
        case "approval":
            return f"approval of '{waiting['request']['action']['name']}'"
        case "input":
            return f"answer: {waiting['request']['question']}"
        case "retry":
            return "another try"
        case _:
            return "its next slice"


def _status(run: Shown) -> Text:
    return Text(visible(run["status"]), _COLORS.get(run["status"], ""))


def _table(*names: str) -> Table:
    table = Table(box=SIMPLE_HEAD, pad_edge=False)
    for name in names:
        # An id that is broken into lines cannot be copied, nor a type searched for.
        table.add_column(name, overflow="fold", no_wrap=name in ("RUN", "RUN ID", "TASK ID", "EVENT"))
    return table


def _plain(text: str) -> Text:
    return Text(visible(text))


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
