"""Several processes on one file, and one that is killed."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from protolink.errors import RunBusyError
from protolink.journal import SQLiteDurableStore

linux = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="a dead owner is proven on Linux only")

OWNER = """
import sys
from protolink.journal import SQLiteDurableStore
store = SQLiteDurableStore(sys.argv[1])
token, _ = store.acquire("run-1", "assistant", {"step": 0})
store.save("run-1", token, "working", {"step": 1})
print("owned", flush=True)
sys.stdin.read()
"""

RACER = """
import sys
from protolink.errors import RunBusyError
from protolink.journal import SQLiteDurableStore
store = SQLiteDurableStore(sys.argv[1])
print("ready", flush=True)
sys.stdin.readline()
won = 0
for number in range(50):
    try:
        store.acquire(f"run-{number}", "assistant", {})
        won += 1
    except RunBusyError:
        pass
print(won, flush=True)
sys.stdin.read()
"""


def start(program: str, path: Path) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", program, str(path)]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


@linux
@pytest.mark.claim("STR-006")
def test_a_killed_owners_run_can_be_taken_at_once(tmp_path: Path) -> None:
    path = tmp_path / "runs.sqlite"
    with start(OWNER, path) as owner:
        assert line(owner) == "owned"
        store = SQLiteDurableStore(path)
        with pytest.raises(RunBusyError):
            store.acquire("run-1", "assistant", {})
        owner.send_signal(signal.SIGKILL)
        owner.wait()
        token, found = store.acquire("run-1", "assistant", {})
        assert found.data == {"step": 1}
        store.save("run-1", token, "working", {"step": 2})
        store.close()


@linux
def test_a_killed_owner_leaves_a_file_that_opens_again(tmp_path: Path) -> None:
    path = tmp_path / "runs.sqlite"
    with start(OWNER, path) as owner:
        assert line(owner) == "owned"
        owner.send_signal(signal.SIGKILL)
    reader = SQLiteDurableStore(path, read_only=True)
    found = reader.get("run-1")
    assert found is not None
    assert found.data == {"step": 1}
    store = SQLiteDurableStore(path)
    store.acquire("run-1", "assistant", {})
    store.close()


@pytest.mark.claim("STR-015")
def test_of_two_processes_one_gets_each_run(tmp_path: Path) -> None:
    path = tmp_path / "runs.sqlite"
    with start(RACER, path) as one, start(RACER, path) as two:
        assert (line(one), line(two)) == ("ready", "ready")
        for process in (one, two):
            assert process.stdin is not None
            process.stdin.write("\n")
            process.stdin.flush()
        assert int(line(one)) + int(line(two)) == 50
