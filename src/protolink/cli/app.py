"""The command line's top level."""

from __future__ import annotations

from typing import Annotated

import typer

from .. import __version__
from .exits import LEGEND
from .recorded import runs

app = typer.Typer(
    name="protolink",
    help="Look at stored runs of protolink agents, answer what they ask, and settle what is uncertain.",
    epilog=LEGEND,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.add_typer(runs, name="run")


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"protolink {__version__}")
        raise typer.Exit


@app.callback()
def top(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Look at stored runs of protolink agents, answer what they ask, and settle what is uncertain."""
