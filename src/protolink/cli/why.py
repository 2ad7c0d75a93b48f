"""Why a run stands where it stands, in one paragraph, and the exact command that moves it on."""

from __future__ import annotations

import json
import shlex
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from ..models.ids import utc_now
from ..models.value import dataclass

Projection = Mapping[str, Any]

#: What RunManager tells of a run that nobody owns, in an application that is what it was.
NO_OBSTACLES: Mapping[str, Any] = {"owned_until": None, "changes": (), "problem": None}

#: What RunManager tells of a run in which nothing expires and nothing may be run again.
NO_TERMS: Mapping[str, Any] = {"deadlines": {}, "rerunnable": ()}

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

    def run(self, verb: str, run_id: str, *options: str, action: str | None = None) -> str:
        """``protolink run VERB RUN_ID [ACTION] ...`` with the factory that was used, to be copied into a shell."""
        own = () if self.factory is None else ("--factory", self.factory)
        ids = [run_id] if action is None else [run_id, action]
        words = [*ids, *options, *own]
        if any(found.startswith("-") for found in ids):  # ids, not options
            words = [*options, *own, "--", *ids]
        return f"{self.program} {' '.join(map(_quoted, ['run', verb, *words]))}"


def _quoted(word: str) -> str:
    """As a shell reads it. What cannot be shown is written as bytes, in the quotes that bash and zsh have for that."""
    if word.isprintable():
        return shlex.quote(word)
    shown = (char if char.isprintable() else _bytes(char) for char in word.replace("\\", r"\\").replace("'", r"\'"))
    return f"$'{''.join(shown)}'"


def _bytes(char: str) -> str:
    return "".join(f"\\x{byte:02x}" for byte in char.encode(errors="surrogatepass"))


def program(called: str) -> str:
    """How to call this program again, from how it was called (``sys.argv[0]``)."""
    path = Path(called)
    if path.parts[-2:] == ("protolink", "__main__.py"):
        return f"{shlex.quote(sys.executable)} -m protolink"
    known = shutil.which("protolink")
    if path.name != "protolink" or len(path.parts) == 1 or (known is not None and path.samefile(known)):
        return "protolink"
    return shlex.quote(called)


def explain(
    run: Projection,
    events: Sequence[Mapping[str, Any]],
    commands: Commands,
    obstacles: Mapping[str, Any] = NO_OBSTACLES,
    terms: Mapping[str, Any] = NO_TERMS,
) -> Explanation:
    """From the run's projection, its stored events, ``obstacles`` and ``terms`` as RunManager gives them, redacted."""
    found = _explained(run, events, commands, obstacles["owned_until"], terms)
    text = found.paragraph + _owned(obstacles["owned_until"]) + _changed(obstacles["changes"], obstacles["problem"])
    return Explanation(text, found.command)


def _explained(
    run: Projection,
    events: Sequence[Mapping[str, Any]],
    commands: Commands,
    owned: str | None,
    terms: Mapping[str, Any],
) -> Explanation:
    run_id, head = run["run_id"], f"Run {run['run_id']} of {run['agent_name']}"
    if run["uncertain_actions"]:
        return _uncertain(head, run, events, commands, terms["rerunnable"])
    waiting = run["interruption"]
    if run["status"] == "working" and (owned is not None or waiting is None):
        return _working(head, run, events, commands, owned)
    if waiting is not None:
        return _waiting(head, run, waiting, commands, terms["deadlines"].get(waiting["request_id"]))
    match run["status"]:
        case "completed":
            text = f"{head} is completed; nothing is left to do. {_work(run)} Its events tell what happened."
            return Explanation(text, commands.run("events", run_id))
        case "failed" | "canceled" as status:
            text = f"{head} ended {status}{_reason(events)}. It cannot be resumed. {_work(run)}"
            return Explanation(text, commands.run("events", run_id))
        case status:
            return Explanation(f"{head} is {status}; resuming goes on with it.", commands.run("resume", run_id))


def _uncertain(
    head: str, run: Projection, events: Sequence[Any], commands: Commands, rerunnable: Sequence[str]
) -> Explanation:
    action = run["uncertain_actions"][0]
    more = len(run["uncertain_actions"]) - 1
    since = _time_of(events, action["action_id"], "action.started")
    text = (
        f"{head} is uncertain: '{action['name']}' was started{since}, and {_unknown(events, action['action_id'])}. Its "
        "effect may have happened, in full, in part or not at all, and protolink does not repeat it. Look at the "
        "system that it acts on; then record as JSON what you found, in the form of the tool's own result, or give "
        "--unchanged TEXT instead of --result if it did nothing."
    )
    if action["action_id"] in rerunnable:
        again = commands.run("resume", run["run_id"], "--rerun", action["action_id"])
        text += f" It is declared idempotent, so that it may also be run again, policy permitting ({again})."
    if more:
        text += f" {more} more of its actions are uncertain as well."
    command = commands.run("reconcile", action["run_id"], "--result", "JSON", action=action["action_id"])
    return Explanation(text, command)


def _waiting(
    head: str, run: Projection, waiting: Mapping[str, Any], commands: Commands, deadline: str | None
) -> Explanation:
    request, run_id = waiting["request"], run["run_id"]
    binding = ("--request-id", waiting["request_id"], "--fingerprint", waiting["fingerprint"])
    more = len(run["interruptions"]) - 1
    tail = f" {more} more of its requests are pending." if more else ""
    if deadline is not None and deadline <= utc_now():
        return Explanation(_expired(head, waiting, deadline) + tail, commands.run("resume", run_id))
    if deadline is not None:
        tail = f" It takes a response until {_moment(deadline)}." + tail
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


def _expired(head: str, waiting: Mapping[str, Any], deadline: str) -> str:
    if waiting["kind"] == "approval":
        asked, then = f"a person's approval of '{waiting['request']['action']['name']}'", "denies the action"
    else:
        asked, then = f"an answer to: {waiting['request']['question']}", "goes on without an answer"
    over = f"The time for that ended at {_moment(deadline)}: no response is taken any more, and resuming {then}."
    return f"{head} waited for {asked}. {over}"


def _unknown(events: Sequence[Any], action_id: str) -> str:
    """Why the outcome is unknown: the tool's own words, where it had any."""
    told = [event for event in events if event["type"] == "action.uncertain" and event.get("action_id") == action_id]
    error = (told[-1]["payload"].get("error") or {}) if told else {}
    if not error.get("message"):
        return "its process ended without a receipt"
    return f"ended without a receipt: {error['message'].rstrip('.')}"


def _working(head: str, run: Projection, events: Sequence[Any], commands: Commands, owned: str | None) -> Explanation:
    open_actions = _started(events)
    effect = f" It had started {', '.join(open_actions)}, of which no receipt is stored." if open_actions else ""
    if owned is not None:
        text = f"{head} is being worked on.{effect}"
    else:
        text = (
            f"{head} was working when it was last stored, and nobody is known to be at work on it: its process was cut "
            f"off.{effect} Resuming is safe: it is refused while somebody owns the run, and repeats no effect."
        )
    return Explanation(text, commands.run("resume", run["run_id"]))


def _owned(until: str | None) -> str:
    if until is None:
        return ""
    return (
        " A process owns the run, and renews its lease while it lives; if it is gone, everybody else has to wait "
        f"until {_moment(until)}."
    )


def _changed(changes: Sequence[Mapping[str, Any]], problem: str | None) -> str:
    """What has to be put back before anything else works."""
    if problem is not None:
        return f" Whether the application has changed since then cannot be told here: {problem.rstrip('.')}."
    if not changes:
        return ""
    parts = "; ".join(f"{change['part']} ({change['reason']})" for change in changes)
    return (
        f" The application is not what it was when the run was stored, so every command that goes on with it is "
        f"refused. Changed: {parts}. Restore that first."
    )


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
    return f" at {_moment(event['timestamp'])}"


def _moment(iso: str) -> str:
    return f"{iso[:19].replace('T', ' ')} UTC"


def _reason(events: Sequence[Any]) -> str:
    """What the last event of an error says."""
    told = [event["summary"] for event in events if event["severity"] == "error" and event.get("summary")]
    return f": {told[-1]}" if told else ""


def _work(run: Projection) -> str:
    usage = run["usage"] or {}
    return f"It took {usage.get('llm_calls', 0)} model calls and {usage.get('tool_calls', 0)} tool calls."
