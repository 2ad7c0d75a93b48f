"""``protolink run replay`` and ``run diff``: recorded reports, read and compared. Nothing is executed."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from ..models import DEFAULT_REDACTION_POLICY
from ..runtime import RunEvent, RunReport, diff_run_reports
from ..storage import SQLiteRunStore
from . import show
from .exits import FAILED, OK, USAGE
from .output import console, fail, print_json, visible
from .reports import read
from .run import runs

__all__ = ["runs"]

Store = Annotated[Path, typer.Option(metavar="FILE", help="A store of run reports; it is only read.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]

_DIFF_CODES = "Exit codes: 0 the reports match; 1 they differ; 2 one of them is missing or cannot be read."
_REPLAY_CODES = "Exit codes: 0 shown; 1 there is no such run or task."


@runs.command(epilog=_REPLAY_CODES)
def replay(
    recorded: Annotated[str, typer.Argument(metavar="RUN_OR_TASK", help="Id of a recorded run or task.")],
    store: Store = Path("runs.db"),
    as_json: AsJson = False,
) -> None:
    """Show the timeline of a recorded run: of its report, else of its task's snapshot."""
    source, events = read(store, lambda found: _events(found, recorded), FAILED) or (None, [])
    if source is None:
        fail(f"There is no report and no task '{recorded}' in {store}")
    shown = [event.to_dict(redaction_policy=DEFAULT_REDACTION_POLICY) for event in events]
    if as_json:
        print_json({"id": recorded, "source": source, "events": shown})
    else:
        show.events(console(), shown)


@runs.command(epilog=_DIFF_CODES)
def diff(
    baseline: Annotated[str, typer.Argument(metavar="BASELINE", help="Id of the run that is right.")],
    candidate: Annotated[str, typer.Argument(metavar="CANDIDATE", help="Id of the run to compare with it.")],
    store: Store = Path("runs.db"),
    as_json: AsJson = False,
) -> None:
    """Compare two recorded runs. Values are redacted in both views."""
    ids = (baseline, candidate)
    reports = read(store, lambda found: {run_id: found.get_report(run_id) for run_id in ids}, USAGE)
    reports = reports or dict.fromkeys(ids)
    missing = [run_id for run_id, report in reports.items() if report is None]
    if missing:
        _missing(baseline, candidate, missing, as_json)
    found = diff_run_reports(reports[baseline] or RunReport(), reports[candidate] or RunReport())
    if as_json:
        about = _about(baseline, candidate, "match" if found.matches else "changed", [])
        print_json({**about, **found.to_dict(redaction_policy=DEFAULT_REDACTION_POLICY)})
    else:
        console().print(visible(found.format()), soft_wrap=True)
    raise typer.Exit(OK if found.matches else FAILED)


def _missing(baseline: str, candidate: str, missing: list[str], as_json: bool) -> None:
    if as_json:
        print_json({**_about(baseline, candidate, "missing", missing), "matches": False, "differences": []})
        raise typer.Exit(USAGE)
    fail(f"No report is stored of {', '.join(missing)}", USAGE)


def _about(baseline: str, candidate: str, status: str, missing: list[str]) -> dict[str, Any]:
    return {
        "baseline_run_id": baseline,
        "candidate_run_id": candidate,
        "status": status,
        "missing_run_ids": missing,
    }


def _events(store: SQLiteRunStore, recorded: str) -> tuple[str | None, list[RunEvent]]:
    """Where the events were found, and they themselves, numbered for reading."""
    report = store.get_report(recorded)
    if report is not None:
        return "report", _numbered(list(report.events))
    task = store.get_task(recorded)
    if task is not None:
        return "task", _numbered([RunEvent.from_dict(item) for item in task.metadata.get("run_events", [])])
    return None, []


def _numbered(events: list[RunEvent]) -> list[RunEvent]:
    for number, event in enumerate(events, 1):
        event.sequence = event.sequence or number
    return events
