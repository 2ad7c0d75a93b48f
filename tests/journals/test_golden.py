"""Every journal ever written must still fold to what it meant."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.journals.summary import summary

from protolink.engine.fold import fold
from protolink.journal import codec
from protolink.models.json import plain
from protolink.testing.audit import audit

JOURNALS = sorted(Path(__file__).parent.glob("v*/*.jsonl"))


def _records(path: Path) -> list[codec.Record]:
    schema = int(path.parent.name.removeprefix("v"))
    return [codec.decode(line, schema=schema) for line in path.read_bytes().splitlines()]


def test_each_version_has_journals() -> None:
    assert {path.parent.name for path in JOURNALS} == {f"v{n}" for n in range(1, codec.SCHEMA_VERSION + 1)}
    assert len(JOURNALS) >= 20


@pytest.mark.parametrize("path", JOURNALS, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_stored_journal_folds_as_ever(path: Path) -> None:
    wanted = json.loads(path.with_suffix(".json").read_text(encoding="utf-8"))
    assert plain(summary(fold(_records(path)))) == wanted


@pytest.mark.parametrize("path", JOURNALS, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_stored_journal_is_sound(path: Path) -> None:
    assert audit(_records(path)) == []


@pytest.mark.parametrize("path", JOURNALS, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_stored_facts_are_written_as_before(path: Path) -> None:
    lines = path.read_bytes().splitlines()
    assert [codec.encode(codec.decode(line)) for line in lines] == lines
