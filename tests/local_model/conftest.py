"""A real model behind a real server. Runs only where ``make test-local-model`` has installed them."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

SERVER = Path(__file__).parent / "model_server.py"

collect_ignore_glob = [] if os.environ.get("PROTOLINK_LOCAL_MODEL") == "1" else ["*"]


class ModelServer:
    """The server as a process of its own; it ends when its standard input is closed, so with this process too."""

    def __init__(self, log: Path) -> None:
        self._log = log
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> str:
        """Start it and wait until the model is loaded. Returns its ``base_url``."""
        with self._log.open("a") as log:
            self._process = subprocess.Popen(
                [sys.executable, str(SERVER)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True
            )
        address = self._process.stdout.readline().strip() if self._process.stdout else ""
        if not address:
            raise RuntimeError(f"the model server did not start:\n{self._log.read_text()[-2000:]}")
        return f"{address}/v1"

    def stop(self) -> None:
        if self._process is not None:
            self._process.communicate()
        self._process = None


@pytest.fixture
def model_server(tmp_path: Path) -> Iterator[ModelServer]:
    """A server of the test's own, not yet started."""
    server = ModelServer(tmp_path / "server.log")
    yield server
    server.stop()


@pytest.fixture(scope="session")
def base_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server that all tests share."""
    server = ModelServer(tmp_path_factory.mktemp("server") / "server.log")
    yield server.start()
    server.stop()
