"""Makes ``agent_support`` importable here, and the ``mode`` fixture: the same contract in every way of running."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from agent_support import MODES, Mode


@pytest.fixture(params=MODES, ids=str)
def mode(request: pytest.FixtureRequest) -> Mode:
    return request.param
