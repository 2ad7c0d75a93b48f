"""The command itself: version, help, and what it says without its packages."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest

import protolink

PYPROJECT = Path(__file__).resolve().parents[2] / "pyproject.toml"
COMMANDS = ("list", "inspect", "pending", "resume", "cancel", "reconcile", "events", "why")


def test_version_is_printed(desk: Any) -> None:
    found = desk.process("--version")
    assert (found.returncode, found.stdout) == (0, f"protolink {protolink.__version__}\n")


def test_module_runs_as_program(desk: Any) -> None:
    assert desk.process("--help").stdout.split()[:2] == ["Usage:", "protolink"]


@pytest.mark.parametrize("words", [(), ("run",), *(("run", name) for name in COMMANDS)], ids=" ".join)
def test_help_at_each_level_has_exit_codes(desk: Any, words: tuple[str, ...]) -> None:
    found = desk.process(*words, "--help")
    assert found.returncode == 0
    shown = " ".join(found.stdout.split())
    assert "Exit codes: 0 done; 1 the operation failed" in shown
    assert "3 the run waits" in shown
    assert "4 an effect of the run is uncertain" in shown


@pytest.mark.parametrize("words", [(), ("run",), ("run", "inspect"), ("run", "nonsense")], ids=" ".join)
def test_incomplete_command_is_usage_error(desk: Any, words: tuple[str, ...]) -> None:
    found = desk.process(*words)
    assert found.returncode == 2
    assert "Usage: protolink" in found.stdout + found.stderr


@pytest.mark.parametrize("package", ["typer", "rich"])
def test_missing_package_names_the_extra(desk: Any, package: str) -> None:
    blocked = f"import sys; sys.modules['{package}'] = None; from protolink.cli import main; main()"
    found = desk.process(python=("-c", blocked))
    assert found.returncode == 2
    assert "pip install protolink[cli]" in found.stderr
    assert package in found.stderr
    assert "Traceback" not in found.stderr


def test_an_output_that_takes_no_more_is_told_in_one_line(desk: Any) -> None:
    full = (
        "import errno, io, sys\n"
        "class Full(io.StringIO):\n"
        "    def write(self, text): raise OSError(errno.ENOSPC, 'No space left on device')\n"
        "sys.stdout = Full()\n"
        "from protolink.cli import main; main()"
    )
    for words in (("run", "list"), ("run", "list", "--json")):
        found = desk.process(*words, "--factory", desk.factory, python=("-c", full))
        assert found.returncode == 1
        assert found.stderr == "protolink: the output could not be written: No space left on device\n"


def test_a_closed_output_takes_everything(desk: Any) -> None:
    closed = "import sys; sys.stdout = None; from protolink.cli import main; main()"
    found = desk.process("run", "list", "--factory", desk.factory, python=("-c", closed))
    assert (found.returncode, found.stdout, found.stderr) == (0, "", "")


def test_an_output_of_another_encoding_shows_codes_for_what_it_cannot_show(desk: Any) -> None:
    desk.start("ask", "läuft ✓")
    found = desk.process("run", "list", "--factory", desk.factory, PYTHONIOENCODING="ascii")
    assert found.returncode == 0, found.stderr
    assert "l\\xe4uft \\u2713" in found.stdout


def test_own_missing_module_is_not_hidden(desk: Any) -> None:
    # A defect of ours must not look like a package that somebody forgot to install.
    blocked = "import sys; sys.modules['protolink.cli.run'] = None; from protolink.cli import main; main()"
    found = desk.process(python=("-c", blocked))
    assert "ModuleNotFoundError" in found.stderr
    assert "pip install" not in found.stderr


def test_console_script_is_declared() -> None:
    declared = tomllib.loads(PYPROJECT.read_text(encoding="utf-8"))["project"]["scripts"]
    assert declared == {"protolink": "protolink.cli:main"}
