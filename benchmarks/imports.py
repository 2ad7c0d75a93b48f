"""Starting: importing protolink and making an agent with five tools, in a process of its own.

What is measured is CPU time: the files are in the page cache, and others may be at work on the machine.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from .row import Row
from .timing import alternated

ROUNDS = 15

#: Packages of the extras, by the name they are imported under.
OPTIONAL = frozenset(
    [
        "anthropic",
        "google",
        "grpc",
        "httpx2",
        "jinja2",
        "mcp",
        "openai",
        "opentelemetry",
        "psycopg",
        "rich",
        "sse_starlette",
        "starlette",
        "typer",
        "uvicorn",
        "websockets",
        "yaml",
    ]
)

_OURS = """
import protolink
def one(a: int) -> int: return a
def two(a: str, b: int = 1) -> str: return a
def three(a: list[str]) -> int: return len(a)
async def four(a: dict[str, int]) -> int: return len(a)
def five(a: float, b: bool = False) -> float: return a
protolink.Agent(name="bench", llm="mock", tools=[one, two, three, four, five])
"""
_FLOOR = "import asyncio, pydantic, sqlite3, json"
_TIMED = """
import time, sys
began = time.process_time()
{code}
took = time.process_time() - began
import json
print(json.dumps([took, sorted({{name.partition(".")[0] for name in sys.modules}})]))
"""


def rows(directory: Path) -> list[Row]:
    """``directory`` takes the compiled files. The optional packages that were loaded are counted."""

    def timed(code: str) -> tuple[float, list[str]]:
        return _timed(code, directory / "bytecode")

    _, modules = timed(_OURS)  # the first time compiles, as an installation does
    timed(_FLOOR)
    loaded = OPTIONAL.intersection(modules)
    ours, floor = alternated(lambda: timed(_OURS)[0], lambda: timed(_FLOOR)[0], times=ROUNDS)
    names = f": {', '.join(sorted(loaded))}" if loaded else ""
    return [
        Row("import protolink, an agent with five tools, CPU", ours * 1e3, "ms", 2, 1.4, floor=floor * 1e3),
        Row(f"  optional packages loaded{names}", len(loaded), "", 0),
    ]


def _timed(code: str, compiled: Path) -> tuple[float, list[str]]:
    """Seconds of CPU, and the top-level packages that were loaded."""
    script = _TIMED.format(code=code)
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": str(compiled.absolute()), "PYTHONDONTWRITEBYTECODE": ""}
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    took, modules = json.loads(done.stdout)
    return took, modules
