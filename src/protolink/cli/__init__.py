"""The command ``protolink``. It needs the packages of the extra ``cli``, which are loaded when it is run."""

from __future__ import annotations

import os
import sys

from .exits import FAILED, USAGE

__all__ = ["main"]

MISSING = "The command line needs packages that are not installed ({name}). Install them: pip install protolink[cli]"


def main() -> None:
    """Run the command line on ``sys.argv``; always ends with SystemExit. ``--help`` lists the exit codes."""
    try:
        from .app import app
    except ModuleNotFoundError as error:
        if error.name is None or error.name.partition(".")[0] == "protolink":
            raise
        print(MISSING.format(name=error.name), file=sys.stderr)
        raise SystemExit(USAGE) from None
    _prepare_output()
    try:
        app(prog_name="protolink")
    except OSError as error:  # of the output: what commands do tells its own failures
        print(f"protolink: the output could not be written: {error.strerror or error}", file=sys.stderr)
        raise SystemExit(FAILED) from None


def _prepare_output() -> None:
    """An output that was closed takes everything; one of another encoding shows codes for what it cannot show."""
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 - the process keeps it
    reconfigure = getattr(sys.stdout, "reconfigure", None)
    if reconfigure is not None:
        reconfigure(errors="backslashreplace")
