"""Why a run stands where it stands, in one paragraph, and the exact command that moves it on."""

from __future__ import annotations

import json
import shlex
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Projection = Mapping[str, Any]

_ENDED = ("action.completed", "action.rejected", "action.failed", "action.denied", "action.canceled")


@dataclass(frozen=True, slots=True)
class Explanation:
    """``command`` is ready for a POSIX shell, but for words in capitals that the operator fills in."""

    paragraph: str
    command: str

    def to_dict(self) -> dict[str, str]:
        """Both, by name."""
        return {"why": self.paragraph, "command": self.command}


@dataclass(frozen=True, slots=True)
class Commands:
    """How the operator writes commands. ``factory`` is None when the environment names it."""

    factory: str | None
    program: str = "protolink"

    def run(self, *words: str) -> str:
        """``protolink run ...`` with the factory that was used."""
        own = () if self.factory is None else ("--factory", self.factory)
        return f"{self.program} {shlex.join(['run', *words, *own])}"


def program(called: str) -> str:
    """How to call this program again, from how it was called (``sys.argv[0]``)."""
    path = Path(called)
    if path.parts[-2:] == ("protolink", "__main__.py"):
        return f"{shlex.quote(sys.executable)} -m protolink"
    known = shutil.which("protolink")
    if path.name != "protolink" or len(path.parts) == 1 or (known is not None and path.samefile(known)):
        return "protolink"
    return shlex.quote(called)


def explain(run: Projection, events: Sequence[Mapping[str, Any]], commands: Commands) -> Explanation:
    """From the run's projection and its stored events, both redacted."""
    run_id, head = run["run_id"], f"Run {run['run_id']} of {run['agent_name']}"
    if run["uncertain_actions"]:
        return _uncertain(head, run, events, commands)
    waiting = run["interruption"]
    if waiting is not None:
        return _waiting(head, run, waiting, commands)
    match run["status"]:
        case "completed":
            text = f"{head} is completed; nothing is left to do. {_work(run)} Its events tell what happened."
            return Explanation(text, commands.run("events", run_id))
        case "failed" | "canceled" as status:
            text = f"{head} ended {status}{_reason(events)}. It cannot be resumed. {_work(run)}"
            return Explanation(text, commands.run("events", run_id))
        case "working":
            return _working(head, run, events, commands)
        case status:
            return Explanation(f"{head} is {status}; resuming goes on with it.", commands.run("resume", run_id))


def _uncertain(head: str, run: Projection, events: Sequence[Any], commands: Commands) -> Explanation:
    action = run["uncertain_actions"][0]
    more = len(run["uncertain_actions"]) - 1
    since = _time_of(events, action["action_id"], "action.started")
    text = (
        f"{head} is uncertain: '{action['name']}' was started{since}, and its process ended without a receipt. Its "
        "effect may have happened, in full, in part or not at all, and protolink does not repeat it. Look at the "
        "system that it acts on; then record as JSON what you found, in the form of the tool's own result."
    )
    if more:
        text += f" {more} more of its actions are uncertain as well."
    words = ("reconcile", action["run_id"], action["action_id"], "--result", "JSON")
    return Explanation(text, commands.run(*words))


def _waiting(head: str, run: Projection, waiting: Mapping[str, Any], commands: Commands) -> Explanation:
    request, run_id = waiting["request"], run["run_id"]
    binding = ("--request-id", waiting["request_id"], "--fingerprint", waiting["fingerprint"])
    more = len(run["interruptions"]) - 1
    tail = f" {more} more of its requests are pending." if more else ""
    match waiting["kind"]:
        case "approval":
            action = request["action"]
            arguments = json.dumps(action["payload"].get("arguments", {}), ensure_ascii=False)
            what = f"{(action.get('description') or 'it is called').rstrip('.')}, with {arguments}"
            policy = request["policy_decision"]["reason"]
            text = (
                f"{head} waits for a person's approval of '{action['name']}': {what}. Nothing of it has been done. The "
                f"policy says: {policy}. Inspect the run to see the exact action; --deny instead of --approve ends it."
            )
            return Explanation(text + tail, commands.run("resume", run_id, *binding, "--approve"))
        case "input":
            options = request.get("options")
            offered = f" It offers: {', '.join(options)}." if options else ""
            text = f"{head} asks a person: {request['question']}{offered} --decline instead of --answer declines."
            return Explanation(text + tail, commands.run("resume", run_id, *binding, "--answer", "TEXT"))
        case "retry":
            text = (
                f"{head} waits because its model or a preparation failed: {request.get('message')}. Nothing was lost; "
                "resuming tries again."
            )
            return Explanation(text + tail, commands.run("resume", run_id))
        case _:
            text = f"{head} has used up its work slice and waits to be given the next one."
            return Explanation(text + tail, commands.run("resume", run_id))


def _working(head: str, run: Projection, events: Sequence[Any], commands: Commands) -> Explanation:
    open_actions = _started(events)
    effect = f" It had started {', '.join(open_actions)}, of which no receipt is stored." if open_actions else ""
    text = (
        f"{head} was working when it was last stored: a process is still at work on it, or that process was cut "
        f"off.{effect} Resuming is safe: it is refused while somebody owns the run, and repeats no effect."
    )
    return Explanation(text, commands.run("resume", run["run_id"]))


def _started(events: Sequence[Any]) -> list[str]:
    """What was started and has no end on record, by name."""
    found: dict[str, str] = {}
    for event in events:
        key = event.get("action_id")
        if event["type"] == "action.started":
            found[key] = f"'{(event.get('summary') or key).rpartition(': ')[2]}'{_at(event)}"
        elif event["type"] in _ENDED:
            found.pop(key, None)
    return list(found.values())


def _time_of(events: Sequence[Any], action_id: str, type_: str) -> str:
    found = [event for event in events if event["type"] == type_ and event.get("action_id") == action_id]
    return _at(found[-1]) if found else ""


def _at(event: Mapping[str, Any]) -> str:
    return f" at {event['timestamp'][:19].replace('T', ' ')} UTC"


def _reason(events: Sequence[Any]) -> str:
    """What the last event of an error says."""
    told = [event["summary"] for event in events if event["severity"] == "error" and event.get("summary")]
    return f": {told[-1]}" if told else ""


def _work(run: Projection) -> str:
    usage = run["usage"] or {}
    return f"It took {usage.get('llm_calls', 0)} model calls and {usage.get('tool_calls', 0)} tool calls."
