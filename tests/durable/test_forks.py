"""A process that forks after it used durable agents: the child works on its own, and keeps nothing of its parent's."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import protolink

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")

HEAD = '''
import os, signal, sys, traceback
from protolink import Agent, RunContext
from protolink.agents.heartbeat import HEARTBEAT


def forked(work):
    """True when a child did the work."""
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    code = 1
    try:
        signal.alarm(30)
        work()
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def agent(tool):
    return Agent(name="helper", tools=[tool], durability="runs.sqlite", verbosity=0)


def start(made, tool, run_id):
    context = RunContext(run_id=run_id)
    return made.sync.invoke("go", part_type="tool_call", tool_name=tool, tool_args={}, context=context)


def note() -> str:
    return "noted"

'''

BLOCKING = """
made = agent(note)
assert start(made, "note", "parent") == "noted"


def work():
    assert start(made, "note", "child") == "noted"
    assert made.sync.resume("parent") == "noted"


assert forked(work)
assert made.sync.resume("child") == "noted"
"""

LEASES = """
def work():
    assert [journal.run_id for journal, *_ in HEARTBEAT._watched.values()] == ["parent"]
    assert start(agent(note), "note", "child") == "noted"
    assert not HEARTBEAT._watched


def fork() -> bool:
    return forked(work)


assert start(agent(fork), "fork", "parent") is True
"""


@pytest.mark.parametrize("story", [BLOCKING, LEASES], ids=["blocking calls", "leases"])
def test_a_forked_child_starts_anew(tmp_path: Path, story: str) -> None:
    (tmp_path / "story.py").write_text(HEAD + story)
    environment = {**os.environ, "PYTHONPATH": str(Path(protolink.__file__).parents[1])}
    command = [sys.executable, "story.py"]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
