"""A run that nobody watches counts its events without making them; the numbers must leave room for all of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from protolink.engine.evolve import evolve, start
from protolink.engine.project import numbers, project
from protolink.journal import codec

JOURNALS = sorted((Path(__file__).parent.parent / "journals").rglob("*.jsonl"))


def test_there_are_journals_to_count() -> None:
    assert len(JOURNALS) > 10


@pytest.mark.parametrize("path", JOURNALS, ids=lambda path: path.stem)
def test_no_number_is_given_twice(path: Path) -> None:
    lines = [line for line in path.read_bytes().splitlines() if line.startswith(b"[")]
    records = [codec.decode(line) for line in lines]
    run = start(records[0])
    for record in records[1:]:
        assert numbers(run, record) >= len(project(run, record)), record.fact
        evolve(run, record)
