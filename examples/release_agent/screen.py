"""What the demonstration prints. Every process of it prints by these functions, on a width that all share."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from rich.box import ROUNDED, SIMPLE_HEAD
from rich.console import Console, Group
from rich.panel import Panel
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text

#: The first process sets it for the others; rich reads it.
WIDTH = "COLUMNS"
_SIGNS = {"ok": ("✓", "green"), "no": ("✗", "red"), "note": ("·", "dim")}


def console() -> Console:
    """Standard output, up to 100 columns wide."""
    return Console(width=min(100, int(os.environ.get(WIDTH, "100"))), highlight=False, emoji=False, markup=False)


def title(screen: Console, folder: str, model: str | None = None) -> None:
    """The opening. ``model`` takes the decisions; None for the script."""
    replies = f"{model} takes the decisions" if model else "The model's replies are scripted"
    text = Text.assemble(
        ("A release agent, interrupted in every way there is\n", "bold"),
        "It works on a real git repository, in several processes, and one of them is killed in mid-effect.\n",
        (f"{replies}; everything else is what it looks like.\n\n", "dim"),
        ("Folder  ", "dim"),
        folder,
    )
    screen.print()
    screen.print(Panel(text, box=ROUNDED, border_style="cyan", padding=(0, 1)))


def chapter(screen: Console, number: int, name: str, process: int | None = None) -> None:
    """The head of one step, with the process that takes it."""
    screen.print()
    head = Text.assemble((f"{number}  ", "bold cyan"), (name, "bold"))
    if process is not None:
        head.append(f"   process {process}", "dim")
    screen.rule(head, align="left", style="cyan")


def said(screen: Console, who: str, text: str, style: str = "") -> None:
    """One line of somebody; long ones go on below themselves."""
    line = Table.grid(padding=(0, 1))
    line.add_column(width=9, justify="right", style="dim", no_wrap=True)
    line.add_column(overflow="fold")
    line.add_row(who, Text(text, style))
    screen.print(line)


def check(screen: Console, sign: str, text: str, note: str = "") -> None:
    """One finding: ``ok``, ``no`` or ``note``."""
    mark, style = _SIGNS[sign]
    screen.print(Text.assemble(("          " + mark, style), f" {text}", (f"   {note}" if note else "", "dim")))


def conversation(screen: Console, messages: Iterable[Mapping[str, Any]]) -> None:
    """What the model said and what its tools answered, as it is stored."""
    for message in messages:
        if message["role"] == "assistant" and message["content"]:
            said(screen, "model", message["content"], "cyan")
        elif message["role"] == "tool" and message["tool_name"] != "ask_user":
            result = json.loads(message["content"])["result"]
            if isinstance(result, dict) and result.get("type") == "tool_rejection":
                said(screen, "tool", f"✗ {message['tool_name']}  {result.get('message')}", "red")
                continue
            shown = ", ".join(map(str, result)) if isinstance(result, list) else str(result)
            said(screen, "tool", f"✓ {message['tool_name']}  {shown}", "green")


def asked(screen: Console, request: Mapping[str, Any]) -> None:
    """A question that waits for its answer."""
    said(screen, "asks", request["question"], "bold yellow")
    if request["options"]:
        said(screen, "", " / ".join(request["options"]), "yellow")


def preview(screen: Console, action: Mapping[str, Any]) -> None:
    """What would happen, exactly: the files and the difference."""
    files = Table.grid(padding=(0, 2))
    for name, text in action["payload"]["files"].items():
        files.add_row(Text(name, "bold"), Text(f"{len(text.encode())} bytes", "dim"))
    diff = action["artifacts"][0]["parts"][0]["content"].rstrip()
    body = Group(Text(action["description"]), Text(), files, Text(), Syntax(diff, "diff", background_color="default"))
    screen.print(
        Panel(body, title=Text("waits for approval", "bold yellow"), title_align="left", border_style="yellow")
    )


def parked(screen: Console) -> None:
    """A process ends and leaves nothing running."""
    screen.print(Text("          The run is stored and waits. Its process has nothing more to do and exits.", "dim"))


def command(screen: Console, text: str) -> None:
    """A command as somebody types it."""
    screen.print(Text.assemble(("          $ ", "dim"), (text, "bold")), soft_wrap=True)


def timeline(screen: Console, rows: Sequence[tuple[int, str, str, str]]) -> None:
    """Process, time, event and summary, one line each; a new process draws a line."""
    table = Table(box=SIMPLE_HEAD, padding=(0, 2, 0, 0))
    table.add_column("PROCESS", justify="center", style="bold cyan")
    table.add_column("TIME (UTC)", style="dim")
    table.add_column("EVENT", no_wrap=True)
    table.add_column("SUMMARY", overflow="fold")
    before = 0
    for process, time, kind, summary in rows:
        if process != before and before:
            table.add_section()
        table.add_row(str(process) if process != before else "", time, Text(kind, _color(kind)), summary)
        before = process
    screen.print(table)


def counts(screen: Console, found: Mapping[str, int]) -> None:
    """Names and numbers in one row."""
    table = Table.grid(padding=(0, 3))
    for _ in found:
        table.add_column(justify="center")
    table.add_row(*(Text(str(number), "bold cyan") for number in found.values()))
    table.add_row(*(Text(name, "dim") for name in found))
    screen.print(Panel(table, box=ROUNDED, border_style="dim", expand=False))


def by_hand(screen: Console, folder: str, variables: Mapping[str, str], program: str, run_id: str, *more: str) -> None:
    """The folder, and commands that can be copied as they are; ``more`` of them after those that only look."""
    screen.print()
    screen.rule(Text("By hand, from the root of this repository", "bold"), align="left", style="cyan")
    screen.print(
        Text.assemble("The folder stays: ", (folder, "bold"), " has repository/ and runs.sqlite\n"), soft_wrap=True
    )
    lines = [f"export {name}={shlex.quote(value)}" for name, value in variables.items()]
    looking = ("list", f"inspect {run_id}", f"why {run_id}", f"events {run_id}")
    lines += [f"{program} run {words}" for words in (*looking, *more)]
    for line in lines:
        screen.print(Text(f"  {line}"), soft_wrap=True)


def hint(screen: Console, waits: bool, text: str) -> None:
    """How to play a part: in the run that waits now, or in a new one."""
    if waits:
        lead = "\n'why' prints the command that answers. To be killed in mid-effect, put this before the approval:\n"
    else:
        lead = "\nTo answer, approve and settle a release yourself:\n"
    screen.print(Text(f"{lead}\n  {text}"), soft_wrap=True)


def _color(kind: str) -> str:
    family = kind.partition(".")[0]
    return {"llm": "cyan", "action": "green", "approval": "yellow", "user_input": "yellow"}.get(family, "bold")
