"""What holds for the repository as a whole: pins, targets, one version, no paths of somebody's machine."""

from __future__ import annotations

import ast
import asyncio
import re
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest

import protolink

ROOT = Path(__file__).resolve().parent.parent
PIN = re.compile(r"[a-z0-9]+([.-][a-z0-9]+)*==[0-9][0-9a-z.]*")
REQUIREMENTS = sorted((ROOT / "requirements").glob("*.txt"))
EXTRAS = {
    "server",
    "http",
    "websocket",
    "grpc",
    "cli",
    "pages",
    "postgres",
    "openai",
    "anthropic",
    "gemini",
    "mcp",
    "yaml",
    "telemetry",
}
# Written as a pattern, so that this file passes its own check.
MACHINE_PATH = re.compile(r"(?<![\w.\-])/(?:(?:work|tmp)\b|(?:root|home|Users)/)")


@pytest.fixture(scope="module")
def pyproject() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def _lines(path: Path) -> list[str]:
    lines = (line.strip() for line in path.read_text(encoding="utf-8").splitlines())
    return [line for line in lines if line and not line.startswith("#")]


def _pins(path: Path) -> dict[str, str]:
    return dict(line.split("==") for line in _lines(path) if not line.startswith("-r "))


def _tracked_text_files() -> list[Path]:
    git = shutil.which("git")
    if git is None or not (ROOT / ".git").exists():
        pytest.skip("needs a git checkout")
    listed = subprocess.run(
        [git, "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        check=True,
    )
    paths = [ROOT / name for name in listed.stdout.decode().split("\0") if name]
    return [path for path in paths if path.is_file() and b"\0" not in path.read_bytes()[:4096]]


@pytest.mark.parametrize("path", REQUIREMENTS, ids=lambda path: path.name)
def test_requirements_are_exact_pins(path: Path) -> None:
    loose = [line for line in _lines(path) if not PIN.fullmatch(line) and line != "-r base.txt"]
    assert loose == [], f"{path.name}: write name==version, nothing else"
    assert _pins(path)


def test_base_pins_cover_the_dependencies(pyproject: dict[str, Any]) -> None:
    names = {re.split(r"[<>=~! ]", text)[0] for text in pyproject["project"]["dependencies"]}
    assert names == {"pydantic", "jsonschema", "rfc8785"}
    assert names <= _pins(ROOT / "requirements/base.txt").keys()


def test_dev_pins_have_the_tools() -> None:
    pins = _pins(ROOT / "requirements/dev.txt").keys()
    assert {"pytest", "coverage", "hypothesis", "ruff", "mypy", "import-linter", "rich", "setuptools"} <= pins
    assert "-r base.txt" in _lines(ROOT / "requirements/dev.txt")


def test_extras_have_the_promised_names(pyproject: dict[str, Any]) -> None:
    assert set(pyproject["project"]["optional-dependencies"]) == EXTRAS


def test_makefile_has_the_targets() -> None:
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    described = set(re.findall(r"^([a-z-]+):.*## \S", text, flags=re.MULTILINE))
    assert {"demo", "test", "check", "bench", "docs", "sim", "clean", "help"} <= described
    phony = re.search(r"^\.PHONY: (.*)$", text, flags=re.MULTILINE)
    assert phony is not None
    assert set(phony[1].split()) == described


def test_ci_script_is_executable() -> None:
    script = ROOT / ".ci/run"
    assert script.stat().st_mode & 0o111 == 0o111
    assert "set -euo pipefail" in script.read_text(encoding="utf-8")


def test_no_machine_paths_in_text_files() -> None:
    found = [
        f"{path.relative_to(ROOT)}:{number}: {line.strip()}"
        for path in _tracked_text_files()
        for number, line in enumerate(path.read_text(encoding="utf-8", errors="replace").splitlines(), 1)
        if MACHINE_PATH.search(line)
    ]
    assert found == [], "paths of one machine mean nothing on another"


def test_package_is_marked_as_typed(pyproject: dict[str, Any]) -> None:
    assert (ROOT / "src/protolink/py.typed").is_file()
    assert "py.typed" in pyproject["tool"]["setuptools"]["package-data"]["protolink"]


def test_version_is_written_once(pyproject: dict[str, Any]) -> None:
    assert pyproject["project"]["dynamic"] == ["version"]
    assert pyproject["tool"]["setuptools"]["dynamic"]["version"] == {"attr": "protolink._version.__version__"}
    assigned = re.compile(r"^__version__\s*(:\s*str\s*)?=", flags=re.MULTILINE)
    sources = (ROOT / "src").rglob("*.py")
    holders = [path.name for path in sources if assigned.search(path.read_text(encoding="utf-8"))]
    assert holders == ["_version.py"]


def test_package_tells_its_version() -> None:
    text = (ROOT / "src/protolink/_version.py").read_text(encoding="utf-8")
    assert f'__version__ = "{protolink.__version__}"' in text


def test_engine_imports_nothing_impure() -> None:
    # The engine decides from facts alone; a clock, a loop or a file would make its decisions unrepeatable.
    impure = {"asyncio", "sqlite3", "uuid", "time", "random", "secrets", "threading"}
    for path in (ROOT / "src/protolink/engine").glob("**/*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and node.level == 0:
                names = [node.module or ""]
            assert not {name.split(".")[0] for name in names} & impure, f"{path.name} imports {names}"


async def test_async_tests_run_in_a_loop(tmp_path: Path) -> None:
    # Fails (as a warning that is an error) when nobody awaits this coroutine.
    assert asyncio.get_running_loop().get_debug() is False
    assert tmp_path.is_dir()
