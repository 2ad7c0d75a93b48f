"""What is loaded when: a program that makes agents waits for nothing that only runs, stores or networks need."""

from __future__ import annotations

import importlib
import importlib.util
import json
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import protolink

SOURCE = Path(protolink.__file__).parents[1]
ROOT = Path(__file__).resolve().parent.parent

AGENT = """
import protolink
def one(a: int) -> int: return a
def two(a: str, b: int = 1) -> str: return a
def three(a: list[str]) -> int: return len(a)
async def four(a: dict[str, int]) -> int: return len(a)
def five(a: float, b: bool = False) -> float: return a
agent = protolink.Agent(name="waiting", llm="mock", tools=[one, two, three, four, five])
"""
#: Packages and modules that a program with an agent does not need before its first run.
LATER = frozenset(
    {
        "anthropic", "google", "grpc", "httpx2", "jinja2", "mcp", "openai", "opentelemetry", "psycopg", "rich",
        "sse_starlette", "starlette", "typer", "uvicorn", "websockets", "yaml",
        "jsonschema", "referencing", "rfc8785", "pydantic", "sqlite3", "uuid", "secrets", "email", "pathlib",
        "concurrent.futures.thread", "importlib.metadata", "annotated_types",
        "protolink.agents.config", "protolink.agents.execution", "protolink.agents.handle", "protolink.agents.memory",
        "protolink.drive.driver", "protolink.engine.facts", "protolink.journal.codec", "protolink.journal.store",
        "protolink.llms.infer", "protolink.models.redaction.masking", "protolink.tools.drawn",
        "protolink.tools.validation", "protolink.transport.transport", "protolink.client.agent_client",
        "protolink.server.agent_server", "protolink.discovery.registry",
    }
)  # fmt: skip
LAZY = sorted(
    path.parent.name for path in SOURCE.glob("protolink/*/__init__.py") if "_HOMES" in path.read_text(encoding="utf-8")
)


def printed_by(code: str) -> Any:
    """What a new process prints as JSON in the end."""
    program = f"import sys; sys.path.insert(0, sys.argv[1])\n{code}"
    done = subprocess.run([sys.executable, "-c", program, str(SOURCE)], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def loaded_by(code: str) -> set[str]:
    return set(printed_by(f"{code}\nimport json; print(json.dumps(list(sys.modules)))"))


def test_an_agent_with_five_tools_loads_nothing_that_only_runs_need() -> None:
    found = loaded_by(AGENT)
    assert "protolink.agents.agent" in found
    assert sorted(found & LATER) == []


def test_an_agent_of_a_running_process_is_complete() -> None:
    code = """
import json
print(json.dumps([agent.sync.call_tool("two", a="x"), agent.card.skills[1].input_schema["properties"]["b"]]))
"""
    assert printed_by(AGENT + code) == ["x", {"type": "integer", "default": 1}]


def _layers() -> dict[str, int]:
    """The packages of protolink, from the top, as the import linter has them."""
    pyproject = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    layers = pyproject["tool"]["importlinter"]["contracts"][0]["layers"]
    return {name: level for level, names in enumerate(layers) for name in re.findall(r"\w+", names)}


def _loaded_later() -> Iterator[tuple[str, str]]:
    """(module, the module of ours that it loads later)."""
    for path in SOURCE.glob("protolink/**/*.py"):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        package = ".".join(parts[:-1])
        for name in re.findall(r'\bLater\("(\.[\w.]+)"', path.read_text(encoding="utf-8")):
            yield ".".join(parts), importlib.util.resolve_name(name, package)


def test_what_is_loaded_later_exists_and_lies_no_higher() -> None:
    layers, found = _layers(), list(_loaded_later())
    assert found
    for module, later in found:
        assert importlib.util.find_spec(later) is not None
        assert layers[later.split(".")[1]] >= layers[module.split(".")[1]], f"{module} loads {later}"


def test_every_module_that_is_loaded_later_is_there() -> None:
    ours = [name for name in LATER if name.startswith("protolink.")]
    assert [name for name in ours if importlib.util.find_spec(name) is None] == []


@pytest.mark.parametrize("package", LAZY)
def test_every_name_of_a_lazy_package_has_a_home_and_leads_there(package: str) -> None:
    module = importlib.import_module(f"protolink.{package}")
    homes = {name: home for home, names in module._HOMES.items() for name in names}
    assert sorted(homes) == sorted(module.__all__)
    for name, home in homes.items():
        there = importlib.import_module(f".{home.removeprefix('.')}", module.__name__)
        assert getattr(module, name) is getattr(there, name)
    assert set(module.__all__) <= set(dir(module))


@pytest.mark.parametrize("package", LAZY)
def test_a_name_that_a_lazy_package_does_not_have_is_an_attribute_error(package: str) -> None:
    module = importlib.import_module(f"protolink.{package}")
    with pytest.raises(AttributeError, match=f"'protolink.{package}' has no attribute 'nothing'"):
        _ = module.nothing
