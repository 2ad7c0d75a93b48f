"""The server of ``examples/fastapi_app.py`` as a process, and a client that speaks HTTP with it."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import httpx2

import protolink

ROOT = Path(__file__).resolve().parents[2]
SOURCE = str(Path(protolink.__file__).resolve().parents[1])

#: Seconds a word with which an answer never gets behind its first word, and with which it is written at once.
NEVER, QUICK = 3600.0, 0.0

#: The same server, whose model answers only when runs are asked to park: what was at work when the server was told to
#: stop is still at work then.
PARKING = """
import asyncio
import runpy
import sys

sys.path.insert(0, "examples")
from fastapi_app.clerk import Clerk
from protolink import RunHandle

asked, park, call = asyncio.Event(), RunHandle.park, Clerk.call


def parking(handle):
    park(handle)
    asked.set()


async def waiting(clerk, history):
    await asked.wait()
    return await call(clerk, history)


RunHandle.park, Clerk.call = parking, waiting
runpy.run_path("examples/fastapi_app.py", run_name="__main__")
"""

#: No answer of a healthy server takes as long; a test that waits for more has failed.
PATIENCE = 60.0

#: The server sends one every 15 seconds.
MOST_PINGS = 5


class Server:
    """``python examples/fastapi_app.py`` over one folder. It can be killed and started again at the same place."""

    def __init__(self, folder: Path, pace: float = QUICK, *program: str) -> None:
        self.folder = folder
        self.data = folder / "data"
        self.url = ""
        self.clients: list[httpx2.Client] = []
        self._process: subprocess.Popen[str] | None = None
        self.start(pace, *program)

    def start(self, pace: float = QUICK, *program: str) -> None:
        """``program``: what Python runs in place of the example."""
        port = self.url.rpartition(":")[2] or "0"
        words = [*(program or ["examples/fastapi_app.py"]), "--port", port, "--data", str(self.data)]
        words += ["--pace", str(pace)]
        known = {"PYTHONPATH": SOURCE, "PYTHONDONTWRITEBYTECODE": "1", "PATH": os.environ["PATH"]}
        self._said = (self.folder / "stderr.txt").open("a")
        self._process = subprocess.Popen(
            [sys.executable, *words], cwd=ROOT, env=known, stdout=subprocess.PIPE, stderr=self._said, text=True
        )
        assert self._process.stdout is not None
        self.url = self._process.stdout.readline().strip()
        assert self.url, self.said
        httpx2.get(self.url, timeout=PATIENCE, verify=False).raise_for_status()  # it answers when all is started

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Send a signal and wait for the end; the exit code."""
        assert self._process is not None
        self._process.send_signal(number)
        code = self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()
        self._said.close()
        self._process = None
        return code

    @property
    def said(self) -> str:
        """Everything on standard error."""
        return (self.folder / "stderr.txt").read_text()

    @property
    def refunds(self) -> list[Any]:
        """What was paid: order and amount."""
        with closing(sqlite3.connect(self.data / "refunds.sqlite")) as file:
            return file.execute("SELECT number, amount_eur FROM refunds").fetchall()

    def __enter__(self) -> Server:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for client in self.clients:
            client.close()
        if self._process is not None:
            self.stop(signal.SIGKILL)


@dataclass(frozen=True)
class Told:
    """One server-sent event."""

    kind: str
    data: Any
    number: int | None


class Visitor:
    """Somebody with a browser, signed in."""

    def __init__(self, server: Server, *, cookies: Any = None) -> None:
        # Nothing is encrypted here, and loading certificates takes longer than many a test.
        self.http = httpx2.Client(base_url=server.url, timeout=PATIENCE, cookies=cookies, verify=False)
        server.clients.append(self.http)
        self.runs: list[str] = []
        if cookies is None:
            self.user = self.post("/session").json()["user"]

    def again(self, server: Server) -> Visitor:
        """The same person in another browser."""
        return Visitor(server, cookies=dict(self.http.cookies))

    def get(self, path: str) -> Any:
        return self.http.get(path)

    def post(self, path: str, body: Any = None) -> Any:
        return self.http.post(path, json=body)

    def begin(self, prompt: str = "Please refund order 4711.") -> str:
        """Start a run; its id."""
        answer = self.post("/runs", {"request_id": f"request-{len(self.runs)}", "prompt": prompt})
        assert answer.status_code == 202, answer.text
        self.runs.append(str(answer.json()["run_id"]))
        return self.runs[-1]

    def cancel(self, run: str) -> None:
        assert self.post(f"/runs/{run}/cancel").json()["status"] == "canceled"

    def clear(self) -> None:
        """Cancel all runs that were begun here. The last first, so that none of those that wait gets its turn."""
        while self.runs:
            assert self.post(f"/runs/{self.runs.pop()}/cancel").status_code == 200

    @contextmanager
    def follow(self, run: str, after: int | None = None) -> Iterator[Iterator[Told]]:
        headers = {} if after is None else {"Last-Event-ID": str(after)}
        with self.http.stream("GET", f"/runs/{run}/events", headers=headers) as answer:
            assert answer.status_code == 200
            yield parsed(whole_lines(answer))

    def read(self, run: str, after: int | None = None, until: Callable[[Told], bool] | None = None) -> list[Told]:
        """What is told behind a number, to the end, or to the first event of a kind."""
        found = []
        with self.follow(run, after) as told:
            for event in told:
                found.append(event)
                if until is not None and until(event):
                    break
        return found

    def waiting(self, run: str) -> dict[str, Any]:
        """The approval that the run asks for, once it does."""
        with self.follow(run) as told:
            return next(event.data["requests"][0] for event in told if event.kind == "snapshot")

    def decide(self, run: str, request: dict[str, Any], approved: bool = True, **changed: Any) -> Any:
        body = {"fingerprint": request["fingerprint"], "approved": approved, **changed}
        return self.post(f"/runs/{run}/approvals/{request['request_id']}", body)


def whole_lines(answer: Any) -> Iterator[str]:
    """The lines of an answer. A server that stops cuts its streams off."""
    try:
        yield from answer.iter_lines()
    except httpx2.RemoteProtocolError:
        return


def parsed(lines: Iterable[str]) -> Iterator[Told]:
    """Server-sent events from their lines. Comments keep the connection open; where many come, nothing else will."""
    fields: dict[str, str] = {}
    pings = 0
    for line in lines:
        name, _, value = line.partition(":")
        pings += line.startswith(":")
        assert pings < MOST_PINGS, "the server tells nothing any more"
        if name:
            fields[name] = value.removeprefix(" ")
        elif "data" in fields:
            number = int(fields["id"]) if "id" in fields else None
            yield Told(fields["event"], json.loads(fields["data"]), number)
            fields = {}
        elif not line:
            fields = {}


def activity(told: Iterable[Told]) -> list[Any]:
    """The lines of activity, each with the number that it was sent under."""
    found = [event for event in told if event.kind == "activity"]
    assert [event.number for event in found] == [event.data["sequence"] for event in found]
    return [event.data for event in found]


def numbers(lines: Iterable[Any]) -> list[int]:
    return [line["sequence"] for line in lines]


def answer(told: Iterable[Told]) -> str:
    """What a page would show as the answer."""
    shown = ""
    for event in told:
        if event.kind == "answer":
            shown = shown + event.data["text"] if event.data["kind"] == "delta" else event.data["text"]
        elif event.kind == "snapshot" and event.data["answer"] is not None:
            shown = event.data["answer"]
    return shown


def at_delta(event: Told) -> bool:
    """The first words of an answer."""
    return event.kind == "answer" and event.data["kind"] == "delta"


def at_snapshot(event: Told) -> bool:
    """The run rests."""
    return event.kind == "snapshot"
