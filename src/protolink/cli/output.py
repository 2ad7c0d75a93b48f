"""How commands end and what they print: text for people, JSON for machines, one line for what failed."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from typing import Any, NoReturn, TypeVar

import typer
from rich.console import Console

from ..errors import UncertainExecutionError
from ..models import DEFAULT_REDACTION_POLICY
from .exits import FAILED, UNCERTAIN

T = TypeVar("T")

#: A pipe has no width; this keeps ids and lines of a preview whole.
_PIPE_WIDTH = 160


def console() -> Console:
    """Standard output as it is now. Nothing in a text is taken for markup."""
    known = sys.stdout.isatty() or "COLUMNS" in os.environ
    return Console(width=None if known else _PIPE_WIDTH, markup=False, highlight=False, emoji=False)


def print_json(value: Any) -> None:
    """One JSON value, indented."""
    typer.echo(json.dumps(value, indent=2, ensure_ascii=False))


def _json(value: Any) -> str:
    return json.dumps(DEFAULT_REDACTION_POLICY.redact(value), ensure_ascii=False)


def performed(work: Callable[[], T], *, next_command: str | None = None) -> T:
    """The result of ``work``; when it fails, one line on standard error and the exit code that fits.

    ``next_command`` is shown when an uncertain effect is in the way.
    """
    try:
        return work()
    except UncertainExecutionError as error:
        found = f"\nIts probe proposes to record: {_json(error.proposal)}" if error.proposal else ""
        hint = f"\nNext: {next_command}" if next_command else ""
        fail(f"{error}{found}{hint}", UNCERTAIN)
    except Exception as error:  # the application's tools and model run here; nobody above would tell what went wrong
        fail(str(error) or type(error).__name__)


def fail(reason: str, code: int = FAILED) -> NoReturn:
    """Say that the operation failed, and exit."""
    typer.echo(f"Durable run operation failed: {visible(reason)}", err=True)
    raise typer.Exit(code)


def visible(text: str) -> str:
    """Text that cannot steer the terminal: control characters are shown as their code."""
    return "".join(char if char in "\n\t" or char.isprintable() else f"\\x{ord(char):02x}" for char in text)
