"""``protolink run ...``: the operator's commands over stored runs. All they show has passed RunManager's redaction."""

from __future__ import annotations

import asyncio
import getpass
import json
import os
import sys
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from ..errors import ActionDeniedError
from ..journal import RunManager, SQLiteDurableStore
from ..journal.manager import listed
from . import reports, show
from .exits import LEGEND, OK, USAGE, of_status
from .factory import manager_of
from .output import console, performed, print_json, visible
from .why import Commands, explain, program

runs = typer.Typer(name="run", help="Stored runs.", epilog=LEGEND, no_args_is_help=True)

FACTORY = "PROTOLINK_FACTORY"

Factory = Annotated[
    str | None,
    typer.Option(
        metavar="MODULE:FUNCTION",
        envvar=FACTORY,
        help="Function without arguments that returns an Agent, several, or a RunManager; found from here too.",
    ),
]
RunId = Annotated[str, typer.Argument(metavar="RUN", help="Id of the run.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Status = Annotated[
    str | None, typer.Option(help="Only runs in this state: ready, working, input-required, uncertain, completed, ...")
]
Limit = Annotated[int, typer.Option(min=1, max=1000, help="At most this many, the newest first.")]


@runs.command("list", epilog=LEGEND)
def list_runs(
    factory: Factory = None,
    store: Annotated[Path | None, typer.Option(metavar="FILE", help="A store of run reports.")] = None,
    status: Status = None,
    limit: Limit = 20,
    as_json: AsJson = False,
) -> None:
    """List the stored runs of an application, or what a store of run reports holds."""
    named = _given(factory) is not None  # a factory in the environment does not stand against --store
    if (store is not None and named) or (store is None and factory is None):
        _usage("give exactly one of --factory MODULE:FUNCTION (durable runs) and --store FILE (run reports)")
    if store is not None:
        records = reports.stored(store, status, limit)
        if as_json:
            print_json(records)
        else:
            reports.show(console(), records)
        return
    assert factory is not None
    found = performed(lambda: manager_of(factory).list(status=status, limit=limit))
    if as_json:
        print_json({"runs": found})
    else:
        show.runs(console(), found)


@runs.command(epilog=LEGEND)
def pending(
    durability: Annotated[Path, typer.Option(metavar="FILE", help="The SQLite store; it is only read.")],
    status: Status = "input-required",
    limit: Limit = 20,
    as_json: AsJson = False,
) -> None:
    """Show what waits in a store, without the application that wrote it."""
    found = performed(lambda: _stored(durability, status, limit))
    if as_json:
        print_json({"runs": found})
        return
    for number, one in enumerate(found):
        if number:
            console().rule()
        show.run(console(), one)
    if not found:
        console().print("(none)")


@runs.command(epilog=LEGEND)
def inspect(run_id: RunId, factory: Factory = None, as_json: AsJson = False) -> None:
    """Show one run: its state, what it asks, what is uncertain."""
    manager = _manager(factory)
    found = performed(lambda: manager.inspect(run_id))
    if as_json:
        print_json(found)
    else:
        show.run(console(), found)


@runs.command(epilog=LEGEND)
def why(run_id: RunId, factory: Factory = None, as_json: AsJson = False) -> None:
    """Say in one paragraph why a run stands where it stands, and which command moves it on."""
    manager = _manager(factory)
    commands = _commands(factory)
    found = performed(
        lambda: explain(
            manager.inspect(run_id),
            manager.events(run_id),
            commands,
            manager.obstacles(run_id),
            manager.terms(run_id),
        )
    )
    if as_json:
        print_json({"run_id": run_id, **found.to_dict()})
    else:
        show.explanation(console(), found)


@runs.command(epilog=LEGEND)
def events(
    run_id: RunId,
    factory: Factory = None,
    after: Annotated[int, typer.Option(min=0, help="Only events with a number above this.")] = 0,
    as_json: AsJson = False,
) -> None:
    """Print the stored events of a run."""
    manager = _manager(factory)
    found = performed(lambda: manager.events(run_id, after))
    if as_json:
        print_json({"run_id": run_id, "events": found})
    else:
        show.events(console(), found)


@runs.command(epilog=LEGEND)
def resume(
    run_id: RunId,
    factory: Factory = None,
    request_id: Annotated[str | None, typer.Option(help="The pending request that is answered.")] = None,
    fingerprint: Annotated[str | None, typer.Option(help="Answer only if the request is still this one.")] = None,
    answer: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Answer a question; '-' reads it without showing it.")
    ] = None,
    decline: Annotated[bool, typer.Option("--decline", help="Decline to answer a question.")] = False,
    approve: Annotated[bool, typer.Option("--approve", help="Approve the prepared action.")] = False,
    deny: Annotated[bool, typer.Option("--deny", help="Deny it; the run fails.")] = False,
    arguments: Annotated[
        str | None, typer.Option(metavar="JSON", help="With --approve: run it with these arguments; judged anew.")
    ] = None,
    reason: Annotated[str | None, typer.Option(help="Why it is approved or denied.")] = None,
    rerun: Annotated[
        str | None, typer.Option(metavar="ACTION", help="Run an uncertain action again that is declared idempotent.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Go on with a run, with an answer or without."""
    response: dict[str, Any] = {"request_id": request_id, "fingerprint": fingerprint, "reason": reason, "rerun": rerun}
    if sum((answer is not None, decline, approve, deny)) > 1:
        _usage("give only one of --answer, --decline, --approve and --deny")
    if request_id is None and (answer is not None or decline or approve or deny):
        _usage(f"a response needs --request-id; 'protolink run why {run_id}' shows the pending one")
    if answer is not None or decline:
        response["answer"] = None if decline else _answer(answer)
    if approve or deny:
        response["approved"] = approve
    if arguments is not None:
        response["arguments"] = _json("--arguments", arguments)
    manager = _manager(factory)
    commands = _commands(factory)

    def go_on() -> dict[str, Any]:
        try:
            return asyncio.run(manager.resume(run_id, **response))
        except ActionDeniedError:
            if not deny:
                raise
            return manager.inspect(run_id)  # what was asked for: the run has ended with its denial

    found = performed(go_on, next_command=commands.run("why", run_id))
    _show_resumed(found, as_json, commands.run("why", run_id))
    raise typer.Exit(OK if deny and found["status"] == "failed" else of_status(found["status"]))


@runs.command(epilog=LEGEND)
def cancel(run_id: RunId, factory: Factory = None, as_json: AsJson = False) -> None:
    """Cancel a stopped run. It stops no process and undoes nothing."""
    manager = _manager(factory)
    found = performed(lambda: manager.cancel(run_id), next_command=_commands(factory).run("why", run_id))
    if as_json:
        print_json(found)
    else:
        show.run(console(), found)


@runs.command(epilog=LEGEND)
def reconcile(
    run_id: RunId,
    action_id: Annotated[str, typer.Argument(metavar="ACTION", help="Id of the uncertain action.")],
    result: Annotated[str | None, typer.Option(metavar="JSON", help="What the action did, as you verified it.")] = None,
    unchanged: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Instead: why it did nothing at all, as you verified it.")
    ] = None,
    factory: Factory = None,
    as_json: AsJson = False,
) -> None:
    """Record what an uncertain action did, after you looked. Executes nothing; resume the run afterwards."""
    if (result is None) == (unchanged is None):
        _usage("give exactly one of --result JSON (what the action did) and --unchanged TEXT (why it did nothing)")
    verified = {"unchanged": unchanged} if result is None else {"result": _json("--result", result)}
    manager = _manager(factory)
    found = performed(lambda: manager.reconcile(run_id, action_id, **verified))
    if as_json:
        print_json(found)
        return
    show.run(console(), found)
    command = _commands(factory).run("resume", found["run_id"])
    console().print(f"\nRecorded. Go on with:\n  {command}", soft_wrap=True)


def _manager(factory: str | None) -> RunManager:
    if factory is None:
        _usage("give --factory MODULE:FUNCTION, or set PROTOLINK_FACTORY")
    return performed(lambda: manager_of(factory))


def _stored(durability: Path, status: str | None, limit: int) -> list[dict[str, Any]]:
    store = SQLiteDurableStore(durability, read_only=True)
    try:
        return [listed(found) for found in store.list(status=status, limit=limit) if "root_run_id" not in found.data]
    finally:
        store.close()


def _show_resumed(found: dict[str, Any], as_json: bool, next_command: str) -> None:
    if as_json:
        print_json(found)
        return
    show.run(console(), found)
    show.task(console(), found.get("task") or {})
    if found["status"] in ("input-required", "uncertain"):
        console().print(f"\nNext: {next_command}", soft_wrap=True)


def _answer(text: str | None) -> str | None:
    """The answer itself; '-' reads it from a pipe, or at the terminal without an echo."""
    if text != "-":
        return text
    return getpass.getpass("Answer (not shown): ") if sys.stdin.isatty() else sys.stdin.read().rstrip("\n")


def _json(option: str, text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        _usage(f"{option} is no JSON: {error}")


def _commands(factory: str | None) -> Commands:
    return Commands(_given(factory), program(sys.argv[0]))


def _given(factory: str | None) -> str | None:
    """The factory to write into a command; None when the environment names it."""
    return None if os.environ.get(FACTORY) == factory else factory


def _usage(text: str) -> NoReturn:
    """One line on standard error, then the exit code of wrong usage."""
    typer.echo(f"protolink: {visible(text)}", err=True)
    raise typer.Exit(USAGE)
