"""Large results are written once, however the run that brought them is made."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from protolink import Agent

MEGABYTE = 1 << 20
SIZE = 9 * MEGABYTE
CALLS = [("big", {"n": n}) for n in range(9)]


def big(n: int) -> str:
    """Something large."""
    return str(n) * MEGABYTE


def written() -> int:
    """Bytes that this process has handed to the system's write calls so far."""
    lines = Path("/proc/self/io").read_text().splitlines()
    return int(dict(line.split(": ") for line in lines)["wchar"])


async def costs(scene: Any, agent: Agent, folder: Path) -> None:
    """The work writes nine megabytes, with the log at most three times, and keeps them once."""
    before = written()
    assert await scene.begin(agent) == "done"
    assert SIZE < written() - before <= 3 * SIZE
    agent.durability.close()  # type: ignore[union-attr]
    assert sum(path.stat().st_size for path in folder.iterdir()) < 1.5 * SIZE


needs_counts = pytest.mark.skipif(not Path("/proc/self/io").exists(), reason="bytes written are told on Linux only")


@needs_counts
async def test_nine_results_of_nine_turns_are_written_once(inferred: Any, tmp_path: Path) -> None:
    await costs(inferred, inferred.agent([big], *CALLS), tmp_path)


@needs_counts
async def test_nine_results_of_one_turn_are_written_once(native: Any, tmp_path: Path) -> None:
    await costs(native, native.agent([big], llm=native.model(CALLS, "done")), tmp_path)


@needs_counts
async def test_nine_results_of_a_child_are_written_once(inferred: Any, tmp_path: Path) -> None:
    child = Agent(name="child", llm=inferred.model(*CALLS, "child done"), tools=[big])
    work = ("agent_call", {"agent": "child", "action": "infer", "prompt": "go"})
    await costs(inferred, inferred.agent([], work, subagents=[child]), tmp_path)
