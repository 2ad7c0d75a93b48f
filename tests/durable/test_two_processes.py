"""Two processes go on with one run: one does the work, the other is told so, and neither waits for the other."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import IO

import pytest

APPLICATION = '''
"""python app.py DATABASE [REQUEST]: start the run, or approve its request; the tool waits for a line on its input."""
import sys
from protolink import Agent, CapabilityPolicy, DurableExecutionError, RunContext, RunInterrupted
from protolink.tools import Tool


def publish(text: str) -> str:
    print("inside", flush=True)
    sys.stdin.readline()
    return text


agent = Agent(name="helper", tools=[Tool.from_callable(publish, capabilities=["publish"])],
              policy=CapabilityPolicy({"publish": "require_approval"}), durability=sys.argv[1])
try:
    if len(sys.argv) == 2:
        how = {"part_type": "tool_call", "tool_name": "publish", "tool_args": {"text": "hello"}}
        agent.sync.invoke("go", context=RunContext(run_id="run-1"), **how)
    print(agent.sync.resume("run-1", request_id=sys.argv[2], approved=True))
except RunInterrupted as pause:
    print(pause.interruption.request_id)
except DurableExecutionError as error:
    print(type(error).__name__, getattr(error, "recorded", None))
'''


class Office:
    """Starts of the application."""

    def __init__(self, folder: Path) -> None:
        self._program = folder / "app.py"
        self._program.write_text(APPLICATION)
        self._database = folder / "runs.sqlite"

    def start(self, *words: str) -> subprocess.Popen[str]:
        command = [sys.executable, str(self._program), str(self._database), *words]
        return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def run(self, *words: str) -> str:
        return self.start(*words).communicate("\n", timeout=60)[0].strip()


def line(stream: IO[str] | None) -> str:
    assert stream is not None
    return stream.readline().strip()


linux = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="a dead owner is proven on Linux only")


@pytest.mark.parametrize("killed", [False, pytest.param(True, marks=linux)], ids=["first ends", "first is killed"])
def test_one_of_two_processes_does_the_work_and_the_other_is_told(tmp_path: Path, killed: bool) -> None:
    office = Office(tmp_path)
    request = office.run()
    first = office.start(request)
    assert line(first.stdout) == "inside"
    assert office.run(request) == "RunBusyError None"
    if killed:
        first.kill()
        first.communicate()
        # The dead owner is no obstacle; what it had begun is not repeated.
        assert office.run(request) == "UncertainExecutionError None"
        return
    assert first.communicate("\n", timeout=60)[0].strip() == "hello"
    assert "'outcome': 'completed'" in office.run(request)
