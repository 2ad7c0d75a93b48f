"""What each process of the demonstration does: ``python -m examples.release_agent.steps STEP FOLDER``.

None of them knows more than the folder and what is stored there.
"""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from protolink import Agent, RunContext, RunEvent, RunManager, UncertainExecutionError
from protolink.cli import main as protolink

from . import screen
from .agent import HOME, application
from .course import Astray, until_approval, until_end, until_question
from .demo import ASTRAY
from .model import MODEL, variables
from .release import CRASH
from .timeline import processes, timeline
from .workspace import Workspace

RUN = "release-1"
VERSION = "1.3.0"
DEMO = "examples.release_agent.demo"
FACTORY = "examples.release_agent.agent:application"


class Step:
    """One process: the agent made anew, the repository, and the screen."""

    def __init__(self, home: Path) -> None:
        os.environ[HOME] = str(home)
        self.home = home
        self.screen = screen.console()
        self.workspace = Workspace(home / "repository")
        self.agent: Agent = application()
        self.told = len(self._messages())

    def start(self) -> None:
        """A person gives the task; the agent looks around and asks."""
        screen.title(self.screen, str(self.home), variables().get(MODEL))
        self._chapter(1, "The agent looks around, and asks")
        screen.said(self.screen, "person", "Release what is on main.")
        pause = until_question(self.agent.invoke("Release what is on main.", context=RunContext(run_id=RUN)))
        self._tell()
        screen.asked(self.screen, pause["request"])
        screen.parked(self.screen)

    def answer(self) -> None:
        """The answer comes, perhaps days later; the agent prepares the release and needs approval."""
        self._chapter(2, "Another process brings the answer, and the release is prepared")
        screen.said(self.screen, "person", VERSION)
        pause = until_approval(self.agent, RUN, self._pending(), VERSION, self._asked_again)
        self._tell()
        screen.preview(self.screen, pause["request"]["action"])
        screen.parked(self.screen)

    def approve(self) -> None:
        """Approved; this process kills itself between the commit and the tag."""
        self._chapter(3, "Approved, and killed in the middle of it")
        os.environ[CRASH] = "after-commit"
        request = self._pending()
        screen.said(self.screen, "person", "Approved, exactly as shown.")
        screen.said(self.screen, "runtime", "The intent is stored; writing files, committing ...")
        response = {"request_id": request["request_id"], "fingerprint": request["fingerprint"], "approved": True}
        asyncio.run(self.agent.resume(RUN, **response))

    def restart(self) -> None:
        """The run is resumed as if nothing had happened, and refuses."""
        screen.said(self.screen, "", "kill -9. The process is gone, and wrote no receipt. What git says:", "bold red")
        subject = self.workspace.git("log", "-1", "--format=%s")
        screen.check(self.screen, "ok", f"commit {self.workspace.head[:7]}", subject)
        screen.check(self.screen, "no", f"tag v{VERSION}", "missing")
        self._chapter(4, "Started again, it does not repeat what it does not know")
        screen.said(self.screen, "person", "Go on with the run.")
        try:
            asyncio.run(self.agent.resume(RUN))
        except UncertainExecutionError as error:
            screen.said(self.screen, "runtime", "Refused: 'release' was started and left no receipt.", "bold red")
            screen.said(self.screen, "runtime", f"Its probe looked and found {error.finding}.")
        screen.said(self.screen, "person", "Why does it not go on?")
        self._cli("why", RUN)

    def settle(self) -> None:
        """The operator looks at the repository, completes what is missing, and reports it."""
        self._chapter(5, "The operator looks, and settles it")
        action = self._uncertain()
        plan = action["payload"]
        tag, files = plan["tag"], plan["files"]
        screen.said(self.screen, "operator", "I look at the repository before I say anything.")
        same = all(self.workspace.git("show", f"HEAD:{name}") == text.rstrip("\n") for name, text in files.items())
        screen.check(self.screen, "ok" if same else "no", "the commit is there and holds the approved files, no others")
        screen.check(self.screen, "no", f"the tag {tag} is missing")
        screen.said(
            self.screen, "operator", "The tag is the rest of what was approved. I set it myself, outside of the run."
        )
        screen.command(self.screen, f"git tag {tag} {self.workspace.head[:7]}")
        self.workspace.git("tag", tag, "HEAD")
        screen.said(self.screen, "operator", "Now the release is complete, and I record that as the action's outcome.")
        result = {"version": VERSION, "commit": self.workspace.head, "tag": tag, "tagged_by": "operator"}
        self._cli("reconcile", RUN, action["action_id"], "--result", json.dumps(result))

    def finish(self) -> None:
        """The run goes on with the recorded outcome, and ends."""
        self._chapter(6, "The run goes on, and ends")
        screen.said(self.screen, "person", "Go on with the run.")
        until_end(self.agent.resume(RUN))
        self._tell()
        status = RunManager(self.agent).inspect(RUN)["status"]
        screen.check(self.screen, "ok", f"the run is {status}; 'release' was not started again")
        self._report()

    def _report(self) -> None:
        """What is on record, and what git says. SystemExit when an effect did not happen exactly once."""
        screen.chapter(self.screen, 7, "What is on record, and what git says")
        events = self.agent.run_events(RUN)
        screen.timeline(self.screen, timeline(events))
        usage = RunManager(self.agent).inspect(RUN)["usage"]
        proof = self._proof(events)
        screen.counts(
            self.screen,
            {
                "processes": processes(events),
                "model calls": usage["llm_calls"],
                "tool calls": usage["tool_calls"],
                "release commits": proof["git log: commits 'Release 1.3.0'"],
                "events": len(events),
            },
        )
        for name, number in proof.items():
            screen.check(self.screen, "ok" if number == 1 else "no", name, f"{number} time" + "s" * (number != 1))
        if any(number != 1 for number in proof.values()):
            raise SystemExit("An effect did not happen exactly once.")
        self.hand_over()

    def hand_over(self) -> None:
        """Where everything is, and the commands to go on by hand."""
        waits = self._stored()["interruption"] is not None
        hint = f"{CRASH}=after-commit" if waits else f"{_short(Path(sys.executable))} -m {DEMO} --by-hand"
        self._by_hand()
        screen.hint(self.screen, waits, hint)

    def _proof(self, events: Sequence[RunEvent]) -> dict[str, int]:
        """How often each effect happened, by its own witness."""
        git, subject = self.workspace.git, f"Release {VERSION}"
        started = [e for e in events if e.type == "action.started" and "release" in (e.summary or "")]
        return {
            "journal: 'release' was started": len(started),
            f"git log: commits '{subject}'": git("log", "--format=%s").splitlines().count(subject),
            f"git reflog: '{subject}' was committed": git("reflog", "--format=%gs").count(subject),
            f"git log -S: {VERSION} came into the version file": len(
                git("log", "--format=%h", f"-S{VERSION}", "--", "src/tideline/_version.py").splitlines()
            ),
            f"git tag: v{VERSION} points at that commit": git("tag", "--points-at", "HEAD")
            .split()
            .count(f"v{VERSION}"),
        }

    # ------------------------------------------------------------------------------------------------ what is stored

    def _chapter(self, number: int, name: str) -> None:
        screen.chapter(self.screen, number, name, os.getpid())

    def _asked_again(self, request: Mapping[str, Any]) -> None:
        screen.asked(self.screen, request)
        screen.said(self.screen, "person", f"As I said: {VERSION}")

    def _astray(self, stop: Astray) -> None:
        """What was said before the run went elsewhere, where it went, and how to go on."""
        self._tell()
        screen.said(self.screen, "runtime", str(stop), "bold red")
        waiting = self._stored().get("interruption") or {}
        self._by_hand(*([f"resume {RUN}"] if waiting.get("kind") == "retry" else []))

    def _by_hand(self, *more: str) -> None:
        program = Path(sys.executable).with_name("protolink")
        command = _short(program) if program.exists() else f"{_short(Path(sys.executable))} -m protolink"
        exports = {HOME: str(self.home), "PROTOLINK_FACTORY": FACTORY, **variables()}
        screen.by_hand(self.screen, str(self.home), exports, command, RUN, *more)

    def _pending(self) -> Mapping[str, Any]:
        found: Mapping[str, Any] = self._stored()["interruption"]
        return found

    def _uncertain(self) -> Mapping[str, Any]:
        """The stored action whose outcome is not known."""
        entries = self._stored()["actions"].values()
        found: Mapping[str, Any] = next(entry["action"] for entry in entries if entry["state"] == "uncertain")
        return found

    def _stored(self) -> dict[str, Any]:
        checkpoint = self.agent.durability.get(RUN)
        return {} if checkpoint is None else checkpoint.data

    def _messages(self) -> list[dict[str, Any]]:
        return [message for loop in self._stored().get("loops", {}).values() for message in loop["history"]]

    def _tell(self) -> None:
        """What this process added to the conversation."""
        screen.conversation(self.screen, self._messages()[self.told :])

    def _cli(self, *words: str) -> None:
        """Show a command of the CLI, and run it as if it had been typed."""
        screen.command(self.screen, shlex.join(["protolink", "run", *words]))
        self.screen.print()
        os.environ["PROTOLINK_FACTORY"] = FACTORY
        sys.argv = ["protolink", "run", *words]
        try:
            protolink()
        except SystemExit as end:
            if end.code:
                raise


def _short(program: Path) -> str:
    """A program as it is typed at the root of this repository."""
    root = Path(__file__).parents[2]
    return str(program.relative_to(root) if program.is_relative_to(root) else program)


def main(arguments: list[str]) -> None:
    """Take one step. SystemExit for anything but a step and a folder."""
    name, folder = arguments if len(arguments) == 2 else ("", "")
    if name.startswith("_") or not callable(getattr(Step, name, None)):
        raise SystemExit("usage: python -m examples.release_agent.steps STEP FOLDER")
    home = Path(folder)
    if name == "start":
        Workspace(home / "repository").create()
    step = Step(home)
    try:
        getattr(step, name)()
    except Astray as stop:
        step._astray(stop)
        raise SystemExit(ASTRAY) from None


if __name__ == "__main__":
    main(sys.argv[1:])
