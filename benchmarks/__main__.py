"""``python -m benchmarks``: every figure beside its floor. Exit code 1 when a target is missed."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from . import (
    approvals,
    concurrent,
    durable_list,
    durable_turn,
    events,
    group,
    imports,
    live_turn,
    redaction,
    reopen,
    report,
    run_store,
)
from .row import Row

FIGURES: dict[str, Callable[[Path], list[Row]]] = {
    "durable": durable_turn.rows,
    "live": live_turn.rows,
    "reopen": reopen.rows,
    "concurrent": concurrent.rows,
    "imports": imports.rows,
    "redaction": redaction.rows,
    "report": report.rows,
    "run store": run_store.rows,
    "events": events.rows,
    "group": group.rows,
    "approvals": approvals.rows,
    "durable list": durable_list.rows,
}
HEADINGS = ["what", "measured", "floor", "ratio", "target", "stretch", "met"]


def main() -> int:
    options = _options()
    chosen = options.only or list(FIGURES)
    # Not in the system's directory for such files: where that lies in memory, syncing costs nothing.
    with tempfile.TemporaryDirectory(prefix=".benchmarks-", dir=options.dir) as directory:
        found: list[Row] = []
        for name in chosen:
            print(f"measuring {name} ...", file=sys.stderr)
            found += FIGURES[name](Path(directory))
    if options.json:
        print(json.dumps([row.to_dict() for row in found], indent=2))
    else:
        _show(found)
    return int(any(row.met == "no" for row in found))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--only", action="append", choices=FIGURES, help="measure this figure; may be repeated")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--dir", type=Path, default=Path.cwd(), help="where the files are made (default: here)")
    return parser.parse_args()


def _show(found: list[Row]) -> None:
    cells = [row.cells() for row in found]
    try:
        from rich.console import Console
        from rich.table import Table
    except ImportError:
        _show_plain(cells)
        return
    table = Table(*HEADINGS)
    for row in cells:
        table.add_row(*row, style="red" if row[-1] == "no" else None)
    Console(width=None if sys.stdout.isatty() else 140).print(table)


def _show_plain(cells: list[list[str]]) -> None:
    lines = [HEADINGS, *cells]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())


if __name__ == "__main__":
    sys.exit(main())
