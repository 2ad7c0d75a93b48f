"""Which agents the commands work on: ``module:function``."""

from __future__ import annotations

from typing import Any

import pytest


@pytest.mark.claim("MGR-017")
def test_factory_is_called_without_arguments(desk: Any) -> None:
    desk.start("ask", "run-1")
    assert [run["run_id"] for run in desk.json("list")["runs"]] == ["run-1"]


@pytest.mark.claim("MGR-018")
@pytest.mark.parametrize("name", ["application", "several", "managed"])
def test_factory_may_return_agent_iterable_or_manager(desk: Any, name: str) -> None:
    desk.start("ask", "run-1")
    desk.start("Hello", "run-2", agent="other")
    found = desk.run("list", factory=f"cli_app:{name}")
    assert found.exit_code == 0
    assert "run-1" in found.stdout
    assert ("run-2" in found.stdout) == (name == "several")


@pytest.mark.claim("MGR-017")
def test_factory_is_found_in_working_directory(desk: Any) -> None:
    desk.start("ask", "run-1")
    found = desk.process("run", "list", "--factory", "cli_app:application")
    assert found.returncode == 0, found.stderr
    assert "run-1" in found.stdout


def test_factory_may_come_from_environment(desk: Any) -> None:
    desk.start("ask", "run-1")
    found = desk.process("run", "why", "run-1", PROTOLINK_FACTORY="cli_app:application")
    assert found.returncode == 0, found.stderr
    assert "--factory" not in found.stdout


@pytest.mark.parametrize(
    ("factory", "reason"),
    [
        ("cli_app", "is not of the form module:function"),
        ("cli_app:", "is not of the form module:function"),
        (":application", "is not of the form module:function"),
        ("./cli_app.py:application", "is not of the form module:function"),
        ("no_such_module:application", "there is no module 'no_such_module'"),
        ("cli_app:missing", "module 'cli_app' has no 'missing'"),
        ("cli_app:NUMBER", "is a int; name a function"),
        ("cli_app:wrong", "returned a int; return an Agent, several, or a RunManager"),
        ("cli_app:words", "returned a list; return an Agent, several, or a RunManager"),
        ("cli_app:broken", "failed: OSError: no such service"),
    ],
)
def test_bad_factory_is_told_in_one_line(desk: Any, factory: str, reason: str) -> None:
    found = desk.run("list", factory=factory)
    assert found.exit_code == 1
    assert found.stderr.startswith("Durable run operation failed: ")
    assert reason in found.stderr
    assert found.stderr.count("\n") == 1


def test_factory_that_needs_a_package_names_it(desk: Any) -> None:
    (desk.folder / "cli_needy.py").write_text("import cli_no_such_package\n", encoding="utf-8")
    found = desk.run("list", factory="cli_needy:application")
    assert found.exit_code == 1
    assert "importing it needs module 'cli_no_such_package'" in found.stderr


def test_factory_without_durability_is_refused(desk: Any) -> None:
    source = "from protolink import Agent\n\ndef application():\n    return Agent(name='live')\n"
    (desk.folder / "cli_live.py").write_text(source, encoding="utf-8")
    found = desk.run("list", factory="cli_live:application")
    assert found.exit_code == 1
    assert "'live' has no durability" in found.stderr
