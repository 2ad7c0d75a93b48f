"""The command ``protolink``. It needs the packages of the extra ``cli``, which are loaded when it is run."""

from __future__ import annotations

import sys

from .exits import USAGE

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
    app(prog_name="protolink")
